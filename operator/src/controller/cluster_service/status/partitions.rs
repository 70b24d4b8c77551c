//! What status says about the partitions: counts, and the conditions PartitionsOwned, HandoffStuck and
//! RolloutHold. Which pod owns which partition stands in the assignment Lease alone, so that status stays
//! small whatever their number.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use leasehold_crds::{
    LastRebalance, MembersStatus, PartitionsStatus, PerPod,
    condition::{self, reason},
};

use super::{Verdict, unknown, verdict};
use crate::{
    belief::{
        partitions::{AssignmentFacts, BlockerFacts, Life, MemberFacts, TableFacts},
        record::{in_whole_seconds, shortened},
    },
    controller::cluster_service::{
        observe::Facts,
        plan::{hash, stuck_since},
    },
};

/// How many pods a message names.
const PODS_NAMED: usize = 3;
/// How many ranges of partitions a message names for each.
const RANGES_NAMED: usize = 4;

/// Counts of the newest table; while it is not known now, the last known ones stand.
pub(super) fn partitions(facts: &Facts) -> Option<PartitionsStatus> {
    if !facts.is_partitioned() {
        return None;
    }
    let status = facts.service.status.as_ref();
    let last_known = status.and_then(|status| status.partitions.clone());
    if facts.blind.is_some() {
        return last_known;
    }
    let table = match &facts.partitions.assignment {
        AssignmentFacts::Table(table) => table,
        AssignmentFacts::Absent => return None,
        AssignmentFacts::Unreadable(_) => return last_known,
    };
    let epoch = i64::try_from(table.epoch.number()).unwrap_or(i64::MAX);
    let shares = facts
        .partitions
        .members
        .iter()
        .filter(|it| is_ready(it, facts))
        .map(|it| count(it.owns));
    let (min, max) = (shares.clone().min(), shares.max());
    let seconds = table.settled.map(whole_seconds).or_else(|| {
        // Another replica saw it settle.
        let same = last_known.filter(|it| it.epoch == epoch);
        same.and_then(|it| it.last_rebalance.seconds)
    });
    Some(PartitionsStatus {
        total: table.layout.count().into(),
        owned: count(table.owned),
        moving: count(table.moving),
        unowned: count(table.unowned),
        per_pod: min.zip(max).map(|(min, max)| PerPod { min, max }),
        epoch,
        last_rebalance: LastRebalance {
            reason: shortened(&table.rebalance.reason),
            moves: table.rebalance.moves.into(),
            least: table.rebalance.least.into(),
            seconds,
        },
    })
}

/// The pods that take part.
pub(super) fn members(facts: &Facts) -> Option<MembersStatus> {
    if !facts.is_partitioned() {
        return None;
    }
    if facts.blind.is_some() {
        let status = facts.service.status.as_ref();
        return status.and_then(|status| status.members.clone());
    }
    let members = &facts.partitions.members;
    Some(MembersStatus {
        ready: count(members.iter().filter(|it| is_ready(it, facts)).count()),
        total: count(members.iter().filter(|it| it.life != Life::Empty).count()),
    })
}

/// It may be given partitions.
fn is_ready(member: &MemberFacts, facts: &Facts) -> bool {
    let table = match &facts.partitions.assignment {
        AssignmentFacts::Table(table) => Some(table.layout.hash()),
        AssignmentFacts::Absent | AssignmentFacts::Unreadable(_) => None,
    };
    let record = member.state.record.as_ref();
    member.life == Life::Renewed
        && member.problem.is_none()
        && record
            .is_some_and(|record| !record.draining && table.is_none_or(|hash| hash == record.hash))
}

/// The conditions that only a partitioned service has.
pub(super) fn verdicts(
    facts: &Facts,
    old: &[Condition],
    now: jiff::Timestamp,
) -> Vec<(&'static str, Verdict)> {
    if !facts.is_partitioned() {
        return Vec::new();
    }
    let types = [
        condition::PARTITIONS_OWNED,
        condition::HANDOFF_STUCK,
        condition::ROLLOUT_HOLD,
    ];
    if let Some(blind) = &facts.blind {
        return types
            .map(|type_| (type_, unknown(blind.reason, blind.message.clone())))
            .into();
    }
    let since = old
        .iter()
        .find(|it| it.type_ == condition::PARTITIONS_OWNED && it.status == "False")
        .map_or(now, |it| it.last_transition_time.0);
    let verdicts = [
        owned(facts, in_whole_seconds(since)),
        stuck(facts, old),
        hold(facts),
    ];
    types.into_iter().zip(verdicts).collect()
}

