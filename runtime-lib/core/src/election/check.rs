//! The judge of histories: it knows the guarantees, not the machine.
//!
//! Simulation and chaos runs write down what happened on one time axis (true time in simulation,
//! the host's boot clock in a chaos run) and ask for the violations. The checker shares no code
//! with the machine it judges.

use crate::id::FencingToken;
use crate::time::{Duration, Instant};

/// One leadership as it was: from the first instant its guard answered yes to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// Who led.
    pub identity: String,
    /// Under which token.
    pub token: FencingToken,
    /// When the guard became valid.
    pub from: Instant,
    /// When the guard became invalid.
    pub until: Instant,
}

/// A write that reached a guarded store, in the order in which the store decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardedWrite {
    /// When.
    pub at: Instant,
    /// The token it carried.
    pub token: FencingToken,
    /// The store took it.
    pub accepted: bool,
}

/// A span of time in which something outside the election happened to the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First instant.
    pub from: Instant,
    /// Last instant.
    pub until: Instant,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All leaderships, in any order.
    pub tenures: Vec<Tenure>,
    /// All guarded writes, in the order of the store.
    pub writes: Vec<GuardedWrite>,
    /// Up to V after each edit of the lease from outside: overlapping guards are reported, not
    /// counted as violations.
    pub edited: Vec<Span>,
    /// Times in which nobody could have been elected (outages and the takeover bound after them).
    pub excused: Vec<Span>,
    /// The whole run.
    pub run: Option<Span>,
}

/// What the run is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Longest time without a leader outside excused spans.
    pub vacancy_max: Duration,
    /// Fewest leadership changes for the run to say anything.
    pub changes_min: usize,
}

/// A broken guarantee.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// `trust-ends-first`.
    #[error(
        "two guards valid at once for {overlap:?} from {at:?}: {first} under {first_token} and {second} under {second_token}"
    )]
    TwoGuards {
        /// When the overlap began.
        at: Instant,
        /// How long it lasted.
        overlap: Duration,
        /// The earlier leader.
        first: String,
        /// Its token.
        first_token: FencingToken,
        /// The later leader.
        second: String,
        /// Its token.
        second_token: FencingToken,
    },
    /// `one-term-one-leader`.
    #[error("token {token} was given twice: to {first} and to {second}")]
    TokenRepeated {
        /// The token.
        token: FencingToken,
        /// Who had it first.
        first: String,
        /// Who had it again.
        second: String,
    },
    /// `tokens-only-grow`.
    #[error("token {later} of {identity} at {at:?} is lower than {earlier}, given before")]
    TokenShrank {
        /// When the lower token began.
        at: Instant,
        /// Who got it.
        identity: String,
        /// The higher token before.
        earlier: FencingToken,
        /// The lower token after.
        later: FencingToken,
    },
    /// `token-travels`.
    #[error("a write under {token} was accepted at {at:?} after one under {highest}")]
    WriteOutOfOrder {
        /// When.
        at: Instant,
        /// The token of the write.
        token: FencingToken,
        /// The highest token accepted before.
        highest: FencingToken,
    },
    /// Liveness: a vacancy lasted longer than the bound.
    #[error("no leader for {vacancy:?} from {at:?}, allowed are {allowed:?}")]
    NoLeader {
        /// When the vacancy began.
        at: Instant,
        /// How long it lasted.
        vacancy: Duration,
        /// The bound.
        allowed: Duration,
    },
    /// A run in which nothing happened proves nothing.
    #[error("only {found} leadership changes, at least {needed} are needed to say anything")]
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
    /// Broken guarantees; a good run has none.
    pub violations: Vec<Violation>,
    /// Leaderships after the first.
    pub changes: usize,
    /// Longest overlap inside an edited span.
    pub overlap_after_edit_max: Duration,
    /// Every time without a leader between two leaderships.
    pub vacancies: Vec<Duration>,
    /// Writes refused for a stale token.
    pub refused: usize,
}

