//! The rights in the manifest are those that the operator uses, no more and no less.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::ClusterRole;
use leasehold_crds::ClusterServiceStatus;
use leasehold_e2e::audit::{Filter, Request};
use leasehold_e2e::kubectl::Kubectl;
use leasehold_e2e::logins::Stores;
use leasehold_e2e::{Cluster, Result, TestNamespace, programs, wait};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::stage::*;

/// (verb, resource) pairs that the manifest grants everywhere.
fn granted() -> BTreeSet<(String, String)> {
    let text =
        std::fs::read_to_string(programs::workspace().join("operator/deploy/rbac.yaml")).unwrap();
    let role = serde_yaml::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .find(|object| object["kind"] == "ClusterRole")
        .unwrap();
    let role: ClusterRole = serde_json::from_value(role).unwrap();
    let mut pairs = BTreeSet::new();
    for rule in role.rules.unwrap() {
        for verb in &rule.verbs {
            for resource in rule.resources.iter().flatten() {
                pairs.insert((verb.clone(), resource.clone()));
            }
        }
    }
    pairs
}

/// A class in use whose server is not there: looked at, held back, let go.
async fn class(namespace: &TestNamespace<'_>) -> Result<()> {
    let kubectl = Kubectl::new(&namespace.cluster().admin_kubeconfig());
    let create = ["create", "-f", "-"];
    let admin = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rights-admin", "namespace": SYSTEM},
        "stringData": {"username": "adm", "password": "none"},
    });
    let class = json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "BackendClass", "metadata": {"name": "rights"},
        "spec": {
            "redis": {"nodes": ["127.0.0.1:1"], "adminSecretRef": {"name": "rights-admin"}},
            "allowedNamespaces": {},
        },
    });
    for object in [admin, class] {
        kubectl.run_with_input(&create, &object.to_string()).await?;
    }
    let spec = json!({"redis": {"className": "rights"}});
    declare(namespace, "wants", spec).await?;
    let finalizers = || async {
        let asked = [
            "get",
            "bclass",
            "rights",
            "-o",
            "jsonpath={.metadata.finalizers}{.status.services}",
        ];
        kubectl.run(&asked).await
    };
    wait::until_true("a class that is held back", MINUTE, || async {
        let said = finalizers().await?;
        Ok(said.contains("leasehold.dev/credentials") && said.ends_with('1'))
    })
    .await?;
    namespace
        .kubectl()
        .run(&["delete", "csvc", "wants"])
        .await?;
    wait::until_true("a class that is let go", MINUTE, || async {
        Ok(finalizers().await? == "0")
    })
    .await
}

/// Logins that are made, rotated and removed.
async fn logins(namespace: &TestNamespace<'_>) -> Result<()> {
    let stores = Stores::start().await?;
    let admin = Kubectl::new(&namespace.cluster().admin_kubeconfig());
    stores
        .declare(&admin, "rights", SYSTEM, namespace.name())
        .await?;
    let spec = json!({"postgres": {"className": "rights-postgres"}, "deletionPolicy": "Delete"});
    declare(namespace, "orders", spec).await?;
    let is_made = |status: &ClusterServiceStatus| condition(status, "PostgresReady").0 == "True";
    shown(namespace, "orders", "a login", is_made).await?;
    let kubectl = namespace.kubectl();
    kubectl.run(&["delete", "csvc", "orders"]).await.map(drop)
}

/// A story in which the operator does everything that it ever does.
async fn everything(namespace: &TestNamespace<'_>) -> Result<()> {
    class(namespace).await?;
    logins(namespace).await?;
    declare(namespace, "billing", elected("billing")).await?;
    hold(namespace, "billing", "billing-0", 0).await?;
    shown(namespace, "billing", "a leader", |it| {
        is_led_by(it, "billing-0", 0)
    })
    .await?;
    let kubectl = namespace.kubectl();
    let longer = r#"{"spec":{"lease":{"durationSeconds":30}}}"#;
    kubectl
        .run(&["patch", "csvc", "billing", "--type=merge", "-p", longer])
        .await?;
    shown(namespace, "billing", "the change", |it| it.leader.is_some()).await?;
    hold(namespace, "billing", "billing-1", 1).await?;
    shown(namespace, "billing", "the next leader", |it| {
        is_led_by(it, "billing-1", 1)
    })
    .await?;
    let node = r#"{"spec":{"clusterScope":"node","leaderStrategy":null}}"#;
    kubectl
        .run(&["patch", "csvc", "billing", "--type=merge", "-p", node])
        .await?;
    shown(namespace, "billing", "scope node", |it| it.leader.is_none()).await?;
    wait::until_true("no settings Lease", MINUTE, || async {
        Ok(kubectl
            .run(&["get", "lease", "billing.settings"])
            .await
            .is_err())
    })
    .await
}

