//! Faults strike, last, and heal.

use leasehold_core::election::Input;
use leasehold_core::time::Duration;

use crate::clock::{MS, Nanos, SEC};
use crate::node::{Delivery, Link};
use crate::scenario::Fault;
use crate::store::Edit;
use crate::world::{Event, World};

/// The end of a lasting fault.
#[derive(Clone, Copy, Debug)]
pub enum Heal {
    Resume(usize),
    Rise(usize),
    Unstall(usize),
    Reconnect(usize),
    Healthy(usize),
    /// SIGKILL.
    Kill(usize),
    /// The API server is itself again: everybody's ability is judged anew.
    Api,
}

impl World {
    pub fn strike(&mut self, fault: Fault) {
        if !self.faults_on {
            return;
        }
        let mean = self
            .mix
            .faults
            .iter()
            .find(|(which, _)| *which == fault)
            .map_or(self.end, |(_, mean)| *mean);
        let next = self.now + self.random.waiting(mean);
        self.schedule(next, Event::Fault(fault));
        let Some(p) = self.victim() else { return };
        self.say(6, p as u64, || format!("fault: {fault:?} (p{p})"));
        self.stats.fault(fault);
        let hold = self.hold(p);
        let until = self.now + hold;
        match fault {
            Fault::Pause => {
                self.pause(p);
                self.schedule(until, Event::Heal(Heal::Resume(p)));
            }
            Fault::Suspend => self.suspend(p, until),
            Fault::Stall => {
                self.processes[p].stalled += 1;
                self.taint(p);
                self.schedule(until, Event::Heal(Heal::Unstall(p)));
            }
            Fault::CrashInPlace | Fault::CrashPod => {
                let same_pod = fault == Fault::CrashInPlace;
                self.refill(p, hold / 2, same_pod);
                self.kill(p, "crash");
            }
            Fault::RestartBesideFormer => self.restart_beside(p, until),
            Fault::Duplicate => self.duplicate(p),
            Fault::Unhealthy => {
                self.processes[p].healthy = false;
                self.deliver(p, Delivery::Input(Input::Health(false)));
                self.schedule(until, Event::Heal(Heal::Healthy(p)));
            }
            Fault::StepDown => {
                let drain = Duration::from_secs(self.random.pick(&[1, 5, 25]));
                self.deliver(p, Delivery::Input(Input::StepDown { drain }));
            }
            Fault::Rollout => {
                let empty = self.random.below(3 * SEC);
                self.refill(p, empty, false);
                self.terminate(p);
            }
            Fault::Leave => {
                self.refill(p, 4 * hold, false);
                self.terminate(p);
            }
            Fault::LinkDropped => self.cut(p, Link::Dropped, until),
            Fault::LinkHeld => self.cut(p, Link::Held, until),
            Fault::LinkOneWay => self.cut(p, Link::OneWay, until),
            Fault::LinkRefused => self.cut(p, Link::Refused, until),
            Fault::ApiDown => {
                self.api.down_until = until;
                for other in self.living.clone() {
                    self.end_watch(other);
                }
            }
            Fault::ApiHangs => self.api.hangs_until = until,
            Fault::WritesFail => self.api.no_writes_until = until,
            Fault::ReadsFail => self.api.no_reads_until = until,
            Fault::Forbidden => self.api.forbids_until = until,
            Fault::Throttled => self.api.throttles_until = until,
            Fault::WatchEnds => self.end_watch(p),
            Fault::WatchHalfOpen => self.silence_watch(p),
            Fault::WatchLags => {
                let watch = &mut self.processes[p].watch;
                watch.lag = hold / 4;
                watch.lag_until = until;
            }
            Fault::Retime => self.retime(),
            _ => self.edit(fault),
        }
        if self.processes[p].alive {
            if !matches!(fault, Fault::StepDown | Fault::Rollout | Fault::Leave) {
                self.disturb(p);
            }
            self.review(p);
        }
        if matches!(
            fault,
            Fault::ApiDown
                | Fault::ApiHangs
                | Fault::WritesFail
                | Fault::ReadsFail
                | Fault::Forbidden
                | Fault::Throttled
        ) {
            self.review_all();
            self.schedule(until, Event::Heal(Heal::Api));
        }
    }

