//! What an elector does when a term begins, drains and ends, and what it tells people.

use leasehold_core::election::{EndReason, Notice, View, Waiting};
use leasehold_core::id::{FencingToken, Term};
use leasehold_core::time::Instant;

use super::{Command, Elector};
use crate::changes::{ChangeKind, LeadershipChange};
use crate::leadership::{Begun, LostReason};
use crate::signal;
use crate::view::describe;

impl Elector {
    pub(super) fn begin(&mut self, term: Term, token: FencingToken, until: Instant) {
        let begun = Begun::new(self.setup.clock.clone(), term, token, until);
        self.steps_down = false;
        self.report_own(term, ChangeKind::Gained, format!("token {token}"));
        // Nobody there to work: the command queue is closed as well and says so.
        let _ = self.terms.send(begun.leadership());
        self.begun = Some(begun);
    }

    pub(super) fn drain(&mut self, until: Instant) {
        let left = until.since(self.setup.clock.now());
        tracing::info!(cluster_id = %self.setup.key, waits_for = "the work to end", until_s = left.as_secs_f64(), "draining");
        if let Some(begun) = &self.begun {
            begun.ask_to_drain();
        }
    }

    pub(super) fn end(&mut self, term: Term, reason: EndReason) {
        let kind = match reason {
            EndReason::Resigned if self.steps_down => ChangeKind::SteppedDown,
            EndReason::Resigned => ChangeKind::Resigned,
            EndReason::Unhealthy => ChangeKind::SteppedDown,
            _ => ChangeKind::Lost,
        };
        if reason == EndReason::DrainOverrun {
            self.setup.board.note_overrun();
        }
        let reason = LostReason::from(reason);
        // Locally first: the guard fails before anything else happens (E6).
        if let Some(begun) = self.begun.take() {
            begun.end(reason.clone());
        }
        self.report_own(term, kind, reason.to_string());
    }

    pub(super) fn released(&mut self, term: Term) {
        tracing::info!(cluster_id = %self.setup.key, %term, "the lease was given back");
    }

    pub(super) fn notice(&mut self, notice: &Notice) {
        let cluster_id = &self.setup.key;
        match notice {
            Notice::DuplicateIdentity => {
                tracing::error!(key = signal::IDENTITY_DUPLICATE, %cluster_id, identity = %self.setup.identity, "another process writes under our identity");
                signal::count(signal::IDENTITY_DUPLICATE);
            }
            Notice::NotReleased { term } => {
                tracing::warn!(key = signal::LEASE_NOT_RELEASED, %cluster_id, %term, "the lease was not given back; others wait until it lapses");
                signal::count(signal::LEASE_NOT_RELEASED);
            }
            Notice::PreferredHolder(preferred) => {
                let preferred: String = preferred.chars().take(200).collect();
                tracing::info!(%cluster_id, preferred, "another holder is preferred: stepping down");
                self.obey(&Command::StepDown);
            }
            other => tracing::debug!(%cluster_id, notice = ?other, "election"),
        }
    }

    /// Whoever waits for another's lease says so, once for each of its terms.
    pub(super) fn say_wait(&mut self, view: &View) {
        let awaited = (view.holder.clone(), view.term);
        if !matches!(view.waiting, Waiting::Vacancy(_)) || self.awaited.as_ref() == Some(&awaited) {
            return;
        }
        let (waits_for, until) = describe(view);
        let until_s = until.map(|until| until.since(self.setup.clock.now()).as_secs_f64());
        tracing::info!(key = signal::LEADERSHIP_WAITS, cluster_id = %self.setup.key, term = %view.term, waits_for, until_s, "not leading");
        signal::count(signal::LEADERSHIP_WAITS);
        self.awaited = Some(awaited);
    }

    fn report_own(&mut self, term: Term, kind: ChangeKind, reason: String) {
        let change = LeadershipChange {
            cluster_id: self.setup.key.to_string(),
            term,
            holder: self.setup.identity.to_string(),
            kind,
            reason,
        };
        self.report(&change);
    }

    pub(super) fn report_all(&self, changes: &[LeadershipChange]) {
        for change in changes {
            self.report(change);
        }
    }

    fn report(&self, change: &LeadershipChange) {
        tracing::info!(
            key = signal::LEADERSHIP_CHANGED,
            service = self.setup.service,
            cluster_id = change.cluster_id,
            term = %change.term,
            holder = %change.holder.chars().take(200).collect::<String>(),
            kind = ?change.kind,
            reason = change.reason,
            "leadership"
        );
        signal::count(signal::LEADERSHIP_CHANGED);
        self.setup.hub.report(change);
    }
}
