//! Requests and their answers: one list, one publish, and one fence for each silent member.

use std::sync::Arc;

use crate::backoff::Backoff;
use crate::election::{Purpose, Target, Write, WriteOutcome};
use crate::id::Revision;
use crate::lease::{AttemptStamp, Contents, LeaseRecord, Versioned};
use crate::partition::{Listing, Member, Table};
use crate::time::{Duration, Instant};

use super::assignment::Assignment;
use super::interface::{Effect, Notice};
use super::membership::Noted;
use super::{Planner, Sent};

impl Planner {
    /// What is believed may be wrong: list before anything else.
    pub(super) fn doubt(&mut self) {
        self.list_due = true;
    }

    pub(super) fn list(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.listing = Some(now);
        self.list_due = false;
        out.push(Effect::List);
    }

    pub(super) fn listed(&mut self, asked: Instant, listing: &Listing, now: Instant) {
        let Some(own) = self.listing.take() else {
            return;
        };
        // Shells may say when they really sent it, which is later.
        let asked = asked.max(own);
        self.failures = 0;
        self.members_listed(asked, &listing.members, now);
        // E4: newer news may have overtaken the list.
        let overtaken = asked < self.heard_at;
        // All of one instant: who has understood an epoch has seen a table of it.
        self.raise_newest(acknowledged(listing));
        self.take(self.assignment.reviewed(self.newest), self.heard_at);
        match &listing.assignment {
            Some(lease) if overtaken => self.watched(lease, now),
            None if overtaken && self.assignment.revision().is_some() => self.doubt(),
            Some(lease) => self.take(Assignment::of(lease, self.newest), now),
            None => {
                let revision = listing.revision;
                self.take(Assignment::Absent { revision, asked }, now);
            }
        }
    }

    pub(super) fn list_failed(
        &mut self,
        retry_after: Option<Duration>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if self.listing.take().is_some() {
            self.doubt();
            self.failed(retry_after, now, out);
        }
    }

    pub(super) fn members_listed(
        &mut self,
        asked: Instant,
        members: &std::collections::BTreeMap<Arc<str>, Versioned>,
        now: Instant,
    ) {
        let mut lost = Vec::new();
        if self.members.listed(asked, members, now, &mut lost) == Noted::Overtaken {
            self.doubt();
        }
        for name in lost {
            self.pacing.lost(&name, now);
        }
    }

    /// E4: a watch event that is not newer than what is known changes nothing.
    pub(super) fn watched(&mut self, lease: &Versioned, now: Instant) {
        let known = self.assignment.revision();
        if known.is_none_or(|known| lease.revision > known) {
            self.take(Assignment::of(lease, self.newest), now);
        }
    }

    pub(super) fn publish(
        &mut self,
        target: Target,
        table: Arc<Table>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let number = self.next_attempt();
        let record = LeaseRecord {
            holder: Some(self.config.identity.as_str().to_owned()),
            duration: Some(self.config.timing.lease_duration()),
            term: self.config.leader_term,
            attempt: Some(self.stamp(self.config.leader_term, number)),
            contents: Contents::Table(Arc::clone(&table)),
            ..LeaseRecord::default()
        };
        self.publish = Some(Sent {
            attempt: number,
            table,
        });
        self.has_tried = true;
        let _ = now;
        out.push(Effect::Publish(Write {
            attempt: number,
            target,
            purpose: Purpose::Publish,
            record,
        }));
    }

    /// H5: empties the Lease of a silent member, on exactly the revision that stayed unchanged. What
    /// it says and its incarnation stay. It bears no release stamp: nobody may take it at once (E5).
    pub(super) fn fence(&mut self, member: &Member, out: &mut Vec<Effect>) {
        let Some(lease) = self.members.lease(&member.name).cloned() else {
            return;
        };
        let number = self.next_attempt();
        let target = Target::Exactly {
            uid: lease.uid,
            revision: lease.revision,
        };
        let record = LeaseRecord {
            holder: None,
            released: None,
            attempt: Some(self.stamp(lease.record.term, number)),
            ..lease.record
        };
        self.fences.insert(Arc::clone(&member.name), number);
        out.push(Effect::Fence {
            name: Arc::clone(&member.name),
            write: Write {
                attempt: number,
                target,
                purpose: Purpose::Fence,
                record,
            },
        });
    }

    pub(super) fn write_done(
        &mut self,
        attempt: u64,
        outcome: &WriteOutcome,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if self
            .publish
            .as_ref()
            .is_some_and(|sent| sent.attempt == attempt)
        {
            let sent = self.publish.take();
            return self.published(sent.map(|sent| sent.table), outcome, now, out);
        }
        let fenced = self.fences.iter().find(|(_, number)| **number == attempt);
        if let Some(name) = fenced.map(|(name, _)| Arc::clone(name)) {
            self.fences.remove(&name);
            self.fenced(&name, outcome, now, out);
        }
    }

