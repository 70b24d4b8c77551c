//! Handoffs that take longer than they should: said once, then each time the delay has doubled.

use std::collections::BTreeMap;

use leasehold_core::partition::Slot;
use leasehold_core::time::{Duration, Instant};

/// What takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Delay {
    /// The work here was asked to finish.
    Draining,
    /// The partition is ours, and its former owner has not released it.
    Waiting,
}

/// Everything that goes on, since when, and how often it was said that it takes long.
#[derive(Default)]
pub(super) struct Late {
    going_on: BTreeMap<(Delay, Slot), (Instant, u32)>,
}

impl Late {
    /// Of this kind, exactly these go on, each since then at the latest.
    pub(super) fn note(&mut self, kind: Delay, present: &BTreeMap<Slot, Instant>) {
        self.going_on
            .retain(|(of, slot), _| *of != kind || present.contains_key(slot));
        for (slot, since) in present {
            self.going_on.entry((kind, *slot)).or_insert((*since, 0));
        }
    }

    /// When to look again, if `limit` is long.
    pub(super) fn next(&self, limit: Duration) -> Option<Instant> {
        let all = self.going_on.values();
        all.map(|(since, said)| due(*since, limit, *said)).min()
    }

    /// What is to be said now, with how long it has taken.
    pub(super) fn take_due(
        &mut self,
        limit: Duration,
        now: Instant,
    ) -> Vec<(Delay, Slot, Duration)> {
        let mut found = Vec::new();
        for ((kind, slot), (since, said)) in &mut self.going_on {
            if now >= due(*since, limit, *said) {
                *said += 1;
                found.push((*kind, *slot, now.since(*since)));
            }
        }
        found
    }
}

fn due(since: Instant, limit: Duration, said: u32) -> Instant {
    // No limit is shorter than this, so that nobody asks all the time.
    let limit = limit.max(Duration::from_secs(1));
    since.after(limit.saturating_mul(1 << said.min(20)))
}

#[cfg(test)]
mod tests {
    use leasehold_core::partition::{HashId, Layout, Partition};

    use super::*;

    #[test]
    fn a_delay_is_said_when_it_begins_to_be_long_and_each_time_it_has_doubled() {
        let slot = Slot {
            layout: Layout::new(1, HashId::CsHash1, 8).unwrap(),
            partition: Partition::new(3),
        };
        let at = |seconds| Instant::ZERO.after(Duration::from_secs(seconds));
        let limit = Duration::from_secs(10);
        let mut late = Late::default();
        assert_eq!(late.next(limit), None);
        let present = BTreeMap::from([(slot, at(5))]);
        late.note(Delay::Waiting, &present);
        let mut said = Vec::new();
        for second in 0..100 {
            let present = BTreeMap::from([(slot, at(second))]); // it keeps the first instant
            late.note(Delay::Waiting, &present);
            let due = late.take_due(limit, at(second));
            said.extend(due.into_iter().map(|(_, _, delay)| delay.as_secs()));
        }
        assert_eq!(said, [10, 20, 40, 80]);
        late.note(Delay::Draining, &BTreeMap::new());
        assert!(late.next(limit).is_some(), "another kind");
        late.note(Delay::Waiting, &BTreeMap::new());
        assert_eq!(late.next(limit), None);
    }
}
