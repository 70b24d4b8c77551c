//! Requests and their answers: at most one under way, three outcomes kept apart.

use crate::backoff::Backoff;
use crate::id::Term;
use crate::lease::{AttemptStamp, LeaseRecord, LeaseTiming, ReleaseStamp, Versioned};
use crate::rules::Rule;
use crate::time::{Duration, Instant};

use super::{Effect, Election, Notice, RELEASE_ATTEMPTS_MAX, Role};
use crate::election::{Purpose, Target, Write, WriteOutcome};

/// Unknown claims kept; an older one that is stored after all is claimed anew instead.
const UNRESOLVED_MAX: usize = 64;

/// The request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Read { asked: Instant },
    Write { sent: Sent, purpose: Purpose },
}

/// A write that was sent: what E2 needs to know of it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) attempt: u64,
    /// The instant before it was sent.
    pub(super) at: Instant,
    /// The timing that it publishes.
    pub(super) timing: LeaseTiming,
    /// Which contents it published.
    pub(super) edition: u64,
}

impl Election {
    pub(super) fn send_read(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.request = Some(Request::Read { asked: now });
        out.push(Effect::Read);
    }

    pub(super) fn send_claim(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let target = match self.seen.state() {
            Some(state) => Target::Exactly {
                uid: state.uid.clone(),
                revision: state.revision,
            },
            None => Target::Absent,
        };
        // E7: every term has a higher number than any seen, also after a deletion.
        let record = self.held_record(self.seen.term_max().next());
        self.send(Purpose::Claim, target, record, now, out);
    }

    pub(super) fn send_renewal(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::Leader(leading) = &self.role else {
            return;
        };
        let target = Target::Exactly {
            uid: leading.uid.clone(),
            revision: leading.revision,
        };
        let mut record = self.held_record(leading.term);
        record.preferred_holder = self
            .seen
            .state()
            .and_then(|state| state.record.preferred_holder.clone());
        self.shorten(now, out);
        let sent = self.send(Purpose::Renew, target, record, now, out);
        if let Role::Leader(leading) = &mut self.role {
            leading.sent.push(sent);
        }
    }

    /// E6: a release replaces the revision of our own last write and nothing else.
    pub(super) fn send_release(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let (term, uid, revision) = match &self.role {
            Role::Leader(leading) => (leading.term, &leading.uid, leading.revision),
            Role::Ending(ending) => (ending.term, &ending.uid, ending.revision),
            Role::Candidate { .. } | Role::Stopped => return,
        };
        let own = Target::Exactly {
            uid: uid.clone(),
            revision,
        };
        let newest = self.seen.state().map(|state| Target::Exactly {
            uid: state.uid.clone(),
            revision: state.revision,
        });
        let blind = !self.config.rules.has(Rule::E6ReleaseOwnRevision);
        let target = newest.filter(|_| blind).unwrap_or(own);
        let mut record = self.held_record(term);
        record.holder = None;
        record.duration = Some(Duration::from_secs(1)); // as client-go does; zero is invalid
        record.released = Some(ReleaseStamp {
            identity: self.me().clone(),
            term,
        });
        self.send(Purpose::Release, target, record, now, out);
        if let Role::Ending(ending) = &mut self.role {
            ending.attempts += 1;
        }
    }

    fn held_record(&self, term: Term) -> LeaseRecord {
        let number = self.next_attempt;
        LeaseRecord {
            holder: Some(self.me().as_str().to_owned()),
            duration: Some(self.config.timing.lease_duration()),
            term,
            attempt: Some(AttemptStamp {
                identity: self.me().clone(),
                term,
                number,
            }),
            released: None,
            preferred_holder: None, // a claim has honoured the wish
            contents: self.contents.clone(),
        }
    }

