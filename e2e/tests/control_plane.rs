//! The control plane and the node are what they claim to be: Kubernetes with
//! RBAC and an audit log, and pods that run, log, crash, restart and go.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use leasehold_e2e::audit::Filter;
use leasehold_e2e::cluster::lease_rules;
use leasehold_e2e::control_plane::kubeconfig;
use leasehold_e2e::{Cluster, Component, Result, TestNamespace, wait};
use serde_json::json;

const MINUTE: Duration = Duration::from_mins(1);

fn lease(name: &str) -> Lease {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "holderIdentity": "", "leaseDurationSeconds": 15 },
    }))
    .unwrap()
}

#[tokio::test]
async fn an_account_may_do_what_its_role_says_and_nothing_else() -> Result<()> {
    let namespace = TestNamespace::new("rbac").await?;
    let account = namespace.account("candidate", lease_rules()).await?;
    let client = kubeconfig::client(&account.kubeconfig).await?;

    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace.name());
    leases
        .create(&PostParams::default(), &lease("mine"))
        .await?;

    let pods: Api<Pod> = Api::namespaced(client, namespace.name());
    let refused = pods.list(&ListParams::default()).await.unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
    namespace.finish().await
}

#[tokio::test]
async fn the_audit_log_counts_each_request_of_an_account_once() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let Some(plane) = cluster.control_plane_or_skip("counting requests") else {
        return Ok(());
    };
    let namespace = TestNamespace::new("audit").await?;
    let account = namespace.account("candidate", lease_rules()).await?;
    let client = kubeconfig::client(&account.kubeconfig).await?;
    let leases: Api<Lease> = Api::namespaced(client, namespace.name());

    let mark = plane.audit_log().mark()?;
    leases
        .create(&PostParams::default(), &lease("counted"))
        .await?;
    for _ in 0..3 {
        leases.get("counted").await?;
    }
    let counts = plane.audit_log().counts(
        mark,
        &Filter::default().account(namespace.name(), "candidate"),
    )?;
    let count = |verb: &str| counts.get(&(verb.to_owned(), "leases".to_owned())).copied();
    assert_eq!(
        (count("create"), count("get"), counts.len()),
        (Some(1), Some(3), 2),
        "{counts:?}"
    );
    namespace.finish().await
}

/// Pods that say who they are and then wait, on one node.
fn deployment(replicas: i32, node: &str) -> Deployment {
    serde_json::from_value(json!({
        "metadata": { "name": "sleeper" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "sleeper" } },
            "template": {
                "metadata": { "labels": { "app": "sleeper" } },
                "spec": {
                    "terminationGracePeriodSeconds": 2,
                    "nodeSelector": { "kubernetes.io/hostname": node },
                    "containers": [{
                        "name": "shell",
                        "image": "sh",
                        "args": ["-c", "echo hello from $HOSTNAME; exec sleep 1000000"],
                    }],
                },
            },
        },
    }))
    .unwrap()
}

async fn ready_pods(pods: &Api<Pod>, count: usize) -> Result<Vec<Pod>> {
    wait::until(&format!("{count} ready pods"), MINUTE, || async {
        let list = pods
            .list(&ListParams::default().labels("app=sleeper"))
            .await?;
        let ready =
            |pod: &Pod| {
                pod.metadata.deletion_timestamp.is_none()
                    && pod.status.as_ref().is_some_and(|status| {
                        status.conditions.iter().flatten().any(|condition| {
                            condition.type_ == "Ready" && condition.status == "True"
                        })
                    })
            };
        let ready: Vec<Pod> = list.items.into_iter().filter(ready).collect();
        Ok((ready.len() == count).then_some(ready))
    })
    .await
}

#[tokio::test]
async fn a_deployment_runs_logs_restarts_after_a_crash_and_goes() -> Result<()> {
    let namespace = TestNamespace::new("deployment").await?;
    let node = namespace.cluster().node().await?;
    let pods: Api<Pod> = namespace.api();
    namespace
        .api::<Deployment>()
        .create(&PostParams::default(), &deployment(2, node.name()))
        .await?;
    let running = ready_pods(&pods, 2).await?;
    let name = running[0].name_any();

    let kubectl = namespace.kubectl();
    if namespace.cluster().control_plane().is_some() {
        let log = kubectl.run(&["logs", &name]).await?;
        assert_eq!(log.trim(), format!("hello from {name}"));
    }

    let before = node.container(namespace.name(), &name, "shell")?;
    node.kill(namespace.name(), &name, "shell")?;
    wait::until_true("a restart in place", MINUTE, || async {
        let pod = pods.get(&name).await?;
        let statuses = pod
            .status
            .and_then(|status| status.container_statuses)
            .unwrap_or_default();
        let restarted = statuses
            .first()
            .is_some_and(|status| status.restart_count == 1 && status.ready);
        Ok(restarted && node.container(namespace.name(), &name, "shell")? != before)
    })
    .await?;

    let other = running[1].name_any();
    let process = node.container(namespace.name(), &other, "shell")?;
    pods.delete(&other, &DeleteParams::default()).await?;
    wait::until_true("the pod and its process to go", MINUTE, || async {
        Ok(pods.get_opt(&other).await?.is_none() && !process.is_running())
    })
    .await?;
    ready_pods(&pods, 2).await?;
    namespace.finish().await
}

#[tokio::test]
async fn an_api_server_that_was_killed_or_paused_serves_again_with_its_state() -> Result<()> {
    let Some(cluster) = Cluster::own("an API server that restarts").await? else {
        return Ok(());
    };
    let Some(plane) = cluster.control_plane() else {
        return Ok(());
    };
    let namespace = TestNamespace::on(&cluster, "restart").await?;
    let leases: Api<Lease> = namespace.api();
    leases
        .create(&PostParams::default(), &lease("kept"))
        .await?;

    plane.kill(Component::Apiserver)?;
    assert!(leases.get("kept").await.is_err());
    plane.start_again(Component::Apiserver).await?;
    // Bootstrap roles are there, and so is what was stored.
    leases.get("kept").await?;

    plane.pause(Component::Apiserver)?;
    let answer = tokio::time::timeout(Duration::from_millis(500), leases.get("kept")).await;
    // A connection that broke with the server before is no answer either.
    assert!(!matches!(answer, Ok(Ok(_))), "a paused API server answered");
    plane.resume(Component::Apiserver)?;
    wait::until_true("an answer", MINUTE, || async {
        Ok(leases.get("kept").await.is_ok())
    })
    .await?;
    namespace.finish().await
}
