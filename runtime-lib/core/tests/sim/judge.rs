//! Named checks while a run goes on, and the judgement of its history at the end.

use std::fmt;

use leasehold_core::election::check::{Bounds, GuardedWrite, History, Span, Tenure, Violation};
use leasehold_core::election::{EndReason, Input, Notice, Purpose, Write, WriteOutcome};
use leasehold_core::id::{FencingToken, pod_uid};
use leasehold_core::lease::{LeaseTiming, Versioned};
use leasehold_core::time::{Duration, Instant};

use crate::clock::{Nanos, SEC};
use crate::scenario::{Kind, Mix};
use crate::store::Stored;
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
    edited: Vec<Span>,
    last_edit: Option<Nanos>,
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
            self.last_edit = Some(at);
        }
    }

    fn edited_until(&self) -> Option<Nanos> {
        self.last_edit.map(|at| at + self.trusted_max)
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

fn span(from: Nanos, until: Nanos) -> Span {
    Span {
        from: Instant::from_nanos(from),
        until: Instant::from_nanos(until),
    }
}

impl World {
    pub fn found(&mut self, check: Check, detail: String) {
        if self.mix.kind == Kind::ClientGo {
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

    pub fn disturb(&mut self, p: usize) {
        if let Some(draining) = &mut self.processes[p].draining {
            draining.disturbed = true;
        }
    }

    /// Remembers what an input shows; returns the revision if it can end a term.
    pub fn shown_by(&mut self, p: usize, input: &Input) -> Option<u64> {
        let now = self.now;
        let (state, by_watch): (&Versioned, bool) = match input {
            Input::Watched(state) => (state, true),
            Input::Read(Some(state)) => (state, false),
            Input::Listed {
                state: Some(state), ..
            } => (state, false),
            Input::WriteDone {
                outcome: WriteOutcome::Done(state),
                ..
            } => (state, false),
            Input::Retime(timing) => {
                // The first renewal under longer attempts is tried once only.
                self.disturb(p);
                self.processes[p].timing = *timing;
                return None;
            }
            _ => return None,
        };
        let revision = state.revision.number();
        let process = &mut self.processes[p];
        process.remember(Some(state), by_watch, now);
        let own = process.own_revision;
        // A record that is its own again after it was lost does not go on with the same term.
        if self.store.keeper_of(revision) == Some(p) && !self.store.lost_between(p, own, revision) {
            process.own_revision = own.max(revision);
            return None;
        }
        Some(revision)
    }

    pub fn check_still_leading(&mut self, p: usize, revision: u64) {
        let process = &self.processes[p];
        if revision > process.own_revision && process.machine.leads() {
            let detail = format!("p{p} at r{}, shown r{revision}", process.own_revision);
            self.found(Check::LedOn, detail);
        }
    }

    pub fn check_begin(&mut self, p: usize, token: FencingToken) {
        self.stats.begun(self.now, self.processes[p].able_since);
        let edited = self.judge.edited_until().filter(|until| self.now < *until);
        let claim = self.store.entry(token.revision().number());
        let waited = claim.is_some_and(|entry| self.processes[p].claim_waited(entry.attempt));
        if let (Some(until), true) = (edited, waited) {
            let exempt = span(self.now, until);
            self.judge.edited.push(exempt);
        }
        for index in 0..self.living.len() {
            let q = self.living[index];
            let other = &self.processes[q];
            if q == p || (edited.is_some() && waited) {
                continue;
            }
            if other.guarded(self.now) {
                self.found(Check::TwoGuards, format!("p{q} and then p{p}"));
            } else if other.work.running && !other.work.tainted {
                self.found(Check::StopBudget, format!("work of p{q}, successor p{p}"));
            }
        }
    }

    pub fn check_end(&mut self, p: usize, reason: &EndReason) {
        let process = &mut self.processes[p];
        match reason {
            EndReason::TrustExpired => {
                let cut = process.draining.filter(|draining| !draining.disturbed);
                if let (Some(draining), true) = (cut, process.work.running) {
                    process.drain_cut = Some(process.clock.truth(draining.until));
                }
            }
            EndReason::HeldBy(_)
            | EndReason::Emptied
            | EndReason::Deleted
            | EndReason::Recreated
            | EndReason::DuplicateIdentity => {
                let own = process.own_revision;
                if !self.store.lost_after(p, own) {
                    let detail = format!("p{p} at r{own}: {reason:?}");
                    self.found(Check::EndedByOldNews, detail);
                }
            }
            EndReason::Resigned | EndReason::Unhealthy | EndReason::DrainOverrun => {}
        }
    }

    /// A write of `p` was stored over `before`.
    pub fn check_stored(&mut self, p: usize, write: &Write, before: Option<&Stored>) {
        let keeper = before.and_then(|stored| stored.keeper);
        let drains = keeper.filter(|q| {
            let cut = self.processes[*q].drain_cut;
            self.processes[*q].alive && cut.is_some_and(|until| self.now < until)
        });
        if let (Some(q), true) = (drains, write.purpose != Purpose::Renew) {
            let detail = format!("p{q}, by a {:?} of p{p}", write.purpose);
            self.found(Check::HolderChangedWhileDraining, detail);
        }
        match write.purpose {
            Purpose::Release => {
                if keeper != Some(p) {
                    self.found(Check::WipedAnother, format!("p{p} over {keeper:?}"));
                }
                if self.processes[p].alive && self.processes[p].work.running {
                    self.found(Check::ReleasedBeforeDrain, format!("p{p}"));
                }
            }
            Purpose::Claim => {
                let Some(q) = keeper.filter(|q| *q != p) else {
                    return;
                };
                let (mine, former) = (&self.processes[p], &self.processes[q]);
                let pods = [mine, former].map(|process| pod_uid(process.identity.as_str()));
                let same_pod = mine.may_reclaim && pods[0] == pods[1];
                let at_once = !mine.claim_waited(write.attempt);
                if same_pod && former.alive && at_once {
                    self.found(Check::ReclaimedBesideFormer, format!("p{p} from p{q}"));
                }
            }
            Purpose::Renew => {}
        }
    }

    pub fn notice(&mut self, p: usize, notice: &Notice) {
        let name = match notice {
            Notice::DuplicateIdentity => {
                self.processes[p].duplicate_noticed = self.knobs.notices;
                "duplicate identity noticed"
            }
            Notice::UnknownOutcome { .. } => "write with unknown outcome",
            Notice::Conflict { .. } => "conflict",
            Notice::NotReleased { .. } => "not released",
            Notice::Adopted { .. } => "unknown write adopted",
            Notice::PreferredHolder(_) => "other holder preferred",
            Notice::RetryIn(_) => "retry",
        };
        self.stats.count(name);
    }

    /// E8: two processes of one identity: when one leads for long, the other has noticed.
    pub fn check_duplicate_noticed(&mut self, p: usize) {
        let Some(guard) = self.processes[p].guard else {
            return;
        };
        // Long enough for a watch that was down to be back.
        let enough = 2 * self.mix.lease_duration_max() + 20 * SEC;
        let Some(long) = self.now.checked_sub(enough) else {
            return;
        };
        for index in 0..self.living.len() {
            let q = self.living[index];
            let other = &self.processes[q];
            let is_twin = q != p && other.identity == self.processes[p].identity;
            let able = other.able_since.is_some_and(|since| since < long);
            if is_twin && able && guard.from < long && !other.duplicate_noticed {
                self.found(Check::DuplicateUnnoticed, format!("p{p} leads beside p{q}"));
            }
        }
    }

    pub fn count_request(&mut self, p: usize) {
        self.stats.count("request");
        // Two requests for each gap between attempts, in ten seconds.
        let gap = self.mix.shortest(LeaseTiming::retry_gap);
        let most = (10 * SEC / gap * 2 + 10) as usize;
        let now = self.now;
        let requests = &mut self.processes[p].requests;
        requests.push_back(now);
        if requests.len() > most {
            let first = requests.pop_front().unwrap_or_default();
            if now - first < 10 * SEC {
                self.found(Check::BusyLoop, format!("p{p}: {most} requests in 10 s"));
            }
        }
    }

    pub fn count_wake(&mut self, p: usize) {
        let now = self.now;
        let wakes = &mut self.processes[p].wakes;
        wakes.push_back(now);
        if wakes.len() > 400 {
            let first = wakes.pop_front().unwrap_or_default();
            if now - first < 10 * SEC {
                self.found(Check::BusyLoop, format!("p{p}: 400 timers in 10 s"));
            }
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
