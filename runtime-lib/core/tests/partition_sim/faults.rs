//! Faults strike, last, and heal.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::id::Term;
use leasehold_core::lease::Contents;
use leasehold_core::partition::Table;

use crate::clock::{MS, Nanos, SEC};
use crate::network::Api;
use crate::pod::{Delivery, Link, Trap};
use crate::scenario::Fault;
use crate::store::Key;
use crate::world::{Event, World};

/// The end of a lasting fault.
#[derive(Clone, Copy, Debug)]
pub enum Heal {
    Resume(usize),
    Reconnect(usize),
    /// SIGTERM.
    Terminate(usize),
    /// SIGKILL.
    Kill(usize),
}

impl World {
    pub fn strike(&mut self, fault: Fault) {
        if !self.faults_on {
            return;
        }
        let faults = &mut self.mix.faults.iter();
        if let Some((_, mean)) = faults.find(|(which, _)| *which == fault) {
            let next = self.now + self.random.waiting(*mean);
            self.schedule(next, Event::Fault(fault));
        }
        let Some(p) = self.victim(fault) else { return };
        self.say(13, p as u64, || format!("fault: {fault:?} (p{p})"));
        self.stats.fault(fault);
        let hold = self.hold();
        let until = self.now + hold;
        match fault {
            Fault::Pause => {
                self.pause(p);
                self.schedule(until, Event::Heal(Heal::Resume(p)));
            }
            Fault::CrashInPlace | Fault::CrashPod | Fault::CrashLeader => {
                let same_pod = fault == Fault::CrashInPlace;
                self.refill(p, hold / 2, same_pod);
                self.kill(p, "crash");
            }
            Fault::CrashTwo => {
                let others = self.living.iter().copied().filter(|q| *q != p);
                let others: Vec<usize> = others.collect();
                for q in [p, others[self.random.index(others.len())]] {
                    self.refill(q, hold / 2, false);
                    self.kill(q, "crash of two");
                }
            }
            Fault::CrashAtPublish => self.pods[p].trap = Some(Trap::CrashAtPublish),
            Fault::PauseAtPublish => self.pods[p].trap = Some(Trap::PauseAtPublish(hold)),
            Fault::ScaleUp => self.scale_up(),
            Fault::ScaleDown => self.scale_down(p),
            Fault::Rollout => self.begin_rollout(),
            Fault::Resize => self.resize(),
            Fault::NeverAcknowledges => {
                self.pods[p].stuck = true;
                let gone = self.now + self.random.between(60 * SEC, 240 * SEC);
                self.schedule(gone, Event::Heal(Heal::Kill(p)));
            }
            Fault::LinkDropped => self.cut(p, Link::Dropped, until),
            Fault::LinkHeld => self.cut(p, Link::Held, until),
            Fault::LinkOneWay => self.cut(p, Link::OneWay, until),
            Fault::ApiDown => {
                self.api.down_until = until;
                for other in self.living.clone() {
                    self.end_watches(other);
                }
            }
            Fault::ApiHangs => self.api.hangs_until = until,
            Fault::WritesFail => self.api.no_writes_until = until,
            Fault::WatchEnds => self.end_watches(p),
            Fault::WatchHalfOpen => self.silence_watches(p),
            Fault::WatchLags => {
                self.pods[p].lag = hold / 4;
                self.pods[p].lag_until = until;
            }
            Fault::TwoOfOneName => self.two_of_one_name(p, until),
            Fault::TableUnseen => self.ambush = true,
            Fault::TableDeleted | Fault::TableOverwritten => self.edit_table(fault),
            Fault::MemberDeleted | Fault::MemberForged => self.edit_member(p, fault),
        }
    }