/// Counts, and since when not all of them are owned.
fn owned(facts: &Facts, since: jiff::Timestamp) -> Verdict {
    let lease = facts.cluster_id.assignment_lease_name();
    let table = match &facts.partitions.assignment {
        AssignmentFacts::Absent => {
            let message = format!(
                "There is no table yet: the leader makes Lease {lease} when the first pod takes part."
            );
            return verdict(false, reason::NO_TABLE, message);
        }
        AssignmentFacts::Unreadable(problem) => {
            let message = format!(
                "Lease {lease} cannot be read since {since}: {problem}. Owners go on by the last table that \
                 they read. If a later version wrote it, upgrade; else the leader makes it anew, and if it \
                 comes back, see who writes it."
            );
            return verdict(false, reason::TABLE_UNREADABLE, message);
        }
        AssignmentFacts::Table(table) => table,
    };
    let total = table.layout.count();
    let others = format!(
        "{}{}{}",
        change(facts, table),
        other_hash(facts, table),
        strangers(facts, table)
    );
    if table.unowned > 0 {
        let moving = match table.moving {
            0 => String::new(),
            moving => format!(", and {moving} are moving"),
        };
        let message = format!(
            "{} of {total} partitions have no living owner{moving}; not all are owned since {since}. The \
             leader gives them to the pods that live: see LeaderElected, and whether pods run.{others}",
            table.unowned
        );
        return verdict(false, reason::UNOWNED, message);
    }
    if table.moving > 0 {
        let message = format!(
            "{} of {total} partitions are moving: their new owners wait until the former ones have \
             finished; not all are owned since {since}.{others}",
            table.moving
        );
        return verdict(false, reason::REBALANCING, message);
    }
    let unreadable: Vec<String> = facts
        .partitions
        .members
        .iter()
        .filter_map(|it| {
            it.problem
                .as_ref()
                .map(|problem| format!("{}: {problem}", it.pod))
        })
        .collect();
    if !unreadable.is_empty() {
        let message = format!(
            "What these pods say of themselves cannot be read, so they get no partitions: {}. Their next \
             renewal writes it anew; if it stays so, see which version they run.",
            listed(&unreadable, "; ")
        );
        return verdict(false, reason::MEMBERS_UNREADABLE, message);
    }
    let owners = facts.partitions.members.iter().filter(|it| it.owns > 0);
    let message = format!(
        "All {total} partitions are owned, by {} pods.{others}",
        owners.count()
    );
    verdict(true, reason::ALL_OWNED, message)
}

/// A changed number that is not in force yet.
fn change(facts: &Facts, table: &TableFacts) -> String {
    let total = table.layout.count();
    if let Some(queued) = table.queued {
        return format!(" A change to {queued} partitions waits until this one has ended.");
    }
    match facts.service.spec.partitions {
        Some(declared) if declared != i32::from(total) => {
            format!(" The spec asks for {declared}; the leader has not gone over to that yet.")
        }
        Some(_) | None => String::new(),
    }
}

/// The hash of the first table stays: with another one every key would have another partition.
fn other_hash(facts: &Facts, table: &TableFacts) -> String {
    let stands = table.layout.hash();
    match hash(&facts.service.spec) {
        Some(declared) if declared != stands.as_str() => format!(
            " The spec asks for the hash {declared}; the table's {stands} stays. Make the ClusterService anew \
             with that one, or use another clusterId."
        ),
        Some(_) | None => String::new(),
    }
}

/// Members of another hash are refused by the leader.
fn strangers(facts: &Facts, table: &TableFacts) -> String {
    let hash = table.layout.hash();
    let others: Vec<String> = facts
        .partitions
        .members
        .iter()
        .filter(|it| it.life == Life::Renewed)
        .filter_map(|it| {
            let record = it.state.record.as_ref()?;
            (record.hash != hash).then(|| format!("{} ({})", shortened(&it.pod), record.hash))
        })
        .collect();
    if others.is_empty() {
        return String::new();
    }
    format!(
        " Pods of another hash than the table's {hash} get no partitions: {}.",
        listed(&others, ", ")
    )
}

fn stuck(facts: &Facts, old: &[Condition]) -> Verdict {
    let stuck = stuck_since(facts);
    if stuck.is_empty() {
        let before = old
            .iter()
            .find(|it| it.type_ == condition::HANDOFF_STUCK && it.status == "True");
        // Whoever has only just begun to look cannot know better than the one before.
        if let (Some(before), AssignmentFacts::Table(table)) =
            (before, &facts.partitions.assignment)
            && table.known_for < facts.stuck_after
            && !table.blockers.is_empty()
        {
            return verdict(true, reason::NOT_ACKNOWLEDGED, before.message.clone());
        }
        return verdict(false, reason::FLOWING, "No handoff takes long.");
    }
    let named: Vec<String> = stuck.iter().map(|it| blame(it)).collect();
    verdict(true, reason::NOT_ACKNOWLEDGED, listed(&named, " "))
}

