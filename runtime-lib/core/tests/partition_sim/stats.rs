//! What happened in a run, added up over all runs.

use std::collections::BTreeMap;

use crate::clock::Nanos;
use crate::scenario::Fault;

/// Counts and durations of one run or of many.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub seeds: u64,
    pub simulated: Nanos,
    pub faults: BTreeMap<Fault, u64>,
    pub counts: BTreeMap<&'static str, u64>,
    /// Time without an owner of a sampled hash, by how its last owner ended.
    pub unowned: BTreeMap<&'static str, Vec<Nanos>>,
}

impl Stats {
    pub fn count(&mut self, what: &'static str) {
        self.count_many(what, 1);
    }

    pub fn count_many(&mut self, what: &'static str, number: u64) {
        *self.counts.entry(what).or_default() += number;
    }

    pub fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub fn get(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.simulated += other.simulated;
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (what, count) in other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (how, times) in other.unowned {
            self.unowned.entry(how).or_default().extend(times);
        }
    }
}
