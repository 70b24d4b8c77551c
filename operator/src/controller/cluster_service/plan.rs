//! Plan: from facts to a list of wanted changes, as a value. Nothing here reads or writes.

mod partitions;

use leasehold_crds::{
    ClusterScope, ClusterService, ClusterServiceSpec, LeaderStrategy, LeadershipTerm, Settings,
    cluster_service::HISTORY_LENGTH_MAX,
};
use tokio::time::Instant;

use super::observe::{Facts, SettingsFacts, age};
use crate::belief::{Ending, Heard, Sighting, record::pod_of};

pub use partitions::{Rebalanced, Stale, Stuck, next_deadline, stuck_since};

/// What one pass wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The older ClusterService of the same id, if its settings differ.
    pub conflict: Option<Conflict>,
    /// What to do with the settings Lease.
    pub settings: SettingsStep,
    /// Terms to announce, in order.
    pub announcements: Vec<Announcement>,
    /// History before any of them is announced, newest first.
    pub history: Vec<LeadershipTerm>,
    /// A change of the table to announce.
    pub rebalanced: Option<Rebalanced>,
    /// A handoff that does not end, to announce.
    pub stuck: Option<Stuck>,
    /// Member Leases to collect (H6).
    pub stale: Vec<Stale>,
}

/// Two ClusterServices claim one id with different settings (`ClusterIdConflict`).
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The one whose settings count.
    pub older: String,
    /// Which fields differ, and how.
    pub differences: Vec<String>,
}

/// What to do with the settings Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingsStep {
    /// It is right, or not ours to change.
    Keep,
    /// Make it say this.
    Write {
        /// The annotation.
        settings: Settings,
        /// Names and uids of the ClusterServices that own it.
        owners: Vec<(String, String)>,
    },
    /// Nothing is elected any more.
    Delete,
}

/// One leadership change to announce.
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// The new leadership, as history will keep it.
    pub entry: LeadershipTerm,
    /// Who led before, if known.
    pub from: Option<String>,
    /// First and last term between that nobody observed.
    pub gap: Option<(i64, i64)>,
}

/// Decides one pass.
pub fn plan(facts: &Facts) -> Plan {
    let conflict = conflict_among(&facts.service, &facts.peers);
    let stored = facts
        .service
        .status
        .as_ref()
        .and_then(|status| status.history.as_deref());
    let (history, announcements) = match facts.service.spec.cluster_scope {
        ClusterScope::Node => (stored.unwrap_or_default().to_vec(), Vec::new()),
        ClusterScope::Cluster => news(stored, &facts.leader.log, facts.first_seen),
    };
    let settings = settings_step(facts, conflict.is_some());
    Plan {
        conflict,
        settings,
        announcements,
        history,
        rebalanced: partitions::rebalanced(facts),
        stuck: partitions::stuck(facts),
        stale: partitions::stale(facts),
    }
}

/// The oldest ClusterService of an id decides; the others must agree with it.
pub fn conflict_among(service: &ClusterService, peers: &[ClusterService]) -> Option<Conflict> {
    let older = peers.iter().min_by_key(|peer| age(peer))?;
    if age(older) > age(service) {
        return None;
    }
    let differences = differences(&service.spec, &older.spec);
    (!differences.is_empty()).then(|| Conflict {
        older: older.metadata.name.clone().unwrap_or_default(),
        differences,
    })
}

/// What to do about a conflict, in words.
pub fn conflict_message(conflict: &Conflict) -> String {
    format!(
        "The older ClusterService {} has the same cluster id and other settings, which count: {}. Make \
         them equal, or use another clusterId.",
        conflict.older,
        conflict.differences.join("; ")
    )
}