impl History {
    /// Judges the whole history.
    pub fn check(&self, bounds: Bounds) -> Report {
        let mut tenures: Vec<&Tenure> = self.tenures.iter().collect();
        tenures.sort_by_key(|tenure| (tenure.from, tenure.token));
        let mut report = Report {
            changes: tenures.len().saturating_sub(1),
            ..Report::default()
        };
        self.check_overlaps(&tenures, &mut report);
        check_tokens(&tenures, &mut report);
        self.check_writes(&mut report);
        self.check_vacancies(&tenures, bounds.vacancy_max, &mut report);
        if report.changes < bounds.changes_min {
            let needed = bounds.changes_min;
            report.violations.push(Violation::NothingHappened {
                found: report.changes,
                needed,
            });
        }
        report
    }

    fn check_overlaps(&self, tenures: &[&Tenure], report: &mut Report) {
        let mut longest: Option<&Tenure> = None;
        for &tenure in tenures {
            if let Some(first) = longest.filter(|first| first.until > tenure.from) {
                let until = first.until.min(tenure.until);
                let overlap = until.since(tenure.from);
                if self
                    .edited
                    .iter()
                    .any(|span| span.contains(tenure.from) && until <= span.until)
                {
                    report.overlap_after_edit_max = report.overlap_after_edit_max.max(overlap);
                } else if overlap > Duration::ZERO {
                    report.violations.push(Violation::TwoGuards {
                        at: tenure.from,
                        overlap,
                        first: first.identity.clone(),
                        first_token: first.token,
                        second: tenure.identity.clone(),
                        second_token: tenure.token,
                    });
                }
            }
            if longest.is_none_or(|first| tenure.until > first.until) {
                longest = Some(tenure);
            }
        }
    }

    fn check_writes(&self, report: &mut Report) {
        let mut highest: Option<FencingToken> = None;
        for write in &self.writes {
            if !write.accepted {
                report.refused += 1;
                continue;
            }
            match highest {
                Some(highest) if write.token < highest => {
                    let (at, token) = (write.at, write.token);
                    report
                        .violations
                        .push(Violation::WriteOutOfOrder { at, token, highest });
                }
                _ => highest = Some(write.token),
            }
        }
    }

    fn check_vacancies(&self, tenures: &[&Tenure], allowed: Duration, report: &mut Report) {
        let mut led_until = self.run.map(|run| run.from);
        let end = self.run.map(|run| run.until);
        let starts = tenures
            .iter()
            .map(|tenure| (tenure.from, Some(tenure.until)));
        for (from, until) in starts.chain(end.map(|end| (end, None))) {
            if let Some(at) = led_until.filter(|at| from > *at) {
                let vacancy = from.since(at);
                let counted = self.unexcused(Span {
                    from: at,
                    until: from,
                });
                if until.is_some() {
                    report.vacancies.push(vacancy);
                }
                if counted > allowed {
                    report.violations.push(Violation::NoLeader {
                        at,
                        vacancy: counted,
                        allowed,
                    });
                }
            }
            led_until = led_until.max(until);
        }
    }

    /// The longest part of `span` that no excuse covers.
    fn unexcused(&self, span: Span) -> Duration {
        let mut excuses: Vec<Span> = self.excused.clone();
        excuses.sort_by_key(|excuse| excuse.from);
        let (mut longest, mut from) = (Duration::ZERO, span.from);
        for excuse in excuses.iter().filter(|excuse| excuse.from < span.until) {
            longest = longest.max(excuse.from.since(from));
            from = from.max(excuse.until);
        }
        longest.max(span.until.since(from))
    }
}

fn check_tokens(tenures: &[&Tenure], report: &mut Report) {
    let mut highest: Option<&Tenure> = None;
    for &tenure in tenures {
        match highest {
            Some(before) if tenure.token == before.token => {
                report.violations.push(Violation::TokenRepeated {
                    token: tenure.token,
                    first: before.identity.clone(),
                    second: tenure.identity.clone(),
                });
            }
            Some(before) if tenure.token < before.token => {
                report.violations.push(Violation::TokenShrank {
                    at: tenure.from,
                    identity: tenure.identity.clone(),
                    earlier: before.token,
                    later: tenure.token,
                });
            }
            _ => highest = Some(tenure),
        }
    }
}

impl Span {
    fn contains(self, at: Instant) -> bool {
        self.from <= at && at <= self.until
    }
}

#[cfg(test)]
mod tests;
