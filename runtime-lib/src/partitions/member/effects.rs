//! What a member does when its machines ask for it.

use leasehold_core::election::{self, EndReason, Notice};
use leasehold_core::id::{FencingToken, Revision, Term};
use leasehold_core::lease::Contents;
use leasehold_core::partition::{Slot, handoff};
use leasehold_core::time::Instant;

use super::{About, Aside, Joining, Membership};
use crate::leadership::{Begun, LostReason};
use crate::partitions::stream::AssignmentKind;
use crate::signal;

impl Membership {
    pub(super) fn apply(&mut self, effect: election::Effect) {
        use election::Effect;
        match effect {
            Effect::Write(write) => self.send(write),
            Effect::Read => self.read(),
            Effect::Begin {
                term,
                token,
                trusted_until,
            } => self.begin(term, token, trusted_until),
            Effect::Extend { trusted_until } | Effect::Shorten { trusted_until } => {
                if let Some(begun) = &self.begun {
                    begun.trust_until(trusted_until);
                }
            }
            Effect::Drain { until } => self.leave(until),
            Effect::End { term, reason } => self.end(term, reason),
            Effect::Released { term } => {
                tracing::info!(cluster_id = %self.shared.id, %term, "the member lease was given back");
            }
            Effect::Stopped => self.stopped = true,
            Effect::Notice(notice) => self.notice(&notice),
        }
    }

    pub(super) fn apply_handoff(&mut self, effect: handoff::Effect) {
        use handoff::Effect;
        match effect {
            Effect::Start { slot, epoch } => self.start(slot, epoch),
            Effect::Drain(slot) => {
                self.works.drain(slot);
                self.shared.roster.changed(slot, AssignmentKind::Revoked);
            }
            Effect::Lose(slot) => {
                self.works.lose(slot, self.lost.clone());
                self.shared.roster.changed(slot, AssignmentKind::Lost);
            }
            Effect::Publish { record, at_once } => {
                let contents = Contents::Member(record);
                self.step(election::Input::Contents { contents, at_once });
            }
            Effect::Watch(names) => {
                let (store, id) = (&self.shared.store, &self.shared.id);
                self.around.follow_members(&names, |name| {
                    let key = id.member(name).ok()?;
                    Some(store.watch(&key))
                });
            }
            Effect::Left => self.step(election::Input::WorkEnded),
        }
    }

    fn begin(&mut self, term: Term, token: FencingToken, until: Instant) {
        tracing::info!(key = signal::MEMBERSHIP_CHANGED, cluster_id = %self.shared.id, member = %self.shared.name, incarnation = %term, kind = "begun", "membership");
        signal::count(signal::MEMBERSHIP_CHANGED);
        self.begun = Some(Begun::new(self.shared.clock.clone(), term, token, until));
        // A conflict would tell: a holder needs no watch of its own lease.
        self.around.leave(&About::Own);
        let watched = None;
        self.joining = Some(Joining { term, watched });
        self.join(term);
    }

    /// A life believes only tables that it has listed itself, or seen since.
    pub(super) fn join(&mut self, term: Term) {
        let listing = self.shared.list(self.sources.timing().attempt_timeout());
        self.asides
            .push(async move { Aside::Joined(term, listing.await) });
    }

    fn start(&mut self, slot: Slot, epoch: Revision) {
        let Some(begun) = &self.begun else {
            return; // The handoff starts nothing between two lives.
        };
        let token = FencingToken::new(self.shared.token_era, epoch);
        self.shared.roster.assigned(slot, token);
        self.works.start(begun, slot, token);
    }

    /// Others get half of the time to take our partitions over; then the rest is drained.
    fn leave(&mut self, until: Instant) {
        let now = self.shared.clock.now();
        let left = until.since(now);
        tracing::info!(cluster_id = %self.shared.id, member = %self.shared.name, waits_for = "others to take over what runs here", until_s = left.as_secs_f64(), "leaving");
        self.leaving = true;
        self.hand_over_until = Some(now.after(left / 2));
        self.hand(handoff::Input::Leave);
        if self.joining.take().is_some() {
            // Nothing was started in this life.
            self.step(election::Input::WorkEnded);
        }
    }

    fn end(&mut self, term: Term, reason: EndReason) {
        if reason == EndReason::DrainOverrun {
            self.shared.board.note_overrun();
        }
        self.lost = LostReason::from(reason);
        // Locally first: every guard fails before anything else happens (E6).
        if let Some(begun) = self.begun.take() {
            begun.end(self.lost.clone());
        }
        tracing::info!(key = signal::MEMBERSHIP_CHANGED, cluster_id = %self.shared.id, member = %self.shared.name, incarnation = %term, kind = "ended", reason = %self.lost, "membership");
        signal::count(signal::MEMBERSHIP_CHANGED);
        self.joining = None;
        self.owes_ending = true;
        self.hand(handoff::Input::End);
        self.tell_if_idle();
    }

    /// The work of a slot has ended: it returned, panicked or was dropped.
    pub(super) fn ended(&mut self, slot: Slot) {
        // E9: work that was dropped for its trust is no work that may be started again.
        self.step(election::Input::Timer);
        let kind = if self.works.forget(slot) {
            AssignmentKind::Lost
        } else {
            AssignmentKind::Released
        };
        self.shared.roster.changed(slot, kind);
        self.hand(handoff::Input::Ended(slot));
        self.tell_if_idle();
    }

    /// `release-after-drain`: the term's work has ended when nothing of it runs on.
    fn tell_if_idle(&mut self) {
        if self.owes_ending && self.handoff.is_idle() {
            self.owes_ending = false;
            self.step(election::Input::WorkEnded);
        }
    }

    fn notice(&self, notice: &Notice) {
        let (cluster_id, member) = (&self.shared.id, &self.shared.name);
        match notice {
            Notice::DuplicateIdentity => {
                tracing::error!(key = signal::IDENTITY_DUPLICATE, %cluster_id, identity = %self.shared.identity, "another process writes under our identity");
                signal::count(signal::IDENTITY_DUPLICATE);
            }
            Notice::NotReleased { term } => {
                tracing::warn!(key = signal::LEASE_NOT_RELEASED, %cluster_id, %member, %term, "the member lease was not given back; others wait until it lapses");
                signal::count(signal::LEASE_NOT_RELEASED);
            }
            other => tracing::debug!(%cluster_id, %member, notice = ?other, "member"),
        }
    }
}
