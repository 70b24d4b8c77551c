//! What the status shows of partitions, and how a changed number reaches the pods.

use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use leasehold_crds::{ClusterServiceStatus, Settings, keys};
use leasehold_e2e::{Result, TestNamespace, programs, wait};
use serde_json::json;

use super::stage::*;
use super::table::{Member, Table, partitioned};

/// (owned, moving, unowned) of the newest table.
pub(crate) fn counts(status: &ClusterServiceStatus) -> (i32, i32, i32) {
    let partitions = status.partitions.clone().unwrap_or_default();
    (partitions.owned, partitions.moving, partitions.unowned)
}

/// A led service of four partitions, two on each of a and b, all owned.
pub(crate) async fn settled(namespace: &TestNamespace<'_>) -> Result<ClusterServiceStatus> {
    declare(namespace, "billing", partitioned("billing", 4)).await?;
    hold(namespace, "billing", "a", 0).await?;
    let status = shown(namespace, "billing", "no table yet", |it| {
        condition(it, "PartitionsOwned").1 == "NoTable" && it.history.is_some()
    })
    .await?;
    assert_eq!(condition(&status, "Ready").0, "False");
    Member::new("a", 4)
        .acks(1, &[0, 1])
        .renew(namespace, "billing")
        .await?;
    Member::new("b", 4)
        .acks(1, &[2, 3])
        .renew(namespace, "billing")
        .await?;
    let table = Table {
        epoch: 1,
        members: &["a", "b"],
        parts: vec![(0, vec![]), (0, vec![]), (1, vec![]), (1, vec![])],
        moves: 4,
    };
    table.publish(namespace, "billing").await?;
    shown(namespace, "billing", "four owned partitions", |it| {
        counts(it) == (4, 0, 0) && condition(it, "PartitionsOwned").0 == "True"
    })
    .await
}

#[tokio::test]
async fn counts_conditions_and_columns_follow_table_and_members() -> Result<()> {
    let namespace = namespace("partitions-follow").await?;
    let _operator = Operator::leading(&namespace).await?;
    let status = settled(&namespace).await?;
    assert_eq!(condition(&status, "Ready").1, "Settled");
    assert_eq!(condition(&status, "HandoffStuck").0, "False");
    assert_eq!(condition(&status, "RolloutHold").0, "False");
    let partitions = status.partitions.clone().unwrap();
    assert_eq!((partitions.total, partitions.epoch), (4, 1));
    assert_eq!(json!(partitions.per_pod), json!({"min": 2, "max": 2}));
    assert_eq!(json!(status.members), json!({"ready": 2, "total": 2}));
    let kubectl = namespace.kubectl();
    let table = kubectl.run(&["get", "csvc", "billing"]).await?;
    let words: Vec<&str> = table.split_whitespace().collect();
    let (columns, values) = words.split_at(words.len() / 2);
    assert_eq!(
        columns,
        [
            "NAME",
            "READY",
            "STRATEGY",
            "LEADER",
            "PARTITIONS",
            "OWNED",
            "MEMBERS",
            "AGE"
        ]
    );
    assert_eq!(
        values[..7],
        ["billing", "True", "partitioned", "a", "4", "4", "2"]
    );

    // Partition 1 moves to b, which waits until a has acknowledged.
    let moved = Table {
        epoch: 2,
        members: &["a", "b"],
        parts: vec![(0, vec![]), (1, vec![0]), (1, vec![]), (1, vec![])],
        moves: 1,
    };
    moved.publish(&namespace, "billing").await?;
    let status = shown(&namespace, "billing", "a moving partition", |it| {
        counts(it) == (3, 1, 0)
    })
    .await?;
    assert_eq!(condition(&status, "PartitionsOwned").1, "Rebalancing");
    assert_eq!(condition(&status, "Ready").0, "True");
    Member::new("a", 4)
        .acks(2, &[0])
        .renew(&namespace, "billing")
        .await?;
    let status = shown(&namespace, "billing", "the end of the move", |it| {
        counts(it) == (4, 0, 0)
    })
    .await?;
    let rebalance = status.partitions.unwrap().last_rebalance;
    assert_eq!((rebalance.reason.as_str(), rebalance.moves), ("a test", 1));
    assert!(rebalance.seconds.is_some());

    // b leaves: what it owns is unowned until the leader gives it away.
    Member::new("b", 4).leave(&namespace, "billing").await?;
    let status = shown(&namespace, "billing", "unowned partitions", |it| {
        counts(it) == (1, 0, 3)
    })
    .await?;
    let (ready, reason, message) = condition(&status, "Ready");
    assert_eq!((ready.as_str(), reason.as_str()), ("False", "Unowned"));
    assert!(
        message.starts_with("3 of 4 partitions have no living owner"),
        "{message}"
    );
    namespace.finish().await
}

