//! The kubernetes store keeps the contract that the memory store keeps (`drivers-are-equal`).

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use leasehold::testing::conformance::{self, Outsider};
use leasehold::testing::{Answer, Clock, KubernetesStore, LeaseKey};
use leasehold_crds::keys;
use leasehold_e2e::Result;
use leasehold_e2e::control_plane::kubeconfig;
use serde_json::{Value, json};

use crate::ground::{Ground, annotation};

/// One suite for every store; it panics with the name of the rule that was broken.
pub(crate) async fn the_kubernetes_store_conforms(ground: &Ground) -> Result<()> {
    let config = kubeconfig::config(&ground.account.kubeconfig).await?;
    let store = KubernetesStore::new(config, ground.namespace.name(), Clock::real())?;
    let outsider = Admin {
        leases: ground.leases(),
    };
    conformance::all(Arc::new(store), Arc::new(outsider), "conforms").await;
    Ok(())
}

/// The harness's own hands on the Leases.
struct Admin {
    leases: Api<Lease>,
}

impl Admin {
    async fn patch(&self, key: &LeaseKey, patch: Value) {
        let name = key.lease_name();
        let patched = self
            .leases
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap_or_else(|error| panic!("patching {name}: {error}"));
    }
}

impl Outsider for Admin {
    fn annotate<'a>(&'a self, key: &'a LeaseKey, name: &'a str, value: &'a str) -> Answer<'a, ()> {
        Box::pin(self.patch(
            key,
            json!({ "metadata": { "annotations": { name: value } } }),
        ))
    }

    fn annotation<'a>(&'a self, key: &'a LeaseKey, name: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let found = self.leases.get(&key.lease_name()).await;
            let found = found.unwrap_or_else(|error| panic!("reading {key}: {error}"));
            annotation(&found, name).map(str::to_owned)
        })
    }

    fn delete<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(async move {
            let deleted = self
                .leases
                .delete(&key.lease_name(), &DeleteParams::default())
                .await;
            deleted.unwrap_or_else(|error| panic!("deleting {key}: {error}"));
        })
    }

    fn empty<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(self.patch(key, json!({ "spec": { "holderIdentity": "" } })))
    }

    fn unlabel<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()> {
        let labels = json!({ (keys::LABEL_CLUSTER_ID): null, (keys::LABEL_LEASE): null });
        Box::pin(self.patch(key, json!({ "metadata": { "labels": labels } })))
    }

    fn foreign<'a>(&'a self, id: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(async move {
            let id = id.cluster_id();
            for name in [
                format!("{id}.elsewhere"),
                format!("{id}.member"),
                format!("x-{id}.member.z"),
            ] {
                let lease: Lease = serde_json::from_value(json!({
                    "metadata": { "name": name, "labels": {
                        (keys::LABEL_CLUSTER_ID): id, (keys::LABEL_LEASE): keys::LEASE_MEMBER
                    } },
                    "spec": { "holderIdentity": "somebody" },
                }))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
                let made = self.leases.create(&PostParams::default(), &lease).await;
                made.unwrap_or_else(|error| panic!("creating {name}: {error}"));
            }
        })
    }
}
