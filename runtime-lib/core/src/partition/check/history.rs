//! The judge of ownership histories: it knows the guarantees, not the machines.
//!
//! Simulation, chaos runs and demos write down who ran which partition, from when until when and
//! under which token, on one time axis, and ask for the violations. Partitions of different layouts
//! are compared by the hashes that they have in common, so a changed count needs no special case.

use std::collections::BTreeSet;

pub use crate::election::check::Span;
use crate::id::FencingToken;
use crate::partition::{Layout, Partition};
use crate::time::{Duration, Instant};

/// One ownership as it was: from the first instant its guard answered yes to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// Who ran it: one life of one process.
    pub owner: String,
    /// The layout that the number belongs to.
    pub layout: Layout,
    /// What was run.
    pub partition: Partition,
    /// Under which token.
    pub token: FencingToken,
    /// When the guard became valid.
    pub from: Instant,
    /// When the guard became invalid: after the drain, or by a loss.
    pub until: Instant,
    /// When the work had ended, at the latest; later than `until` after a loss.
    pub ended: Instant,
}

/// A member Lease showed that a partition is no longer run by its owner (H3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Whose Lease.
    pub owner: String,
    /// The layout that it spoke about.
    pub layout: Layout,
    /// What was released.
    pub partition: Partition,
    /// When it was stored.
    pub at: Instant,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All ownerships, in any order.
    pub tenures: Vec<Tenure>,
    /// All releases that the owner itself wrote.
    pub releases: Vec<Release>,
    /// Up to V after an edit of the Leases from outside: overlapping guards are reported, not
    /// counted as violations.
    pub edited: Vec<Span>,
    /// Times in which partitions may be unowned (outages, and the bound after them).
    pub excused: Vec<Span>,
    /// The whole run: every hash must have an owner all the time, within the bound.
    pub run: Option<Span>,
}

/// What the run is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Longest time without an owner outside excused spans.
    pub unowned_max: Duration,
    /// Fewest changes of an owner for the run to say anything.
    pub changes_min: usize,
}

/// A broken guarantee.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// `one-owner`.
    #[error("two owners for {overlap:?} from {at:?}: {first} and {second}")]
    TwoOwners {
        /// When the overlap began.
        at: Instant,
        /// How long it lasted.
        overlap: Duration,
        /// The earlier one.
        first: String,
        /// The later one.
        second: String,
    },
    /// `tokens-only-grow`.
    #[error("the token did not grow at {at:?}: {second} after {first}")]
    TokenDidNotGrow {
        /// When the later one began.
        at: Instant,
        /// The earlier one.
        first: String,
        /// The later one.
        second: String,
    },
    /// `release-after-drain`.
    #[error("{owner} released {partition} at {at:?}, {early:?} before its work ended: {running}")]
    ReleasedEarly {
        /// Who.
        owner: String,
        /// What.
        partition: Partition,
        /// When.
        at: Instant,
        /// How much too early.
        early: Duration,
        /// What still ran.
        running: String,
    },
    /// Hashes without an owner.
    #[error(
        "hashes from {first_hash:016x} on were unowned for {unowned:?} from {at:?}, allowed are {allowed:?}"
    )]
    Unowned {
        /// The lowest of them.
        first_hash: u128,
        /// Since when.
        at: Instant,
        /// How long.
        unowned: Duration,
        /// The bound.
        allowed: Duration,
    },
    /// A run in which nothing happened proves nothing.
    #[error("only {found} changes of an owner, at least {needed} are needed to say anything")]
    NothingHappened {
        /// Changes in the history.
        found: usize,
        /// The bound.
        needed: usize,
    },
}

/// The judgement.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Broken guarantees; a good run has none. Each is told once, for the first hashes it concerns.
    pub violations: Vec<Violation>,
    /// Changes of an owner, counted by partition: tenures that begin after another one.
    pub changes: usize,
    /// Longest overlap inside an edited span.
    pub overlap_after_edit_max: Duration,
    /// Longest time without an owner, excused or not.
    pub unowned_max: Duration,
}

impl History {
    /// Judges the whole history.
    pub fn check(&self, bounds: Bounds) -> Report {
        let mut report = Report::default();
        let mut told = BTreeSet::new();
        let mut followers = BTreeSet::new();
        for (first_hash, tenures) in self.by_hash() {
            self.check_overlaps(&tenures, &mut told, &mut report);
            self.check_tokens(&tenures, &mut told, &mut report);
            self.check_vacancies(first_hash, &tenures, bounds.unowned_max, &mut report);
            followers.extend(tenures.iter().skip(1).copied());
        }
        self.check_releases(&mut report);
        report.changes = followers.len();
        if report.changes < bounds.changes_min {
            let (found, needed) = (report.changes, bounds.changes_min);
            let violation = Violation::NothingHappened { found, needed };
            report.violations.push(violation);
        }
        report
    }