    fn send(
        &mut self,
        purpose: Purpose,
        target: Target,
        record: LeaseRecord,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Sent {
        let attempt = self.next_attempt;
        self.next_attempt += 1;
        let sent = Sent {
            attempt,
            at: now,
            timing: self.config.timing,
            edition: self.edition,
        };
        self.request = Some(Request::Write { sent, purpose });
        out.push(Effect::Write(Write {
            attempt,
            target,
            purpose,
            record,
        }));
        sent
    }

    /// E4: a watch event that is not newer than what is known changes nothing.
    pub(super) fn watched(&mut self, state: &Versioned, now: Instant, out: &mut Vec<Effect>) {
        let old = self
            .seen
            .state()
            .is_some_and(|seen| state.revision <= seen.revision);
        if old && self.config.rules.has(Rule::E4OldNewsIgnored) {
            return;
        }
        self.absorb(Some(state), now, out);
    }

    /// E4: a list replaces what is believed, also with a lower revision, unless it was asked for
    /// before an own write was acknowledged.
    pub(super) fn listed(
        &mut self,
        asked: Instant,
        state: Option<&Versioned>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let races = self.acked_at.is_some_and(|acked_at| asked <= acked_at)
            || matches!(self.request, Some(Request::Write { .. }));
        match state {
            Some(state) if races => self.watched(state, now, out),
            None if races => self.doubt(now),
            state => {
                self.read_due &= asked <= self.doubted_at;
                self.absorb(state, now, out);
            }
        }
    }

    pub(super) fn read(&mut self, state: Option<&Versioned>, now: Instant, out: &mut Vec<Effect>) {
        let Some(Request::Read { asked }) = self.request else {
            return;
        };
        self.request = None;
        self.read_due = false;
        self.failures = 0;
        if self.is_overtaken(state, asked) {
            return match state {
                Some(state) => self.watched(state, now, out),
                None => self.doubt(now),
            };
        }
        let known = self
            .seen
            .state()
            .map(|seen| (seen.uid.clone(), seen.revision));
        self.absorb(state, now, out);
        let unchanged = state.map(|state| (state.uid.clone(), state.revision)) == known;
        self.verified |= unchanged;
        if self.stopping {
            self.unresolved.clear();
        }
        if let Role::Leader(leading) = &mut self.role {
            // A conflict brought us here: renew on the revision just read.
            leading.renew_at = leading.renew_at.min(now);
        }
    }

    /// E4: this answer may be from before what was shown since it was asked for: a late write of
    /// ours that was stored after all, or a newer revision.
    fn is_overtaken(&self, state: Option<&Versioned>, asked: Instant) -> bool {
        let own = self.acked_at.is_some_and(|acked_at| asked < acked_at);
        let newer = self
            .seen
            .state()
            .is_some_and(|seen| state.is_none_or(|state| state.revision < seen.revision));
        own || (newer && self.seen.since().is_some_and(|since| asked < since))
    }

    pub(super) fn read_failed(
        &mut self,
        retry_after: Option<Duration>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if !matches!(self.request, Some(Request::Read { .. })) {
            return;
        }
        self.request = None;
        self.verified = true; // one try for each revision: the wait itself decides
        if self.stopping {
            self.unresolved.clear();
        }
        self.failed(retry_after, now, out);
    }

    pub(super) fn write_done(
        &mut self,
        attempt: u64,
        outcome: WriteOutcome,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Some(Request::Write { sent, purpose }) = self.request else {
            return;
        };
        if sent.attempt != attempt {
            return;
        }
        self.request = None;
        match outcome {
            WriteOutcome::Done(state) => self.stored(&state, sent, purpose, now, out),
            WriteOutcome::Conflict => {
                self.forget(attempt);
                out.push(Effect::Notice(Notice::Conflict { purpose }));
                self.conflict(purpose, now, out);
            }
            WriteOutcome::Refused { retry_after } => {
                self.forget(attempt);
                self.failed(retry_after, now, out);
            }
            WriteOutcome::Unknown => {
                out.push(Effect::Notice(Notice::UnknownOutcome { purpose }));
                self.unknown(sent, purpose, now, out);
            }
        }
        self.give_up_release(out);
    }

    fn stored(
        &mut self,
        state: &Versioned,
        sent: Sent,
        purpose: Purpose,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        self.acked_at = Some(now);
        (self.failures, self.conflicts) = (0, 0);
        // The watch may have overtaken this answer: then what it showed is the newest state.
        let overtaken = self
            .seen
            .state()
            .filter(|seen| seen.revision > state.revision)
            .cloned();
        if overtaken.is_none() && self.seen.note(Some(state), now) {
            self.verified = false;
        }
        match (purpose, &mut self.role) {
            (Purpose::Claim, Role::Candidate { .. }) => self.acquired(state, sent, now, out),
            (_, Role::Leader(leading)) if leading.released_early => {
                leading.revision = state.revision;
            }
            (_, Role::Leader(_)) => self.renewed(state, &sent, now, out),
            (Purpose::Release, Role::Ending(ending)) => {
                let (term, not_before) = (ending.term, ending.not_before);
                ending.release = false;
                out.push(Effect::Released { term });
                self.settle(not_before, now, out);
            }
            // A renewal of a term that ended meanwhile: the record is still ours to release.
            (_, Role::Ending(ending)) => ending.revision = state.revision,
            (_, Role::Candidate { .. } | Role::Stopped) => {}
        }
        if overtaken.is_some() {
            self.conclude(overtaken.as_ref(), now, out); // E6: at once
        }
    }

    fn conflict(&mut self, purpose: Purpose, now: Instant, out: &mut Vec<Effect>) {
        match (purpose, &mut self.role) {
            // E6: the revision is not ours any more; nothing else may be written.
            (Purpose::Release, Role::Ending(ending)) => {
                ending.release = false;
                if !ending.released {
                    out.push(Effect::Notice(Notice::NotReleased { term: ending.term }));
                }
                self.doubt(now);
            }
            // Read before the next claim: what is known has been replaced.
            (_, Role::Ending(_) | Role::Stopped) => self.doubt(now),
            (_, Role::Candidate { .. } | Role::Leader(_)) => {
                self.seen.restart_wait(now); // E3
                self.doubt(now);
                self.conflicts = self.conflicts.saturating_add(1);
                if self.conflicts > 1 {
                    self.retry_at = now.after(self.config.timing.retry_gap());
                }
            }
        }
    }

    fn unknown(&mut self, sent: Sent, purpose: Purpose, now: Instant, out: &mut Vec<Effect>) {
        let trusts_unknown = !self.config.rules.has(Rule::E2UnknownIsNoTrust);
        let until = sent.at.after(self.trusted(&sent.timing));
        if let (true, Role::Leader(leading)) = (trusts_unknown, &mut self.role) {
            leading.trusted_until = leading.trusted_until.max(until);
            out.push(Effect::Extend {
                trusted_until: leading.trusted_until,
            });
        }
        if purpose == Purpose::Claim {
            if self.unresolved.len() == UNRESOLVED_MAX {
                self.unresolved.remove(0);
            }
            self.unresolved.push(sent);
            self.doubt(now);
        }
        self.failed(None, now, out);
    }

    /// Is the answer to this attempt still to come?
    pub(super) fn awaits(&self, attempt: u64) -> bool {
        matches!(&self.request, Some(Request::Write { sent, .. }) if sent.attempt == attempt)
    }

    /// A definite failure: that attempt can no longer be stored.
    fn forget(&mut self, attempt: u64) {
        if let Role::Leader(leading) = &mut self.role {
            leading.sent.retain(|sent| sent.attempt != attempt);
        }
    }

    /// Sets the next try: a leader's after R, anybody else's after a growing delay.
    fn failed(&mut self, retry_after: Option<Duration>, now: Instant, out: &mut Vec<Effect>) {
        self.failures = self.failures.saturating_add(1);
        let gap = self.config.timing.retry_gap();
        let backoff = Backoff {
            first: gap,
            ceiling: self.heartbeat(),
        };
        let own = match &self.role {
            Role::Leader(_) | Role::Ending(_) => gap,
            Role::Candidate { .. } | Role::Stopped => backoff.delay(self.failures, self.spread()),
        };
        let delay = retry_after.map_or(own, |wish| wish.clamp(own, self.heartbeat().max(own)));
        self.retry_at = now.after(delay);
        out.push(Effect::Notice(Notice::RetryIn(delay)));
    }

    /// `release-after-drain`, the other half: a release that cannot be written is left to lapse.
    fn give_up_release(&mut self, out: &mut Vec<Effect>) {
        let Role::Ending(ending) = &mut self.role else {
            return;
        };
        if ending.release && ending.attempts >= RELEASE_ATTEMPTS_MAX {
            ending.release = false;
            out.push(Effect::Notice(Notice::NotReleased { term: ending.term }));
        }
    }
}
