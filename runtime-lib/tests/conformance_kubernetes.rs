//! The Kubernetes store keeps the contract of `driver.rs`, on a real API server.
//!
//! Needs `KUBECONFIG`, and a namespace in `LEASEHOLD_TEST_NAMESPACE` (default `default`) in which
//! its user has the lease verbs and `delete`:
//! `cargo test -p leasehold --features kubernetes,testing --test conformance_kubernetes -- --ignored`

#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, Config};
use leasehold::kubernetes::leader_lease_name;
use leasehold::testing::conformance::{self, Outsider};
use leasehold::testing::{Answer, Clock, KubernetesStore, LeaseKey, LeaseStore, News};
use serde_json::json;

/// An administrator with a client of their own.
struct Administrator(Api<Lease>);

impl Administrator {
    async fn patch(&self, key: &LeaseKey, change: serde_json::Value) {
        let name = leader_lease_name(key.as_str());
        self.0
            .patch(&name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
    }
}

impl Outsider for Administrator {
    fn annotate<'a>(&'a self, key: &'a LeaseKey, name: &'a str, value: &'a str) -> Answer<'a, ()> {
        Box::pin(self.patch(key, json!({"metadata": {"annotations": {name: value}}})))
    }

    fn annotation<'a>(&'a self, key: &'a LeaseKey, name: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let lease = self.0.get(&leader_lease_name(key.as_str())).await.unwrap();
            lease.metadata.annotations?.get(name).cloned()
        })
    }

    fn delete<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(async move {
            let name = leader_lease_name(key.as_str());
            self.0
                .delete(&name, &DeleteParams::default())
                .await
                .unwrap();
        })
    }

    fn empty<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(self.patch(key, json!({"spec": {"holderIdentity": ""}})))
    }
}

fn namespace() -> String {
    std::env::var("LEASEHOLD_TEST_NAMESPACE").unwrap_or_else(|_| "default".to_owned())
}

fn prefix(rule: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("{rule}{:x}", now.as_millis() % 0xffff_ffff)
}

async fn connect() -> (Arc<KubernetesStore>, Administrator) {
    let config = Config::infer().await.unwrap();
    let store = KubernetesStore::new(config.clone(), &namespace(), Clock::real()).unwrap();
    let client = Client::try_from(config).unwrap();
    (
        Arc::new(store),
        Administrator(Api::namespaced(client, &namespace())),
    )
}

#[tokio::test]
#[ignore = "needs a real API server: KUBECONFIG"]
async fn the_kubernetes_store_conforms() {
    let (store, administrator) = connect().await;
    conformance::all(
        store as Arc<dyn LeaseStore>,
        Arc::new(administrator),
        &prefix("c"),
    )
    .await;
}

#[tokio::test]
#[ignore = "needs a real API server: KUBECONFIG"]
async fn a_lease_without_labels_is_found_and_followed_by_name() {
    let (store, administrator) = connect().await;
    let key = LeaseKey::new(prefix("u")).unwrap();
    let name = leader_lease_name(key.as_str());
    let made_by_others = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "client-go", "leaseDurationSeconds": 15, "leaseTransitions": 2}
    });
    let lease: Lease = serde_json::from_value(made_by_others).unwrap();
    administrator
        .0
        .create(&kube::api::PostParams::default(), &lease)
        .await
        .unwrap();
    let mut feed = store.watch(&key);
    let limit = Duration::from_secs(5);
    loop {
        match tokio::time::timeout(limit, feed.next())
            .await
            .expect("news")
            .unwrap()
        {
            News::Gone => break, // the selection by label does not have it
            News::Listed { .. } | News::Watched(_) => panic!("selected without labels"),
            News::Settings(_) | News::Up | News::Down(_) => {}
        }
    }
    let state = store.read(&key, limit).await.unwrap().expect("the Lease");
    assert_eq!(state.record.holder.as_deref(), Some("client-go"));
    administrator
        .patch(&key, json!({"spec": {"leaseTransitions": 3}}))
        .await;
    loop {
        let news = tokio::time::timeout(limit, feed.next())
            .await
            .expect("followed by name");
        let (News::Watched(state)
        | News::Listed {
            state: Some(state), ..
        }) = news.unwrap()
        else {
            continue;
        };
        if state.record.term.number() == 3 {
            return;
        }
    }
}