    /// The tenures of each range of hashes that no partition of any layout cuts, in order.
    fn by_hash(&self) -> Vec<(u128, Vec<usize>)> {
        let ranges = self.tenures.iter().map(range);
        let mut edges: Vec<u128> = ranges.flat_map(|(first, end)| [first, end]).collect();
        if self.run.is_some() {
            edges.extend([0, 1 << 64]);
        }
        edges.sort_unstable();
        edges.dedup();
        let mut cells: Vec<(u128, Vec<usize>)> = edges
            .iter()
            .take(edges.len().saturating_sub(1))
            .map(|first| (*first, Vec::new()))
            .collect();
        let mut order: Vec<usize> = (0..self.tenures.len()).collect();
        order.sort_by_key(|index| (self.tenures[*index].from, self.tenures[*index].token));
        for index in order {
            let (first, end) = range(&self.tenures[index]);
            let from = edges.partition_point(|edge| *edge < first);
            let until = edges.partition_point(|edge| *edge < end);
            for (_, tenures) in &mut cells[from..until] {
                tenures.push(index);
            }
        }
        cells
    }

    fn check_overlaps(
        &self,
        tenures: &[usize],
        told: &mut BTreeSet<(usize, usize)>,
        report: &mut Report,
    ) {
        let mut longest: Option<usize> = None;
        for &index in tenures {
            let tenure = &self.tenures[index];
            let before = longest.filter(|before| self.tenures[*before].until > tenure.from);
            if let Some(before) = before {
                let first = &self.tenures[before];
                let until = first.until.min(tenure.until);
                let overlap = until.since(tenure.from);
                let edited = self
                    .edited
                    .iter()
                    .any(|span| span.from <= tenure.from && until <= span.until);
                if edited {
                    report.overlap_after_edit_max = report.overlap_after_edit_max.max(overlap);
                } else if overlap > Duration::ZERO && told.insert((before, index)) {
                    report.violations.push(Violation::TwoOwners {
                        at: tenure.from,
                        overlap,
                        first: name(first),
                        second: name(tenure),
                    });
                }
            }
            let is_longest = |before: usize| tenure.until > self.tenures[before].until;
            if longest.is_none_or(is_longest) {
                longest = Some(index);
            }
        }
    }

    fn check_tokens(
        &self,
        tenures: &[usize],
        told: &mut BTreeSet<(usize, usize)>,
        report: &mut Report,
    ) {
        let mut highest: Option<usize> = None;
        for &index in tenures {
            let tenure = &self.tenures[index];
            match highest {
                Some(before) if tenure.token <= self.tenures[before].token => {
                    // The other way round than an overlap, to be told beside it.
                    if told.insert((index, before)) {
                        report.violations.push(Violation::TokenDidNotGrow {
                            at: tenure.from,
                            first: name(&self.tenures[before]),
                            second: name(tenure),
                        });
                    }
                }
                _ => highest = Some(index),
            }
        }
    }

    fn check_vacancies(
        &self,
        first_hash: u128,
        tenures: &[usize],
        allowed: Duration,
        report: &mut Report,
    ) {
        let Some(run) = self.run else { return };
        let mut owned_until = run.from;
        let ends = [(run.until, run.until)];
        let spans = tenures.iter().map(|index| {
            let tenure = &self.tenures[*index];
            (tenure.from, tenure.until)
        });
        for (from, until) in spans.chain(ends) {
            if from > owned_until {
                let vacancy = Span {
                    from: owned_until,
                    until: from,
                };
                report.unowned_max = report.unowned_max.max(from.since(owned_until));
                let unowned = self.unexcused(vacancy);
                if unowned > allowed {
                    report.violations.push(Violation::Unowned {
                        first_hash,
                        at: owned_until,
                        unowned,
                        allowed,
                    });
                }
            }
            owned_until = owned_until.max(until);
        }
    }

    /// The longest part of `span` that no excuse covers.
    fn unexcused(&self, span: Span) -> Duration {
        let mut excuses = self.excused.clone();
        excuses.sort_by_key(|excuse| excuse.from);
        let (mut longest, mut from) = (Duration::ZERO, span.from);
        for excuse in excuses.iter().filter(|excuse| excuse.from < span.until) {
            longest = longest.max(excuse.from.since(from));
            from = from.max(excuse.until);
        }
        longest.max(span.until.since(from))
    }

    fn check_releases(&self, report: &mut Report) {
        for release in &self.releases {
            let running = self.tenures.iter().find(|tenure| {
                let mut overlapping = release.layout.overlapping(release.partition, tenure.layout);
                tenure.owner == release.owner
                    && tenure.from <= release.at
                    && release.at < tenure.ended
                    && overlapping.any(|partition| partition == tenure.partition)
            });
            if let Some(running) = running {
                report.violations.push(Violation::ReleasedEarly {
                    owner: release.owner.clone(),
                    partition: release.partition,
                    at: release.at,
                    early: running.ended.since(release.at),
                    running: name(running),
                });
            }
        }
    }
}

fn range(tenure: &Tenure) -> (u128, u128) {
    let range = tenure.layout.range(tenure.partition);
    (range.first().into(), range.until())
}

fn name(tenure: &Tenure) -> String {
    let Tenure {
        owner,
        layout,
        partition,
        token,
        ..
    } = tenure;
    format!(
        "{owner} with {partition} of {} under {token}",
        layout.count()
    )
}

#[cfg(test)]
mod tests;