#[tokio::test]
async fn a_changed_number_of_partitions_reaches_the_settings_and_the_hash_cannot_change()
-> Result<()> {
    let namespace = namespace("partitions-resize").await?;
    let _operator = Operator::leading(&namespace).await?;
    settled(&namespace).await?;
    let leases: Api<Lease> = namespace.api();
    let settings = || async {
        let lease = leases.get("billing.settings").await?;
        let text = lease.metadata.annotations.unwrap_or_default();
        Ok::<_, leasehold_e2e::Error>(Settings::parse(&text[keys::ANNOTATION_SETTINGS]).unwrap())
    };
    let before = settings().await?;
    assert_eq!(before.strategy, "partitioned");
    assert_eq!(
        (before.partitions, before.hash.as_deref()),
        (Some(4), Some("cs-hash/1"))
    );
    let kubectl = namespace.kubectl();
    let patch = |spec: &'static str| ["patch", "csvc", "billing", "--type=merge", "-p", spec];
    kubectl.run(&patch(r#"{"spec":{"partitions":96}}"#)).await?;
    wait::until_true("96 partitions in the settings", MINUTE, || async {
        Ok(settings().await?.partitions == Some(96))
    })
    .await?;
    let status = shown(&namespace, "billing", "a change to come", |it| {
        condition(it, "PartitionsOwned")
            .2
            .contains("The spec asks for 96")
    })
    .await?;
    // What there is, is shown until the leader has gone over.
    assert_eq!(status.partitions.unwrap().total, 4);
    let refused = kubectl
        .refused(&patch(r#"{"spec":{"hash":"k8s-range/1"}}"#))
        .await?;
    assert!(
        refused.contains("found k8s-range/1, allowed is cs-hash/1"),
        "{refused}"
    );
    for bad in [
        r#"{"spec":{"partitions":0}}"#,
        r#"{"spec":{"partitions":4097}}"#,
    ] {
        let refused = kubectl.refused(&patch(bad)).await?;
        assert!(refused.contains("spec.partitions"), "{refused}");
    }
    namespace.finish().await
}

#[tokio::test]
async fn a_table_of_4096_partitions_leaves_the_status_small() -> Result<()> {
    let namespace = namespace("partitions-many").await?;
    let _operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", partitioned("billing", 4096)).await?;
    hold(&namespace, "billing", "a", 0).await?;
    Member::new("a", 4096).renew(&namespace, "billing").await?;
    Member::new("b", 4096).renew(&namespace, "billing").await?;
    let table = Table {
        epoch: 1,
        members: &["a", "b"],
        parts: (0..4096)
            .map(|number| (number % 2, vec![1 - number % 2]))
            .collect(),
        moves: 4096,
    };
    table.publish(&namespace, "billing").await?;
    let status = shown(&namespace, "billing", "a stuck handoff", |it| {
        counts(it) == (0, 4096, 0) && condition(it, "HandoffStuck").0 == "True"
    })
    .await?;
    assert!(json!(status).to_string().len() < 8192, "{}", json!(status));
    namespace.finish().await
}

#[tokio::test]
async fn the_program_prints_the_table_for_people() -> Result<()> {
    let namespace = namespace("partitions-print").await?;
    let _operator = Operator::leading(&namespace).await?;
    settled(&namespace).await?;
    let kubeconfig = namespace.cluster().admin_kubeconfig();
    let printed = |service: &'static str| {
        let mut command =
            tokio::process::Command::from(Command::new(programs::operator().unwrap()));
        command
            .args([
                "partitions",
                service,
                "-n",
                namespace.name(),
                "--kubeconfig",
            ])
            .arg(&kubeconfig);
        async move {
            let output = command.output().await?;
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            Ok::<_, leasehold_e2e::Error>((output.status.code(), out, err))
        }
    };
    let (code, page, problem) = printed("billing").await?;
    assert_eq!((code, problem.as_str()), (Some(0), ""), "{page}");
    for line in [
        "billing: 4 partitions by cs-hash/1, layout 1, epoch 1",
        "4 owned, 0 moving, 0 unowned",
        "a        1             held    2      2      1              r1         -",
        "0           a       1             1       running",
        "3           b       1             1       running",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    let (code, _, problem) = printed("shipping").await?;
    assert_eq!(code, Some(1));
    assert!(
        problem.contains("ClusterService shipping") && problem.contains("not found"),
        "{problem}"
    );
    namespace.finish().await
}
