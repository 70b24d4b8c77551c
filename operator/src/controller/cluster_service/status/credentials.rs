//! What status says of logins at stores: from the newest reports, or as it said before while there is none.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use leasehold_crds::{
    ClusterServiceStatus,
    cluster_service::{BackendKind, BindingStatus, ClusterServiceSpec, CredentialStatus},
    condition::{self, reason},
};

use std::borrow::Cow;

use super::{Facts, Verdict, unknown};
use crate::credential::reports::Said;

/// The condition of a store.
pub(super) fn condition_of(kind: BackendKind) -> &'static str {
    match kind {
        BackendKind::Postgres => condition::POSTGRES_READY,
        BackendKind::Redis => condition::REDIS_READY,
    }
}

/// The stores of which the spec wants a login.
pub fn wanted(spec: &ClusterServiceSpec) -> impl Iterator<Item = BackendKind> {
    let postgres = spec.postgres.as_ref().map(|_| BackendKind::Postgres);
    let redis = spec.redis.as_ref().map(|_| BackendKind::Redis);
    postgres.into_iter().chain(redis)
}

/// PostgresReady, RedisReady and CredentialsCurrent, as far as they exist.
pub(super) fn verdicts(facts: &Facts, old: &[Condition]) -> Vec<(&'static str, Verdict)> {
    let mut verdicts = Vec::new();
    let mut current: Vec<Verdict> = Vec::new();
    let wants: Vec<BackendKind> = wanted(&facts.service.spec).collect();
    for kind in wants.iter().copied() {
        let type_ = condition_of(kind);
        let report = facts.reports.get(&kind);
        verdicts.push((
            type_,
            report.map_or_else(|| before(old, type_), |it| said(&it.ready)),
        ));
        current.extend(report.map(|it| said(&it.current)));
    }
    let is_complete = current.len() == wants.len();
    // Of a store that is not wanted there is a report while something of it is left.
    let left = facts.reports.iter().filter(|(it, _)| !wants.contains(it));
    verdicts.extend(left.map(|(kind, it)| (condition_of(*kind), said(&it.ready))));
    if wants.is_empty() {
        return verdicts;
    }
    // The worst counts: False before Unknown before True.
    let rank = |it: &Verdict| {
        ["False", "Unknown", "True"]
            .iter()
            .position(|word| *word == it.status)
    };
    let worst = current.into_iter().min_by_key(rank);
    let worst = worst.filter(|it| is_complete || it.status != "True");
    let type_ = condition::CREDENTIALS_CURRENT;
    verdicts.push((type_, worst.unwrap_or_else(|| before(old, type_))));
    verdicts
}

/// What keeps the service from being ready, if a store does that it wants.
pub(super) fn not_ready(facts: &Facts, verdicts: &[(&'static str, Verdict)]) -> Option<Verdict> {
    let stores: Vec<_> = wanted(&facts.service.spec).map(condition_of).collect();
    let mut missing = verdicts
        .iter()
        .filter(|(type_, verdict)| stores.contains(type_) && verdict.status != "True");
    missing.next().map(|(_, verdict)| Verdict {
        status: "False",
        ..verdict.clone()
    })
}

/// The credentials, without anything secret.
pub(super) fn credentials(facts: &Facts, old: &ClusterServiceStatus) -> Vec<CredentialStatus> {
    wanted(&facts.service.spec)
        .filter_map(|kind| match facts.reports.get(&kind) {
            Some(report) => report.credential.clone(),
            None => old
                .credentials
                .iter()
                .find(|it| it.backend == kind)
                .cloned(),
        })
        .collect()
}

/// The Secret to bind to: there once a login is in force.
pub(super) fn binding(credentials: &[CredentialStatus]) -> Option<BindingStatus> {
    let first = credentials.first()?;
    Some(BindingStatus {
        name: first.secret_name.clone(),
    })
}

fn said(said: &Said) -> Verdict {
    let status = match said.is_met {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    Verdict {
        status,
        reason: Cow::Borrowed(said.reason),
        message: said.message.clone(),
    }
}

/// Unknown is not absent: what was said stands until something else is known.
fn before(old: &[Condition], type_: &str) -> Verdict {
    let known = old.iter().find(|it| it.type_ == type_);
    let known = known.and_then(|it| {
        let status = ["True", "False", "Unknown"]
            .into_iter()
            .find(|word| *word == it.status)?;
        Some(Verdict {
            status,
            reason: Cow::Owned(it.reason.clone()),
            message: it.message.clone(),
        })
    });
    known.unwrap_or_else(|| {
        unknown(
            reason::PROVISIONING,
            "The operator has not looked at it yet.",
        )
    })
}
