//! The settings Lease: how the declared spec reaches running pods (they watch Leases anyway).

use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::Resource;
use leasehold_crds::{ClusterId, ClusterService, Settings, keys};

/// A new settings Lease, or the found one with what is ours set and the rest kept.
pub fn build_settings_lease(
    found: Option<Lease>,
    namespace: &str,
    cluster_id: &ClusterId,
    settings: &Settings,
    owners: &[(String, String)],
) -> Lease {
    let mut lease = found.unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(cluster_id.settings_lease_name()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    let metadata = &mut lease.metadata;
    metadata.managed_fields = None;
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(keys::LABEL_CLUSTER_ID.to_owned(), cluster_id.to_string());
    labels.insert(
        keys::LABEL_LEASE.to_owned(),
        keys::LEASE_SETTINGS.to_owned(),
    );
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(keys::ANNOTATION_SETTINGS.to_owned(), settings.to_json());
    let mut references = metadata.owner_references.take().unwrap_or_default();
    let is_ours = |it: &OwnerReference| {
        it.kind == ClusterService::kind(&()) && it.api_version == ClusterService::api_version(&())
    };
    references.retain(|reference| !is_ours(reference));
    references.extend(owners.iter().map(owner_reference));
    metadata.owner_references = Some(references);
    lease
}

/// With its last ClusterService the settings Lease goes too, whether or not an operator runs.
fn owner_reference((name, uid): &(String, String)) -> OwnerReference {
    OwnerReference {
        api_version: ClusterService::api_version(&()).into_owned(),
        kind: ClusterService::kind(&()).into_owned(),
        name: name.clone(),
        uid: uid.clone(),
        controller: None,
        block_owner_deletion: Some(false),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_crds::LeaseSpec;

    use super::*;

    fn settings() -> Settings {
        Settings {
            version: Settings::VERSION,
            generation: 3,
            strategy: "leader-elected".into(),
            partitions: None,
            hash: None,
            lease: LeaseSpec::default().into(),
            drain_timeout_seconds: None,
        }
    }

    #[test]
    fn a_new_lease_says_what_is_declared_and_whose_it_is() {
        let id = ClusterId::new("billing").unwrap();
        let owners = [("billing".to_owned(), "u1".to_owned())];
        let lease = build_settings_lease(None, "demo", &id, &settings(), &owners);
        let metadata = lease.metadata;
        assert_eq!(metadata.name.as_deref(), Some("billing.settings"));
        assert_eq!(metadata.labels.unwrap()[keys::LABEL_LEASE], "settings");
        let text = &metadata.annotations.unwrap()[keys::ANNOTATION_SETTINGS];
        assert_eq!(Settings::parse(text).unwrap(), settings());
        assert_eq!(metadata.owner_references.unwrap()[0].uid, "u1");
        assert_eq!(lease.spec, None);
    }

    #[test]
    fn what_others_put_on_the_lease_stays() {
        let id = ClusterId::new("billing").unwrap();
        let mut found = build_settings_lease(None, "demo", &id, &settings(), &[]);
        found
            .metadata
            .labels
            .as_mut()
            .unwrap()
            .insert("team".into(), "blue".into());
        found.metadata.resource_version = Some("7".into());
        found.metadata.owner_references = Some(vec![OwnerReference {
            kind: "Deployment".into(),
            uid: "d".into(),
            ..OwnerReference::default()
        }]);
        let owners = [("billing".to_owned(), "u2".to_owned())];
        let lease = build_settings_lease(Some(found), "demo", &id, &settings(), &owners);
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(lease.metadata.labels.unwrap()["team"], "blue");
        let uids: Vec<String> = lease
            .metadata
            .owner_references
            .unwrap()
            .into_iter()
            .map(|it| it.uid)
            .collect();
        assert_eq!(uids, ["d", "u2"]);
    }
}