fn differences(mine: &ClusterServiceSpec, other: &ClusterServiceSpec) -> Vec<String> {
    let text = |spec: &ClusterServiceSpec| {
        let strategy = spec
            .leader_strategy
            .map_or("none", leasehold_crds::LeaderStrategy::as_str);
        let scope = match spec.cluster_scope {
            ClusterScope::Node => "node",
            ClusterScope::Cluster => "cluster",
        };
        let lease = spec.lease;
        [
            ("clusterScope", scope.to_owned()),
            ("leaderStrategy", strategy.to_owned()),
            (
                "partitions",
                spec.partitions
                    .map_or("none".to_owned(), |it| it.to_string()),
            ),
            ("hash", hash(spec).unwrap_or("none").to_owned()),
            ("lease.durationSeconds", lease.duration_seconds.to_string()),
            (
                "lease.heartbeatSeconds",
                lease.heartbeat_seconds.to_string(),
            ),
            (
                "lease.attemptTimeoutSeconds",
                lease.attempt_timeout_seconds.to_string(),
            ),
            (
                "lease.stopBudgetSeconds",
                lease.stop_budget_seconds.to_string(),
            ),
        ]
    };
    text(mine)
        .into_iter()
        .zip(text(other))
        .map(|((field, mine), (_, other))| (field, mine, other))
        .chain(shared_on_servers(mine, other))
        .filter(|(_, mine, other)| mine != other)
        .map(|(field, mine, other)| format!("{field} is {mine} here and {other} there"))
        .collect()
}

/// Owner role, database and key prefix belong to all services of an id (C4), so those that want a store
/// must want the same one. A service that wants none disagrees with nobody.
fn shared_on_servers(
    mine: &ClusterServiceSpec,
    other: &ClusterServiceSpec,
) -> Vec<(&'static str, String, String)> {
    let or_default = |it: &Option<String>| it.clone().unwrap_or("the default".to_owned());
    let postgres = mine.postgres.as_ref().zip(other.postgres.as_ref());
    let redis = mine.redis.as_ref().zip(other.redis.as_ref());
    let postgres = postgres.into_iter().flat_map(|(mine, other)| {
        let class = (&mine.class_name, &other.class_name);
        let database = (or_default(&mine.database), or_default(&other.database));
        let schema = (or_default(&mine.schema), or_default(&other.schema));
        [
            ("postgres.className", class.0.clone(), class.1.clone()),
            ("postgres.database", database.0, database.1),
            ("postgres.schema", schema.0, schema.1),
        ]
    });
    let redis = redis.into_iter().map(|(mine, other)| {
        let class = (mine.class_name.clone(), other.class_name.clone());
        ("redis.className", class.0, class.1)
    });
    postgres.chain(redis).collect()
}

/// The hash in force, under a strategy that has one.
pub fn hash(spec: &ClusterServiceSpec) -> Option<&'static str> {
    let is_partitioned = spec.leader_strategy == Some(LeaderStrategy::Partitioned);
    is_partitioned.then(|| spec.hash.unwrap_or_default().as_str())
}

fn settings_step(facts: &Facts, in_conflict: bool) -> SettingsStep {
    let is_going = facts.service.metadata.deletion_timestamp.is_some();
    if facts.service.spec.paused || is_going || in_conflict || !facts.is_oldest() {
        return SettingsStep::Keep;
    }
    let Some(strategy) = facts.service.spec.leader_strategy else {
        return match facts.settings {
            SettingsFacts::Ours { .. } => SettingsStep::Delete,
            SettingsFacts::Absent | SettingsFacts::Foreign(_) => SettingsStep::Keep,
        };
    };
    let wanted = Settings {
        version: Settings::VERSION,
        generation: facts.service.metadata.generation.unwrap_or_default(),
        strategy: strategy.as_str().to_owned(),
        partitions: facts.service.spec.partitions.map(i64::from),
        hash: hash(&facts.service.spec).map(str::to_owned),
        lease: facts.service.spec.lease.into(),
        drain_timeout_seconds: None,
    };
    let agreeing = facts.peers.iter().filter(|peer| {
        peer.spec.leader_strategy.is_some()
            && differences(&facts.service.spec, &peer.spec).is_empty()
    });
    let owners: Vec<(String, String)> = std::iter::once(&facts.service)
        .chain(agreeing)
        .filter_map(|it| Some((it.metadata.name.clone()?, it.metadata.uid.clone()?)))
        .collect();
    let is_right = match &facts.settings {
        SettingsFacts::Ours {
            settings,
            owners: found,
            is_labelled,
        } => {
            *is_labelled
                && settings.as_ref() == Some(&wanted)
                && owners.iter().all(|(_, uid)| found.contains(uid))
        }
        SettingsFacts::Absent => false,
        SettingsFacts::Foreign(_) => true,
    };
    if is_right {
        SettingsStep::Keep
    } else {
        SettingsStep::Write {
            settings: wanted,
            owners,
        }
    }
}

