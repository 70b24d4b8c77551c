//! Status: from old status and facts to the new one. Pure; the same facts give the same status
//! (`status-is-derived`), so nothing is written while nothing changes (`quiet-when-settled`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use leasehold_crds::{
    ClusterScope, ClusterServiceStatus, Leader, LeadershipTerm,
    condition::{self, reason},
    keys,
    settings::{Fixed, LeaseSettings},
};
use serde_json::{Map, Value};

use super::{observe::Facts, plan::Plan};
use crate::{
    belief::{
        Ending, LeaseState,
        record::{pod_of, shortened},
    },
    error::Error,
};

/// What a condition says.
struct Verdict {
    status: &'static str,
    reason: &'static str,
    message: String,
}

fn verdict(status: bool, reason: &'static str, message: impl Into<String>) -> Verdict {
    Verdict {
        status: if status { "True" } else { "False" },
        reason,
        message: message.into(),
    }
}

fn unknown(reason: &'static str, message: impl Into<String>) -> Verdict {
    Verdict {
        status: "Unknown",
        reason,
        message: message.into(),
    }
}

/// The status after a pass: `history` as far as it was announced, `problem` what went wrong.
pub fn status(
    facts: &Facts,
    plan: &Plan,
    history: Vec<LeadershipTerm>,
    problem: Option<&Error>,
    now: jiff::Timestamp,
) -> ClusterServiceStatus {
    let old = facts.service.status.clone().unwrap_or_default();
    let generation = facts.service.metadata.generation;
    let elected = leader_elected(facts);
    let stalled = stalled(plan, problem);
    let verdicts = [
        (condition::READY, ready(facts, plan, problem, &elected)),
        (condition::LEADER_ELECTED, elected),
        (condition::SETTINGS_MISMATCH, settings_mismatch(facts)),
        (condition::PAUSED, paused(facts)),
        (condition::STALLED, stalled),
    ];
    let conditions = verdicts
        .into_iter()
        .map(|(type_, verdict)| condition(&old.conditions, type_, verdict, generation, now))
        .collect();
    ClusterServiceStatus {
        observed_generation: generation,
        conditions,
        leader: leader(facts),
        partitions: None,
        members: None,
        history: Some(history),
    }
}

/// A condition whose transition time moves only when its status does.
fn condition(
    old: &[Condition],
    type_: &str,
    verdict: Verdict,
    generation: Option<i64>,
    now: jiff::Timestamp,
) -> Condition {
    let before = old
        .iter()
        .find(|it| it.type_ == type_ && it.status == verdict.status);
    Condition {
        type_: type_.to_owned(),
        status: verdict.status.to_owned(),
        reason: verdict.reason.to_owned(),
        message: verdict.message,
        observed_generation: generation,
        last_transition_time: before.map_or_else(
            || Time(crate::belief::record::in_whole_seconds(now)),
            |it| it.last_transition_time.clone(),
        ),
    }
}

fn is_shown(facts: &Facts) -> bool {
    facts.service.spec.cluster_scope == ClusterScope::Cluster && facts.leader.unlabelled.is_none()
}

/// Who leads; a holder that lapsed leads no more.
fn leader(facts: &Facts) -> Option<Leader> {
    if facts.blind.is_some() {
        // Not known now; the last known one stands, and LeaderElected says Unknown.
        return facts
            .service
            .status
            .as_ref()
            .and_then(|status| status.leader.clone());
    }
    let reading = facts.leader.reading.as_ref().filter(|_| is_shown(facts))?;
    let holder = reading
        .holder()
        .filter(|_| facts.leader.state == LeaseState::Held)?;
    Some(Leader {
        holder: shortened(holder),
        pod: pod_of(holder),
        term: reading.term(),
        since: reading.since.clone(),
    })
}

