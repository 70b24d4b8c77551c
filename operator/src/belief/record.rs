//! One Lease as read: the election's record, what the leader says about itself, and what is wrong with it.
//!
//! Anybody can edit a Lease. Nonsense becomes a sentence for a condition, never an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::core::DeserializeGuard;
use leasehold_core::{id::IDENTITY_BYTES_MAX, lease::Versioned};
use leasehold_crds::keys;

/// A Lease as the operator reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseReading {
    /// uid of the object.
    pub uid: String,
    /// resourceVersion of the object.
    pub revision: String,
    /// Labels of the object.
    pub labels: BTreeMap<String, String>,
    /// The record as the election reads it; `None` if it cannot be one.
    pub state: Option<Versioned>,
    /// What no candidate writes, if anything.
    pub problem: Option<String>,
    /// When the holder says it acquired the Lease; shown, never compared.
    pub since: Option<Time>,
    /// Annotation: the settings generation that the leader follows.
    pub settings_generation: Option<String>,
    /// Annotation: the values that the leader's code fixes.
    pub fixed: Option<String>,
    /// Annotation: the settings, on a settings Lease.
    pub settings: Option<String>,
    /// uids of the objects that own it.
    pub owners: BTreeSet<String>,
}

impl LeaseReading {
    /// Reads a Lease that may not even decode.
    pub fn of(lease: &DeserializeGuard<Lease>) -> Self {
        match &lease.0 {
            Ok(lease) => Self::of_lease(lease),
            Err(invalid) => {
                let problem = format!("the object cannot be read: {}", shortened(&invalid.error));
                Self {
                    problem: Some(problem),
                    ..Self::of_metadata(&invalid.metadata)
                }
            }
        }
    }

    /// Reads a decoded Lease, as a candidate reads it.
    pub fn of_lease(lease: &Lease) -> Self {
        let mut reading = Self::of_metadata(&lease.metadata);
        let spec = lease.spec.clone().unwrap_or_default();
        let annotation = |key: &str| {
            let annotations = lease.metadata.annotations.as_ref();
            annotations.and_then(|all| all.get(key)).cloned()
        };
        reading.problem = problem(&spec);
        match leasehold::kubernetes::read_lease(lease) {
            Ok(state) => reading.state = Some(state),
            Err(malformed) => reading.problem = Some(malformed.to_string()),
        }
        reading.since = spec.acquire_time.map(|time| Time(in_whole_seconds(time.0)));
        reading.settings_generation =
            annotation(keys::ANNOTATION_SETTINGS_GENERATION).map(|text| shortened(&text));
        reading.fixed = annotation(keys::ANNOTATION_FIXED);
        reading.settings = annotation(keys::ANNOTATION_SETTINGS);
        reading
    }

    fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            revision: metadata.resource_version.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            state: None,
            problem: None,
            since: None,
            settings_generation: None,
            fixed: None,
            settings: None,
            owners: metadata
                .owner_references
                .iter()
                .flatten()
                .map(|it| it.uid.clone())
                .collect(),
        }
    }

    /// It carries the labels by which we find Leases, for this cluster and purpose.
    pub fn is_labelled(&self, cluster_id: &str, lease: &str) -> bool {
        let label = |key: &str| self.labels.get(key).map(String::as_str);
        label(keys::LABEL_CLUSTER_ID) == Some(cluster_id) && label(keys::LABEL_LEASE) == Some(lease)
    }

    /// Who holds it.
    pub fn holder(&self) -> Option<&str> {
        self.state
            .as_ref()
            .and_then(|state| state.record.holder.as_deref())
    }

    /// Number of the leadership.
    pub fn term(&self) -> i64 {
        self.state
            .as_ref()
            .map_or(0, |state| state.record.term.number().into())
    }

    /// For how long the holder keeps others out after each write.
    pub fn duration(&self) -> Option<Duration> {
        self.state.as_ref().and_then(|state| state.record.duration)
    }
}

