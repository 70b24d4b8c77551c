//! The shell of a process: it tells the machines what happened and runs what they ask for.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::election::{self, EndReason};
use leasehold_core::id::Term;
use leasehold_core::lease::{Contents, Versioned};
use leasehold_core::partition::handoff::{self, Slot};
use leasehold_core::partition::planner::{self, Planner, Sighting, Wanted};
use leasehold_core::partition::{HashId, MemberState};
use leasehold_core::time::Instant;

use crate::faults::Heal;
use crate::judge::Check;
use crate::network::Body;
use crate::pod::{Answer, Asker, Delivery, Guard, Todo, Trap};
use crate::store::Key;
use crate::world::{Event, World};
use crate::{tables, tell, told};

impl World {
    /// The machines' turn: everything that they are to be told, and everything that follows.
    pub fn run(&mut self, p: usize) {
        while let Some(todo) = self.pods[p].todo.pop_front() {
            if !self.pods[p].alive {
                return;
            }
            match todo {
                Todo::Leader(input) => self.step_leader(p, input),
                Todo::Member(input) => self.step_member(p, input),
                Todo::Handoff(input) => self.step_handoff(p, input),
                Todo::Planner(input) => self.step_planner(p, input),
            }
        }
        self.sync_watches(p);
        self.set_timer(p);
    }

    /// A timer fired: for each machine whose deadline has passed.
    pub fn wake(&mut self, p: usize) {
        let now = self.pods[p].local(self.now);
        let pod = &mut self.pods[p];
        let due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if due(pod.leader.next_deadline()) {
            pod.todo.push_back(Todo::Leader(election::Input::Timer));
        }
        if due(pod.member.next_deadline()) {
            pod.todo.push_back(Todo::Member(election::Input::Timer));
        }
        if due(pod.planner.as_ref().and_then(Planner::next_deadline)) {
            pod.todo.push_back(Todo::Planner(planner::Input::Timer));
        }
    }

    pub fn tell(&mut self, p: usize, todo: Todo) {
        self.pods[p].todo.push_back(todo);
    }

    fn step_leader(&mut self, p: usize, input: election::Input) {
        let now = self.pods[p].local(self.now);
        self.say(1, p as u64, || {
            format!("p{p} lead <- {}", tell::input(&input))
        });
        for effect in self.pods[p].leader.step(input, now) {
            self.say(2, p as u64, || {
                format!("p{p} lead -> {}", tell::effect(&effect))
            });
            match effect {
                election::Effect::Write(write) => {
                    let asker = Asker::Leader(Some(write.attempt));
                    self.request(p, asker, Body::Write(Key::Leader, Box::new(write)));
                }
                election::Effect::Read => self.request(p, Asker::Leader(None), Body::Read),
                election::Effect::Begin { term, .. } => self.begin_planning(p, term),
                election::Effect::Drain { .. } | election::Effect::End { .. } => {
                    self.pods[p].planner = None;
                    self.tell(p, Todo::Leader(election::Input::WorkEnded));
                }
                election::Effect::Stopped => self.stopped(p, (true, false)),
                _ => {}
            }
        }
    }

    fn begin_planning(&mut self, p: usize, term: Term) {
        self.stats.count("leadership began");
        let first_attempt = self.random.next() >> 1;
        let now = self.pods[p].local(self.now);
        let (timing, rules) = (self.mix.timing, self.knobs.rules);
        let pod = &mut self.pods[p];
        let followed = self.knobs.follows_leader;
        let sightings = pod.known.iter().filter(|_| followed);
        let seen = sightings.filter_map(|(name, known)| {
            let state = known.state.as_ref()?;
            let sighting = Sighting {
                uid: state.uid.clone(),
                revision: state.revision,
                since: known.since,
            };
            Some((Arc::clone(name), sighting))
        });
        let config = planner::Config {
            me: Arc::clone(&pod.name),
            identity: pod.identity.clone(),
            leader_term: term,
            timing,
            first_attempt,
            wanted: Wanted {
                count: pod.wanted,
                hash: HashId::CsHash1,
            },
            pace: self.mix.pace,
            rules,
        };
        pod.planner = Some(Planner::new(config, seen.collect(), now));
        pod.leadership += 1;
        self.tell(p, Todo::Planner(planner::Input::Timer));
    }

    fn step_member(&mut self, p: usize, input: election::Input) {
        let now = self.pods[p].local(self.now);
        self.say(3, p as u64, || {
            format!("p{p} member <- {}", tell::input(&input))
        });
        for effect in self.pods[p].member.step(input, now) {
            self.say(4, p as u64, || {
                format!("p{p} member -> {}", tell::effect(&effect))
            });
            match effect {
                election::Effect::Write(write) => {
                    let asker = Asker::Member(Some(write.attempt));
                    let key = Key::Member(Arc::clone(&self.pods[p].name));
                    self.request(p, asker, Body::Write(key, Box::new(write)));
                }
                election::Effect::Read => self.request(p, Asker::Member(None), Body::List),
                election::Effect::Begin {
                    term,
                    trusted_until,
                    ..
                } => self.begin_life(p, term, trusted_until),
                election::Effect::Extend { trusted_until }
                | election::Effect::Shorten { trusted_until } => self.extend(p, trusted_until),
                election::Effect::Drain { until } => {
                    self.tell(p, Todo::Handoff(handoff::Input::Leave));
                    let budget = self.pods[p].clock.truth(until).saturating_sub(self.now);
                    self.send(self.now + budget / 2, p, Delivery::DrainAll);
                }
                election::Effect::End { reason, .. } => self.end_life(p, &reason),
                election::Effect::Released { .. } => self.stats.count("member Lease given back"),
                election::Effect::Stopped => self.stopped(p, (false, true)),
                election::Effect::Notice(_) => {}
            }
        }
    }

