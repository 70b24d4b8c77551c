//! What the status shows.

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use leasehold_crds::{ClusterService, Settings, keys};
use leasehold_e2e::{Result, wait};
use serde_json::json;

use super::stage::*;

#[tokio::test]
async fn leader_term_and_readiness_follow_the_lease() -> Result<()> {
    let namespace = namespace("status-follows").await?;
    let operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", elected("billing")).await?;
    let status = shown(&namespace, "billing", "a status without leader", |it| {
        !it.conditions.is_empty()
    })
    .await?;
    assert_eq!(condition(&status, "LeaderElected").1, "NoLease");
    assert_eq!(condition(&status, "Ready").0, "False");

    hold(&namespace, "billing", "billing-0", 0).await?;
    let status = shown(&namespace, "billing", "billing-0", |it| {
        is_led_by(it, "billing-0", 0)
    })
    .await?;
    assert_eq!(condition(&status, "Ready").0, "True");
    assert!(status.leader.unwrap().since.is_some());
    let table = namespace.kubectl().run(&["get", "csvc", "billing"]).await?;
    assert!(
        table.contains("leader-elected") && table.contains("billing-0"),
        "{table}"
    );
    let kubectl = namespace.kubectl();
    kubectl
        .run(&[
            "wait",
            "--for=condition=Ready",
            "csvc/billing",
            "--timeout=10s",
        ])
        .await?;

    release(&namespace, "billing").await?;
    let status = shown(&namespace, "billing", "no leader", |it| it.leader.is_none()).await?;
    assert_eq!(condition(&status, "LeaderElected").1, "Released");

    hold(&namespace, "billing", "billing-1", 1).await?;
    let status = shown(&namespace, "billing", "billing-1", |it| {
        is_led_by(it, "billing-1", 1)
    })
    .await?;
    let history = status.history.unwrap();
    assert_eq!(history[0].previous_ended.as_deref(), Some("released"));
    assert_eq!(history.len(), 2);
    let (code, debug) = operator.get("/debug/cluster").await?;
    assert_eq!(code, 200);
    assert!(debug.contains("billing-1"), "{debug}");
    namespace.finish().await
}

#[tokio::test]
async fn a_holder_that_does_not_renew_expires_by_the_operators_own_clock() -> Result<()> {
    let namespace = namespace("status-expires").await?;
    let _operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", elected("billing")).await?;
    shown(&namespace, "billing", "a first status", |it| {
        it.history.is_some()
    })
    .await?;
    write_lease(&namespace, "billing", |lease| {
        lease["spec"] = json!({
            "holderIdentity": identity("billing-0"), "leaseTransitions": 0, "leaseDurationSeconds": 3,
            // A clock that runs years ahead must not matter.
            "renewTime": "2126-01-01T00:00:00.000000Z", "acquireTime": "2126-01-01T00:00:00.000000Z",
        });
    })
    .await?;
    shown(&namespace, "billing", "a leader", |it| {
        is_led_by(it, "billing-0", 0)
    })
    .await?;
    let status = shown(&namespace, "billing", "expiry", |it| it.leader.is_none()).await?;
    assert_eq!(condition(&status, "LeaderElected").1, "Expired");
    // It comes back under the same term: no change of leadership.
    write_lease(&namespace, "billing", |lease| {
        lease["spec"]["leaseDurationSeconds"] = json!(3600);
    })
    .await?;
    shown(&namespace, "billing", "the leader again", |it| {
        it.leader.is_some()
    })
    .await?;
    assert_eq!(events(&namespace, "billing").await?.len(), 1);
    namespace.finish().await
}

#[tokio::test]
async fn a_wiped_status_is_rebuilt_the_same() -> Result<()> {
    let namespace = namespace("status-wiped").await?;
    let _operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", elected("billing")).await?;
    hold(&namespace, "billing", "billing-0", 4).await?;
    let before = shown(&namespace, "billing", "a leader", |it| {
        is_led_by(it, "billing-0", 4)
    })
    .await?;
    let services: Api<ClusterService> = namespace.api();
    // History is the one part that cannot be derived.
    let wiped = json!({"status": {"conditions": null, "leader": null, "observedGeneration": null}});
    services
        .patch_status("billing", &PatchParams::default(), &Patch::Merge(&wiped))
        .await?;
    let after = shown(&namespace, "billing", "a rebuilt status", |it| {
        !it.conditions.is_empty()
    })
    .await?;
    let without_times = |status: &leasehold_crds::ClusterServiceStatus| {
        let mut status = json!(status);
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!(null);
        }
        status
    };
    assert_eq!(without_times(&after), without_times(&before));
    namespace.finish().await
}