    /// The leader, more often than not, or whom the fault demands.
    fn victim(&mut self, fault: Fault) -> Option<usize> {
        let at_leader = self.random.chance(self.mix.at_leader);
        let leader = self.leader();
        if self.living.is_empty() || (fault == Fault::CrashTwo && self.living.len() < 3) {
            return None;
        }
        let anybody = self.living[self.random.index(self.living.len())];
        match fault {
            Fault::CrashLeader | Fault::CrashAtPublish | Fault::PauseAtPublish => leader,
            Fault::CrashTwo => leader.or(Some(anybody)),
            _ => leader.filter(|_| at_leader).or(Some(anybody)),
        }
    }

    /// How long a fault lasts: a blink, about D, or long.
    fn hold(&mut self) -> Nanos {
        let lease = self.mix.lease();
        let base = match self.random.below(4) {
            0 => self.random.between(50 * MS, 3 * SEC),
            1 => lease * 3 / 4 + self.random.below(2 * SEC),
            2 => lease + self.random.below(6 * SEC),
            _ => self.random.between(SEC, self.mix.hold_max),
        };
        base.min(self.mix.hold_max)
    }

    pub fn pause(&mut self, p: usize) {
        self.pods[p].paused += 1;
        // What runs on while nobody can stop it in time is outside the inequality.
        for work in self.pods[p].works.values_mut() {
            work.tainted = true;
        }
    }

    fn cut(&mut self, p: usize, link: Link, until: Nanos) {
        if self.pods[p].link != Link::Up {
            return;
        }
        self.pods[p].link = link;
        if link != Link::Held {
            self.silence_watches(p);
        }
        self.schedule(until, Event::Heal(Heal::Reconnect(p)));
    }

    /// The settings changed: every process reads them within some seconds.
    fn resize(&mut self) {
        let counts = self.mix.counts.clone();
        self.wanted = self.random.pick(&counts);
        for p in self.living.clone() {
            let at = self.now + self.random.below(3 * SEC);
            self.send(at, p, Delivery::Wanted(self.wanted));
        }
    }

    /// The node is out of reach: a new pod of the name starts while the old one runs on.
    fn two_of_one_name(&mut self, p: usize, until: Nanos) {
        let slot = self.pods[p].slot;
        if !self.mix.stateful || self.places[slot].pod != Some(p) {
            return;
        }
        if self.random.chance(500) {
            self.cut(p, Link::Dropped, until);
        }
        let gone = self.now + self.random.between(30 * SEC, 120 * SEC);
        self.schedule(gone, Event::Heal(Heal::Kill(p)));
        self.places[slot].pod = None;
        self.start_in(slot, false);
    }

    fn edit_table(&mut self, fault: Fault) {
        let key = Key::Assignment;
        let Some(state) = self.store.get(&key).cloned() else {
            return;
        };
        if fault == Fault::TableDeleted {
            self.store.delete(&key);
            return self.publish(&key);
        }
        // Whoever plans can tell: a member has understood a later one.
        let acked = self.store.acknowledged();
        let older = self.judge.published.first().cloned();
        let older = older.filter(|older| match older {
            Contents::Table(table) => Some(table.epoch) < acked,
            _ => false,
        });
        let mut record = state.record;
        record.contents = match (self.random.below(3), older) {
            (0, Some(older)) => {
                self.stats.count("older table put back");
                older
            }
            (1, _) => Contents::Nothing,
            _ => nonsense(),
        };
        self.store.put(&key, record);
        self.publish(&key);
    }

    /// A publish of `p` was stored, and is about to be seen: by one owner who needs to wait for
    /// nobody, if there is one. It starts, and dies with the leader; the table is gone.
    pub fn ambush(&mut self, p: usize, table: &Table) {
        let fresh = table.entries().filter(|(_, part)| {
            part.epoch == table.epoch && part.prev.is_empty() && table.prev_all.is_empty()
        });
        let owners = fresh.filter_map(|(partition, _)| table.owner(partition));
        let owners: BTreeSet<&str> = owners.map(|owner| &*owner.name).collect();
        let mut living = self.living.iter().copied();
        let lucky = living.find(|q| *q != p && owners.contains(&*self.pods[*q].name));
        let Some(lucky) = lucky.filter(|_| self.ambush && self.faults_on) else {
            return;
        };
        self.ambush = false;
        self.stats.count("table lost before others saw it");
        for q in self.living.clone() {
            if q != lucky {
                self.end_watches(q);
            }
        }
        self.schedule(self.now + 10 * MS, Event::Fault(Fault::TableDeleted));
        for q in [p, lucky] {
            self.schedule(self.now + SEC, Event::Heal(Heal::Kill(q)));
        }
    }