    fn begin_life(&mut self, p: usize, incarnation: Term, trusted_until: Instant) {
        self.stats.count("incarnation began");
        let pod = &mut self.pods[p];
        pod.guard = Some(Guard {
            incarnation,
            until: pod.clock.truth(trusted_until),
        });
        (pod.deleted, pod.tampered_until) = (false, 0);
        self.tell(p, Todo::Handoff(handoff::Input::Begin(incarnation)));
        if let Some(table) = self.pods[p].table.clone() {
            self.tell(p, Todo::Handoff(handoff::Input::Table(table)));
        }
    }

    fn extend(&mut self, p: usize, trusted_until: Instant) {
        let pod = &mut self.pods[p];
        let Some(guard) = &mut pod.guard else { return };
        let ended = self.now >= guard.until;
        guard.until = pod.clock.truth(trusted_until);
        if ended {
            self.found(Check::Regained, format!("p{p}"));
        }
    }

    fn end_life(&mut self, p: usize, reason: &EndReason) {
        self.stats.count(match reason {
            EndReason::Resigned => "member resigned",
            EndReason::TrustExpired => "member's trust expired",
            EndReason::DrainOverrun => "member's drain overran",
            _ => "member's Lease was taken",
        });
        self.pods[p].guard = None;
        self.pods[p].ending = true;
        self.tell(p, Todo::Handoff(handoff::Input::End));
    }

    fn step_handoff(&mut self, p: usize, input: handoff::Input) {
        self.say(5, p as u64, || {
            format!("p{p} handoff <- {}", told::handoff(&input))
        });
        for effect in self.pods[p].handoff.step(input) {
            self.say(6, p as u64, || format!("p{p} handoff -> {effect:?}"));
            match effect {
                handoff::Effect::Start { slot, epoch } => self.begin_work(p, slot, epoch),
                handoff::Effect::Drain(slot) => self.drain_work(p, slot),
                handoff::Effect::Lose(slot) => self.lose_work(p, slot),
                handoff::Effect::Publish { record, at_once } => {
                    let contents = Contents::Member(record);
                    let input = election::Input::Contents { contents, at_once };
                    self.tell(p, Todo::Member(input));
                }
                handoff::Effect::Watch(names) => self.follow(p, names),
                handoff::Effect::Left => self.tell(p, Todo::Member(election::Input::WorkEnded)),
            }
        }
        let pod = &mut self.pods[p];
        if pod.ending && pod.handoff.is_idle() {
            pod.ending = false;
            self.tell(p, Todo::Member(election::Input::WorkEnded));
        }
    }

    fn follow(&mut self, p: usize, names: BTreeSet<Arc<str>>) {
        let pod = &mut self.pods[p];
        for name in names.difference(&pod.followed) {
            // Followed already, for another reason: what was seen last is told at once.
            let state = pod.known.get(name).and_then(|known| known.state.as_ref());
            if let Some(state) = state {
                pod.todo.push_back(Todo::Handoff(handoff::Input::Member {
                    name: Arc::clone(name),
                    state: Some(MemberState::of(state)),
                }));
            }
        }
        pod.followed = names;
    }

    /// A watch by name showed this.
    pub fn saw_member(&mut self, p: usize, name: &Arc<str>, state: Option<Versioned>) {
        let since = self.pods[p].local(self.now);
        let pod = &mut self.pods[p];
        if pod.followed.contains(name) {
            pod.todo.push_back(Todo::Handoff(handoff::Input::Member {
                name: Arc::clone(name),
                state: state.as_ref().map(MemberState::of),
            }));
        }
        if *name == pod.name && pod.guard.is_none() {
            // Absence alone is no news: the floor must come from the same list (H1).
            pod.todo.push_back(Todo::Member(match state.clone() {
                Some(state) => election::Input::Watched(state),
                None => election::Input::WatchedGone,
            }));
        }
        pod.know(name, state, since);
    }

    /// The assignment as a watch or a list showed it.
    pub fn saw_assignment(&mut self, p: usize, state: Option<&Versioned>) {
        let pod = &mut self.pods[p];
        if pod.planner.is_some() {
            let input = planner::Input::Assignment(state.cloned());
            pod.todo.push_back(Todo::Planner(input));
        }
        let Some(Contents::Table(table)) = state.map(|state| &state.record.contents) else {
            return;
        };
        if table.problem().is_none() {
            pod.table = Some(Arc::clone(table));
            let input = handoff::Input::Table(Arc::clone(table));
            pod.todo.push_back(Todo::Handoff(input));
        }
    }