#[tokio::test]
async fn every_right_in_the_manifest_is_used_and_none_is_missing() -> Result<()> {
    // A cluster of its own: elsewhere other tests take rights away.
    let Some(cluster) = Cluster::own("the rights of the operator").await? else {
        return Ok(());
    };
    let Some(plane) = cluster.control_plane() else {
        return Ok(());
    };
    install(&cluster).await?;
    let namespace = TestNamespace::on(&cluster, "rights").await?;
    let kubeconfig = operator_kubeconfig(&cluster, "rights").await?;
    // As the manifest deploys it: its own election in its own namespace.
    let mark = plane.audit_log().mark()?;
    let served = [namespace.name()];
    let operator = Operator::start(&cluster, &kubeconfig, "rights", &served, SYSTEM).await?;
    operator.wait_until_leading().await?;
    everything(&namespace).await?;
    let ours = Filter::default().account(SYSTEM, ACCOUNT);
    let requests = plane.audit_log().at_least_one(mark, &ours)?;
    let is_refused = |it: &&Request| it.response_status.as_ref().is_some_and(|it| it.code == 403);
    let refused: Vec<_> = requests.iter().filter(is_refused).collect();
    assert!(refused.is_empty(), "refused: {refused:?}");
    let used: BTreeSet<(String, String)> = requests
        .iter()
        .filter(|it| !it.object_ref.resource.is_empty())
        .map(|it| (it.verb.clone(), it.resource()))
        .collect();
    let unused: Vec<_> = granted().difference(&used).cloned().collect();
    assert!(unused.is_empty(), "granted and never used: {unused:?}");
    namespace.finish().await
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_named_with_the_role_that_would_help() -> Result<()> {
    let Some(cluster) = Cluster::own("taking rights away").await? else {
        return Ok(());
    };
    install(&cluster).await?;
    let namespace = TestNamespace::on(&cluster, "rights-away").await?;
    let kubeconfig = operator_kubeconfig(&cluster, "rights-away").await?;
    let operator = Operator::start(
        &cluster,
        &kubeconfig,
        "rights-away",
        &[namespace.name()],
        SYSTEM,
    )
    .await?;
    operator.wait_until_leading().await?;
    let kubectl = Kubectl::new(&cluster.admin_kubeconfig());
    let without_events = json!([{"op": "test", "path": "/rules/3/resources/0", "value": "events"},
        {"op": "replace", "path": "/rules/3/verbs", "value": ["list"]}]);
    let patch = ["patch", "clusterrole", ACCOUNT, "--type=json", "-p"];
    kubectl
        .run(&[&patch[..], &[&without_events.to_string()]].concat())
        .await?;
    declare(&namespace, "billing", elected("billing")).await?;
    shown(&namespace, "billing", "a first status", |it| {
        it.history.is_some()
    })
    .await?;
    hold(&namespace, "billing", "billing-0", 0).await?;
    let status = shown(&namespace, "billing", "the missing right", |it| {
        condition(it, "Ready").1 == "PermissionDenied"
    })
    .await?;
    let message = condition(&status, "Ready").2;
    for part in [
        "create events.events.k8s.io",
        namespace.name(),
        r#"resources: ["events"], verbs: ["create"]"#,
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(events(&namespace, "billing").await?.is_empty());
    // Given back, the change is announced after all.
    let with_events = json!([{"op": "replace", "path": "/rules/3/verbs", "value": ["create"]}]);
    kubectl
        .run(&[&patch[..], &[&with_events.to_string()]].concat())
        .await?;
    shown(&namespace, "billing", "the right", |it| {
        is_led_by(it, "billing-0", 0) && condition(it, "Ready").0 == "True"
    })
    .await?;
    assert_eq!(
        names_without_uid(&events(&namespace, "billing").await?),
        ["billing.leader.-0"]
    );
    namespace.finish().await
}