fn leader_elected(facts: &Facts) -> Verdict {
    let id = &facts.cluster_id;
    let lease = id.leader_lease_name();
    if facts.service.spec.cluster_scope == ClusterScope::Node {
        let message = "With clusterScope node every pod acts for itself and nothing is elected.";
        return verdict(false, reason::NODE_SCOPED, message);
    }
    if let Some(blind) = &facts.blind {
        return unknown(blind.reason, blind.message.clone());
    }
    if let Some(holder) = &facts.leader.unlabelled {
        let holder = holder.as_deref().unwrap_or("nobody");
        let message = format!(
            "Lease {lease} exists without our labels, held by {holder}. If its holder is a candidate \
             of this service, run: kubectl label lease {lease} {}={id} {}={}; else delete it.",
            keys::LABEL_CLUSTER_ID,
            keys::LABEL_LEASE,
            keys::LEASE_LEADER
        );
        return verdict(false, reason::LEASE_FOREIGN, message);
    }
    let waiting = "Candidates take over by themselves; if none does, see whether the pods run and what they log.";
    match &facts.leader.state {
        LeaseState::Held => {
            let holder = facts
                .leader
                .reading
                .as_ref()
                .and_then(|it| it.holder())
                .unwrap_or_default();
            verdict(
                true,
                reason::HELD,
                format!("{} holds Lease {lease}.", pod_of(holder)),
            )
        }
        LeaseState::Absent => verdict(
            false,
            reason::NO_LEASE,
            format!(
                "Nobody has taken Lease {lease} yet. Start pods that run the service {id}, or see what they log."
            ),
        ),
        LeaseState::Vacant(Ending::Released) => verdict(
            false,
            reason::RELEASED,
            format!("The last leader gave Lease {lease} up. {waiting}"),
        ),
        LeaseState::Vacant(_) => verdict(
            false,
            reason::EMPTIED,
            format!(
                "The holder of Lease {lease} was removed, but not by itself; candidates wait the lease duration. {waiting}"
            ),
        ),
        LeaseState::Expired => verdict(
            false,
            reason::EXPIRED,
            format!("The holder of Lease {lease} did not renew it in time. {waiting}"),
        ),
        LeaseState::Malformed(problem) => verdict(
            false,
            reason::LEASE_MALFORMED,
            format!(
                "Lease {lease} holds what no candidate writes: {problem}. Candidates replace it after \
                 the lease duration; if it comes back, see who writes it."
            ),
        ),
    }
}

fn ready(facts: &Facts, plan: &Plan, problem: Option<&Error>, elected: &Verdict) -> Verdict {
    if let Some(conflict) = &plan.conflict {
        return verdict(
            false,
            reason::CLUSTER_ID_CONFLICT,
            conflict_message(conflict),
        );
    }
    if let Some(problem) = problem {
        return verdict(false, problem.reason(), problem.to_string());
    }
    if facts.service.spec.cluster_scope == ClusterScope::Node {
        return verdict(true, reason::NODE_SCOPED, elected.message.clone());
    }
    if elected.status == "True" {
        return verdict(true, reason::SETTLED, elected.message.clone());
    }
    Verdict {
        status: elected.status,
        reason: elected.reason,
        message: elected.message.clone(),
    }
}

fn conflict_message(conflict: &super::plan::Conflict) -> String {
    format!(
        "The older ClusterService {} has the same cluster id and other settings, which count: {}. Make \
         them equal, or use another clusterId.",
        conflict.older,
        conflict.differences.join("; ")
    )
}

fn stalled(plan: &Plan, problem: Option<&Error>) -> Verdict {
    if let Some(conflict) = &plan.conflict {
        return verdict(
            true,
            reason::CLUSTER_ID_CONFLICT,
            conflict_message(conflict),
        );
    }
    match problem.filter(|problem| problem.needs_somebody()) {
        Some(problem) => verdict(true, problem.reason(), problem.to_string()),
        None => verdict(false, reason::PROGRESSING, "Nothing needs somebody to act."),
    }
}

fn paused(facts: &Facts) -> Verdict {
    if facts.service.spec.paused {
        let message = "spec.paused is true: only status and Events are written. Elections go on.";
        verdict(true, reason::PAUSED_BY_SPEC, message)
    } else {
        verdict(false, reason::RUNNING, "spec.paused is false.")
    }
}

