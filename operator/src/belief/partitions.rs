//! What the operator believes of the partitions of one cluster id: the newest table and the Leases of the
//! pods that take part.
//!
//! Times are those of the operator's own clock since it received something; what a Lease says about time
//! is never compared (E3). Renewals change nothing here that anybody is told of.

mod facts;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use leasehold_core::{
    id::{Revision, Term},
    lease::Contents,
    partition::{Member, MemberState},
};
use tokio::time::Instant;

use super::{Heard, lease::Lapse, record::LeaseReading};
pub use facts::{AssignmentFacts, BlockerFacts, Life, MemberFacts, PartitionFacts, TableFacts};
pub use table::{Blocker, Seen, Summary, Tally};

/// A Lease that publishes no duration counts as client-go's usual one.
const UNPUBLISHED: Duration = Duration::from_secs(15);

/// The newest table and the members of one cluster id.
#[derive(Debug, Default)]
pub struct PartitionsBelief {
    assignment: Option<Assignment>,
    members: BTreeMap<String, MemberBelief>,
    /// Since when a member keeps partitions of a handoff from their owners.
    blocking: BTreeMap<(Member, Revision), Since>,
}

#[derive(Debug)]
struct Assignment {
    uid: String,
    revision: String,
    /// The highest epoch that this Lease had.
    newest: Option<Revision>,
    table: Result<Arc<Summary>, String>,
    heard: Heard,
    /// This epoch was first seen.
    published: Instant,
    /// Any table was first seen.
    known_since: Instant,
    /// How long it took until every partition was owned, if seen from its publish on.
    settled: Option<Duration>,
}

#[derive(Debug)]
struct MemberBelief {
    uid: String,
    revision: String,
    state: MemberState,
    duration: Duration,
    problem: Option<String>,
    fixed: Option<String>,
    received: Instant,
    lapse: Lapse,
}

/// An instant for counting, and the same for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Since {
    /// On the operator's clock.
    pub at: Instant,
    /// For messages, in whole seconds; never compared.
    pub shown: jiff::Timestamp,
}

impl PartitionsBelief {
    /// Takes in the next reading of the assignment Lease (`None`: deleted); true if anybody is concerned.
    pub fn note_assignment(
        &mut self,
        reading: Option<LeaseReading>,
        heard: Heard,
        now: Instant,
    ) -> bool {
        let Some(reading) = reading else {
            return self.assignment.take().is_some();
        };
        if let Some(before) = &self.assignment
            && is_known(&before.uid, &before.revision, &reading)
        {
            return false;
        }
        let table = match &reading.state {
            _ if reading.problem.is_some() => Err(reading.problem.clone().unwrap_or_default()),
            None => Err("it has no usable resourceVersion".to_owned()),
            Some(state) => match &state.record.contents {
                Contents::Table(table) => Summary::of(table).map(Arc::new),
                Contents::Unreadable { newer, reason } => Err(unreadable(*newer, reason)),
                Contents::Nothing | Contents::Member(_) => Err("it holds no table".to_owned()),
            },
        };
        let before = self.assignment.as_ref();
        let before = before.filter(|before| before.uid == reading.uid);
        let highest = before.and_then(|before| before.newest);
        let table = table.and_then(|summary| not_older(summary, highest));
        let epoch =
            |table: &Result<Arc<Summary>, String>| table.as_ref().ok().map(|summary| summary.epoch);
        let newest = epoch(&table).max(highest);
        let same = self
            .assignment
            .as_mut()
            .filter(|before| before.uid == reading.uid && epoch(&before.table) == epoch(&table));
        if let Some(same) = same {
            let differs = same.table != table;
            same.newest = newest;
            same.revision = reading.revision;
            same.table = table;
            return differs;
        }
        let known_since = self.assignment.as_ref().map_or(now, |it| it.known_since);
        self.assignment = Some(Assignment {
            uid: reading.uid,
            revision: reading.revision,
            newest,
            table,
            heard,
            published: now,
            known_since,
            settled: None,
        });
        true
    }

