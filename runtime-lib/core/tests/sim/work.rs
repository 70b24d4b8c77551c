//! The work of a leader: guarded writes that check first and may arrive late, and ends of all kinds.

use leasehold_core::election::{EndReason, Input};
use leasehold_core::id::FencingToken;
use leasehold_core::lease::LeaseTiming;
use leasehold_core::time::Instant;

use crate::clock::{MS, SEC};
use crate::faults::Heal;
use crate::judge::Check;
use crate::node::{Delivery, Draining, Guard, Work};
use crate::world::{Event, World};

impl World {
    pub fn begin(&mut self, p: usize, token: FencingToken, trusted_until: Instant) {
        self.check_begin(p, token);
        let process = &mut self.processes[p];
        process.guard = Some(Guard {
            token,
            from: self.now,
            trusted_until,
            until: process.clock.truth(trusted_until),
        });
        process.own_revision = token.revision().number();
        process.claims.clear();
        process.draining = None;
        process.work = Work {
            term: process.work.term + 1,
            running: true,
            hangs: self.random.chance(self.mix.bad_work / 4),
            tainted: false,
            stopping: false,
        };
        if process.is_client_go() {
            return;
        }
        let term = process.work.term;
        let at = self.now + self.random.between(MS, 2 * SEC);
        self.send(at, p, Delivery::Poll { term });
        if self.random.chance(self.mix.bad_work / 4) {
            // Work that returns by itself.
            let at = self.now + self.random.between(SEC, 300 * SEC);
            self.processes[p].work.hangs = false;
            self.send(at, p, Delivery::WorkEnds { term });
        }
    }

    pub fn extend(&mut self, p: usize, trusted_until: Instant) {
        let Some(guard) = self.processes[p].guard else {
            return;
        };
        if self.now >= guard.until {
            let detail = format!("p{p} extends {} after its guard ended", guard.token);
            self.found(Check::RegainedWithinTerm, detail);
            self.close_tenure(p);
        }
        let process = &mut self.processes[p];
        let from = if self.now >= guard.until {
            self.now
        } else {
            guard.from
        };
        process.guard = Some(Guard {
            from,
            trusted_until,
            until: process.clock.truth(trusted_until),
            ..guard
        });
        self.check_duplicate_noticed(p);
    }

    pub fn drain(&mut self, p: usize, until: Instant) {
        let well = self.api.is_well(self.now);
        let process = &mut self.processes[p];
        let before = process.draining.is_some_and(|draining| draining.disturbed);
        let undisturbed = well && !before && process.is_fresh(self.now);
        let disturbed = !undisturbed;
        process.draining = Some(Draining { until, disturbed });
        if process.work.hangs || !process.work.running || process.work.stopping {
            return;
        }
        process.work.stopping = true;
        let term = process.work.term;
        let budget = process.clock.truth(until).saturating_sub(self.now);
        let takes = match self.random.below(10) {
            _ if self.random.chance(self.mix.bad_work) => budget + 20 * SEC,
            0..=3 => self.random.below(SEC),
            _ => self.random.below(budget * 9 / 10 + 1),
        };
        self.stats.count("drain");
        self.send(self.now + takes, p, Delivery::WorkEnds { term });
    }

    pub fn end_term(&mut self, p: usize, reason: &EndReason) {
        self.check_end(p, reason);
        self.stats.ended(self.now, reason);
        self.close_tenure(p);
        // A promise of the user's code; the shortest one holds while settings change.
        let stop_budget = self.mix.shortest(LeaseTiming::stop_budget);
        let process = &mut self.processes[p];
        process.guard = None;
        process.draining = None;
        if process.work.running && process.work.hangs {
            process.work.tainted = true;
            // The liveness probe ends it, some time.
            let at = self.now + self.random.between(60 * SEC, 180 * SEC);
            self.schedule(at, Event::Heal(Heal::Kill(p)));
        } else if process.work.running {
            let takes = match self.random.below(4) {
                _ if !self.knobs.stops_in_time => 2 * stop_budget + self.random.below(20 * SEC),
                0 => self.random.below(stop_budget * 98 / 100),
                _ => self.random.below(50 * MS),
            };
            let term = process.work.term;
            self.send(self.now + takes, p, Delivery::WorkEnds { term });
        }
        self.review(p);
    }

    /// The work's turn: the shell compares the clock before each poll (E9).
    pub fn poll(&mut self, p: usize, term: u64) {
        let process = &self.processes[p];
        if !process.work.running || process.work.term != term {
            return;
        }
        let local = process.local(self.now);
        let shown = process.guard.filter(|guard| local < guard.trusted_until);
        let valid = process.guarded(self.now);
        if shown.is_none() && self.knobs.checked_polls {
            return; // dropped: End follows
        }
        if !valid {
            self.found(Check::PolledAfterGuard, format!("p{p}"));
        }
        if let Some(guard) = shown {
            let at = self.now + self.random.below(200 * MS);
            let token = guard.token;
            self.send(at, p, Delivery::Commit { token });
        }
        let at = self.now + self.random.between(SEC, 8 * SEC);
        self.send(at, p, Delivery::Poll { term });
    }

    /// The write leaves the process; it takes up to the stop budget to arrive.
    pub fn commit(&mut self, token: FencingToken) {
        let takes = match self.random.below(10) {
            0 => self.random.below(SEC),
            _ => self.random.below(20 * MS),
        };
        self.schedule(self.now + takes, Event::GuardedWrite { token });
    }

    pub fn guarded_write(&mut self, token: FencingToken) {
        let accepted = self.fence.admit(token).is_ok() || !self.knobs.fence;
        self.judge.write(self.now, token, accepted);
    }

    pub fn work_ends(&mut self, p: usize, term: u64) {
        let process = &mut self.processes[p];
        let returns = process.guard.is_some() && process.draining.is_none();
        let work = &mut process.work;
        if work.term != term || !work.running || work.hangs || (returns && !self.faults_on) {
            return;
        }
        work.running = false;
        self.review(p);
        self.deliver(p, Delivery::Input(Input::WorkEnded));
    }
}