/// Compares what the leader's code fixes with what the spec declares.
fn settings_mismatch(facts: &Facts) -> Verdict {
    let reading = facts.leader.reading.as_ref().filter(|_| is_shown(facts));
    let Some(reading) = reading.filter(|_| facts.leader.state == LeaseState::Held) else {
        return verdict(
            false,
            reason::IN_STEP,
            "There is no leader whose settings could differ.",
        );
    };
    let fixed = match reading.fixed.as_deref().map(Fixed::parse) {
        None => Fixed::default(),
        Some(Ok(fixed)) => fixed,
        Some(Err(error)) => {
            let message = format!(
                "What the leader says about its fixed values cannot be read: {}",
                shortened(&error.to_string())
            );
            return unknown(reason::FIXED_MALFORMED, message);
        }
    };
    let mismatches = mismatches(&fixed, facts);
    if !mismatches.is_empty() {
        let message = format!(
            "The leader's code fixes values that differ from the spec: {}. Change the code or the spec.",
            mismatches.join("; ")
        );
        return verdict(true, reason::FIXED_IN_CODE, message);
    }
    verdict(
        false,
        reason::IN_STEP,
        following(reading.settings_generation.as_deref(), facts),
    )
}

fn following(followed: Option<&str>, facts: &Facts) -> String {
    let declared = facts
        .service
        .metadata
        .generation
        .unwrap_or_default()
        .to_string();
    match followed {
        None => "The leader does not say which settings it follows.".to_owned(),
        Some(followed) if followed == declared => {
            format!("The leader follows the settings of generation {declared}.")
        }
        Some(followed) => format!("The leader follows the settings of generation {followed}."),
    }
}

fn mismatches(fixed: &Fixed, facts: &Facts) -> Vec<String> {
    let declared: LeaseSettings = facts.service.spec.lease.into();
    let lease = fixed.lease.unwrap_or_default();
    let numbers = [
        (
            "lease.durationSeconds",
            lease.duration_seconds,
            declared.duration_seconds,
        ),
        (
            "lease.heartbeatSeconds",
            lease.heartbeat_seconds,
            declared.heartbeat_seconds,
        ),
        (
            "lease.attemptTimeoutSeconds",
            lease.attempt_timeout_seconds,
            declared.attempt_timeout_seconds,
        ),
        (
            "lease.stopBudgetSeconds",
            lease.stop_budget_seconds,
            declared.stop_budget_seconds,
        ),
    ];
    let mut found: Vec<String> = numbers
        .into_iter()
        .filter_map(|(field, fixed, declared)| {
            let fixed = fixed?;
            #[allow(clippy::float_cmp)] // whole seconds are exact
            (fixed != declared as f64)
                .then(|| format!("{field} is {fixed} in code and {declared} in the spec"))
        })
        .collect();
    let strategy = facts
        .service
        .spec
        .leader_strategy
        .map(leasehold_crds::LeaderStrategy::as_str);
    if let (Some(fixed), Some(declared)) = (fixed.strategy.as_deref(), strategy)
        && fixed != declared
    {
        let fixed = shortened(fixed);
        found.push(format!(
            "leaderStrategy is {fixed} in code and {declared} in the spec"
        ));
    }
    found
}

/// The merge patch that turns one status into another; `None` if they mean the same.
pub fn patch(old: Option<&ClusterServiceStatus>, new: &ClusterServiceStatus) -> Option<Value> {
    let as_map = |status: &ClusterServiceStatus| match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    };
    let old = old.map(as_map).unwrap_or_default();
    let difference = difference(&old, &as_map(new));
    (!difference.is_empty()).then_some(Value::Object(difference))
}

/// RFC 7386: null removes, objects merge, everything else replaces.
fn difference(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut difference = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        difference.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match (old.get(name), value) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let inner = self::difference(before, after);
                if !inner.is_empty() {
                    difference.insert(name.clone(), Value::Object(inner));
                }
            }
            (before, after) if before != Some(after) => {
                difference.insert(name.clone(), after.clone());
            }
            _ => {}
        }
    }
    difference
}