    fn step_planner(&mut self, p: usize, input: planner::Input) {
        let now = self.pods[p].local(self.now);
        let leadership = self.pods[p].leadership;
        let Some(planner) = &mut self.pods[p].planner else {
            return;
        };
        let line = self.log.lines.is_some().then(|| told::planner(&input));
        let effects = planner.step(input, now);
        self.say(7, p as u64, || {
            format!("p{p} plan <- {}", line.unwrap_or_default())
        });
        for effect in effects {
            self.say(8, p as u64, || {
                format!("p{p} plan -> {}", told::effect(&effect))
            });
            match effect {
                planner::Effect::List => {
                    self.request(p, Asker::PlannerList(leadership, now), Body::List);
                }
                planner::Effect::Publish(mut write) => {
                    if let Some(spoil) = self.knobs.spoil {
                        tables::spoil(spoil, &mut write);
                    }
                    let asker = Asker::Planner(leadership, write.attempt);
                    self.set_off_trap(p);
                    self.request(p, asker, Body::Write(Key::Assignment, Box::new(write)));
                }
                planner::Effect::Fence { name, write } => {
                    let asker = Asker::Planner(leadership, write.attempt);
                    self.request(p, asker, Body::Write(Key::Member(name), Box::new(write)));
                }
                planner::Effect::Notice(_) => self.stats.count("planner's notice"),
            }
        }
    }

    fn set_off_trap(&mut self, p: usize) {
        match self.pods[p].trap.take() {
            Some(Trap::PauseAtPublish(hold)) => {
                self.stats.count("paused between plan and publish");
                self.pause(p);
                self.schedule(self.now + hold, Event::Heal(Heal::Resume(p)));
            }
            Some(Trap::CrashAtPublish) => {
                self.stats.count("crashed in a rebalance");
                let at = self.now + self.random.below(crate::clock::SEC / 5);
                self.schedule(at, Event::Heal(Heal::Kill(p)));
            }
            None => {}
        }
    }

    /// The settings ask for another count.
    pub fn told_count(&mut self, p: usize, count: u16) {
        let pod = &mut self.pods[p];
        pod.wanted = count;
        if pod.planner.is_some() {
            let hash = HashId::CsHash1;
            let input = planner::Input::Wanted(Wanted { count, hash });
            pod.todo.push_back(Todo::Planner(input));
        }
    }

    /// Passes an answer to the machine that waits for it.
    pub fn pass_answer(&mut self, p: usize, asker: Asker, answer: Answer) {
        let todo = match (asker, answer) {
            (Asker::Leader(Some(attempt)), Answer::Write(outcome)) => {
                Todo::Leader(election::Input::WriteDone { attempt, outcome })
            }
            (Asker::Leader(_), Answer::Read(state)) => Todo::Leader(election::Input::Read(state)),
            (Asker::Leader(_), Answer::Failed(retry_after)) => {
                Todo::Leader(election::Input::ReadFailed { retry_after })
            }
            (Asker::Member(Some(attempt)), Answer::Write(outcome)) => {
                Todo::Member(election::Input::WriteDone { attempt, outcome })
            }
            (Asker::Member(_), Answer::List(listing)) => {
                let name = Arc::clone(&self.pods[p].name);
                if let Some(Contents::Table(table)) = listing
                    .assignment
                    .as_ref()
                    .map(|state| &state.record.contents)
                    && let Some(floor) = table.incarnation_max(&name)
                    && self.knobs.floors
                {
                    self.tell(p, Todo::Member(election::Input::TermFloor(floor)));
                }
                let state = listing.members.get(&name).cloned();
                Todo::Member(election::Input::Read(state))
            }
            (Asker::Member(_), Answer::Failed(retry_after)) => {
                Todo::Member(election::Input::ReadFailed { retry_after })
            }
            (Asker::Planner(leadership, attempt), Answer::Write(outcome)) => {
                if self.pods[p].leadership != leadership {
                    return;
                }
                Todo::Planner(planner::Input::WriteDone { attempt, outcome })
            }
            (Asker::PlannerList(leadership, asked), answer) => {
                if self.pods[p].leadership != leadership {
                    return;
                }
                Todo::Planner(match answer {
                    Answer::List(listing) => planner::Input::Listed { asked, listing },
                    Answer::Failed(retry_after) => planner::Input::ListFailed { retry_after },
                    _ => return,
                })
            }
            _ => return,
        };
        self.tell(p, todo);
    }

    /// Nobody took its partitions in time.
    pub fn drain_all(&mut self, p: usize) {
        self.tell(p, Todo::Handoff(handoff::Input::DrainAll));
    }

    /// A work ended: nothing of it runs on.
    pub fn ended(&mut self, p: usize, slot: Slot) {
        self.tell(p, Todo::Handoff(handoff::Input::Ended(slot)));
    }
}