/// Which seen terms are news (R3): those after the newest one that the history knows.
///
/// Without a history only terms that came up while we looked are announced; what was there before is
/// taken over silently. Deciding by history and log alone makes every pass repeatable: after a crash
/// between Event and status the same terms are announced again, under the same names.
fn news(
    stored: Option<&[LeadershipTerm]>,
    log: &[Sighting],
    first_seen: Instant,
) -> (Vec<LeadershipTerm>, Vec<Announcement>) {
    let mut history: Vec<LeadershipTerm> = stored.unwrap_or_default().to_vec();
    let is_known = |sighting: &Sighting| {
        history
            .iter()
            .any(|it| it.lease_uid == sighting.uid && it.term == sighting.term)
    };
    let mut unseen = &log[log.iter().rposition(is_known).map_or(0, |last| last + 1)..];
    if stored.is_none() {
        let is_live = |it: &Sighting| it.heard == Heard::ByWatch && it.at > first_seen;
        let silent = unseen
            .iter()
            .rposition(|it| !is_live(it))
            .map_or(0, |last| last + 1);
        if let Some(last) = unseen[..silent].last() {
            history.push(entry(last, None, None));
        }
        unseen = &unseen[silent..];
    }
    let mut announcements: Vec<Announcement> = Vec::new();
    let mut previous = history.first().cloned();
    for sighting in unseen {
        if is_stale(sighting, previous.as_ref()) {
            continue;
        }
        let announcement = announcement(sighting, previous.as_ref());
        previous = Some(announcement.entry.clone());
        announcements.push(announcement);
    }
    (history, announcements)
}

/// A replica that lags may still list a term that its predecessor has already announced and passed.
fn is_stale(sighting: &Sighting, previous: Option<&LeadershipTerm>) -> bool {
    sighting.heard == Heard::ByList
        && previous.is_some_and(|it| it.lease_uid == sighting.uid && it.term >= sighting.term)
}

fn announcement(sighting: &Sighting, previous: Option<&LeadershipTerm>) -> Announcement {
    let gap = previous.and_then(|previous| gap(sighting, previous));
    let from = sighting.from.clone().or_else(|| {
        previous
            .filter(|_| gap.is_none())
            .map(|it| it.holder.clone())
    });
    Announcement {
        entry: entry(sighting, previous, gap),
        from,
        gap,
    }
}

/// Terms between that nobody observed. A new Lease starts its own count, but if it was found by a
/// LIST and counts on (E7), terms may have passed unseen.
fn gap(sighting: &Sighting, previous: &LeadershipTerm) -> Option<(i64, i64)> {
    let is_same_lease = sighting.uid == previous.lease_uid;
    let (first, last) = (previous.term + 1, sighting.term - 1);
    (first <= last && (is_same_lease || sighting.heard == Heard::ByList)).then_some((first, last))
}

fn entry(
    sighting: &Sighting,
    previous: Option<&LeadershipTerm>,
    gap: Option<(i64, i64)>,
) -> LeadershipTerm {
    let ending = previous.map(|previous| {
        let was_released = sighting
            .released
            .as_ref()
            .is_some_and(|(who, term)| *who == previous.holder && *term == previous.term);
        match (sighting.ending, was_released) {
            (Ending::Unknown, true) => Ending::Released,
            (ending, _) => ending,
        }
    });
    let first_seen_end = sighting.from.as_ref().map(|_| sighting.ending);
    LeadershipTerm {
        lease_uid: sighting.uid.clone(),
        term: sighting.term,
        holder: sighting.holder.clone(),
        pod: pod_of(&sighting.holder),
        since: sighting.since.clone(),
        previous_ended: ending.or(first_seen_end).map(|it| it.as_str().to_owned()),
        missed: gap.map_or(0, |(first, last)| last - first + 1),
    }
}

/// The history after `announced` terms, newest first.
pub fn history_after(
    before: &[LeadershipTerm],
    announced: impl IntoIterator<Item = LeadershipTerm>,
) -> Vec<LeadershipTerm> {
    let mut history = before.to_vec();
    for entry in announced {
        history.insert(0, entry);
    }
    history.truncate(HISTORY_LENGTH_MAX);
    history
}
