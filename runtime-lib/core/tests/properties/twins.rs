//! The same decisions, told in the plainest way, and compared on random input.

use leasehold_core::lease::{LeaseTiming, Observation, Vacancy, Vacant, Versioned};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::cases;
use crate::chaos::state;

proptest! {
    #![proptest_config(cases(5000))]

    /// `trust-ends-first` in floating point: V/(1-r) + S <= D/(1+r), and I + 2(A + A/4) <= V.
    #[test]
    fn the_inequality_is_what_it_says(
        duration in prop_oneof![(0..40_u64), (0..4000_u64)],
        millis in prop_oneof![4 => Just(0_u64), 1 => 0..1000_u64],
        heartbeat in part(), attempt in part(), stop in part(),
    ) {
        let duration = Duration::from_millis(duration * 1000 + millis);
        let found = LeaseTiming::new(duration, heartbeat, attempt, stop);
        let [d, i, a, s] = [duration, heartbeat, attempt, stop].map(|part| part.as_secs_f64());
        let largest = 0.99 * (d / 1.01 - s);
        let tenths = largest * 10.0;
        prop_assume!((tenths - tenths.round()).abs() > 1e-6, "too close for floating point");
        let trusted = tenths.floor() / 10.0;
        let needed = i + 2.0 * (a + a / 4.0);
        prop_assume!((needed - trusted).abs() > 1e-6);
        let whole = millis == 0 && (1.0..=3600.0).contains(&d);
        let bounded = [i, a, s].iter().all(|part| (0.1..=d).contains(part));
        let accepted = whole && bounded && trusted > 0.0 && needed <= trusted;
        prop_assert_eq!(found.is_ok(), accepted, "{:?}", found);
        if let Ok(timing) = found {
            prop_assert!((timing.trusted().as_secs_f64() - trusted).abs() < 1e-6);
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_vacancy_is_what_the_whole_history_says(
        news in vec((0..9_000_u64, option::weighted(0.9, option::weighted(0.85, state()))), 1..12),
    ) {
        let own = Duration::from_secs(15);
        let mut seen = Observation::new(Rules::ALL);
        let mut history = History::default();
        let mut now = Instant::ZERO.after(Duration::from_secs(1));
        for (later, piece) in news {
            now = now.after(Duration::from_millis(later));
            if let Some(state) = piece {
                seen.note(state.as_ref(), now);
                history.add(now, state);
            } else {
                seen.restart_wait(now);
                history.restart(now);
            }
            prop_assert_eq!(seen.vacancy(own), history.vacancy(own), "{:?}", history);
        }
    }
}

fn part() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..8_000_u64).prop_map(Duration::from_millis),
        2 => (0..400_000_000_u64).prop_map(Duration::from_micros),
        2 => (0..2_000_000_000_u64).prop_map(Duration::from_nanos),
        1 => Just(Duration::MAX),
    ]
}

/// Everything that was seen, kept as it came.
#[derive(Debug, Default)]
struct History {
    states: Vec<(Instant, Option<Versioned>)>,
    /// Conflicts: when, and whose wait they restarted.
    restarts: Vec<(usize, Instant)>,
}

impl History {
    fn add(&mut self, now: Instant, state: Option<Versioned>) {
        let name = |state: &Option<Versioned>| state.as_ref().map(|s| (s.uid.clone(), s.revision));
        let repeated = self
            .states
            .last()
            .is_some_and(|(_, last)| name(last) == name(&state));
        if !repeated {
            self.states.push((now, state));
        }
    }

    fn restart(&mut self, now: Instant) {
        if let Some(witness) = self.witness() {
            self.restarts.push((witness, now));
        }
    }

    fn vacancy(&self, own: Duration) -> Option<Vacancy> {
        let (since, newest) = self.states.last()?;
        let held = newest
            .as_ref()
            .is_some_and(|state| state.record.holder.is_some());
        let Some(witness) = self.witness() else {
            let why = newest.as_ref().map_or(Vacant::Absent, |_| Vacant::Released);
            return Some(Vacancy { from: *since, why });
        };
        let restarted = self.restarts.iter().filter(|(of, _)| *of == witness);
        let start = restarted
            .map(|(_, at)| *at)
            .max()
            .unwrap_or(self.states[witness].0);
        let record = self.states[witness].1.as_ref().map(|state| &state.record);
        let published = record
            .and_then(|record| record.duration)
            .unwrap_or_default();
        Some(Vacancy {
            from: start.after(published.max(own)),
            why: if held {
                Vacant::Lapsed
            } else {
                Vacant::Emptied
            },
        })
    }

    /// The state whose duration must pass: the last one with a holder, unless its own end was
    /// seen; else the first empty one of which nobody knows who emptied it (E5).
    fn witness(&self) -> Option<usize> {
        let state = |n: usize| self.states[n].1.as_ref();
        let holds = |n: &usize| state(*n).is_some_and(|s| s.record.holder.is_some());
        let unexplained = |n: &usize| {
            state(*n).is_some_and(|s| s.record.holder.is_none() && !s.record.is_released())
        };
        let all = 0..self.states.len();
        let mut witness = all
            .clone()
            .rev()
            .find(holds)
            .or(all.clone().find(unexplained))?;
        while let Some(end) = (witness + 1..all.end).find(|n| ends(state(witness), state(*n))) {
            witness = (end + 1..all.end).find(unexplained)?;
        }
        Some(witness)
    }
}

/// Does the second state say that the holder of the first one gave the lease back?
fn ends(held: Option<&Versioned>, later: Option<&Versioned>) -> bool {
    let (Some(held), Some(later)) = (held, later) else {
        return false;
    };
    let record = &later.record;
    let stamped = record
        .released
        .as_ref()
        .is_some_and(|stamp| stamp.term == record.term);
    let by_a_peer =
        !record.is_stamped() && (record.term > held.record.term || !held.record.is_stamped());
    held.uid == later.uid && record.holder.is_none() && (stamped || by_a_peer)
}
