//! Status: from facts to conditions. Pure; the same facts give the same status (`status-is-derived`).

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use leasehold_crds::{
    BackendClassStatus, BackendKind,
    condition::{self, reason},
};

use super::observe::Facts;
use crate::{
    backend::Finding,
    controller::cluster_service::status::{Verdict, condition, unknown, verdict},
};

/// Conditions without which no login can be made; all others warn.
pub const NEEDED: [&str; 4] = [
    condition::REACHABLE,
    condition::VERSION_SUPPORTED,
    condition::WRITABLE,
    condition::ADMIN_RIGHTS,
];
/// How many users a message names.
const NAMED_MAX: usize = 5;
/// Longest message of a condition, in characters: what a server lacks may need a long statement.
const MESSAGE_MAX: usize = 2000;

/// The status after a pass.
pub fn status(facts: &Facts, now: jiff::Timestamp) -> BackendClassStatus {
    let old = facts.class.status.clone().unwrap_or_default();
    let generation = facts.class.metadata.generation;
    let mut verdicts = vec![(condition::READY, ready(facts))];
    verdicts.extend(findings(facts));
    verdicts.push((condition::IN_USE, in_use(facts)));
    let conditions: Vec<Condition> = verdicts
        .into_iter()
        .map(|(type_, verdict)| condition(&old.conditions, type_, verdict, generation, now))
        .collect();
    BackendClassStatus {
        observed_generation: generation,
        conditions,
        backend: facts.class.spec.kind(),
        // The last version that was seen stays while the server is away.
        server_version: seen_version(facts).or(old.server_version),
        services: i32::try_from(facts.users.len()).unwrap_or(i32::MAX),
    }
}

/// What the server showed; what could not be found out is Unknown rather than absent.
fn findings(facts: &Facts) -> Vec<(&'static str, Verdict)> {
    let found: &[Finding] = facts.look.as_ref().map_or(&[], |look| &look.findings);
    let mut verdicts: Vec<(&'static str, Verdict)> = Vec::new();
    for finding in found {
        if verdicts
            .iter()
            .all(|(type_, _)| *type_ != finding.condition)
        {
            verdicts.push((finding.condition, of_finding(finding)));
        }
    }
    for type_ in NEEDED {
        if verdicts.iter().all(|(it, _)| *it != type_) {
            let message = "The server could not be asked.";
            verdicts.push((type_, unknown(reason::NOT_CHECKED, message)));
        }
    }
    verdicts
}

fn of_finding(finding: &Finding) -> Verdict {
    let message: String = finding.message.chars().take(MESSAGE_MAX).collect();
    match finding.is_met {
        Some(is_met) => verdict(is_met, finding.reason, message),
        None => unknown(finding.reason, message),
    }
}

fn ready(facts: &Facts) -> Verdict {
    let look = match &facts.look {
        Ok(look) => look,
        Err(problem) => return verdict(false, problem.reason, problem.message.clone()),
    };
    let found = |type_: &str| look.findings.iter().find(|it| it.condition == type_);
    let unmet = NEEDED
        .into_iter()
        .filter_map(found)
        .find(|it| it.is_met != Some(true));
    if let Some(unmet) = unmet {
        return of_finding(unmet);
    }
    if found(condition::REACHABLE).is_none() {
        return unknown(reason::NOT_CHECKED, "The server could not be asked.");
    }
    if let Some(problem) = &look.refused {
        let secret = facts.class.spec.admin_secret().unwrap_or_default();
        let message = format!(
            "Secret {secret} or the authority was changed, but the server cannot be used with it; the one \
             before is used until it can: {problem}"
        );
        return verdict(false, reason::LOGIN_REFUSED, message);
    }
    if let Some(problem) = &facts.selector_problem {
        return verdict(false, reason::SPEC_INVALID, problem.clone());
    }
    let warnings: Vec<&str> = look
        .findings
        .iter()
        .filter(|it| it.is_met == Some(false))
        .map(|it| it.condition)
        .collect();
    let message = if facts.class.spec.allowed_namespaces.is_none() {
        "The server has all that is needed, but allowedNamespaces is absent: no namespace may use it."
            .to_owned()
    } else if warnings.is_empty() {
        "The server has all that is needed.".to_owned()
    } else {
        format!(
            "The server has all that is needed; see also {}.",
            warnings.join(", ")
        )
    };
    verdict(true, reason::AS_NEEDED, message)
}

fn in_use(facts: &Facts) -> Verdict {
    let is_deleted = facts.class.metadata.deletion_timestamp.is_some();
    if facts.users.is_empty() {
        return verdict(false, reason::UNUSED, "No ClusterService names it.");
    }
    let who = named(&facts.users);
    let message = if is_deleted {
        format!(
            "It is to be deleted, which waits for {who}: take it out of their specs or delete them."
        )
    } else {
        format!("It is named by {who}.")
    };
    verdict(true, reason::SERVICES_USE_IT, message)
}

fn named(users: &BTreeSet<(String, String)>) -> String {
    let mut names: Vec<String> = users
        .iter()
        .take(NAMED_MAX)
        .map(|(namespace, name)| format!("{namespace}/{name}"))
        .collect();
    let more = users.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// The version, from the words of the finding about it.
fn seen_version(facts: &Facts) -> Option<String> {
    let look = facts.look.as_ref().ok()?;
    let mut found = look.findings.iter();
    let found = found.find(|it| it.condition == condition::VERSION_SUPPORTED)?;
    let words: Vec<&str> = found.message.split([' ', ',', ';']).collect();
    let is_version = |word: &str| word.starts_with(|it: char| it.is_ascii_digit());
    words.windows(2).find_map(|pair| match pair {
        [product @ ("Redis" | "Valkey"), version] if is_version(version) => {
            Some(format!("{product} {version}"))
        }
        ["version", version]
            if is_version(version) && facts.class.spec.kind() == Some(BackendKind::Postgres) =>
        {
            Some(format!("PostgreSQL {version}"))
        }
        _ => None,
    })
}
