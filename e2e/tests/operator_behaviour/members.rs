//! Member Leases: silent, vanished, malformed.

use std::collections::BTreeSet;

use leasehold_crds::keys;
use leasehold_e2e::cluster::lease_rules;
use leasehold_e2e::control_plane::kubeconfig;
use leasehold_e2e::proxy::{Action, FaultProxy, When};
use leasehold_e2e::{Cluster, Result, TestNamespace, wait};
use serde_json::json;

use super::partitions::{counts, settled};
use super::stage::*;
use super::table::{Member, Table, members, partitioned, write_assignment, write_member};

async fn until_members(namespace: &TestNamespace<'_>, wanted: &[&str]) -> Result<()> {
    let wanted: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
    wait::until_true(&format!("members {wanted:?}"), MINUTE, || async {
        Ok(members(namespace, "billing").await? == wanted)
    })
    .await
}

#[tokio::test]
async fn a_silent_member_owns_nothing_by_the_operators_clock_and_is_collected_in_the_end()
-> Result<()> {
    let namespace = namespace("member-silent").await?;
    let _operator = Operator::leading(&namespace).await?;
    settled(&namespace).await?;
    let silent = Member {
        duration: 5,
        ..Member::new("b", 4).acks(1, &[2, 3])
    };
    silent.renew(&namespace, "billing").await?;
    let status = shown(&namespace, "billing", "unowned partitions", |it| {
        counts(it) == (2, 0, 2)
    })
    .await?;
    assert_eq!(json!(status.members), json!({"ready": 1, "total": 2}));
    // Three durations after its last sign it is deleted, though the table names it (H6).
    until_members(&namespace, &["a"]).await?;
    let status = shown(&namespace, "billing", "one member", |it| {
        json!(it.members) == json!({"ready": 1, "total": 1})
    })
    .await?;
    assert_eq!(counts(&status), (2, 0, 2), "missing is no release");
    // It comes back, and so do its partitions.
    Member::new("b", 4)
        .acks(1, &[2, 3])
        .renew(&namespace, "billing")
        .await?;
    shown(&namespace, "billing", "the member again", |it| {
        counts(it) == (4, 0, 0)
    })
    .await?;
    namespace.finish().await
}

#[tokio::test]
async fn an_empty_member_lease_goes_when_the_table_forgets_it_and_a_renewed_one_never() -> Result<()>
{
    let namespace = namespace("member-empty").await?;
    let _operator = Operator::leading(&namespace).await?;
    settled(&namespace).await?;
    let gone = Member::new("c", 4);
    gone.renew(&namespace, "billing").await?;
    shown(&namespace, "billing", "three members", |it| {
        json!(it.members) == json!({"ready": 3, "total": 3})
    })
    .await?;
    gone.leave(&namespace, "billing").await?;
    until_members(&namespace, &["a", "b"]).await?;
    namespace.finish().await
}

#[tokio::test]
async fn a_member_that_renews_just_before_it_is_collected_stays() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let Some(plane) = cluster.control_plane_or_skip("a renewal beside a delete") else {
        return Ok(());
    };
    let namespace = namespace("member-race").await?;
    let elections = super::stage::namespace("member-race-elections").await?;
    let name = namespace.name();
    let proxy = FaultProxy::in_front_of(plane)?;
    let link = proxy.http().await?;
    let behind = link.kubeconfig(&operator_kubeconfig(cluster, name).await?, "behind")?;
    let operator = Operator::start(cluster, &behind, name, &[name], elections.name()).await?;
    operator.wait_until_leading().await?;
    settled(&namespace).await?;
    let deletes = When::any()
        .method(http::Method::DELETE)
        .path("billing.member.c");
    let held = link.rule(deletes, Action::Hold);
    let late = Member::new("c", 4);
    late.renew(&namespace, "billing").await?;
    late.leave(&namespace, "billing").await?;
    wait::until_true("a delete on its way", MINUTE, || async {
        Ok(held.matched() > 0)
    })
    .await?;
    // The pod's next process takes it before the delete arrives.
    late.renew(&namespace, "billing").await?;
    held.end();
    shown(&namespace, "billing", "the member", |it| {
        json!(it.members) == json!({"ready": 3, "total": 3})
    })
    .await?;
    let metrics = operator.page("/metrics").await?;
    let refused =
        r#"leasehold_operator_writes_total{verb="delete",resource="leases",result="conflict"} 1"#;
    wait::until_true("a refused delete", MINUTE, || async {
        Ok(operator.page("/metrics").await?.contains(refused))
    })
    .await?;
    assert!(
        members(&namespace, "billing").await?.contains("c"),
        "{metrics}"
    );
    // The control: when it leaves for good, it is collected.
    late.leave(&namespace, "billing").await?;
    until_members(&namespace, &["a", "b"]).await?;
    elections.finish().await?;
    namespace.finish().await
}

