//! Named checks while a run goes on, and the judgement of its history at the end.

use std::fmt;

use leasehold_core::election::check::{Bounds, GuardedWrite, History, Span, Tenure, Violation};
use leasehold_core::id::FencingToken;
use leasehold_core::lease::LeaseTiming;
use leasehold_core::time::{Duration, Instant};

use crate::clock::Nanos;
use crate::scenario::{Kind, Mix};
use crate::world::World;

/// What a run is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    TwoGuards,
    TokenRepeated,
    TokenShrank,
    WriteOutOfOrder,
    NoLeader,
    ReplacedUnseen,
    EndedByOldNews,
    LedOn,
    RegainedWithinTerm,
    WipedAnother,
    ReclaimedBesideFormer,
    PolledAfterGuard,
    HolderChangedWhileDraining,
    ReleasedBeforeDrain,
    StopBudget,
    BusyLoop,
    DuplicateUnnoticed,
    RestlessCalm,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TwoGuards => "trust-ends-first: two guards were valid at once",
            Self::TokenRepeated => "one-term-one-leader: a token was given twice",
            Self::TokenShrank => "tokens-only-grow: a later term got a lower token",
            Self::WriteOutOfOrder => "token-travels: a guarded write was accepted out of order",
            Self::NoLeader => "liveness: nobody led although somebody could",
            Self::ReplacedUnseen => "E1: a write replaced another life or revision",
            Self::EndedByOldNews => "E4: a term was ended by old news",
            Self::LedOn => "E6: a leader led on after it saw its end",
            Self::RegainedWithinTerm => "E6: lost and regained within one term",
            Self::WipedAnother => "E6: a release wiped another holder's record",
            Self::ReclaimedBesideFormer => "E8: reclaimed while the former process lives",
            Self::PolledAfterGuard => "E9: work was polled after the guard ended",
            Self::HolderChangedWhileDraining => "E10: holder unchanged while draining",
            Self::ReleasedBeforeDrain => "release-after-drain: released while work ran",
            Self::StopBudget => "trust-ends-first: work within its stop budget met a successor",
            Self::BusyLoop => "rate: requests or steps without a pause",
            Self::DuplicateUnnoticed => "E8: a duplicate identity went unnoticed",
            Self::RestlessCalm => "liveness: leadership changed although nothing happened",
        })
    }
}

#[derive(Clone, Debug)]
pub struct Found {
    pub at: Nanos,
    pub check: Check,
    pub detail: String,
}

/// What the judge writes down.
#[derive(Debug, Default)]
pub struct Judge {
    pub found: Vec<Found>,
    pub tenures: Vec<Tenure>,
    writes: Vec<GuardedWrite>,
    pub edited: Vec<Span>,
    /// Edits that put a term in question.
    edits: Vec<Nanos>,
    /// Times at which the record changed: each restarts every wait.
    pub changes: Vec<Nanos>,
    /// When some process could lead: from, until.
    able: Vec<(Nanos, Nanos)>,
    pub calm_from: Option<Nanos>,
    trusted_max: Nanos,
    vacancy_max: Nanos,
}

impl Judge {
    pub fn new(mix: &Mix) -> Self {
        let longest = |part: fn(&LeaseTiming) -> Duration| mix.longest(part);
        let (heartbeat, attempt) = (
            longest(LeaseTiming::heartbeat),
            longest(LeaseTiming::attempt_timeout),
        );
        let lease = mix.lease_duration_max();
        Self {
            // V on the slowest clock, and the instant itself.
            trusted_max: longest(LeaseTiming::trusted) * 102 / 100 + 1,
            // A silent watch is checked, then D passes on a slow clock, then some attempts fail.
            vacancy_max: heartbeat + 2 * attempt + lease * 102 / 100 + 4 * (attempt + heartbeat),
            ..Self::default()
        }
    }

    pub fn write(&mut self, at: Nanos, token: FencingToken, accepted: bool) {
        self.writes.push(GuardedWrite {
            at: Instant::from_nanos(at),
            token,
            accepted,
        });
    }

    pub fn edit(&mut self, at: Nanos, forges: bool) {
        self.changes.push(at);
        if forges {
            self.edits.push(at);
        }
    }

    pub fn edited_until(&self) -> Option<Nanos> {
        self.edits.last().map(|at| at + self.trusted_max)
    }

    /// The longest part of a vacancy in which one process could lead and the record stood still.
    fn idle(&self, from: Nanos, until: Nanos) -> Nanos {
        let mut longest = 0;
        for &(able_from, able_until) in &self.able {
            let (start, end) = (able_from.max(from), able_until.min(until));
            if end <= start || end - start <= longest {
                continue;
            }
            let first = self.changes.partition_point(|at| *at <= start);
            let mut since = start;
            for &at in self.changes[first..].iter().take_while(|at| **at < end) {
                longest = longest.max(at - since);
                since = at;
            }
            longest = longest.max(end - since);
        }
        longest
    }

