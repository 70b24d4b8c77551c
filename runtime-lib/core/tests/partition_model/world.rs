//! A small world: two members, their leaders, one store, coarse time, and what may go wrong.

use std::sync::Arc;

use leasehold_core::election::WriteOutcome;
use leasehold_core::partition::{handoff, planner};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};

use crate::action::Action;
use crate::judge::Judge;
use crate::leader::{Flight, Leader, wanted};
use crate::pod::{NAMES, Pod, announce};
use crate::store::Store;

/// Trust ends within the second tick, and whoever stayed unchanged is silent with the second.
const TICK: Duration = Duration::from_millis(1550);

/// How often what may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Allowance {
    /// Ticks that pass while something is under way.
    pub(crate) delays: u8,
    /// Answers to publishes that are lost.
    pub(crate) losses: u8,
    /// A process ends and another one starts in its place.
    pub(crate) crashes: u8,
    /// A process stands still for any time.
    pub(crate) pauses: u8,
    /// A member is asked to leave.
    pub(crate) leaves: u8,
    /// Somebody deletes the Lease of a member.
    pub(crate) deletions: u8,
    /// Somebody deletes the table.
    pub(crate) lost_tables: u8,
    /// Another number of partitions is wanted.
    pub(crate) resizes: u8,
    /// The leader's watch loses sight of a member.
    pub(crate) deaf: u8,
    /// Another leader begins.
    pub(crate) leaders: u8,
    /// What a former leader hears, and acts upon, while the next one leads.
    pub(crate) former: u8,
}

/// How it begins: a leader has published its first table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Start {
    pub(crate) partitions: u16,
    /// So many members have joined; the others still may.
    pub(crate) joined: usize,
    /// They have read the table, and run what it says.
    pub(crate) has_read: bool,
}

impl Start {
    pub(crate) const SETTLED: Self = Self {
        partitions: 1,
        joined: 2,
        has_read: true,
    };
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) tick: u64,
    pub(crate) judge: Judge,
    pub(crate) allowance: Allowance,
    pub(crate) rules: Rules,
    partitions: u16,
    pub(crate) store: Store,
    pub(crate) pods: Vec<Pod>,
    /// The last one leads.
    pub(crate) leaders: Vec<Leader>,
}

impl World {
    pub(crate) fn new(start: Start, allowance: Allowance, rules: Rules) -> Self {
        let mut world = Self {
            tick: 0,
            judge: Judge::default(),
            allowance: Allowance::default(),
            rules,
            partitions: start.partitions,
            store: Store::default(),
            pods: Vec::new(),
            leaders: Vec::new(),
        };
        world.pods = (0..NAMES.len()).map(|n| Pod::new(n, None, rules)).collect();
        for n in 0..start.joined {
            world.act(Action::Join(n));
        }
        world.begin_leader();
        world.settle(start);
        if start.has_read {
            world.act(Action::Tick);
            world.settle(start);
        }
        world.allowance = allowance;
        world
    }

