//! The works of a process: they start, drain and stop; and who may act on which hashes.

use leasehold_core::election::Purpose;
use leasehold_core::id::Revision;
use leasehold_core::lease::{Contents, Versioned};
use leasehold_core::partition::Slot;

use crate::clock::{MS, nanos};
use crate::judge::{Check, overlap};
use crate::pod::{Delivery, Phase, Work};
use crate::world::World;

impl World {
    pub fn begin_work(&mut self, p: usize, slot: Slot, epoch: Revision) {
        let number = self.number();
        let range = slot.layout.range(slot.partition);
        let range = (range.first().into(), range.until());
        self.stats.count("work began");
        let guarded = self.pods[p].guarded(self.now);
        if guarded {
            self.check_begin(p, slot, range, epoch);
            self.occupy(range);
        } else {
            // It is dropped before its first turn: the end of the term is on its way.
            self.stats.count("work began after the end of trust");
        }
        let work = Work {
            number,
            epoch,
            range,
            phase: Phase::Running,
            taken: None,
            tainted: !guarded,
            disowned: false,
        };
        self.pods[p].works.insert(slot, work);
        self.first_turn(p, slot, number);
    }

    pub fn drain_work(&mut self, p: usize, slot: Slot) {
        let stuck = self.pods[p].stuck;
        let pod = &mut self.pods[p];
        let (Some(work), Some(table)) = (pod.works.get_mut(&slot), pod.handoff.table()) else {
            return;
        };
        work.phase = Phase::Draining;
        let part = table.part(slot.partition).map(|part| part.epoch);
        let kept = table.layout == slot.layout && part == Some(work.epoch);
        work.taken = (!kept).then_some(table.epoch);
        let number = work.number;
        self.stats.count("drain");
        if !self.knobs.honest_ends {
            work.disowned = true;
            self.ended(p, slot);
        }
        if stuck {
            return;
        }
        let takes = match self.random.below(4) {
            0 => self.random.below(self.mix.drain_max),
            _ => self.random.below(200 * MS),
        };
        let work = number;
        self.send(self.now + takes, p, Delivery::WorkEnds { slot, work });
    }

    pub fn lose_work(&mut self, p: usize, slot: Slot) {
        let stuck = self.pods[p].stuck;
        let Some(work) = self.pods[p].works.get_mut(&slot) else {
            return;
        };
        work.phase = Phase::Lost;
        work.tainted |= stuck;
        let (range, number) = (work.range, work.number);
        self.vacate(range, "lost");
        if stuck {
            return;
        }
        let budget = nanos(self.mix.timing.stop_budget());
        let takes = match self.random.below(4) {
            0 => self.random.below(budget * 98 / 100),
            _ => self.random.below(50 * MS),
        };
        let work = number;
        self.send(self.now + takes, p, Delivery::WorkEnds { slot, work });
    }

    pub fn work_ends(&mut self, p: usize, slot: Slot, number: u64) {
        let works = &mut self.pods[p].works;
        let Some(work) = works
            .get(&slot)
            .filter(|work| work.number == number)
            .copied()
        else {
            return;
        };
        works.remove(&slot);
        if work.phase == Phase::Draining {
            self.vacate(work.range, "handoff");
        }
        if !work.disowned {
            self.ended(p, slot);
        }
    }

    /// `one-owner`: nothing else may act on these hashes now, and nothing that had to stop goes on.
    fn check_begin(&mut self, p: usize, slot: Slot, range: (u128, u128), epoch: Revision) {
        let now = self.now;
        let stop = nanos(self.mix.timing.stop_budget()) * 102 / 100;
        let mut found = Vec::new();
        for &q in &self.living {
            let pod = &self.pods[q];
            let guarded = pod.guarded(now);
            let edited = pod.tampered_until.max(self.pods[p].tampered_until);
            let excused = q != p && now < edited;
            for (other, work) in &pod.works {
                if !overlap(work.range, range) {
                    continue;
                }
                let acts = q == p || (guarded && work.phase != Phase::Lost);
                let check = match acts {
                    true if !excused => Check::OneOwner,
                    false if !work.tainted && now >= edited + stop => Check::StopBudget,
                    _ => {
                        self.stats
                            .count("overlap after an edit, or of stopped work");
                        continue;
                    }
                };
                found.push((check, format!(
                    "p{p} begins {slot:?} under {epoch}, p{q} still runs {other:?} under {} ({:?})",
                    work.epoch, work.phase
                )));
            }
        }
        for (check, detail) in found {
            self.found(check, detail);
        }
        let edited = now < self.pods[p].tampered_until;
        if let Some(before) = self.judge.mark(range, epoch, p) {
            if edited {
                self.stats.count("token out of order after an edit");
            } else {
                let detail = format!("p{p} begins {slot:?} under {epoch} after {before}");
                self.found(Check::TokenOrder, detail);
            }
        }
    }

    /// `release-after-drain`: a member Lease shows no release of what still runs.
    pub fn check_record(&mut self, p: usize, name: &str, state: &Versioned, purpose: Purpose) {
        self.note_foreign(p, name);
        let pod = &self.pods[p];
        let by_itself = *pod.name == *name && purpose != Purpose::Fence;
        if !by_itself || !pod.alive || pod.deleted {
            return;
        }
        let ends = matches!(purpose, Purpose::Claim | Purpose::Release);
        let shows_released = |slot: &Slot, work: &Work| {
            let Contents::Member(record) = &state.record.contents else {
                return false;
            };
            let acked = work.taken.is_some_and(|taken| record.acked >= Some(taken));
            let clear = record.layout.is_some_and(|layout| {
                let mut words = slot.layout.overlapping(slot.partition, layout);
                !words.all(|partition| record.owned.contains(partition))
            });
            acked && clear
        };
        let mut works = pod.works.iter();
        let untrue = works.find(|(slot, work)| ends || shows_released(slot, work));
        if let Some((slot, work)) = untrue {
            let contents = &state.record.contents;
            let detail = format!(
                "p{p} runs {slot:?} under {} ({:?}), its {purpose:?} says {contents:?}",
                work.epoch, work.phase
            );
            self.found(Check::ReleasedWhileRunning, detail);
        }
    }

    /// Somebody else took a Lease that was deleted by hand: its former holder is bound by nothing.
    fn note_foreign(&mut self, p: usize, name: &str) {
        for index in 0..self.living.len() {
            let q = self.living[index];
            let pod = &mut self.pods[q];
            if q != p && *pod.name == *name && pod.deleted {
                pod.tampered_until = pod.guard.map_or(0, |guard| guard.until);
            }
        }
    }
}
