//! The leader's side: trust, renewal, draining, and what ends a term.

use crate::id::{FencingToken, Revision};
use crate::lease::{LeaseTiming, Versioned};
use crate::rules::Rule;
use crate::time::{Duration, Instant};

use super::requests::Sent;
use super::{Drain, Effect, Election, EndReason, Ending, Leading, Notice, Role};

/// What a record says to the leader of a term.
enum Verdict {
    Ours { attempt: u64 },
    Ended(EndReason),
}

impl Election {
    /// V under that timing; all of D with the margin switched off.
    pub(super) fn trusted(&self, timing: &LeaseTiming) -> Duration {
        if self.config.rules.has(Rule::TrustMargin) {
            timing.trusted()
        } else {
            timing.lease_duration()
        }
    }

    /// E2, E9: trust ran out.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::Leader(leading) = &self.role else {
            return;
        };
        if now >= leading.trusted_until && self.config.rules.has(Rule::E6TwoTerms) {
            self.end(EndReason::TrustExpired, true, Instant::ZERO, out);
        }
    }

    /// A claim was stored: begin the term, unless it is too late to trust it.
    pub(super) fn acquired(
        &mut self,
        state: &Versioned,
        sent: Sent,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let term = state.record.term;
        let trusted_until = self.trust_of(&sent, now);
        (self.failures, self.conflicts) = (0, 0);
        self.retry_at = Instant::ZERO;
        self.unresolved.clear();
        if self.stopping || !self.healthy {
            self.role = Role::Ending(Ending {
                term,
                uid: state.uid.clone(),
                revision: state.revision,
                release: true,
                attempts: 0,
                released: false,
                work_ended: true,
                not_before: Instant::ZERO,
            });
            return;
        }
        if now >= trusted_until {
            return; // Ours by the record, but not to be trusted: campaign() claims it anew.
        }
        let token = FencingToken::new(self.config.token_era, self.token_revision(state));
        self.role = Role::Leader(Leading {
            term,
            token,
            uid: state.uid.clone(),
            revision: state.revision,
            trusted_until,
            renew_at: self.renew_after(&sent, now),
            sent: Vec::new(),
            drain: None,
            work_ended: false,
            released_early: false,
        });
        out.push(Effect::Begin {
            term,
            token,
            trusted_until,
        });
    }

    /// E7: the revision of the acquiring write; the term only with the rule switched off.
    fn token_revision(&self, state: &Versioned) -> Revision {
        if self.config.rules.has(Rule::E7RevisionIsToken) {
            return state.revision;
        }
        Revision::new(u64::from(state.record.term.number())).unwrap_or(state.revision)
    }

    /// E2: trust counts from the send.
    pub(super) fn trust_of(&self, sent: &Sent, now: Instant) -> Instant {
        let from_send = self.config.rules.has(Rule::E2TrustFromSend);
        if from_send { sent.at } else { now }.after(self.trusted(&sent.timing))
    }

    /// I after that send; at once if it published another timing than the present one (E3), or other
    /// contents than those that must be known by now (H3).
    fn renew_after(&self, sent: &Sent, now: Instant) -> Instant {
        if sent.timing == self.config.timing && sent.edition == self.edition {
            sent.at.after(self.heartbeat())
        } else {
            now
        }
    }

    /// E3: a write that publishes a shorter duration may be stored from its send on, and then
    /// candidates wait no longer than that: trust ends accordingly, whatever was granted before.
    pub(super) fn shorten(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let trusted_until = now.after(self.trusted(&self.config.timing));
        if let Role::Leader(leading) = &mut self.role
            && trusted_until < leading.trusted_until
        {
            leading.trusted_until = trusted_until;
            out.push(Effect::Shorten { trusted_until });
        }
    }

    /// A renewal was stored.
    pub(super) fn renewed(
        &mut self,
        state: &Versioned,
        sent: &Sent,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let trusted_until = self.trust_of(sent, now);
        let renew_at = self.renew_after(sent, now);
        self.retry_at = Instant::ZERO;
        let Role::Leader(leading) = &mut self.role else {
            return;
        };
        leading.revision = state.revision;
        leading.renew_at = renew_at;
        // Attempts older than this one can no longer be stored: it replaced their revision.
        leading.sent.retain(|other| other.attempt > sent.attempt);
        extend(leading, trusted_until, out);
    }

    /// E6: what the record says ends the term at once, or confirms it.
    pub(super) fn judge(&mut self, state: Option<&Versioned>, now: Instant, out: &mut Vec<Effect>) {
        let Role::Leader(leading) = &self.role else {
            return;
        };
        match (self.verdict(leading, state), state) {
            (Verdict::Ours { attempt }, Some(state)) => self.confirm(state, attempt, now, out),
            (Verdict::Ended(reason), _) if self.config.rules.has(Rule::E6TwoTerms) => {
                self.lose(reason, out);
            }
            // E6TwoTerms switched off: an empty holder is retaken within the same term.
            (Verdict::Ended(EndReason::Emptied), Some(state)) => {
                let (uid, revision) = (state.uid.clone(), state.revision);
                if let Role::Leader(leading) = &mut self.role {
                    (leading.uid, leading.revision) = (uid, revision);
                }
            }
            _ => {}
        }
    }

    fn lose(&mut self, reason: EndReason, out: &mut Vec<Effect>) {
        if self.config.rules.has(Rule::E6EndsAtOnce) {
            let release = !self.config.rules.has(Rule::E6ReleaseOwnRevision);
            self.end(reason, release, Instant::ZERO, out);
        }
    }

    fn verdict(&self, leading: &Leading, state: Option<&Versioned>) -> Verdict {
        let Some(state) = state else {
            return Verdict::Ended(EndReason::Deleted);
        };
        let stamp = state
            .record
            .attempt
            .as_ref()
            .filter(|_| self.is_mine(state));
        match (&state.record.holder, stamp) {
            _ if state.uid != leading.uid => Verdict::Ended(EndReason::Recreated),
            (None, _) if leading.released_early => Verdict::Ours { attempt: 0 },
            (None, _) => Verdict::Ended(EndReason::Emptied),
            (Some(holder), _) if holder != self.me().as_str() => {
                Verdict::Ended(EndReason::HeldBy(holder.clone()))
            }
            (Some(_), Some(stamp)) if stamp.term == leading.term => Verdict::Ours {
                attempt: stamp.number,
            },
            (Some(_), _) => Verdict::Ended(EndReason::DuplicateIdentity),
        }
    }

    /// Still ours: take the revision, and the trust of an attempt whose answer was lost (E2).
    fn confirm(&mut self, state: &Versioned, attempt: u64, now: Instant, out: &mut Vec<Effect>) {
        let me = self.me().clone();
        let Role::Leader(leading) = &self.role else {
            return;
        };
        let adopted = leading
            .sent
            .iter()
            .find(|sent| sent.attempt == attempt)
            .copied();
        let trusted_until = adopted.map(|sent| self.trust_of(&sent, now));
        let renew_at = adopted.map(|sent| self.renew_after(&sent, now));
        // Its answer may still come: then the watch was faster, and nothing was lost.
        let lost = !self.awaits(attempt);
        let Role::Leader(leading) = &mut self.role else {
            return;
        };
        leading.revision = state.revision;
        if let (Some(until), Some(renew_at), Some(sent)) = (trusted_until, renew_at, adopted) {
            self.acked_at = Some(now); // E4
            leading.sent.retain(|other| other.attempt > sent.attempt);
            leading.renew_at = renew_at;
            if lost {
                out.push(Effect::Notice(Notice::Adopted { attempt }));
            }
            extend(leading, until, out);
            (self.failures, self.conflicts) = (0, 0);
        }
        let wish = state
            .record
            .preferred_holder
            .as_ref()
            .filter(|name| **name != me.as_str());
        if let (Some(preferred), None) = (wish, &leading.drain) {
            out.push(Effect::Notice(Notice::PreferredHolder(preferred.clone())));
        }
    }

    /// In [`Role::Ending`]: a record that is no longer ours needs no release.
    pub(super) fn judge_ending(&mut self, state: Option<&Versioned>) {
        let mine = state.is_some_and(|state| self.is_mine(state));
        let me = self.me().clone();
        let blind = !self.config.rules.has(Rule::E6ReleaseOwnRevision);
        let Role::Ending(ending) = &mut self.role else {
            return;
        };
        let own = state.filter(|state| state.uid == ending.uid);
        match own.filter(|_| mine) {
            Some(state) => ending.revision = state.revision,
            None => ending.release &= blind,
        }
        ending.released |= own
            .and_then(|state| state.record.released.as_ref())
            .is_some_and(|stamp| stamp.identity == me && stamp.term == ending.term);
    }

    /// Starts or shortens a drain; a candidate has nothing to drain.
    pub(super) fn drain(&mut self, until: Instant, steps_down: bool, out: &mut Vec<Effect>) {
        let Role::Leader(leading) = &mut self.role else {
            return;
        };
        match &mut leading.drain {
            Some(drain) if drain.until <= until => return,
            _ => leading.drain = Some(Drain { until, steps_down }),
        }
        out.push(Effect::Drain { until });
    }

    /// One turn of the leader.
    pub(super) fn lead(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let duration = self.config.timing.lease_duration();
        let Role::Leader(leading) = &self.role else {
            return;
        };
        let later = match &leading.drain {
            Some(drain) if drain.steps_down => now.after(duration),
            // Work that returned by itself: let another pod try first.
            None if leading.work_ended => now.after(self.heartbeat()),
            _ => Instant::ZERO,
        };
        let overrun = leading.drain.is_some_and(|drain| now >= drain.until);
        if leading.work_ended && !leading.released_early {
            return self.end(EndReason::Resigned, true, later, out);
        }
        if overrun {
            return self.end(EndReason::DrainOverrun, false, later, out);
        }
        if !self.healthy {
            return self.end(EndReason::Unhealthy, true, Instant::ZERO, out);
        }
        self.request_of_leader(now, out);
    }

    fn request_of_leader(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::Leader(leading) = &self.role else {
            return;
        };
        if self.request.is_some() || now < self.retry_at || leading.released_early {
            return;
        }
        let draining = leading.drain.is_some();
        if draining && !self.config.rules.has(Rule::ReleaseAfterDrain) {
            self.send_release(now, out);
            if let Role::Leader(leading) = &mut self.role {
                leading.released_early = true;
            }
        } else if self.read_due {
            self.send_read(now, out);
        } else if now >= leading.renew_at
            && (!draining || self.config.rules.has(Rule::E10RenewWhileDraining))
        {
            self.send_renewal(now, out);
        }
    }

    pub(super) fn leader_deadline(&self, leading: &Leading) -> Instant {
        let rules = self.config.rules;
        let drained = leading.drain.map_or(Instant::MAX, |drain| drain.until);
        let trusted = if rules.has(Rule::E6TwoTerms) {
            leading.trusted_until
        } else {
            Instant::MAX
        };
        let end = trusted.min(drained);
        let silent = leading.drain.is_some() && !rules.has(Rule::E10RenewWhileDraining);
        if self.request.is_some() || leading.released_early || (silent && !self.read_due) {
            return end;
        }
        let due = if self.read_due {
            Instant::ZERO
        } else {
            leading.renew_at
        };
        end.min(due.max(self.retry_at))
    }
}

fn extend(leading: &mut Leading, trusted_until: Instant, out: &mut Vec<Effect>) {
    if trusted_until > leading.trusted_until {
        leading.trusted_until = trusted_until;
        out.push(Effect::Extend { trusted_until });
    }
}
