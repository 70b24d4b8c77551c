//! The candidate's side: when a claim is allowed, and what an unknown claim turned out to be.

use crate::id::{is_stranger, pod_uid};
use crate::lease::{Vacancy, Vacant, Versioned};
use crate::time::{Duration, Instant};

use super::{Effect, Election, Notice, Role};

/// Claims are spread over this long, so that candidates do not all write at once (E5).
const CLAIM_SPREAD_MICROS: u64 = 50_000;

impl Election {
    /// E2: the record carries the stamp of a claim whose outcome was unknown: it was stored.
    pub(super) fn adopt(&mut self, state: Option<&Versioned>, now: Instant, out: &mut Vec<Effect>) {
        let Some(state) = state.filter(|state| self.is_mine(state)) else {
            return;
        };
        let number = state.record.attempt.as_ref().map(|stamp| stamp.number);
        let claim = self
            .unresolved
            .iter()
            .find(|sent| Some(sent.attempt) == number)
            .copied();
        if let Some(sent) = claim {
            self.acked_at = Some(now); // E4
            out.push(Effect::Notice(Notice::Adopted {
                attempt: sent.attempt,
            }));
            // The token is the first revision that showed the stamp: this one.
            self.acquired(state, sent, now, out);
        }
    }

    /// From when on a claim is allowed, and why.
    pub(super) fn claim_from(&self) -> Option<Vacancy> {
        let Role::Candidate { not_before } = self.role else {
            return None;
        };
        let mut vacancy = self.seen.vacancy(self.config.timing.lease_duration())?;
        let state = self.seen.state();
        if state.is_some_and(|state| self.is_mine(state) || self.may_reclaim(state)) {
            // Nobody else can act under this record: an ended term of ours (E6), or our pod's
            // former process, which has ended (E8). A holder from before a deletion may (E5):
            // a late claim of ours can be stored in between.
            let own = self.config.timing.lease_duration();
            let former = self.seen.former_life(own).unwrap_or_default();
            vacancy = Vacancy {
                from: self.seen.since()?.max(former),
                why: Vacant::Released,
            };
        } else {
            let micros = self.spread() % (1 + CLAIM_SPREAD_MICROS);
            vacancy.from = vacancy.from.after(Duration::from_micros(micros));
            if self.others_are_preferred(state) {
                vacancy.from = vacancy.from.after(self.heartbeat());
            }
        }
        vacancy.from = vacancy.from.max(not_before);
        Some(vacancy)
    }

    fn may_reclaim(&self, state: &Versioned) -> bool {
        let Some(mine) = pod_uid(self.me().as_str()) else {
            return false;
        };
        let holder = state.record.holder.as_deref().unwrap_or_default();
        // Written by that process itself, and not put there by somebody else.
        let stamp = state.record.attempt.as_ref();
        let signed = stamp.is_some_and(|stamp| stamp.identity.as_str() == holder)
            && state.record.is_stamped();
        // A stranger never had the proof: it may be another process of this pod that lives.
        let former = pod_uid(holder) == Some(mine) && !is_stranger(holder);
        self.config.may_reclaim && signed && former && holder != self.me().as_str()
    }

    /// Somebody outside wishes another holder: it may claim first, but not for ever.
    fn others_are_preferred(&self, state: Option<&Versioned>) -> bool {
        let wish = state.and_then(|state| state.record.preferred_holder.as_deref());
        wish.is_some_and(|name| name != self.me().as_str())
    }

    /// When a holder that fell silent is read once, in case only the watch died.
    fn verify_at(&self) -> Option<Instant> {
        let held = self
            .seen
            .state()
            .is_some_and(|state| state.record.holder.is_some());
        if self.verified || !held {
            return None;
        }
        let timing = &self.config.timing;
        let spread = timing
            .retry_gap()
            .mul_f64(self.spread() as f64 / u64::MAX as f64);
        let quiet = timing.heartbeat() + timing.attempt_timeout() + timing.retry_gap() + spread;
        Some(self.seen.since()?.after(quiet))
    }

    /// One turn of the candidate.
    pub(super) fn campaign(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if self.request.is_some() {
            return;
        }
        if self.stopping {
            // A claim that may have been stored is looked up once, to give it back.
            if self.unresolved.is_empty() {
                self.role = Role::Stopped;
                out.push(Effect::Stopped);
            } else {
                self.send_read(now, out);
            }
            return;
        }
        if now < self.retry_at {
            return;
        }
        let verify = self.verify_at().is_some_and(|at| now >= at);
        let claim = self.healthy && self.claim_from().is_some_and(|vacancy| now >= vacancy.from);
        if self.read_due || (verify && !claim) {
            self.send_read(now, out);
        } else if claim {
            self.send_claim(now, out);
        }
    }

    pub(super) fn candidate_deadline(&self) -> Option<Instant> {
        if self.request.is_some() {
            return None;
        }
        if self.read_due {
            return Some(self.retry_at);
        }
        let claim = self
            .claim_from()
            .filter(|_| self.healthy)
            .map(|vacancy| vacancy.from);
        let due = [claim, self.verify_at()].into_iter().flatten().min()?;
        Some(due.max(self.retry_at))
    }
}