    /// The leader, more often than not.
    fn victim(&mut self) -> Option<usize> {
        let at_leader = self.random.chance(self.mix.at_leader);
        if self.living.is_empty() {
            return None;
        }
        let anybody = self.living[self.random.index(self.living.len())];
        Some(self.leader().filter(|_| at_leader).unwrap_or(anybody))
    }

    /// How long a fault lasts: a blink, about V, about D, or long.
    fn hold(&mut self, p: usize) -> Nanos {
        let timing = self.processes[p].timing;
        let (trusted, lease) = (timing.trusted(), timing.lease_duration());
        let base = match self.random.below(4) {
            0 => self.random.between(50 * MS, 3 * SEC),
            1 => crate::clock::nanos(trusted) + self.random.below(2 * SEC),
            2 => crate::clock::nanos(lease) + self.random.below(6 * SEC),
            _ => self.random.between(SEC, self.mix.hold_max),
        };
        base.min(self.mix.hold_max)
    }

    fn pause(&mut self, p: usize) {
        self.processes[p].paused += 1;
        self.taint(p);
    }

    /// What runs on while nobody can stop it in time is outside the inequality.
    fn taint(&mut self, p: usize) {
        let work = &mut self.processes[p].work;
        work.tainted |= work.running;
    }

    fn suspend(&mut self, p: usize, until: Nanos) {
        self.pause(p);
        if !self.knobs.boot_time {
            let now = self.now;
            let process = &mut self.processes[p];
            process.clock.stop(now);
            if let Some(guard) = &mut process.guard {
                guard.until = guard.until.max(until);
            }
        }
        self.schedule(until, Event::Heal(Heal::Rise(p)));
    }

    fn restart_beside(&mut self, p: usize, until: Nanos) {
        let Some(slot) = self.processes[p]
            .slot
            .filter(|slot| self.slots[*slot].process == Some(p))
        else {
            return;
        };
        // The runtime lost track of the former process: it is stopped, or runs on unseen.
        if self.random.chance(500) {
            self.pause(p);
            self.schedule(until, Event::Heal(Heal::Resume(p)));
        }
        let gone = self.random.between(30 * SEC, 120 * SEC);
        self.schedule(self.now + gone, Event::Heal(Heal::Kill(p)));
        let uid = self.pod_uid(slot);
        let clock = self.processes[p].clock;
        let reclaims = !self.knobs.socket;
        let q = self.start(Some(slot), &uid, None, clock, reclaims);
        self.slots[slot].process = Some(q);
    }

    fn duplicate(&mut self, p: usize) {
        if self.processes[p].duplicate_of.is_some() {
            return;
        }
        let uid = self.processes[p].pod_uid.clone();
        let clock = self.processes[p].clock;
        let q = self.start(None, &uid, Some(p), clock, false);
        let gone = self.random.between(60 * SEC, 400 * SEC);
        self.schedule(self.now + gone, Event::Heal(Heal::Kill(q)));
    }

    fn cut(&mut self, p: usize, link: Link, until: Nanos) {
        if self.processes[p].link != Link::Up {
            return;
        }
        self.processes[p].link = link;
        match link {
            Link::Dropped | Link::OneWay => self.silence_watch(p),
            Link::Refused => self.end_watch(p),
            Link::Held | Link::Up => {}
        }
        self.schedule(until, Event::Heal(Heal::Reconnect(p)));
    }

    /// The settings changed: every process reads them within some seconds.
    fn retime(&mut self) {
        let timing = self.random.pick(&self.mix.timings);
        for p in self.living.clone() {
            let at = self.now + self.random.below(10 * SEC);
            self.send(at, p, Delivery::Input(Input::Retime(timing)));
        }
    }