/// What no candidate writes, as a sentence that names field, found and allowed.
fn problem(spec: &LeaseSpec) -> Option<String> {
    let holder = spec
        .holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty());
    let mut problems = Vec::new();
    if let Some(holder) = holder
        && holder.len() > IDENTITY_BYTES_MAX
    {
        problems.push(format!(
            "spec.holderIdentity has {} bytes, allowed are {IDENTITY_BYTES_MAX}",
            holder.len()
        ));
    }
    match spec.lease_duration_seconds {
        Some(seconds) if seconds <= 0 => problems.push(format!(
            "spec.leaseDurationSeconds is {seconds}, allowed are positive numbers"
        )),
        None if holder.is_some() => {
            problems.push("spec.leaseDurationSeconds is missing".to_owned());
        }
        Some(_) | None => {}
    }
    if let Some(transitions) = spec.lease_transitions
        && transitions < 0
    {
        problems.push(format!(
            "spec.leaseTransitions is {transitions}, allowed are numbers from 0"
        ));
    }
    (!problems.is_empty()).then(|| problems.join("; "))
}

/// Kubernetes keeps whole seconds in `Time`; a finer value would look changed on every read.
pub fn in_whole_seconds(time: jiff::Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Text from outside for a message: never kilobytes of it.
pub fn shortened(text: &str) -> String {
    const KEPT: usize = 160;
    if text.chars().count() <= KEPT {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(KEPT).collect();
    kept.push('…');
    kept
}

/// By what name people know a holder: its pod, else what stands before the first `_`
/// (our processes outside of pods, and client-go, both put their host there).
pub fn pod_of(holder: &str) -> String {
    let name = leasehold_core::id::pod_name(holder)
        .or_else(|| holder.split('_').next().filter(|name| !name.is_empty()))
        .unwrap_or(holder);
    shortened(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(lease: serde_json::Value) -> LeaseReading {
        LeaseReading::of(&serde_json::from_value(lease).unwrap())
    }

    fn lease(spec: &serde_json::Value) -> serde_json::Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "billing.leader", "uid": "u-1", "resourceVersion": "7"},
            "spec": spec,
        })
    }

    #[test]
    fn a_lease_of_client_go_is_read() {
        let reading = read(lease(&json!({
            "holderIdentity": "host-1_7ab2", "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "acquireTime": "2026-01-02T03:04:05.678901Z", "renewTime": "2026-01-02T03:04:06.000000Z",
        })));
        assert_eq!(reading.problem, None);
        assert_eq!(reading.holder(), Some("host-1_7ab2"));
        assert_eq!(reading.term(), 3);
        assert_eq!(reading.duration(), Some(Duration::from_secs(15)));
        assert_eq!(reading.since.unwrap().0.to_string(), "2026-01-02T03:04:05Z");
    }

    #[test]
    fn nonsense_is_named_with_found_and_allowed() {
        let huge = "x".repeat(10_240);
        for (spec, said) in [
            (
                json!({"holderIdentity": "a", "leaseDurationSeconds": 0}),
                "leaseDurationSeconds is 0",
            ),
            (
                json!({"holderIdentity": "a", "leaseDurationSeconds": -15}),
                "leaseDurationSeconds is -15",
            ),
            (
                json!({"holderIdentity": "a"}),
                "leaseDurationSeconds is missing",
            ),
            (
                json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": -1}),
                "leaseTransitions is -1",
            ),
            (
                json!({"holderIdentity": huge, "leaseDurationSeconds": 15}),
                "holderIdentity has 10240 bytes",
            ),
            (json!({"holderIdentity": 7}), "cannot be read"),
            (
                json!({"holderIdentity": "a", "renewTime": "yesterday"}),
                "cannot be read",
            ),
        ] {
            let problem = read(lease(&spec)).problem.unwrap_or_default();
            assert!(problem.contains(said), "{said}: {problem}");
            assert!(problem.len() < 500, "{problem}");
        }
    }

    #[test]
    fn an_empty_holder_is_no_holder_and_no_problem() {
        for spec in [
            json!({}),
            json!({"holderIdentity": ""}),
            json!({"holderIdentity": null}),
        ] {
            let reading = read(lease(&spec));
            assert_eq!((reading.holder(), reading.problem.as_deref()), (None, None));
        }
        let bare = read(json!({"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}}));
        assert_eq!(bare.holder(), None);
    }

    #[test]
    fn people_know_a_holder_by_its_pod_or_host() {
        for (holder, pod) in [
            ("billing-0_0f3c_1a2b3c4d", "billing-0"),
            ("laptop__1a2b3c4d", "laptop"),
            ("host-1_7ab2", "host-1"),
            ("somebody", "somebody"),
            ("_x", "_x"),
        ] {
            assert_eq!(pod_of(holder), pod);
        }
    }
}