    /// Vacancies that the takeover bound does not excuse are left to the checker of histories.
    fn excuses(&self, end: Nanos) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut tenures: Vec<&Tenure> = self.tenures.iter().collect();
        tenures.sort_by_key(|tenure| tenure.from);
        let mut led_until = 0;
        let starts = tenures
            .iter()
            .map(|tenure| (tenure.from.as_nanos(), tenure.until.as_nanos()));
        for (from, until) in starts.chain([(end, end)]) {
            if from > led_until && self.idle(led_until, from) <= self.vacancy_max {
                spans.push(span(led_until, from));
            }
            led_until = led_until.max(until);
        }
        spans
    }

    /// After a deletion from outside, two claims may be stored one after the other and answered
    /// the other way round.
    fn is_answer_after_edit(&self, violation: &Violation) -> bool {
        let Violation::TokenShrank { at, .. } = violation else {
            return false;
        };
        let spans = &mut self.edited.iter();
        spans.any(|span| span.from <= *at && *at <= span.until)
    }

    pub fn history(&self, end: Nanos) -> History {
        History {
            tenures: self.tenures.clone(),
            writes: self.writes.clone(),
            edited: self.edited.clone(),
            excused: self.excuses(end),
            run: Some(span(0, end)),
        }
    }
}

pub fn span(from: Nanos, until: Nanos) -> Span {
    Span {
        from: Instant::from_nanos(from),
        until: Instant::from_nanos(until),
    }
}

impl World {
    pub fn found(&mut self, check: Check, detail: String) {
        if self.mix.kind != Kind::Ours {
            return;
        }
        self.say(9, check as u64, || format!("VIOLATION {check}: {detail}"));
        self.judge.found.push(Found {
            at: self.now,
            check,
            detail,
        });
    }

    /// Notes whether `p` could lead from now on.
    pub fn review(&mut self, p: usize) {
        let able = self.processes[p].is_able() && self.api.is_well(self.now);
        let process = &mut self.processes[p];
        match (process.able_since, able) {
            (None, true) => process.able_since = Some(self.now),
            (Some(since), false) => {
                self.judge.able.push((since, self.now));
                process.able_since = None;
            }
            _ => {}
        }
    }

    pub fn review_all(&mut self) {
        for p in self.living.clone() {
            self.review(p);
        }
    }

    pub fn close_tenure(&mut self, p: usize) {
        let Some(guard) = self.processes[p].guard else {
            return;
        };
        self.judge.tenures.push(Tenure {
            identity: format!("p{p}"),
            token: guard.token,
            from: Instant::from_nanos(guard.from),
            until: Instant::from_nanos(guard.until.min(self.now)),
        });
    }

    /// Terms in the order in which they began, as process and tenure.
    fn terms(&self) -> Vec<(usize, &Tenure)> {
        let number = |tenure: &Tenure| tenure.identity[1..].parse().unwrap_or(usize::MAX);
        let tenures = self.judge.tenures.iter();
        let mut terms: Vec<_> = tenures.map(|tenure| (number(tenure), tenure)).collect();
        terms.sort_by_key(|(_, tenure)| tenure.from);
        terms
    }

    /// Who led after whom.
    pub fn handovers(&self) -> Vec<(usize, usize)> {
        let terms = self.terms();
        terms
            .windows(2)
            .map(|pair| (pair[0].0, pair[1].0))
            .collect()
    }

    /// Who still led when somebody else began, though nobody had edited the record before.
    pub fn outlasting(&self) -> Vec<usize> {
        let terms = self.terms();
        let edited = |at: Instant| {
            let at = at.as_nanos();
            let mut edits = self.judge.edits.iter();
            edits.any(|edit| (*edit..*edit + self.judge.trusted_max).contains(&at))
        };
        let mut found = Vec::new();
        for (index, (p, tenure)) in terms.iter().enumerate() {
            let mut later = terms[index + 1..].iter();
            if later.any(|(_, other)| other.from < tenure.until && !edited(other.from)) {
                found.push(*p);
            }
        }
        found
    }

    /// The end of the run: everything is closed and judged.
    pub fn finish(&mut self) {
        for p in self.living.clone() {
            self.close_tenure(p);
            if let Some(since) = self.processes[p].able_since.take() {
                self.judge.able.push((since, self.now));
            }
        }
        let report = self.judge.history(self.now).check(Bounds {
            vacancy_max: Duration::from_nanos(self.judge.vacancy_max),
            changes_min: 0,
        });
        self.stats.judged(self.now, &report, &self.judge.tenures);
        for violation in &report.violations {
            if self.judge.is_answer_after_edit(violation) {
                self.stats
                    .count("terms announced out of order after an edit");
                continue;
            }
            let check = match violation {
                Violation::TwoGuards { .. } => Check::TwoGuards,
                Violation::TokenRepeated { .. } => Check::TokenRepeated,
                Violation::TokenShrank { .. } => Check::TokenShrank,
                Violation::WriteOutOfOrder { .. } => Check::WriteOutOfOrder,
                Violation::NoLeader { .. } | Violation::NothingHappened { .. } => Check::NoLeader,
            };
            if self.judge.found.iter().all(|found| found.check != check) {
                self.found(check, violation.to_string());
            }
        }
        self.check_calm();
    }

    pub fn check_calm(&mut self) {
        let Some(calm) = self.judge.calm_from else {
            return;
        };
        let settled = Instant::from_nanos(calm + 2 * self.judge.vacancy_max);
        let end = Instant::from_nanos(self.now);
        let mut restless = self
            .judge
            .tenures
            .iter()
            .filter(|tenure| tenure.from > settled);
        let led = |tenure: &&Tenure| tenure.from <= settled && tenure.until >= end;
        if let Some(tenure) = restless.next() {
            let detail = format!("{tenure:?} began after {settled:?}");
            self.found(Check::RestlessCalm, detail);
        } else if !self.judge.tenures.iter().any(|tenure| led(&tenure)) {
            self.found(Check::RestlessCalm, "nobody led to the end".to_owned());
        }
    }
}