    /// Until nothing is left to do.
    fn settle(&mut self, start: Start) {
        loop {
            let mut actions = Vec::new();
            self.actions(&mut actions);
            let next = actions.into_iter().find(|action| match action {
                Action::Join(n) => *n < start.joined,
                Action::ReadTable(_) => start.has_read,
                action => action.is_ordinary(),
            });
            let Some(action) = next else { return };
            self.act(action);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO.after(TICK.saturating_mul(u32::try_from(self.tick).unwrap_or(u32::MAX)))
    }

    /// Does this one lead, and not only believe so?
    pub(crate) fn leads(&self, l: usize) -> bool {
        l + 1 == self.leaders.len()
    }

    pub(crate) fn leader(&self) -> Option<&Leader> {
        self.leaders.last()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.pods.iter().any(Pod::is_busy) || self.leader().is_some_and(Leader::is_busy)
    }

    pub(crate) fn after(&self, action: Action) -> Self {
        let mut world = self.clone();
        world.act(action);
        world
    }

    fn act(&mut self, action: Action) {
        let may = &mut self.allowance;
        match action {
            Action::Tick => self.pass(),
            Action::Join(n) => self.join(n),
            Action::Write(n) => self.write(n),
            Action::Release(n) => self.release(n),
            Action::ReadTable(n) => {
                if let Some(table) = self.pods[n].tables.pop_front() {
                    self.tell(n, handoff::Input::Table(table));
                }
            }
            Action::ReadMember(n, other) => {
                let news = self.pods[n].followed.get_mut(NAMES[other]);
                if let Some(state) = news.and_then(std::collections::VecDeque::pop_front) {
                    let name = NAMES[other].into();
                    self.tell(n, handoff::Input::Member { name, state });
                }
            }
            Action::EndWork(n, slot) => {
                self.pods[n].ending.remove(&slot);
                self.tell(n, handoff::Input::Ended(slot));
            }
            Action::Crash(n) => {
                may.crashes -= 1;
                self.pods[n] = Pod::new(n, self.store.table(), self.rules);
            }
            Action::Pause(n) => {
                may.pauses -= 1;
                self.pods[n].is_paused = true;
            }
            Action::Resume(n) => {
                self.pods[n].is_paused = false;
                // E9: the clock comes first.
                if self.now() >= self.pods[n].trusted_until {
                    self.end(n);
                }
            }
            Action::Leave(n) => {
                may.leaves -= 1;
                self.tell(n, handoff::Input::Leave);
            }
            Action::DeleteLease(n) => {
                may.deletions -= 1;
                self.store.members[n].delete();
                self.show(n);
            }
            Action::DeleteTable => {
                may.lost_tables -= 1;
                self.store.assignment.delete();
                self.show_table();
            }
            Action::Resize => {
                may.resizes -= 1;
                self.partitions = 3 - self.partitions;
                let wanted = wanted(self.partitions);
                self.lead(self.leaders.len() - 1, planner::Input::Wanted(wanted));
            }
            Action::NextLeader => {
                may.leaders -= 1;
                self.begin_leader();
            }
            Action::Deafen(n) => {
                may.deaf -= 1;
                if let Some(leader) = self.leaders.last_mut() {
                    leader.deaf_to = Some(n);
                }
            }
            leaders => self.act_on_leader(leaders),
        }
        let now = self.now();
        let pods = self.pods.iter();
        self.judge.look(pods.flat_map(|pod| pod.acting(now)));
    }

    fn act_on_leader(&mut self, action: Action) {
        match action {
            Action::Timer(l) => self.lead_or_wake(l, planner::Input::Timer),
            Action::Listed(l) => {
                let Some((asked, listing)) = self.leaders[l].list.take() else {
                    return;
                };
                let is_newest = listing == self.store.list();
                self.lead_or_wake(l, planner::Input::Listed { asked, listing });
                if is_newest {
                    // The watch has nothing to add.
                    self.leaders[l].unseen.clear();
                    self.leaders[l].table_unseen = false;
                }
            }
            Action::SeeMember(l, n) => {
                self.leaders[l].unseen.remove(&n);
                let name: Arc<str> = NAMES[n].into();
                self.lead_or_wake(
                    l,
                    match self.store.members[n].lease.clone() {
                        Some(lease) => planner::Input::MemberSeen { name, lease },
                        None => planner::Input::MemberGone { name },
                    },
                );
            }
            Action::SeeTable(l) => {
                self.leaders[l].table_unseen = false;
                let lease = self.store.assignment.lease.clone();
                self.lead_or_wake(l, planner::Input::Assignment(lease));
            }
            Action::Publish(l) => {
                let Some(Flight::Sent(write)) = self.leaders[l].publish.take() else {
                    return;
                };
                let stored = self.store.assignment.put(&write.target, &write.record);
                if let Some(table) = self.store.table().filter(|_| stored.is_some()) {
                    self.judge.published(table.epoch);
                    self.show_table();
                }
                let outcome = stored.map_or(WriteOutcome::Conflict, WriteOutcome::Done);
                self.leaders[l].publish = Some(Flight::Answered(write.attempt, outcome));
            }
            Action::Published(l) => {
                let Some(Flight::Answered(attempt, outcome)) = self.leaders[l].publish.take()
                else {
                    return;
                };
                let newest = self.store.assignment.lease.as_ref();
                if matches!(&outcome, WriteOutcome::Done(lease) if Some(lease) == newest) {
                    self.leaders[l].table_unseen = false;
                }
                self.lead_or_wake(l, planner::Input::WriteDone { attempt, outcome });
            }
            Action::LoseAnswer(l) => {
                self.allowance.losses -= 1;
                let Some(Flight::Answered(attempt, _)) = self.leaders[l].publish.take() else {
                    return;
                };
                let outcome = WriteOutcome::Unknown;
                self.lead_or_wake(l, planner::Input::WriteDone { attempt, outcome });
            }
            Action::Fence(l, n) => {
                let Some(Flight::Sent(write)) = self.leaders[l].fences.remove(&n) else {
                    return;
                };
                let stored = self.store.members[n].put(&write.target, &write.record);
                if stored.is_some() {
                    self.show(n);
                }
                let outcome = stored.map_or(WriteOutcome::Conflict, WriteOutcome::Done);
                let answer = Flight::Answered(write.attempt, outcome);
                self.leaders[l].fences.insert(n, answer);
            }
            Action::Fenced(l, n) => {
                let Some(Flight::Answered(attempt, outcome)) = self.leaders[l].fences.remove(&n)
                else {
                    return;
                };
                self.lead_or_wake(l, planner::Input::WriteDone { attempt, outcome });
            }
            _ => unreachable!("{action:?} is no leader's"),
        }
    }

    /// A tick: everybody who is awake renews.
    fn pass(&mut self) {
        if self.is_busy() {
            self.allowance.delays = self.allowance.delays.saturating_sub(1);
        }
        self.tick += 1;
        self.store.pass();
        for n in 0..self.pods.len() {
            if self.pods[n].life.is_some() && !self.pods[n].is_paused {
                self.write(n);
            }
        }
    }

    fn begin_leader(&mut self) {
        let number = u32::try_from(self.leaders.len() + 1).unwrap_or(u32::MAX);
        let leader = Leader::new(number, self.partitions, self.rules, self.now());
        self.leaders.push(leader);
        self.lead(self.leaders.len() - 1, planner::Input::Timer);
    }

    /// A former leader hears something only as often as it may.
    fn lead_or_wake(&mut self, l: usize, input: planner::Input) {
        if !self.leads(l) {
            self.allowance.former -= 1;
        }
        self.lead(l, input);
    }

    pub(crate) fn lead(&mut self, l: usize, input: planner::Input) {
        let now = self.now();
        for effect in self.leaders[l].planner.step(input, now) {
            match effect {
                // Answered as of now, whenever the answer comes.
                planner::Effect::List => self.leaders[l].list = Some((now, self.store.list())),
                planner::Effect::Publish(write) => {
                    self.leaders[l].publish = Some(Flight::Sent(write));
                }
                planner::Effect::Fence { name, write } => {
                    let n = number(&name);
                    self.leaders[l].fences.insert(n, Flight::Sent(write));
                }
                planner::Effect::Notice(_) => {}
            }
        }
    }

    fn show_table(&mut self) {
        for leader in &mut self.leaders {
            leader.table_unseen = true;
        }
        if let Some(table) = self.store.table() {
            for pod in &mut self.pods {
                announce(&mut pod.tables, Arc::clone(&table));
            }
        }
    }
}

/// Which member has this name.
pub(crate) fn number(name: &str) -> usize {
    let found = NAMES.iter().position(|known| *known == name);
    found.unwrap_or_else(|| unreachable!("nobody is called {name}"))
}