    fn edit_member(&mut self, p: usize, fault: Fault) {
        let name = Arc::clone(&self.pods[p].name);
        let keeper = self.store.keeper(&name).filter(|q| self.pods[*q].alive);
        let key = Key::Member(name);
        let Some(state) = self.store.get(&key).cloned() else {
            return;
        };
        if fault == Fault::MemberDeleted {
            self.store.delete(&key);
            if let Some(q) = keeper {
                self.pods[q].deleted = true;
            }
            return self.publish(&key);
        }
        let mut record = state.record;
        let mut forges = true;
        match self.random.below(3) {
            0 => record.holder = None,
            1 => record.term = Term::new(record.term.number() + 1),
            _ => {
                record.contents = nonsense();
                forges = false;
            }
        }
        if let Some(q) = keeper.filter(|_| forges) {
            self.pods[q].tampered_until = self.now + self.mix.trusted_max();
        }
        self.store.put(&key, record);
        self.publish(&key);
    }

    pub fn heal(&mut self, heal: Heal) {
        match heal {
            Heal::Resume(p) => {
                let pod = &mut self.pods[p];
                pod.paused = pod.paused.saturating_sub(1);
                self.drain_inbox(p);
            }
            Heal::Reconnect(p) => {
                self.pods[p].link = Link::Up;
                self.let_go(p);
            }
            Heal::Terminate(p) => self.terminate(p),
            Heal::Kill(p) => self.kill(p, "crash"),
        }
    }

    /// What waited is taken in order, or the ripe timers first: a runtime promises neither.
    fn drain_inbox(&mut self, p: usize) {
        if self.pods[p].paused > 0 {
            return;
        }
        let mut waiting: Vec<Delivery> = std::mem::take(&mut self.pods[p].inbox).into();
        if self.random.chance(300) {
            let is_timer =
                |what: &Delivery| matches!(what, Delivery::Timer { .. } | Delivery::Timeout { .. });
            waiting.sort_by_key(|what| !is_timer(what));
        }
        for what in waiting {
            self.deliver(p, what);
        }
    }

    /// All faults end; every pod runs, and everything must come to rest.
    pub fn calm(&mut self) {
        self.say(14, 0, || "calm".to_owned());
        self.faults_on = false;
        self.api = Api::default();
        for p in self.living.clone() {
            let slot = self.pods[p].slot;
            let displaced = self.places[slot].pod != Some(p);
            let outdated = self.pods[p].revision < self.revision;
            if displaced || outdated || self.pods[p].stuck {
                self.kill(p, "killed");
                continue;
            }
            (self.pods[p].lag_until, self.pods[p].trap) = (0, None);
            while self.pods[p].paused > 0 {
                self.heal(Heal::Resume(p));
            }
            self.heal(Heal::Reconnect(p));
        }
        for slot in 0..self.places.len() {
            let same_pod = false;
            self.schedule(self.now + SEC, Event::Start { slot, same_pod });
        }
        self.judge.calm_from = Some(self.now);
        self.judge.settled_from = Some(self.now + self.mix.calm - SETTLED);
    }
}

fn nonsense() -> Contents {
    Contents::Unreadable {
        newer: false,
        reason: "edited by hand".into(),
    }
}

/// The last part of the calm, in which nothing but renewals happens.
pub const SETTLED: Nanos = 90 * SEC;