    /// Takes in the next reading of a member Lease (`None`: deleted); true if anybody is concerned.
    pub fn note_member(&mut self, pod: &str, reading: Option<LeaseReading>, now: Instant) -> bool {
        let Some(reading) = reading else {
            return self.members.remove(pod).is_some();
        };
        let before = self.members.get(pod);
        if before.is_some_and(|it| is_known(&it.uid, &it.revision, &reading)) {
            return false;
        }
        let new = MemberBelief::of(reading, now);
        let matters = before.is_none_or(|before| {
            before.lapse != Lapse::No
                || before.uid != new.uid
                || before.state != new.state
                || before.problem != new.problem
                || before.fixed != new.fixed
        });
        self.members.insert(pod.to_owned(), new);
        matters
    }

    /// True if a member was silent for its duration, and this was not said before.
    pub fn suspect(&mut self, now: Instant) -> bool {
        let mut suspected = false;
        for member in self.members.values_mut() {
            let is_due = now.saturating_duration_since(member.received) >= member.duration;
            if member.state.held && is_due && member.lapse == Lapse::No {
                member.lapse = Lapse::Suspected;
                suspected = true;
            }
        }
        suspected
    }

    /// A silent member awaits a read that confirms it.
    pub fn is_suspected(&self) -> bool {
        let mut members = self.members.values();
        members.any(|member| member.lapse == Lapse::Suspected)
    }

    /// A read showed that the silent ones wrote nothing since.
    pub fn confirm_lapses(&mut self) {
        for member in self.members.values_mut() {
            if member.lapse == Lapse::Suspected {
                member.lapse = Lapse::Confirmed;
            }
        }
    }

    /// Looks how the handoffs fare after news, so that it is known since when one waits.
    pub fn review(&mut self, now: Instant, shown: jiff::Timestamp) {
        let Some(summary) = self.summary() else {
            self.blocking.clear();
            return;
        };
        let tally = self.tally(&summary);
        let keys: BTreeSet<(Member, Revision)> = tally
            .blockers
            .iter()
            .map(|it| (it.member.clone(), it.epoch))
            .collect();
        self.blocking.retain(|key, _| keys.contains(key));
        for key in keys {
            let since = Since { at: now, shown };
            self.blocking.entry(key).or_insert(since);
        }
        if let Some(assignment) = &mut self.assignment
            && tally.moving == 0
            && tally.unowned == 0
            && assignment.heard == Heard::ByWatch
        {
            let took = now.saturating_duration_since(assignment.published);
            assignment.settled.get_or_insert(took);
        }
    }

    /// Everything, for one pass.
    pub fn facts(&self, now: Instant) -> PartitionFacts {
        let summary = self.summary();
        let tally = summary.as_ref().map(|summary| self.tally(summary));
        let assignment = match (&self.assignment, &summary, &tally) {
            (Some(assignment), Some(summary), Some(tally)) => {
                AssignmentFacts::Table(Box::new(self.table_facts(assignment, summary, tally, now)))
            }
            (Some(assignment), _, _) => AssignmentFacts::Unreadable(
                assignment.table.as_ref().err().cloned().unwrap_or_default(),
            ),
            (None, _, _) => AssignmentFacts::Absent,
        };
        let members = self.members.iter().map(|(pod, member)| {
            let owns = summary.iter().zip(&tally).flat_map(|(summary, tally)| {
                let shares = summary.members.iter().zip(&tally.shares);
                shares.filter(|(it, _)| {
                    *it.name == **pod && it.incarnation == member.state.incarnation
                })
            });
            MemberFacts {
                pod: pod.clone(),
                uid: member.uid.clone(),
                revision: member.revision.clone(),
                life: member.life(),
                state: member.state.clone(),
                problem: member.problem.clone(),
                fixed: member.fixed.clone(),
                owns: owns.map(|(_, share)| share).sum(),
                is_named: summary.as_ref().is_none_or(|summary| summary.names(pod)),
                unchanged_for: now.saturating_duration_since(member.received),
                duration: member.duration,
            }
        });
        PartitionFacts {
            assignment,
            members: members.collect(),
        }
    }

