//! Moves that no honest world would make.

use std::sync::Arc;

use leasehold_core::election::{Config, Input, WriteOutcome};
use leasehold_core::id::{Identity, LeaseUid, Revision, Term};
use leasehold_core::lease::{
    AttemptStamp, Contents, LeaseRecord, LeaseTiming, ReleaseStamp, Versioned,
};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::shadow::Shadow;

const ME: &str = "orders-0_11_0000000a";
const FIRST_ATTEMPT: u64 = 5;

pub(crate) fn config(rules: Rules) -> Config {
    Config {
        identity: me(),
        token_era: 2,
        timing: LeaseTiming::DEFAULT,
        may_reclaim: true,
        first_attempt: FIRST_ATTEMPT,
        rules,
    }
}

pub(crate) fn me() -> Identity {
    identity(ME)
}

fn identity(text: &str) -> Identity {
    Identity::new(text).unwrap_or_else(|error| unreachable!("{error}"))
}

/// One move: time passes, then something happens.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// A timer at the next deadline.
    Wait,
    /// Anything else, some time later.
    Input { later: Duration, what: Box<What> },
}

/// Inputs, told without what only the run can know.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Plain(Input),
    /// A list that was asked for some time ago.
    Listed {
        ago: Duration,
        state: Option<Versioned>,
    },
    /// The last write, or one before it, ended.
    Answer {
        back: u64,
        outcome: Outcome,
    },
    /// A state that carries the record of an own write, told in one of three ways.
    Own {
        back: u64,
        revision: Revision,
        how: u8,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Done(Revision),
    Conflict,
    Refused(Option<Duration>),
    Unknown,
}

impl Move {
    pub(crate) fn input(&self, shadow: &Shadow, now: Instant) -> Input {
        let Self::Input { what, .. } = self else {
            return Input::Timer;
        };
        match what.as_ref() {
            What::Plain(input) => input.clone(),
            What::Listed { ago, state } => Input::Listed {
                asked: Instant::ZERO.after(now.since(Instant::ZERO.after(*ago))),
                state: state.clone(),
            },
            What::Answer { back, outcome } => {
                let Some(write) = shadow.write(*back) else {
                    return Input::Timer;
                };
                let outcome = match outcome {
                    Outcome::Done(revision) => WriteOutcome::Done(stored(*revision, &write.record)),
                    Outcome::Conflict => WriteOutcome::Conflict,
                    Outcome::Refused(retry_after) => WriteOutcome::Refused {
                        retry_after: *retry_after,
                    },
                    Outcome::Unknown => WriteOutcome::Unknown,
                };
                Input::WriteDone {
                    attempt: write.attempt,
                    outcome,
                }
            }
            What::Own {
                back,
                revision,
                how,
            } => {
                let Some(write) = shadow.write(*back) else {
                    return Input::Timer;
                };
                let state = stored(*revision, &write.record);
                match how {
                    0 => Input::Watched(state),
                    1 => Input::Read(Some(state)),
                    _ => Input::Listed {
                        asked: now,
                        state: Some(state),
                    },
                }
            }
        }
    }
}

fn stored(revision: Revision, record: &LeaseRecord) -> Versioned {
    Versioned {
        uid: LeaseUid::new("u"),
        revision,
        record: record.clone(),
    }
}

/// Up to `longest` moves.
pub(crate) fn moves(longest: usize) -> BoxedStrategy<Vec<Move>> {
    let what = prop_oneof![
        12 => answer(),
        4 => (0..3_u64, revision(), 0..3_u8).prop_map(|(back, revision, how)| What::Own { back, revision, how }),
        2 => (duration(), option::of(state())).prop_map(|(ago, state)| What::Listed { ago, state }),
        8 => input().prop_map(What::Plain),
    ];
    let input = (duration(), what.boxed()).prop_map(|(later, what)| Move::Input {
        later,
        what: Box::new(what),
    });
    vec(prop_oneof![2 => Just(Move::Wait), 3 => input], 1..longest).boxed()
}

fn answer() -> BoxedStrategy<What> {
    let outcome = prop_oneof![
        4 => revision().prop_map(Outcome::Done),
        1 => Just(Outcome::Conflict),
        1 => option::of(duration()).prop_map(Outcome::Refused),
        2 => Just(Outcome::Unknown),
    ];
    let back = prop_oneof![5 => Just(0_u64), 1 => 1..3_u64];
    (back, outcome)
        .prop_map(|(back, outcome)| What::Answer { back, outcome })
        .boxed()
}

fn input() -> BoxedStrategy<Input> {
    let timing = prop_oneof![
        Just(LeaseTiming::FAST),
        Just(LeaseTiming::DEFAULT),
        Just(LeaseTiming::CALM),
    ];
    prop_oneof![
        1 => state().prop_map(Input::Watched),
        1 => Just(Input::WatchedGone),
        2 => option::of(state()).prop_map(Input::Read),
        1 => option::of(duration()).prop_map(|retry_after| Input::ReadFailed { retry_after }),
        1 => prop_oneof![Just(true), Just(true), Just(false)].prop_map(Input::Health),
        3 => Just(Input::WorkEnded),
        3 => timing.prop_map(Input::Retime),
        3 => proptest::bool::ANY.prop_map(|at_once| Input::Contents {
            contents: Contents::Member(Arc::default()),
            at_once,
        }),
        1 => term().prop_map(Input::TermFloor),
        2 => duration().prop_map(|drain| Input::StepDown { drain }),
        1 => prop_oneof![9 => Just(Input::Timer), 1 => duration().prop_map(|drain| Input::Shutdown { drain })],
    ].boxed()
}

fn duration() -> BoxedStrategy<Duration> {
    prop_oneof![
        4 => (0..100_u64).prop_map(Duration::from_millis),
        2 => (0..20_000_u64).prop_map(Duration::from_millis),
        1 => Just(Duration::ZERO),
        1 => (0..100_000_u64).prop_map(Duration::from_secs),
    ]
    .boxed()
}

fn revision() -> impl Strategy<Value = Revision> {
    (1..60_u64).prop_map(|n| Revision::new(n).unwrap_or_else(|error| unreachable!("{error}")))
}

fn term() -> BoxedStrategy<Term> {
    prop_oneof![9 => (0..6_u32).prop_map(Term::new), 1 => Just(Term::MAX)].boxed()
}

pub(crate) fn state() -> BoxedStrategy<Versioned> {
    let name = || prop_oneof![Just(ME), Just("b"), Just("orders-0_11_0000000b")];
    let attempt = (name(), term(), 0..12_u64).prop_map(|(name, term, number)| AttemptStamp {
        identity: identity(name),
        term,
        number,
    });
    let released = (name(), term()).prop_map(|(name, term)| ReleaseStamp {
        identity: identity(name),
        term,
    });
    let record = (
        option::of(name().prop_map(str::to_owned)),
        option::of(duration()),
        term(),
        option::of(attempt),
        option::of(released),
        option::weighted(0.1, name().prop_map(str::to_owned)),
    );
    let uid = prop_oneof![9 => Just("u"), 1 => Just("v")];
    (uid, revision(), record)
        .prop_map(|(uid, revision, record)| {
            let (holder, duration, term, attempt, released, preferred_holder) = record;
            Versioned {
                uid: LeaseUid::new(uid),
                revision,
                record: LeaseRecord {
                    holder,
                    duration,
                    term,
                    attempt,
                    released,
                    preferred_holder,
                    ..LeaseRecord::default()
                },
            }
        })
        .boxed()
}
