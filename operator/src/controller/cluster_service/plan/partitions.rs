//! What one pass wants for the partitions: Events to write, and member Leases to collect.

use std::time::Duration;

use leasehold_crds::condition;

use super::super::observe::Facts;
use crate::belief::{
    Heard,
    partitions::{AssignmentFacts, BlockerFacts, Life, MemberFacts, TableFacts},
};

/// An unchanged Lease is kept for so many of its durations (H6).
const DURATIONS_KEPT: u32 = 3;

/// One publish that moved partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Rebalanced {
    /// uid of the assignment Lease.
    pub uid: String,
    /// Epoch of the publish; names the Event together with the uid, so a repeat meets the first one.
    pub epoch: u64,
    /// How many partitions there are.
    pub total: u16,
    /// Why, in the words of the leader.
    pub reason: String,
    /// Partitions that got another owner.
    pub moves: u16,
    /// The least number of moves that any plan needs.
    pub least: u16,
    /// Over how many members they are spread.
    pub members: usize,
}

/// A handoff that does not end.
#[derive(Clone, Debug, PartialEq)]
pub struct Stuck {
    /// uid of the assignment Lease.
    pub uid: String,
    /// Epoch of the oldest one.
    pub epoch: u64,
}

/// A member Lease that nobody needs any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Stale {
    /// Name of the pod.
    pub pod: String,
    /// uid of the Lease; another life of it is left alone.
    pub uid: String,
    /// resourceVersion of the Lease; a renewed one is left alone.
    pub revision: String,
}

/// A publish is announced once, when its epoch is above the one that status knows. Without a known one
/// only what came up while we looked is announced, as for leaders.
pub(super) fn rebalanced(facts: &Facts) -> Option<Rebalanced> {
    let table = table(facts)?;
    let known = facts
        .service
        .status
        .as_ref()
        .and_then(|status| status.partitions.as_ref())
        .map(|it| it.epoch);
    let is_news = match known {
        Some(known) => i64::try_from(table.epoch.number()).is_ok_and(|epoch| epoch > known),
        None => table.heard == Heard::ByWatch && table.published > facts.first_seen,
    };
    let moved = table.rebalance.moves > 0;
    (is_news && moved).then(|| Rebalanced {
        uid: table.uid.clone(),
        epoch: table.epoch.number(),
        total: table.layout.count(),
        reason: table.rebalance.reason.to_string(),
        moves: table.rebalance.moves,
        least: table.rebalance.least,
        members: facts
            .partitions
            .members
            .iter()
            .filter(|it| it.owns > 0)
            .count(),
    })
}

/// The table, if it is to be shown and can be trusted.
fn table(facts: &Facts) -> Option<&TableFacts> {
    match &facts.partitions.assignment {
        AssignmentFacts::Table(table) if facts.is_partitioned() && facts.blind.is_none() => {
            Some(table)
        }
        AssignmentFacts::Table(_) | AssignmentFacts::Absent | AssignmentFacts::Unreadable(_) => {
            None
        }
    }
}

/// Who has kept owners waiting for too long, the longest first.
pub fn stuck_since(facts: &Facts) -> Vec<&BlockerFacts> {
    let Some(table) = table(facts) else {
        return Vec::new();
    };
    let mut stuck: Vec<&BlockerFacts> = table
        .blockers
        .iter()
        .filter(|it| it.waited >= facts.stuck_after)
        .collect();
    stuck.sort_by(|a, b| {
        b.waited
            .cmp(&a.waited)
            .then_with(|| a.blocker.member.cmp(&b.blocker.member))
    });
    stuck
}

/// One Warning when the condition turns True.
pub(super) fn stuck(facts: &Facts) -> Option<Stuck> {
    let table = table(facts)?;
    let stuck = stuck_since(facts);
    let epoch = stuck.iter().map(|it| it.blocker.epoch).min()?;
    let status = facts.service.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    let is_told = conditions.any(|it| it.type_ == condition::HANDOFF_STUCK && it.status == "True");
    (!is_told).then(|| Stuck {
        uid: table.uid.clone(),
        epoch: epoch.number(),
    })
}

/// H6: a Lease is collected if it is empty, or unchanged for three durations on our clock. An empty one
/// that the table names tells an owner that it may begin, so it is kept as long as a silent one.
pub(super) fn stale(facts: &Facts) -> Vec<Stale> {
    if facts.service.spec.paused || facts.blind.is_some() || !facts.is_oldest() {
        return Vec::new();
    }
    let members = facts.partitions.members.iter();
    members
        .filter(|member| keeps(facts, member).is_some_and(|keeps| member.unchanged_for >= keeps))
        .map(|member| Stale {
            pod: member.pod.clone(),
            uid: member.uid.clone(),
            revision: member.revision.clone(),
        })
        .collect()
}

/// For how long a member Lease must be unchanged before it is collected; `None` while it is renewed.
fn keeps(facts: &Facts, member: &MemberFacts) -> Option<Duration> {
    // What the spec says counts too: a Lease may have been edited.
    let declared = u64::try_from(facts.service.spec.lease.duration_seconds).unwrap_or_default();
    let duration = member.duration.max(Duration::from_secs(declared));
    match member.life {
        Life::Renewed => None,
        Life::Empty if !member.is_named => Some(duration),
        Life::Empty | Life::Silent => Some(duration.saturating_mul(DURATIONS_KEPT)),
    }
}

/// When a pass should look again, though nothing may happen until then.
pub fn next_deadline(facts: &Facts) -> Option<Duration> {
    let waits = table(facts).into_iter().flat_map(|table| {
        let blockers = table.blockers.iter().map(|it| it.waited);
        blockers
            .filter(|waited| *waited < facts.stuck_after)
            .map(|waited| facts.stuck_after.saturating_sub(waited))
    });
    let collects = !facts.service.spec.paused && facts.is_oldest();
    let members = facts.partitions.members.iter().filter(|_| collects);
    let kept = members.filter_map(|member| {
        let left = keeps(facts, member)?.saturating_sub(member.unchanged_for);
        // What is due was tried in this pass; again only after a moment.
        Some(left.max(Duration::from_secs(1)))
    });
    waits.chain(kept).min()
}