    fn table_facts(
        &self,
        assignment: &Assignment,
        summary: &Summary,
        tally: &Tally,
        now: Instant,
    ) -> TableFacts {
        let blockers = tally.blockers.iter().map(|blocker| {
            // What nobody reviewed yet has only just begun.
            let key = (blocker.member.clone(), blocker.epoch);
            let since = self.blocking.get(&key);
            BlockerFacts {
                blocker: blocker.clone(),
                since: since.map_or(jiff::Timestamp::UNIX_EPOCH, |it| it.shown),
                waited: since.map_or(Duration::ZERO, |it| now.saturating_duration_since(it.at)),
                life: self
                    .members
                    .get(&*blocker.member.name)
                    .map(MemberBelief::life),
            }
        });
        TableFacts {
            uid: assignment.uid.clone(),
            epoch: summary.epoch,
            layout: summary.layout,
            queued: summary.queued,
            rebalance: summary.rebalance.clone(),
            owned: tally.owned,
            moving: tally.moving,
            unowned: tally.unowned,
            blockers: blockers.collect(),
            heard: assignment.heard,
            published: assignment.published,
            known_for: now.saturating_duration_since(assignment.known_since),
            settled: assignment.settled,
        }
    }

    fn summary(&self) -> Option<Arc<Summary>> {
        let assignment = self.assignment.as_ref()?;
        assignment.table.as_ref().ok().map(Arc::clone)
    }

    fn tally(&self, summary: &Summary) -> Tally {
        summary.tally(|name| {
            self.members.get(name).map(|member| Seen {
                state: &member.state,
                is_renewed: member.lapse != Lapse::Confirmed,
            })
        })
    }

    /// Names of the members that a complete LIST did not show.
    pub fn unlisted(&self, is_listed: impl Fn(&str) -> bool) -> Vec<String> {
        let names = self.members.keys().filter(|pod| !is_listed(pod));
        names.cloned().collect()
    }

    /// There is an assignment Lease.
    pub fn has_assignment(&self) -> bool {
        self.assignment.is_some()
    }

    /// How many Leases it holds.
    pub fn count(&self) -> usize {
        self.members.len() + usize::from(self.assignment.is_some())
    }
}

/// The same revision, or one from before it: an answer may be overtaken by the watch.
fn is_known(uid: &str, revision: &str, reading: &LeaseReading) -> bool {
    let number = |revision: &str| revision.parse::<u64>().ok();
    let is_older = match (number(&reading.revision), number(revision)) {
        (Some(new), Some(known)) => new < known,
        _ => false,
    };
    uid == reading.uid && (is_older || revision == reading.revision)
}

/// Epochs only grow (H2): the leader takes a table with a lower one for lost, and so do we.
fn not_older(summary: Arc<Summary>, newest: Option<Revision>) -> Result<Arc<Summary>, String> {
    match newest.filter(|newest| summary.epoch < *newest) {
        None => Ok(summary),
        Some(newest) => Err(format!(
            "an older table was put back: found epoch {}, {newest} was seen",
            summary.epoch
        )),
    }
}

fn unreadable(newer: bool, reason: &str) -> String {
    let reason = super::record::shortened(reason);
    if newer {
        format!("a later version wrote it: {reason}")
    } else {
        reason
    }
}

impl MemberBelief {
    fn of(reading: LeaseReading, now: Instant) -> Self {
        let mut problem = reading.problem;
        let mut duration = None;
        let mut state = MemberState {
            incarnation: Term::default(),
            held: true, // what cannot be read is not taken for given up
            record: None,
        };
        if let Some(versioned) = &reading.state {
            state = MemberState::of(versioned);
            duration = versioned.record.duration;
            problem = problem.or_else(|| match &versioned.record.contents {
                Contents::Member(_) => None,
                Contents::Unreadable { newer, reason } => Some(unreadable(*newer, reason)),
                Contents::Nothing if !state.held => None,
                Contents::Nothing | Contents::Table(_) => {
                    Some("it says nothing about its member".to_owned())
                }
            });
        }
        Self {
            uid: reading.uid,
            revision: reading.revision,
            state,
            duration: duration.unwrap_or(UNPUBLISHED),
            problem,
            fixed: reading.fixed,
            received: now,
            lapse: Lapse::No,
        }
    }

    fn life(&self) -> Life {
        if !self.state.held {
            Life::Empty
        } else if self.lapse == Lapse::Confirmed {
            Life::Silent
        } else {
            Life::Renewed
        }
    }
}

#[cfg(test)]
mod tests;