/// Which pod, which partitions, since when, and what to do.
fn blame(found: &BlockerFacts) -> String {
    let blocker = &found.blocker;
    let (pod, incarnation) = (shortened(&blocker.member.name), blocker.member.incarnation);
    let advice = match found.life {
        Some(Life::Renewed) => format!(
            "It renews its Lease, so nobody may begin in its place: see what its drain does, and if it \
             hangs, delete the pod {pod}."
        ),
        Some(Life::Silent) => {
            "It does not renew its Lease; the leader fences it: see LeaderElected and what the leader logs."
                .to_owned()
        }
        Some(Life::Empty) | None => {
            "Its Lease is gone; the leader waits the lease duration and goes on without it: see \
             LeaderElected and what the leader logs."
                .to_owned()
        }
    };
    format!(
        "Pod {pod} (incarnation {incarnation}) has not acknowledged partitions {} since {}. {advice}",
        ranges(&blocker.partitions),
        found.since
    )
}

/// Newcomers of another revision that stand by until their predecessors leave.
fn hold(facts: &Facts) -> Verdict {
    let ready: Vec<&MemberFacts> = facts
        .partitions
        .members
        .iter()
        .filter(|it| is_ready(it, facts))
        .collect();
    let mut revisions: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for member in &ready {
        let record = member.state.record.as_ref();
        if let Some(revision) = record.and_then(|it| it.revision.as_deref()) {
            let (all, idle) = revisions.entry(revision).or_default();
            *all += 1;
            *idle += usize::from(member.owns == 0);
        }
    }
    let total = match &facts.partitions.assignment {
        AssignmentFacts::Table(table) => usize::from(table.layout.count()),
        AssignmentFacts::Absent | AssignmentFacts::Unreadable(_) => 0,
    };
    let idle: usize = revisions.values().map(|(_, idle)| idle).sum();
    // With more pods than partitions some have none anyway.
    if revisions.len() < 2 || idle == 0 || ready.len() > total {
        return verdict(false, reason::NO_HOLD, "No newcomer stands by.");
    }
    let named: Vec<String> = revisions
        .iter()
        .map(|(revision, (all, idle))| {
            format!(
                "{} has {all}, {idle} of them without partitions",
                shortened(revision)
            )
        })
        .collect();
    let message = format!(
        "Pods of {} revisions live: {}. Newcomers stand by, and get the partitions of the pods that \
         leave; if no pod leaves, the leader spreads the partitions after a while.",
        revisions.len(),
        listed(&named, "; ")
    );
    verdict(true, reason::REVISIONS_COEXIST, message)
}

/// The first few, and how many more.
fn listed(all: &[String], separator: &str) -> String {
    let mut named: Vec<String> = all.iter().take(PODS_NAMED).cloned().collect();
    if all.len() > PODS_NAMED {
        named.push(format!("and {} more", all.len() - PODS_NAMED));
    }
    named.join(separator)
}

/// Numbers as ranges, a few of them: `4-7, 12 and 30 more`.
pub(crate) fn ranges(numbers: &[u16]) -> String {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text: Vec<String> = ranges
        .iter()
        .take(RANGES_NAMED)
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    let more: usize = ranges
        .iter()
        .skip(RANGES_NAMED)
        .map(|(first, last)| usize::from(last - first) + 1)
        .sum();
    match more {
        0 => text.join(", "),
        more => format!("{} and {more} more", text.join(", ")),
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Rounded, since what took half a second did not take none.
fn whole_seconds(duration: Duration) -> i64 {
    let rounded = duration
        .saturating_add(Duration::from_millis(500))
        .as_secs();
    i64::try_from(rounded).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_as_a_few_ranges() {
        for (numbers, said) in [
            (vec![4], "4"),
            (vec![4, 5, 6, 9], "4-6, 9"),
            (vec![0, 2, 4, 6, 8, 9, 11], "0, 2, 4, 6 and 3 more"),
            ((0..4096).collect(), "0-4095"),
            ((0..4096).step_by(2).collect(), "0, 2, 4, 6 and 2044 more"),
            (vec![u16::MAX - 1, u16::MAX], "65534-65535"),
        ] {
            assert_eq!(ranges(&numbers), said);
        }
    }
}