    fn published(
        &mut self,
        table: Option<Arc<Table>>,
        outcome: &WriteOutcome,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let purpose = Purpose::Publish;
        match outcome {
            WriteOutcome::Done(lease) => {
                (self.failures, self.conflicts) = (0, 0);
                self.watched(lease, now);
                self.heard_at = now;
                if let Some(table) = table {
                    out.push(Effect::Notice(Notice::Published {
                        epoch: table.epoch,
                        moves: table.rebalance.moves,
                        reason: Arc::clone(&table.rebalance.reason),
                    }));
                }
            }
            WriteOutcome::Conflict => {
                out.push(Effect::Notice(Notice::Conflict { purpose }));
                self.conflict(now);
            }
            WriteOutcome::Refused { retry_after } => self.failed(*retry_after, now, out),
            WriteOutcome::Unknown => {
                // Continue from what is there; a late write changes the revision, and ours conflicts.
                out.push(Effect::Notice(Notice::UnknownOutcome { purpose }));
                self.doubt();
                self.failed(None, now, out);
            }
        }
    }

    fn fenced(
        &mut self,
        name: &Arc<str>,
        outcome: &WriteOutcome,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let purpose = Purpose::Fence;
        match outcome {
            WriteOutcome::Done(lease) => {
                (self.failures, self.conflicts) = (0, 0);
                if self.members.seen(name, lease, now) {
                    self.pacing.lost(name, now);
                }
                let member = Member::new(Arc::clone(name), lease.record.term);
                out.push(Effect::Notice(Notice::Fenced(member)));
            }
            // It renewed: it lives. If we did not see that, the watch is dead: look at all.
            WriteOutcome::Conflict => {
                out.push(Effect::Notice(Notice::Conflict { purpose }));
                self.members.renewed(name, now);
                self.conflict(now);
            }
            WriteOutcome::Refused { retry_after } => self.failed(*retry_after, now, out),
            WriteOutcome::Unknown => {
                out.push(Effect::Notice(Notice::UnknownOutcome { purpose }));
                self.doubt();
                self.failed(None, now, out);
            }
        }
    }

    /// The second conflict in a row waits.
    fn conflict(&mut self, now: Instant) {
        self.doubt();
        self.conflicts = self.conflicts.saturating_add(1);
        if self.conflicts > 1 {
            let gap = self.config.timing.retry_gap();
            self.retry_at = self.retry_at.max(now.after(gap));
        }
    }

    fn failed(&mut self, retry_after: Option<Duration>, now: Instant, out: &mut Vec<Effect>) {
        self.failures = self.failures.saturating_add(1);
        let (first, ceiling) = (
            self.config.timing.retry_gap(),
            self.config.timing.heartbeat(),
        );
        let own = Backoff { first, ceiling }.delay(self.failures, self.config.first_attempt);
        let delay = retry_after.map_or(own, |wish| wish.clamp(own, ceiling.max(own)));
        self.retry_at = now.after(delay);
        out.push(Effect::Notice(Notice::RetryIn(delay)));
    }

    fn next_attempt(&mut self) -> u64 {
        let number = self.attempt;
        self.attempt += 1;
        number
    }

    fn stamp(&self, term: crate::id::Term, number: u64) -> AttemptStamp {
        AttemptStamp {
            identity: self.config.identity.clone(),
            term,
            number,
        }
    }

    /// Epochs only grow, as long as they are revisions (H2).
    pub(super) fn raise_newest(&mut self, epoch: Option<Revision>) {
        if self.config.rules.has(crate::rules::Rule::H2EpochIsRevision) {
            self.newest = self.newest.max(epoch);
        }
    }

    /// H2: the revision on which the publish is based. It grows by itself; only if somebody wrote a
    /// higher epoch by hand, or the store was restored, it is one above what members may have seen.
    pub(super) fn epoch(&self, based_on: Revision) -> Revision {
        let known = self.assignment.table().map(|table| table.epoch);
        let counted = |known: Option<Revision>| {
            let next = known.map_or(0, Revision::number).saturating_add(1);
            Revision::new(next).unwrap_or(based_on)
        };
        if !self.config.rules.has(crate::rules::Rule::H2EpochIsRevision) {
            let living = self.members.held().filter_map(|(_, record)| record?.acked);
            return counted(known.or_else(|| living.max()));
        }
        let seen = self.members.records().filter_map(|record| record?.acked);
        // Never below what this planner would take for an older copy.
        let known = known.or_else(|| seen.max()).max(self.newest);
        if known.is_none_or(|known| based_on > known) {
            based_on
        } else {
            counted(known)
        }
    }
}

/// The highest epoch that a member of this list has understood.
fn acknowledged(listing: &Listing) -> Option<Revision> {
    let leases = listing.members.values();
    let acked = leases.filter_map(|lease| match &lease.record.contents {
        Contents::Member(record) => record.acked,
        _ => None,
    });
    acked.max()
}
