//! What happened in a run, added up over all runs.

use std::collections::BTreeMap;

use leasehold_core::election::EndReason;
use leasehold_core::election::check::{Report, Tenure};

use crate::clock::Nanos;
use crate::scenario::Fault;

/// Counts and durations of one run or of many.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub seeds: u64,
    pub simulated: Nanos,
    pub changes: u64,
    pub faults: BTreeMap<Fault, u64>,
    pub counts: BTreeMap<&'static str, u64>,
    /// Time without a leader, by how the leadership before ended; only if its successor was able
    /// to lead all the time.
    pub takeovers: BTreeMap<&'static str, Vec<Nanos>>,
    /// Times with two leaders at once.
    pub overlaps: Vec<Nanos>,
    pub refused: u64,
    ended: Option<(Nanos, &'static str)>,
}

impl Stats {
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub fn get(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// A term ended for this reason.
    pub fn ended(&mut self, now: Nanos, reason: &EndReason) {
        let name = match reason {
            EndReason::Resigned => "graceful",
            EndReason::TrustExpired => "trust expired",
            EndReason::HeldBy(_) => "held by another",
            EndReason::Emptied => "emptied",
            EndReason::Deleted => "deleted",
            EndReason::Recreated => "recreated",
            EndReason::DuplicateIdentity => "duplicate identity",
            EndReason::Unhealthy => "unhealthy",
            EndReason::DrainOverrun => "drain overrun",
        };
        self.ended = Some((now, name));
    }

    /// A leading process died.
    pub fn killed(&mut self, now: Nanos, cause: &'static str) {
        self.ended = Some((now, cause));
    }

    /// A term began; `able` since when its leader could lead.
    pub fn begun(&mut self, now: Nanos, able: Option<Nanos>) {
        if let Some((at, name)) = self.ended {
            let all_along = able.is_some_and(|since| since <= at);
            if name != "leading" && all_along {
                self.takeovers.entry(name).or_default().push(now - at);
            }
        }
        self.ended = Some((now, "leading"));
    }

    pub fn judged(&mut self, length: Nanos, report: &Report, tenures: &[Tenure]) {
        self.seeds += 1;
        self.simulated += length;
        self.changes += report.changes as u64;
        self.refused += report.refused as u64;
        let mut sorted: Vec<&Tenure> = tenures.iter().collect();
        sorted.sort_by_key(|tenure| tenure.from);
        let mut led_until = 0;
        for tenure in sorted {
            let (from, until) = (tenure.from.as_nanos(), tenure.until.as_nanos());
            if led_until > from {
                self.overlaps.push(led_until.min(until) - from);
            }
            led_until = led_until.max(until);
        }
    }

    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.simulated += other.simulated;
        self.changes += other.changes;
        self.refused += other.refused;
        self.overlaps.extend(other.overlaps);
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (what, count) in other.counts {
            *self.counts.entry(what).or_default() += count;
        }
        for (how, times) in other.takeovers {
            self.takeovers.entry(how).or_default().extend(times);
        }
    }
}
