//! What is said instead of done.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use leasehold_crds::{ClusterService, ClusterServiceStatus};
use leasehold_e2e::{Result, Step as _};
use serde_json::{Value, json};

use super::ground::{Ground, NAME, SECRETS};
use crate::stage::condition;

const PLAN_ONLY: &str = "leasehold.dev/plan-only";

async fn annotate(ground: &Ground, annotation: &str, value: Value) -> Result<()> {
    let services: Api<ClusterService> = ground.namespace.api();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotation: value}}}));
    let patched = services.patch(NAME, &PatchParams::default(), &patch).await;
    patched.map(drop).step(|| "annotating")
}

fn says(status: &ClusterServiceStatus, type_: &str, words: &[&str]) -> bool {
    let (_, reason, message) = condition(status, type_);
    reason == "PlanOnly" && words.iter().all(|it| message.contains(it))
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_only_says_what_would_be_done_and_changes_nothing_until_it_is_taken_away() -> Result<()>
{
    let ground = Ground::prepare("logins-planned").await?;
    let secrets: Api<Secret> = ground.namespace.api();
    ground
        .service(&json!({"deletionPolicy": "Delete", "rotation": {"gracePeriod": "0s"}}))
        .await?;
    annotate(&ground, PLAN_ONLY, json!("true")).await?;
    ground
        .shows("a plan of nothing", |status| {
            says(status, "CredentialsCurrent", &["Nothing is to be done now"])
        })
        .await?;
    let before = (
        ground.on_servers().await?,
        secrets.get(SECRETS[0]).await?,
        secrets.get(SECRETS[1]).await?,
    );
    ground
        .patch(json!({"rotation": {"trigger": "one"}}))
        .await?;
    let status = ground
        .shows("a plan of a rotation", |status| {
            let words = ["Next would be: password 2 (Trigger) is staged in Secret orders-"];
            says(status, "CredentialsCurrent", &words)
        })
        .await?;
    assert_eq!(
        condition(&status, "PostgresReady").0,
        "True",
        "what works is said to work"
    );

    // What is neither yes nor no changes nothing either, and is said back.
    annotate(&ground, PLAN_ONLY, json!("ture")).await?;
    ground
        .shows("a value that is not understood", |status| {
            says(
                status,
                "CredentialsCurrent",
                &[r#"is "ture"; allowed: true, false."#, "Next would be"],
            )
        })
        .await?;
    let role = ground.login(SECRETS[0]).await?.text("username").unwrap();
    ground
        .stores
        .by_superuser(&format!("ALTER ROLE \"{role}\" NOLOGIN"))
        .await?;
    ground
        .patch(json!({"rotation": {"trigger": "two"}}))
        .await?;
    ground
        .shows("a login that would be set again", |status| {
            says(
                status,
                "PostgresReady",
                &["is set on", "present password of Secret orders-postgres"],
            )
        })
        .await?;
    ground
        .stores
        .by_superuser(&format!("ALTER ROLE \"{role}\" LOGIN"))
        .await?;

    // So does a deletion, which says what it would take away.
    let services: Api<ClusterService> = ground.namespace.api();
    services.delete(NAME, &DeleteParams::default()).await?;
    ground
        .shows("a deletion that only plans", |status| {
            let words = [
                "The deletion waits",
                "are removed from",
                "then Secret orders-postgres",
            ];
            says(status, "PostgresReady", &words)
        })
        .await?;
    let after = (
        ground.on_servers().await?,
        secrets.get(SECRETS[0]).await?,
        secrets.get(SECRETS[1]).await?,
    );
    assert_eq!(after, before);

    // A forced deletion that is misspelt is none.
    annotate(&ground, "leasehold.dev/force-delete", json!("yes")).await?;
    ground
        .shows("a command that is not understood", |status| {
            let (_, _, message) = condition(status, "PostgresReady");
            message.contains(r#"leasehold.dev/force-delete is "yes"; allowed: true, false."#)
        })
        .await?;
    annotate(&ground, PLAN_ONLY, json!(null)).await?;
    ground
        .until("a service that is gone", || async {
            Ok(services.get_opt(NAME).await?.is_none())
        })
        .await?;
    assert_eq!(ground.on_servers().await?, (vec![], vec![]));
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_only_plans_from_its_first_day_gets_nothing_made() -> Result<()> {
    let ground = Ground::prepare("logins-planned-first").await?;
    let services: Api<ClusterService> = ground.namespace.api();
    let service = serde_json::from_value(json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "ClusterService",
        "metadata": {"name": NAME, "annotations": {PLAN_ONLY: "true"}}, "spec": ground.spec(&json!({})),
    }))?;
    let created = services
        .create(&kube::api::PostParams::default(), &service)
        .await;
    created.map(drop).step(|| "creating a service")?;
    ground
        .shows("a plan of a first login", |status| {
            ["PostgresReady", "RedisReady"].iter().all(|it| {
                says(
                    status,
                    it,
                    &["Next would be: password 1 (Created) is staged"],
                )
            })
        })
        .await?;
    assert_eq!(ground.on_servers().await?, (vec![], vec![]));
    annotate(&ground, PLAN_ONLY, json!("false")).await?;
    ground.ready().await?;
    ground.finish().await
}
