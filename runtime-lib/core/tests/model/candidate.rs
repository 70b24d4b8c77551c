//! One candidate of a small world: the real machine, and what surrounds it.

use std::collections::VecDeque;

use leasehold_core::election::{Config, Election, Input};
use leasehold_core::id::{FencingToken, Identity};
use leasehold_core::lease::LeaseTiming;
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};

use crate::network::{News, Sending, Wire};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Candidate {
    pub(crate) machine: Election,
    pub(crate) wire: Wire,
    /// A write that its sender has given up and that may still be stored.
    pub(crate) late: Option<Sending>,
    pub(crate) news: VecDeque<News>,
    pub(crate) guard: Option<Guard>,
    pub(crate) work: Work,
    pub(crate) paused: bool,
    /// The newest revision with another holder that it was shown.
    pub(crate) held_seen: u64,
    /// The same when it claimed.
    pub(crate) held_at_claim: u64,
    pub(crate) incarnation: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Guard {
    pub(crate) token: FencingToken,
    pub(crate) until: Instant,
    /// The newest revision with another holder that its claimer had been shown.
    pub(crate) held_seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    None,
    Runs,
    /// Asked to end, or cut off.
    Ends,
}

impl Candidate {
    pub(crate) fn new(index: usize, incarnation: u8, rules: Rules) -> Self {
        let name = format!(
            "{}{incarnation}",
            char::from(b'a' + u8::try_from(index).unwrap_or(0))
        );
        let millis = Duration::from_millis;
        let timing = LeaseTiming::new(millis(3000), millis(1000), millis(700), millis(100));
        let config = Config {
            identity: Identity::new(name).unwrap_or_else(|error| unreachable!("{error}")),
            token_era: 0,
            timing: timing.unwrap_or_else(|error| unreachable!("{error}")),
            may_reclaim: false,
            first_attempt: 1,
            rules,
        };
        Self {
            machine: Election::new(config),
            wire: Wire::Idle,
            late: None,
            news: VecDeque::new(),
            guard: None,
            work: Work::None,
            paused: false,
            held_seen: 0,
            held_at_claim: 0,
            incarnation,
        }
    }

    /// Time passes only at a price while something is under way to it or from it.
    pub(crate) fn waits_for_a_message(&self) -> bool {
        let to_the_store = matches!(self.wire, Wire::Reading | Wire::Writing(_));
        let from_the_store = !self.news.is_empty() || matches!(self.wire, Wire::Answered(_));
        to_the_store || (!self.paused && (from_the_store || self.work == Work::Ends))
    }

    pub(crate) fn hear(&mut self, input: &Input) {
        let state = match input {
            Input::Watched(state) => Some(state),
            Input::Listed { state, .. } | Input::Read(state) => state.as_ref(),
            _ => None,
        };
        let held = state.filter(|state| state.record.holder.is_some());
        self.held_seen = held.map_or(self.held_seen, |state| {
            self.held_seen.max(state.revision.number())
        });
    }
}
