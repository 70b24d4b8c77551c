//! The end of a service.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use leasehold_crds::{ClusterService, keys};
use leasehold_e2e::Result;
use serde_json::json;

use super::ground::{Ground, NAME, SECRETS};
use crate::stage::condition;

async fn is_gone(services: &Api<ClusterService>) -> Result<bool> {
    Ok(services.get_opt(NAME).await?.is_none())
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_leaves_nothing_on_servers_and_retain_leaves_everything() -> Result<()> {
    let ground = Ground::prepare("logins-ended").await?;
    let services: Api<ClusterService> = ground.namespace.api();
    let secrets: Api<Secret> = ground.namespace.api();
    ground.service(&json!({})).await?;
    let kept = ground.login(SECRETS[0]).await?;
    services.delete(NAME, &DeleteParams::default()).await?;
    ground
        .until("a service that is gone", || is_gone(&services))
        .await?;
    kept.use_it().await?;
    assert!(secrets.get_opt(SECRETS[0]).await?.is_some());

    // The same namespace takes up what it left.
    let status = ground.service(&json!({"deletionPolicy": "Delete"})).await?;
    assert!(
        status.credentials.iter().all(|it| it.generation == 1),
        "{status:?}"
    );
    kept.use_it().await?;
    let (roles, users) = ground.on_servers().await?;
    assert!(roles.len() >= 3 && users.len() == 1, "{roles:?} {users:?}");
    services.delete(NAME, &DeleteParams::default()).await?;
    ground
        .until("a service that is gone", || is_gone(&services))
        .await?;
    assert_eq!(ground.on_servers().await?, (vec![], vec![]));
    for secret in SECRETS {
        ground
            .until("a Secret that is gone", || async {
                Ok(secrets.get_opt(secret).await?.is_none())
            })
            .await?;
    }
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_a_dead_server_holds_up_says_so_and_can_be_forced() -> Result<()> {
    let ground = Ground::prepare("logins-stuck").await?;
    let services: Api<ClusterService> = ground.namespace.api();
    ground.service(&json!({"deletionPolicy": "Delete"})).await?;
    ground.stores.redis.stop();
    services.delete(NAME, &DeleteParams::default()).await?;
    let status = ground
        .shows("what holds the deletion up", |status| {
            condition(status, "RedisReady").1 == "HeldBack"
        })
        .await?;
    let (_, _, message) = condition(&status, "RedisReady");
    assert!(
        message.contains("leasehold.dev/force-delete=true"),
        "{message}"
    );
    let force = json!({"metadata": {"annotations": {"leasehold.dev/force-delete": "true"}}});
    let force = Patch::Merge(force);
    services
        .patch(NAME, &PatchParams::default(), &force)
        .await?;
    ground
        .until("a service that is gone", || is_gone(&services))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_operator_a_retained_service_goes_at_once_and_another_when_its_finalizer_does()
-> Result<()> {
    let mut ground = Ground::prepare("logins-alone").await?;
    let services: Api<ClusterService> = ground.namespace.api();
    ground.service(&json!({})).await?;
    let kept = ground.login(SECRETS[0]).await?;
    ground.uninstall();
    services.delete(NAME, &DeleteParams::default()).await?;
    ground
        .until("a service that is gone", || is_gone(&services))
        .await?;
    kept.use_it().await?;

    ground.succeed(&[]).await?;
    ground.service(&json!({"deletionPolicy": "Delete"})).await?;
    ground.uninstall();
    services.delete(NAME, &DeleteParams::default()).await?;
    let held = services.get(NAME).await?.metadata;
    assert_eq!(
        held.finalizers,
        Some(vec![keys::FINALIZER_CREDENTIALS.to_owned()])
    );
    let by_hand = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    services
        .patch(NAME, &PatchParams::default(), &by_hand)
        .await?;
    ground
        .until("a service that is gone", || is_gone(&services))
        .await?;
    kept.use_it().await?;
    ground.finish().await
}
