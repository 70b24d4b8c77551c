//! Two ClusterServices with one cluster id: one leader, shown and announced in both.

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use leasehold_crds::ClusterService;
use leasehold_e2e::{Result, wait};
use serde_json::json;

use super::stage::*;

#[tokio::test]
async fn one_leader_is_shown_in_both_and_a_conflict_stalls_the_younger() -> Result<()> {
    let namespace = namespace("sharing").await?;
    let _operator = Operator::leading(&namespace).await?;
    let older = declare(&namespace, "billing-v1", elected("billing")).await?;
    // Their ages must differ by the second that the API server keeps.
    let born = older.metadata.creation_timestamp.unwrap();
    wait::until_true("another second", MINUTE, || async {
        Ok(jiff::Timestamp::now().as_second() > born.0.as_second() + 1)
    })
    .await?;
    declare(&namespace, "billing-v2", elected("billing")).await?;
    for name in ["billing-v1", "billing-v2"] {
        shown(&namespace, name, "a first status", |it| {
            it.history.is_some()
        })
        .await?;
    }
    hold(&namespace, "billing", "billing-0", 0).await?;
    for name in ["billing-v1", "billing-v2"] {
        let status = shown(&namespace, name, "a leader", |it| {
            is_led_by(it, "billing-0", 0)
        })
        .await?;
        assert_eq!(condition(&status, "Ready").0, "True", "{name}");
        assert_eq!(
            names_without_uid(&events(&namespace, name).await?),
            [format!("{name}.leader.-0")]
        );
    }

    let services: Api<ClusterService> = namespace.api();
    let change = json!({"spec": {"lease": {"durationSeconds": 30}}});
    services
        .patch(
            "billing-v2",
            &PatchParams::default(),
            &Patch::Merge(&change),
        )
        .await?;
    let status = shown(&namespace, "billing-v2", "a conflict", |it| {
        condition(it, "Stalled").0 == "True"
    })
    .await?;
    assert_eq!(condition(&status, "Ready").1, "ClusterIdConflict");
    let message = condition(&status, "Stalled").2;
    assert!(
        message.contains("billing-v1") && message.contains("30 here and 15 there"),
        "{message}"
    );
    assert!(status.leader.is_some(), "the leader is still shown");
    let status = shown(&namespace, "billing-v1", "no conflict", |it| {
        condition(it, "Ready").0 == "True"
    })
    .await?;
    assert_eq!(condition(&status, "Stalled").0, "False");

    // The older one goes: the younger takes its place.
    services
        .delete("billing-v1", &DeleteParams::default())
        .await?;
    let status = shown(&namespace, "billing-v2", "room", |it| {
        condition(it, "Stalled").0 == "False"
    })
    .await?;
    assert_eq!(condition(&status, "Ready").0, "True");
    namespace.finish().await
}
