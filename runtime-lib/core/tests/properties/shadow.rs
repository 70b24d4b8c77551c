//! Follows what a machine says, and objects.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::election::{Effect, Input, Notice, Purpose, Target, Write, WriteOutcome};
use leasehold_core::id::{LeaseUid, Revision, Term};
use leasehold_core::lease::{LeaseTiming, Versioned};
use leasehold_core::time::{Duration, Instant};
use proptest::prelude::*;

use crate::chaos::me;

/// What was said so far.
#[derive(Default)]
pub(crate) struct Shadow {
    under_way: Option<Request>,
    writes: Vec<Write>,
    /// Send + V of each own write.
    trust: BTreeMap<u64, Instant>,
    /// Own writes that a store has acknowledged or shown.
    proved: BTreeSet<u64>,
    /// Every revision that a store has acknowledged or shown.
    shown: BTreeSet<(LeaseUid, Revision)>,
    leading: Option<Term>,
    trusted_until: Option<Instant>,
    work_runs: bool,
    stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Read,
    Write(u64),
}

impl Shadow {
    /// The last own write, or one before it.
    pub(crate) fn write(&self, back: u64) -> Option<&Write> {
        self.writes.iter().rev().nth(usize::try_from(back).ok()?)
    }

    /// Until when the guard is valid.
    pub(crate) fn trusted_until(&self) -> Option<Instant> {
        self.trusted_until
    }

    pub(crate) fn follow(
        &mut self,
        input: &Input,
        effects: &[Effect],
        now: Instant,
    ) -> Result<(), TestCaseError> {
        self.hear(input);
        for effect in effects {
            self.check(effect, now).map_err(|error| {
                TestCaseError::fail(format!("{error} after {input:?} at {now:?}: {effects:?}"))
            })?;
        }
        Ok(())
    }

    fn hear(&mut self, input: &Input) {
        match input {
            Input::Watched(state) => self.see(state),
            Input::Listed { state, .. } => self.see_any(state.as_ref()),
            Input::Read(state) => {
                self.answered(Request::Read);
                self.see_any(state.as_ref());
            }
            Input::ReadFailed { .. } => self.answered(Request::Read),
            Input::WriteDone { attempt, outcome } => {
                self.answered(Request::Write(*attempt));
                if let WriteOutcome::Done(state) = outcome {
                    self.see(state);
                }
            }
            Input::WorkEnded => self.work_runs = false,
            _ => {}
        }
    }

    fn answered(&mut self, request: Request) {
        if self.under_way == Some(request) {
            self.under_way = None;
        }
    }

    fn see_any(&mut self, state: Option<&Versioned>) {
        if let Some(state) = state {
            self.see(state);
        }
    }

    fn see(&mut self, state: &Versioned) {
        self.shown.insert((state.uid.clone(), state.revision));
        let me = me();
        let stamp = state.record.attempt.as_ref();
        self.proved.extend(
            stamp
                .filter(|stamp| stamp.identity == me)
                .map(|stamp| stamp.number),
        );
    }

    fn check(&mut self, effect: &Effect, now: Instant) -> Result<(), TestCaseError> {
        let quiet = matches!(effect, Effect::Notice(_));
        prop_assert!(!self.stopped || quiet, "an effect after the stop");
        match effect {
            Effect::Write(write) => self.check_write(write, now)?,
            Effect::Read => self.ask(Request::Read)?,
            Effect::Begin {
                term,
                trusted_until,
                ..
            } => {
                prop_assert!(self.leading.is_none(), "a term begins within a term");
                prop_assert!(!self.work_runs, "a term begins beside the work of another");
                prop_assert!(*trusted_until > now, "a term begins without trust");
                self.leading = Some(*term);
                self.work_runs = true;
                self.trust(*trusted_until)?;
            }
            Effect::Extend { trusted_until } => {
                prop_assert!(
                    Some(*trusted_until) > self.trusted_until,
                    "extended to less"
                );
                self.trust(*trusted_until)?;
            }
            Effect::Shorten { trusted_until } => {
                prop_assert!(self.leading.is_some(), "trust without a term");
                prop_assert!(
                    Some(*trusted_until) < self.trusted_until,
                    "shortened to more"
                );
                self.trusted_until = Some(*trusted_until);
            }
            Effect::Drain { until } => {
                prop_assert!(self.leading.is_some(), "a drain without a term");
                prop_assert!(*until >= now, "a drain that is over");
            }
            Effect::End { term, .. } => {
                prop_assert_eq!(self.leading.take(), Some(*term), "another term ends");
                self.trusted_until = None;
            }
            Effect::Released { .. } => {
                prop_assert!(
                    self.leading.is_none() && !self.work_runs,
                    "released while at work"
                );
            }
            Effect::Stopped => {
                prop_assert!(
                    self.leading.is_none() && !self.work_runs,
                    "stopped while at work"
                );
                prop_assert!(self.under_way.is_none(), "stopped with a request under way");
                self.stopped = true;
            }
            Effect::Notice(Notice::RetryIn(delay)) => {
                prop_assert!(
                    *delay <= Duration::from_secs(20),
                    "a delay longer than a heartbeat"
                );
                prop_assert!(*delay >= Duration::from_millis(150), "a busy loop");
            }
            Effect::Notice(_) => {}
        }
        Ok(())
    }

    fn check_write(&mut self, write: &Write, now: Instant) -> Result<(), TestCaseError> {
        self.ask(Request::Write(write.attempt))?;
        let leads = self.leading.is_some();
        let fits = match write.purpose {
            Purpose::Claim | Purpose::Release => !leads && !self.work_runs,
            Purpose::Renew => leads && self.trusted_until > Some(now),
            Purpose::Publish | Purpose::Fence => false,
        };
        prop_assert!(
            fits,
            "out of place: leads {leads}, work runs {}",
            self.work_runs
        );
        match &write.target {
            Target::Absent => {
                prop_assert_eq!(write.purpose, Purpose::Claim, "only a claim creates");
            }
            Target::Exactly { uid, revision } => prop_assert!(
                self.shown.contains(&(uid.clone(), *revision)),
                "replaces a revision that nobody has shown"
            ),
        }
        let new = self
            .writes
            .iter()
            .all(|other| other.attempt < write.attempt);
        prop_assert!(new, "attempts are numbered upwards");
        let published = write.record.duration.unwrap_or_default();
        let timings = [LeaseTiming::FAST, LeaseTiming::DEFAULT, LeaseTiming::CALM];
        if let Some(timing) = timings
            .iter()
            .find(|timing| timing.lease_duration() == published)
        {
            let until = now.after(timing.trusted());
            self.trust.insert(write.attempt, until);
            let within = !leads || self.trusted_until <= Some(until);
            prop_assert!(within, "trusted longer than this write would allow (E3)");
        } else {
            prop_assert_eq!(write.purpose, Purpose::Release);
        }
        self.writes.push(write.clone());
        Ok(())
    }

    fn ask(&mut self, request: Request) -> Result<(), TestCaseError> {
        let before = self.under_way.replace(request);
        prop_assert!(before.is_none(), "{before:?} is under way");
        Ok(())
    }

    /// E2: trust comes from own writes that are known to be stored, counted from their send.
    fn trust(&mut self, trusted_until: Instant) -> Result<(), TestCaseError> {
        let proved = self
            .proved
            .iter()
            .filter_map(|attempt| self.trust.get(attempt));
        prop_assert!(
            proved.max() >= Some(&trusted_until),
            "trusted longer than any stored write allows"
        );
        prop_assert!(self.leading.is_some(), "trust without a term");
        self.trusted_until = Some(trusted_until);
        Ok(())
    }
}
