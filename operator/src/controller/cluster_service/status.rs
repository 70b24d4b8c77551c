//! Status: from old status and facts to the new one. Pure; the same facts give the same status
//! (`status-is-derived`), so nothing is written while nothing changes (`quiet-when-settled`).

pub mod credentials;
mod mismatch;
mod partitions;

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use leasehold_crds::{
    ClusterScope, ClusterServiceStatus, Leader, LeadershipTerm,
    condition::{self, reason},
    keys,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    observe::Facts,
    plan::{Plan, conflict_message},
};
use crate::{
    belief::{
        Ending, LeaseState,
        record::{pod_of, shortened},
    },
    error::Error,
};

/// What a condition says.
#[derive(Clone)]
pub(crate) struct Verdict {
    pub(crate) status: &'static str,
    pub(crate) reason: Cow<'static, str>,
    pub(crate) message: String,
}

pub(crate) fn verdict(status: bool, reason: &'static str, message: impl Into<String>) -> Verdict {
    Verdict {
        status: if status { "True" } else { "False" },
        reason: Cow::Borrowed(reason),
        message: message.into(),
    }
}

pub(crate) fn unknown(reason: &'static str, message: impl Into<String>) -> Verdict {
    Verdict {
        status: "Unknown",
        reason: Cow::Borrowed(reason),
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
    let spread = partitions::verdicts(facts, &old.conditions, now);
    let stores = credentials::verdicts(facts, &old.conditions);
    let credentials = credentials::credentials(facts, &old);
    let mut verdicts = vec![
        (
            condition::READY,
            ready(facts, plan, problem, &elected, &spread, &stores),
        ),
        (condition::LEADER_ELECTED, elected),
    ];
    verdicts.extend(spread);
    verdicts.extend(stores);
    verdicts.extend([
        (
            condition::SETTINGS_MISMATCH,
            mismatch::settings_mismatch(facts),
        ),
        (condition::PAUSED, paused(facts)),
        (condition::STALLED, stalled),
    ]);
    let conditions = verdicts
        .into_iter()
        .map(|(type_, verdict)| condition(&old.conditions, type_, verdict, generation, now))
        .collect();
    ClusterServiceStatus {
        observed_generation: generation,
        conditions,
        leader: leader(facts),
        partitions: partitions::partitions(facts),
        members: partitions::members(facts),
        history: Some(history),
        binding: credentials::binding(&credentials),
        credentials,
    }
}

/// A condition whose transition time moves only when its status does.
pub(crate) fn condition(
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
        reason: verdict.reason.into_owned(),
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

fn ready(
    facts: &Facts,
    plan: &Plan,
    problem: Option<&Error>,
    elected: &Verdict,
    spread: &[(&str, Verdict)],
    stores: &[(&'static str, Verdict)],
) -> Verdict {
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
    if let Some(missing) = credentials::not_ready(facts, stores) {
        return missing;
    }
    if facts.service.spec.cluster_scope == ClusterScope::Node {
        return verdict(true, reason::NODE_SCOPED, elected.message.clone());
    }
    if elected.status != "True" {
        return elected.clone();
    }
    let found = |type_: &str| spread.iter().find(|(it, _)| *it == type_).map(|(_, it)| it);
    if let Some(stuck) = found(condition::HANDOFF_STUCK).filter(|it| it.status == "True") {
        return Verdict {
            status: "False",
            ..stuck.clone()
        };
    }
    match found(condition::PARTITIONS_OWNED) {
        // A rebalance is part of an ordinary day.
        Some(owned) if owned.reason == reason::REBALANCING => {
            verdict(true, reason::REBALANCING, owned.message.clone())
        }
        Some(owned) if owned.status != "True" => owned.clone(),
        Some(owned) => {
            let message = format!("{} {}", elected.message, owned.message);
            verdict(true, reason::SETTLED, message)
        }
        None => verdict(true, reason::SETTLED, elected.message.clone()),
    }
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

/// The merge patch that turns one status into another; `None` if they mean the same.
pub fn patch<S: Serialize>(old: Option<&S>, new: &S) -> Option<Value> {
    let as_map = |status: &S| match serde_json::to_value(status) {
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