#[tokio::test]
async fn settings_reach_the_settings_lease_and_follow_every_change() -> Result<()> {
    let namespace = namespace("settings").await?;
    let _operator = Operator::leading(&namespace).await?;
    let service = declare(&namespace, "billing", elected("billing")).await?;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = namespace.api();
    let settings = |generation: i64| {
        let leases = leases.clone();
        async move {
            wait::until("settings", MINUTE, || async {
                let lease = leases.get("billing.settings").await?;
                let text = lease.metadata.annotations.unwrap_or_default();
                let settings = Settings::parse(&text[keys::ANNOTATION_SETTINGS]).unwrap();
                Ok((settings.generation == generation).then_some(settings))
            })
            .await
        }
    };
    assert_eq!(
        settings(service.metadata.generation.unwrap())
            .await?
            .lease
            .duration_seconds,
        15
    );
    let services: Api<ClusterService> = namespace.api();
    let change = json!({"spec": {"lease": {"durationSeconds": 30}}});
    let changed = services
        .patch("billing", &PatchParams::default(), &Patch::Merge(&change))
        .await?;
    assert_eq!(
        settings(changed.metadata.generation.unwrap())
            .await?
            .lease
            .duration_seconds,
        30
    );
    // Deleted by hand, it comes back.
    leases
        .delete("billing.settings", &DeleteParams::default())
        .await?;
    assert_eq!(
        settings(changed.metadata.generation.unwrap())
            .await?
            .lease
            .duration_seconds,
        30
    );

    // A leader whose code fixes another duration.
    hold(&namespace, "billing", "billing-0", 0).await?;
    write_lease(&namespace, "billing", |lease| {
        lease["metadata"]["annotations"][keys::ANNOTATION_FIXED] =
            json!(r#"{"lease":{"durationSeconds":6}}"#);
    })
    .await?;
    let mismatch = "a mismatch";
    let status = shown(&namespace, "billing", mismatch, |it| {
        condition(it, "SettingsMismatch").0 == "True"
    })
    .await?;
    let message = condition(&status, "SettingsMismatch").2;
    assert!(
        message.contains("lease.durationSeconds is 6 in code and 30 in the spec"),
        "{message}"
    );

    // Nothing elected any more: the settings go.
    let change = json!({"spec": {"clusterScope": "node", "leaderStrategy": null}});
    services
        .patch("billing", &PatchParams::default(), &Patch::Merge(&change))
        .await?;
    let status = shown(&namespace, "billing", "scope node", |it| {
        condition(it, "LeaderElected").1 == "NodeScoped"
    })
    .await?;
    assert_eq!(
        (condition(&status, "Ready").0.as_str(), status.leader),
        ("True", None)
    );
    wait::until_true("no settings Lease", MINUTE, || async {
        Ok(leases.get_opt("billing.settings").await?.is_none())
    })
    .await?;
    namespace.finish().await
}

#[tokio::test]
async fn a_paused_service_is_shown_but_gets_no_settings() -> Result<()> {
    let namespace = namespace("paused").await?;
    let _operator = Operator::leading(&namespace).await?;
    let mut spec = elected("billing");
    spec["paused"] = json!(true);
    declare(&namespace, "billing", spec).await?;
    hold(&namespace, "billing", "billing-0", 0).await?;
    let status = shown(&namespace, "billing", "a leader", |it| {
        is_led_by(it, "billing-0", 0)
    })
    .await?;
    assert_eq!(condition(&status, "Paused").0, "True");
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = namespace.api();
    assert!(leases.get_opt("billing.settings").await?.is_none());
    let services: Api<ClusterService> = namespace.api();
    let change = json!({"spec": {"paused": false}});
    services
        .patch("billing", &PatchParams::default(), &Patch::Merge(&change))
        .await?;
    wait::until_true("settings", MINUTE, || async {
        Ok(leases.get_opt("billing.settings").await?.is_some())
    })
    .await?;
    namespace.finish().await
}