#[tokio::test]
async fn garbage_in_table_or_member_is_reported_and_the_operator_goes_on() -> Result<()> {
    let namespace = namespace("partitions-garbage").await?;
    let operator = Operator::leading(&namespace).await?;
    let before = settled(&namespace).await?;
    for (text, said) in [
        ("{{{", keys::ANNOTATION_ASSIGNMENT),
        (r#"{"version":2}"#, "a later version wrote it"),
        (r#"{"version":1}"#, keys::ANNOTATION_ASSIGNMENT),
        (
            r#"{"version":1,"layout":{"generation":1,"hash":"cs-hash/9","partitions":4},"epochs":[1],"members":[],"parts":"-*4"}"#,
            "cs-hash/9",
        ),
    ] {
        write_assignment(&namespace, "billing", text).await?;
        let status = shown(&namespace, "billing", text, |it| {
            let (_, reason, message) = condition(it, "PartitionsOwned");
            reason == "TableUnreadable" && message.contains(said)
        })
        .await?;
        assert_eq!(condition(&status, "Ready").1, "TableUnreadable");
        assert_eq!(
            status.partitions, before.partitions,
            "what was known stays shown"
        );
    }
    let table = Table {
        epoch: 9,
        members: &["a", "b"],
        parts: vec![(0, vec![]), (0, vec![]), (1, vec![]), (1, vec![])],
        moves: 0,
    };
    table.publish(&namespace, "billing").await?;
    shown(&namespace, "billing", "a sound table", |it| {
        condition(it, "PartitionsOwned").0 == "True"
    })
    .await?;
    // A table that was there before and is put back by hand.
    let older = Table { epoch: 8, ..table };
    older.publish(&namespace, "billing").await?;
    let status = shown(&namespace, "billing", "an older table", |it| {
        let (_, reason, message) = condition(it, "PartitionsOwned");
        reason == "TableUnreadable" && message.contains("an older table was put back")
    })
    .await?;
    assert_eq!(status.partitions.unwrap_or_default().epoch, 9);
    let table = Table { epoch: 9, ..older };
    table.publish(&namespace, "billing").await?;
    for (text, said) in [
        ("[]", keys::ANNOTATION_MEMBER),
        (
            r#"{"version":7,"hash":"cs-hash/1"}"#,
            "a later version wrote it",
        ),
        (
            r#"{"version":1,"hash":"cs-hash/1","weight":0}"#,
            "weight: found 0",
        ),
        (
            r#"{"version":1,"hash":"cs-hash/1","weight":-3}"#,
            "weight: found -3",
        ),
    ] {
        write_member(&namespace, "billing", "b", text, |_| {}).await?;
        shown(&namespace, "billing", text, |it| {
            let (_, reason, message) = condition(it, "PartitionsOwned");
            reason == "MembersUnreadable" && message.contains(said)
        })
        .await?;
    }
    Member::new("b", 4)
        .acks(9, &[2, 3])
        .renew(&namespace, "billing")
        .await?;
    shown(&namespace, "billing", "a sound member", |it| {
        condition(it, "Ready").0 == "True"
    })
    .await?;
    assert_eq!(operator.process().ended(), None);
    namespace.finish().await
}

#[tokio::test]
async fn what_the_leader_refuses_or_puts_off_is_said_while_it_lasts() -> Result<()> {
    let namespace = namespace("partitions-refused").await?;
    let _operator = Operator::leading(&namespace).await?;
    settled(&namespace).await?;
    let says = |part: &'static str| {
        let namespace = &namespace;
        async move {
            shown(namespace, "billing", part, |it| {
                condition(it, "PartitionsOwned").2.contains(part)
            })
            .await
        }
    };
    // The minority of a mixed set gets nothing.
    let other = r#"{"version":1,"hash":"k8s-range/1","revision":"r1"}"#;
    write_member(&namespace, "billing", "c", other, |spec| {
        spec["holderIdentity"] = json!("c_uid-c_00000001");
        spec["leaseDurationSeconds"] = json!(3600);
        spec["leaseTransitions"] = json!(1);
    })
    .await?;
    let said = "Pods of another hash than the table's cs-hash/1 get no partitions: c (k8s-range/1)";
    let status = says(said).await?;
    assert_eq!(json!(status.members), json!({"ready": 2, "total": 3}));
    assert_eq!(condition(&status, "RolloutHold").0, "False");
    assert_eq!(condition(&status, "Ready").0, "True", "the others go on");
    // A hash that nobody knows.
    let unknown = r#"{"version":1,"hash":"md5"}"#;
    write_member(&namespace, "billing", "c", unknown, |_| {}).await?;
    let status = says("c: ").await?;
    let message = condition(&status, "PartitionsOwned").2;
    assert!(message.contains("md5"), "{message}");
    // A number that waits for the end of another change.
    let queued = json!({
        "version": 1, "layout": {"generation": 1, "hash": "cs-hash/1", "partitions": 4},
        "epochs": [3], "members": ["a#1", "b#1"], "parts": "0 1/0 1 1", "queued": 96,
        "rebalance": {"reason": "a test", "moves": 1, "least": 1},
    });
    write_assignment(&namespace, "billing", &queued.to_string()).await?;
    says("A change to 96 partitions waits until this one has ended").await?;
    write_member(&namespace, "billing", "c", other, |_| {}).await?;
    // A table of another hash than the spec's stands.
    let foreign = json!({
        "version": 1, "layout": {"generation": 2, "hash": "k8s-range/1", "partitions": 4},
        "epochs": [5], "members": ["a#1", "b#1"], "parts": "0 0 1 1",
        "rebalance": {"reason": "a test", "moves": 0, "least": 0},
    });
    write_assignment(&namespace, "billing", &foreign.to_string()).await?;
    says("The spec asks for the hash cs-hash/1; the table's k8s-range/1 stays").await?;
    namespace.finish().await
}

/// A process on the library that takes part under this name.
async fn process(
    namespace: &TestNamespace<'_>,
    name: &str,
) -> Result<(leasehold::Cluster, leasehold::PartitionedHandle)> {
    let account = namespace.account(name, lease_rules()).await?;
    let cluster = leasehold::Cluster::builder()
        .kubernetes_with(kubeconfig::config(&account.kubeconfig).await?)
        .namespace(namespace.name())
        .environment([("LEASEHOLD_NODE_ID".to_owned(), name.to_owned())])
        .signals(false)
        .build()
        .await?;
    let service = cluster.service("billing").partitioned();
    let handle = service.spawn(|partition| async move { partition.draining().await })?;
    Ok((cluster, handle))
}

#[tokio::test]
async fn processes_on_the_library_are_shown_follow_an_edit_and_are_collected() -> Result<()> {
    let namespace = namespace("partitions-real").await?;
    let _operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", partitioned("billing", 8)).await?;
    let (_first, one) = process(&namespace, "one").await?;
    let (second, two) = process(&namespace, "two").await?;
    let spread = |each: i32| json!({"min": each, "max": each});
    shown(&namespace, "billing", "eight partitions on two", |it| {
        let partitions = it.partitions.clone().unwrap_or_default();
        counts(it) == (8, 0, 0) && json!(partitions.per_pod) == spread(4)
    })
    .await?;
    let more = r#"{"spec":{"partitions":12}}"#;
    let patch = ["patch", "csvc", "billing", "--type=merge", "-p", more];
    namespace.kubectl().run(&patch).await?;
    let status = shown(&namespace, "billing", "twelve partitions on two", |it| {
        let partitions = it.partitions.clone().unwrap_or_default();
        counts(it) == (12, 0, 0) && json!(partitions.per_pod) == spread(6)
    })
    .await?;
    assert_eq!(condition(&status, "HandoffStuck").0, "False");
    second.shutdown();
    two.finished().await?;
    let status = shown(&namespace, "billing", "twelve partitions on one", |it| {
        counts(it) == (12, 0, 0) && json!(it.members) == json!({"ready": 1, "total": 1})
    })
    .await?;
    assert_eq!(condition(&status, "PartitionsOwned").0, "True");
    until_members(&namespace, &["one"]).await?;
    one.shutdown();
    one.finished().await?;
    namespace.finish().await
}
