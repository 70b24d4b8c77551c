//! Events of partitions: one per publish, one per handoff that does not end, whatever happens to the
//! operator.

use k8s_openapi::api::events::v1::Event;
use leasehold_e2e::{Result, TestNamespace};

use super::partitions::{counts, settled};
use super::stage::*;
use super::table::{Member, Table};

/// Events about the service with this reason.
async fn events_of(namespace: &TestNamespace<'_>, reason: &str) -> Result<Vec<Event>> {
    let mut events = events(namespace, "billing").await?;
    events.retain(|event| event.reason.as_deref() == Some(reason));
    Ok(events)
}

/// Partition 1 moves from a to b.
fn moved(epoch: u64) -> Table<'static> {
    Table {
        epoch,
        members: &["a", "b"],
        parts: vec![(0, vec![]), (1, vec![0]), (1, vec![]), (1, vec![])],
        moves: 1,
    }
}

#[tokio::test]
async fn a_publish_is_announced_once_however_often_it_is_seen() -> Result<()> {
    let namespace = namespace("rebalance-once").await?;
    let operator = Operator::leading(&namespace).await?;
    settled(&namespace).await?;
    moved(2).publish(&namespace, "billing").await?;
    shown(&namespace, "billing", "a moving partition", |it| {
        counts(it) == (3, 1, 0)
    })
    .await?;
    // The same table again, and a's acknowledgement.
    moved(2).publish(&namespace, "billing").await?;
    Member::new("a", 4)
        .acks(2, &[0])
        .renew(&namespace, "billing")
        .await?;
    shown(&namespace, "billing", "the end of the move", |it| {
        counts(it) == (4, 0, 0)
    })
    .await?;
    // A publish that only forgets predecessors moves nothing.
    let tidy = Table {
        moves: 0,
        ..moved(3)
    };
    tidy.publish(&namespace, "billing").await?;
    let epoch = |wanted: i64| {
        move |it: &leasehold_crds::ClusterServiceStatus| {
            it.partitions.as_ref().is_some_and(|it| it.epoch == wanted)
        }
    };
    shown(&namespace, "billing", "the third table", epoch(3)).await?;
    // A new operator finds what was announced, and what was not.
    operator.process().stop(MINUTE);
    moved(4).publish(&namespace, "billing").await?;
    let _operator = Operator::leading(&namespace).await?;
    shown(&namespace, "billing", "the fourth table", epoch(4)).await?;
    let events = events_of(&namespace, "PartitionsRebalanced").await?;
    let ends: Vec<String> = events
        .iter()
        .filter_map(|it| Some(it.metadata.name.as_ref()?.rsplit_once('-')?.1.to_owned()))
        .collect();
    assert_eq!(ends, ["1", "2", "4"], "{events:?}");
    let name = events[1].metadata.name.clone().unwrap_or_default();
    assert!(name.starts_with("billing.partitions."), "{name}");
    let note = events[1].note.clone().unwrap_or_default();
    let wanted = "1 of 4 partitions got another owner (the least possible: 1): a test.";
    assert!(note.starts_with(wanted), "{note}");
    namespace.finish().await
}

#[tokio::test]
async fn a_member_that_never_acknowledges_is_named_and_warned_about_once() -> Result<()> {
    let namespace = namespace("handoff-stuck").await?;
    let operator = Operator::leading(&namespace).await?;
    settled(&namespace).await?;
    moved(2).publish(&namespace, "billing").await?;
    let status = shown(&namespace, "billing", "a stuck handoff", |it| {
        condition(it, "HandoffStuck").0 == "True"
    })
    .await?;
    let (_, reason, message) = condition(&status, "HandoffStuck");
    assert_eq!(reason, "NotAcknowledged");
    for part in [
        "Pod a (incarnation 1) has not acknowledged partitions 1 since 20",
        "delete the pod a",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(condition(&status, "Ready").1, "NotAcknowledged");
    // A new operator neither takes it back nor warns again.
    operator.process().stop(MINUTE);
    let _operator = Operator::leading(&namespace).await?;
    hold(&namespace, "billing", "b", 1).await?;
    let status = shown(&namespace, "billing", "a pass of the new operator", |it| {
        is_led_by(it, "b", 1)
    })
    .await?;
    assert_eq!(condition(&status, "HandoffStuck").0, "True");
    Member::new("a", 4)
        .acks(2, &[0])
        .renew(&namespace, "billing")
        .await?;
    shown(&namespace, "billing", "the end of it", |it| {
        condition(it, "HandoffStuck").0 == "False" && counts(it) == (4, 0, 0)
    })
    .await?;
    let warnings = events_of(&namespace, "HandoffStuck").await?;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].type_.as_deref(), Some("Warning"));
    let note = warnings[0].note.clone().unwrap_or_default();
    assert!(note.contains("partitions 1 since"), "{note}");
    namespace.finish().await
}
