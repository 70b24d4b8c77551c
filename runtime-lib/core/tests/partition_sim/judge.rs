//! Named checks, and what the judge writes down: tokens by hashes, and hashes without an owner.

use std::fmt;

use leasehold_core::id::Revision;
use leasehold_core::lease::Contents;

use crate::clock::Nanos;
use crate::world::World;

/// What a run is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    OneOwner,
    TokenOrder,
    StaleWrite,
    ReleasedWhileRunning,
    StopBudget,
    Regained,
    BadTable,
    TooManyMoves,
    Unbalanced,
    NotSettled,
    Restless,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneOwner => "one-owner: two works may act on the same hashes",
            Self::TokenOrder => "tokens-only-grow: a later owner has no higher token",
            Self::StaleWrite => "H9: a write was accepted that followed from an outdated read",
            Self::ReleasedWhileRunning => "release-after-drain: shown as released while work runs",
            Self::StopBudget => "trust-ends-first: work within its stop budget met a successor",
            Self::Regained => "E6: trust was regained within one incarnation",
            Self::BadTable => "H2: a table contradicts itself or the one before",
            Self::TooManyMoves => "minimal-moves: more owners changed than had to",
            Self::Unbalanced => "spread: members of equal weight own numbers further apart than 1",
            Self::NotSettled => "termination: not every partition runs at its owner",
            Self::Restless => "quiet-when-settled: a write that is no renewal",
        })
    }
}

#[derive(Clone, Debug)]
pub struct Found {
    pub at: Nanos,
    pub check: Check,
    pub detail: String,
}

/// The newest owner of some hashes.
#[derive(Clone, Debug)]
struct Mark {
    range: (u128, u128),
    epoch: Revision,
    pod: usize,
}

/// One hash that is followed from owner to owner.
#[derive(Clone, Copy, Debug)]
struct Sample {
    hash: u128,
    /// Since when it is unowned, and how its last owner ended.
    vacant: Option<(Nanos, &'static str)>,
}

/// What the judge writes down.
#[derive(Debug)]
pub struct Judge {
    pub found: Vec<Found>,
    pub requests: u64,
    pub calm_from: Option<Nanos>,
    /// From here on only renewals may be written.
    pub settled_from: Option<Nanos>,
    pub renewals: u64,
    /// The newest contents of the assignment Lease, for edits that put an older one back.
    pub published: Vec<Contents>,
    /// The epoch of the newest publish.
    pub newest: Option<Revision>,
    marks: Vec<Mark>,
    samples: Vec<Sample>,
}

impl Default for Judge {
    fn default() -> Self {
        let samples = (0..64_u128).map(|index| Sample {
            // Spread evenly, and on no edge of a partition.
            hash: (index << 58) + 0x0123_4567_89ab_cdef,
            vacant: None,
        });
        Self {
            found: Vec::new(),
            requests: 0,
            calm_from: None,
            settled_from: None,
            renewals: 0,
            published: Vec::new(),
            newest: None,
            marks: Vec::new(),
            samples: samples.collect(),
        }
    }
}

impl Judge {
    pub fn has(&self, check: Check) -> bool {
        self.found.iter().any(|found| found.check == check)
    }

    /// Notes a new owner of these hashes; says what is wrong with its token.
    pub fn mark(&mut self, range: (u128, u128), epoch: Revision, pod: usize) -> Option<String> {
        let before = self.marks.iter().find(|mark| {
            let same = mark.pod == pod && mark.epoch == epoch;
            overlap(mark.range, range) && mark.epoch >= epoch && !same
        });
        let before = before.map(|mark| format!("p{} did under {}", mark.pod, mark.epoch));
        let covered = |mark: &Mark| range.0 <= mark.range.0 && mark.range.1 <= range.1;
        self.marks.retain(|mark| !covered(mark));
        self.marks.push(Mark { range, epoch, pod });
        before
    }
}

/// Do these hashes have any in common?
pub fn overlap(one: (u128, u128), other: (u128, u128)) -> bool {
    one.0 < other.1 && other.0 < one.1
}

impl World {
    pub fn found(&mut self, check: Check, detail: String) {
        self.say(20, check as u64, || format!("VIOLATION {check}: {detail}"));
        self.judge.found.push(Found {
            at: self.now,
            check,
            detail,
        });
    }

    /// These hashes have no owner any more.
    pub fn vacate(&mut self, range: (u128, u128), how: &'static str) {
        for sample in &mut self.judge.samples {
            if range.0 <= sample.hash && sample.hash < range.1 && sample.vacant.is_none() {
                sample.vacant = Some((self.now, how));
            }
        }
    }

    /// These hashes have an owner again.
    pub fn occupy(&mut self, range: (u128, u128)) {
        for sample in &mut self.judge.samples {
            if range.0 <= sample.hash
                && sample.hash < range.1
                && let Some((since, how)) = sample.vacant.take()
            {
                self.stats
                    .unowned
                    .entry(how)
                    .or_default()
                    .push(self.now - since);
            }
        }
    }
}
