//! The condition SettingsMismatch: what is fixed in code against what is declared.

use leasehold_crds::{
    condition::reason,
    settings::{Fixed, LeaseSettings},
};

use super::{Verdict, is_shown, unknown, verdict};
use crate::{
    belief::{LeaseState, partitions::Life, record::shortened},
    controller::cluster_service::{observe::Facts, plan::hash},
};

/// How many pods a message names.
const NAMED_MAX: usize = 3;

/// Compares what the pods' code fixes with what the spec declares: the leader's, and under `partitioned`
/// every member's.
pub(super) fn settings_mismatch(facts: &Facts) -> Verdict {
    let leader = facts.leader.reading.as_ref().filter(|_| is_shown(facts));
    let leader = leader.filter(|_| facts.leader.state == LeaseState::Held);
    let mut found: Vec<(&str, Result<Vec<String>, String>)> = Vec::new();
    if let Some(fixed) = leader.and_then(|it| it.fixed.as_deref()) {
        found.push(("The leader", fixed_values(fixed, facts)));
    }
    let members = facts.partitions.members.iter();
    for member in members.filter(|it| facts.is_partitioned() && it.life == Life::Renewed) {
        if let Some(fixed) = member.fixed.as_deref() {
            let said = fixed_values(fixed, facts);
            // Pods of one service are usually alike: the first one speaks for them.
            if !found.iter().any(|(_, other)| *other == said) {
                found.push((&member.pod, said));
            }
        }
    }
    let differing: Vec<String> = found
        .iter()
        .filter_map(|(who, said)| said.as_ref().ok().map(|it| (who, it)))
        .filter(|(_, mismatches)| !mismatches.is_empty())
        .map(|(who, mismatches)| match *who {
            "The leader" => mismatches.join("; "),
            pod => format!("{} (pod {})", mismatches.join("; "), shortened(pod)),
        })
        .take(NAMED_MAX)
        .collect();
    if !differing.is_empty() {
        let message = format!(
            "The code fixes values that differ from the spec: {}. Change the code or the spec.",
            differing.join("; ")
        );
        return verdict(true, reason::FIXED_IN_CODE, message);
    }
    if let Some((who, Err(error))) = found.iter().find(|(_, said)| said.is_err()) {
        let message = format!(
            "What {} says about its fixed values cannot be read: {error}",
            shortened(who).replace("The leader", "the leader")
        );
        return unknown(reason::FIXED_MALFORMED, message);
    }
    match leader {
        None => verdict(
            false,
            reason::IN_STEP,
            "There is no leader whose settings could differ.",
        ),
        Some(leader) => verdict(
            false,
            reason::IN_STEP,
            following(leader.settings_generation.as_deref(), facts),
        ),
    }
}

/// The fixed values that differ.
fn fixed_values(text: &str, facts: &Facts) -> Result<Vec<String>, String> {
    Fixed::parse(text)
        .map(|fixed| mismatches(&fixed, facts))
        .map_err(|error| shortened(&error.to_string()))
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
    let spec = &facts.service.spec;
    let partitions = spec.partitions.map(|it| it.to_string());
    let words = [
        ("leaderStrategy", fixed.strategy.clone(), strategy),
        (
            "partitions",
            fixed.partitions.map(|it| it.to_string()),
            partitions.as_deref(),
        ),
        ("hash", fixed.hash.clone(), hash(spec)),
    ];
    for (field, fixed, declared) in words {
        if let (Some(fixed), Some(declared)) = (fixed, declared)
            && fixed != declared
        {
            let fixed = shortened(&fixed);
            found.push(format!(
                "{field} is {fixed} in code and {declared} in the spec"
            ));
        }
    }
    found
}