    fn edit(&mut self, fault: Fault) {
        let edit = match fault {
            Fault::EditDelete => Edit::Delete,
            Fault::EditRecreate => Edit::Recreate,
            Fault::EditEmpty => Edit::Empty,
            Fault::EditForge => {
                let p = self.living[self.random.index(self.living.len())];
                let name = self.processes[p].identity.as_str().to_owned();
                let names = ["intruder".to_owned(), format!("{name}x"), name];
                Edit::Forge(names[self.random.index(3)].clone())
            }
            Fault::EditLabels => Edit::Unlabel,
            Fault::EditDuration => {
                let longest = self.mix.lease_duration_max() / SEC;
                Edit::Duration(self.random.pick(&[1, 5, longest]))
            }
            Fault::EditTerm => Edit::Term(self.random.pick(&[0, 1, 7, 40_000, i32::MAX as u32])),
            _ => Edit::Prefer("somebody-else".to_owned()),
        };
        if self.store.current().is_none() {
            return;
        }
        let forges = !matches!(edit, Edit::Unlabel | Edit::Prefer(_));
        self.judge.edit(self.now, forges);
        for p in self.living.clone() {
            self.disturb(p);
        }
        for news in self.store.edit(&edit) {
            self.publish(news);
        }
    }

    pub fn heal(&mut self, heal: Heal) {
        match heal {
            Heal::Resume(p) => self.resume(p),
            Heal::Rise(p) => {
                let now = self.now;
                let process = &mut self.processes[p];
                process.clock.go_on(now);
                if let Some(guard) = &mut process.guard {
                    guard.until = process.clock.truth(guard.trusted_until);
                }
                process.timer_at = None;
                self.set_timer(p);
                self.resume(p);
            }
            Heal::Unstall(p) => {
                let process = &mut self.processes[p];
                process.stalled = process.stalled.saturating_sub(1);
                self.drain_inbox(p);
            }
            Heal::Reconnect(p) => {
                self.processes[p].link = Link::Up;
                self.let_go(p);
            }
            Heal::Healthy(p) => {
                self.processes[p].healthy = true;
                self.deliver(p, Delivery::Input(Input::Health(true)));
            }
            Heal::Kill(p) => self.kill(p, "killed"),
            Heal::Api => return self.review_all(),
        }
        if let Heal::Resume(p)
        | Heal::Rise(p)
        | Heal::Unstall(p)
        | Heal::Reconnect(p)
        | Heal::Healthy(p) = heal
        {
            self.review(p);
        }
    }

    fn resume(&mut self, p: usize) {
        let process = &mut self.processes[p];
        process.paused = process.paused.saturating_sub(1);
        self.drain_inbox(p);
    }

    /// What waited is taken in order, or the ripe timers first: a runtime promises neither.
    fn drain_inbox(&mut self, p: usize) {
        if self.processes[p].paused > 0 {
            return;
        }
        let mut waiting: Vec<Delivery> = std::mem::take(&mut self.processes[p].inbox).into();
        if self.random.chance(300) {
            let is_timer =
                |what: &Delivery| matches!(what, Delivery::Timer { .. } | Delivery::Timeout { .. });
            waiting.sort_by_key(|what| !is_timer(what));
        }
        for what in waiting {
            self.deliver(p, what);
        }
    }

    /// All faults end; every pod runs, and the election must come to rest.
    pub fn calm(&mut self) {
        self.say(7, 0, || "calm".to_owned());
        self.faults_on = false;
        self.api = crate::network::Api::default();
        for p in self.living.clone() {
            let stuck = self.processes[p].work.running
                && (self.processes[p].guard.is_none() || self.processes[p].work.hangs);
            let slot = self.processes[p].slot;
            let displaced = slot.is_none_or(|slot| self.slots[slot].process != Some(p));
            if displaced || stuck || self.processes[p].stopping {
                self.kill(p, "killed");
                continue;
            }
            self.processes[p].watch.lag_until = 0;
            while self.processes[p].paused > 0 {
                self.heal(Heal::Rise(p));
            }
            while self.processes[p].stalled > 0 {
                self.heal(Heal::Unstall(p));
            }
            self.heal(Heal::Reconnect(p));
            self.heal(Heal::Healthy(p));
        }
        for slot in 0..self.slots.len() {
            let start = Event::Start {
                slot,
                same_pod: false,
            };
            self.schedule(self.now + SEC, start);
        }
        self.review_all();
        self.judge.calm_from = Some(self.now);
    }
}
