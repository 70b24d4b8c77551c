//! A store that is taken out of the spec.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use leasehold_crds::{BackendClass, ClusterService};
use leasehold_e2e::Result;
use serde_json::json;

use super::ground::{Ground, NAME, SECRETS};
use crate::stage::condition;

#[tokio::test(flavor = "multi_thread")]
async fn under_delete_it_is_cleaned_up_and_can_be_wanted_again() -> Result<()> {
    let ground = Ground::prepare("logins-left").await?;
    let secrets: Api<Secret> = ground.namespace.api();
    let more = json!({"deletionPolicy": "Delete", "postgres": {
        "className": format!("{}-postgres", ground.namespace.name()), "schema": "billing",
    }});
    ground.service(&more).await?;
    for _ in 0..2 {
        ground.patch(ground.spec(&more)).await?;
        let status = ground.ready().await?;
        assert!(
            status.credentials.iter().all(|it| it.generation == 1),
            "{status:?}"
        );
        ground.login(SECRETS[0]).await?;
        let redis = ground.login(SECRETS[1]).await?;
        ground.patch(json!({"postgres": null})).await?;
        ground
            .until("a Secret that is gone", || async {
                Ok(secrets.get_opt(SECRETS[0]).await?.is_none())
            })
            .await?;
        ground
            .shows("Redis alone", |status| {
                status.credentials.len() == 1
                    && condition(status, "PostgresReady").0.is_empty()
                    && condition(status, "Ready").0 == "True"
            })
            .await?;
        let (roles, users) = ground.on_servers().await?;
        assert!(roles.is_empty() && users.len() == 1, "{roles:?} {users:?}");
        redis.use_it().await?;
    }
    let services: Api<ClusterService> = ground.namespace.api();
    ground.patch(json!({"redis": null})).await?;
    ground
        .until("a service that nothing holds", || async {
            Ok(services.get(NAME).await?.metadata.finalizers.is_none())
        })
        .await?;
    assert_eq!(ground.on_servers().await?, (vec![], vec![]));
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn under_retain_it_stays_and_nothing_is_said_of_it() -> Result<()> {
    let ground = Ground::prepare("logins-left-kept").await?;
    let secrets: Api<Secret> = ground.namespace.api();
    ground.service(&json!({})).await?;
    let login = ground.login(SECRETS[1]).await?;
    let before = (ground.on_servers().await?, secrets.get(SECRETS[1]).await?);
    ground.patch(json!({"redis": null})).await?;
    ground
        .shows("Postgres alone", |status| {
            status.credentials.len() == 1 && condition(status, "RedisReady").0.is_empty()
        })
        .await?;
    // Nor does it follow a policy that came after it.
    ground
        .patch(json!({"deletionPolicy": "Delete", "rotation": {"trigger": "one"}}))
        .await?;
    ground
        .shows("a second password", |status| {
            status.credentials.iter().all(|it| it.generation == 2)
        })
        .await?;
    assert_eq!(secrets.get(SECRETS[1]).await?, before.1);
    assert_eq!(ground.on_servers().await?.1, before.0.1);
    login.use_it().await?;
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_or_a_class_that_is_gone_holds_it_up_and_the_rest_stays_ready() -> Result<()>
{
    let ground = Ground::prepare("logins-left-held").await?;
    let secrets: Api<Secret> = ground.namespace.api();
    let services: Api<ClusterService> = ground.namespace.api();
    ground.service(&json!({"deletionPolicy": "Delete"})).await?;
    let user = ground.login(SECRETS[1]).await?.text("username").unwrap();
    ground.stores.redis.stop();
    ground.patch(json!({"redis": null})).await?;
    let status = ground
        .shows("what is left", |status| {
            condition(status, "RedisReady").1 == "HeldBack"
                && condition(status, "Ready").0 == "True"
        })
        .await?;
    let (_, _, message) = condition(&status, "RedisReady");
    assert!(message.contains("delete Secret orders-redis"), "{message}");
    assert_eq!(status.credentials.len(), 1);
    ground.stores.redis.restart().await?;
    ground
        .until("a Secret that is gone", || async {
            Ok(secrets.get_opt(SECRETS[1]).await?.is_none())
        })
        .await?;
    ground
        .shows("no word of Redis", |status| {
            condition(status, "RedisReady").0.is_empty()
        })
        .await?;
    assert!(!ground.on_servers().await?.1.contains(&user));

    // Nobody can say any more where it was: a person has to.
    let classes: Api<BackendClass> = Api::all(ground.namespace.client());
    let class = format!("{}-postgres", ground.namespace.name());
    classes.delete(&class, &DeleteParams::default()).await?;
    let by_force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    classes
        .patch(&class, &PatchParams::default(), &by_force)
        .await?;
    ground
        .until("a class that is gone", || async {
            Ok(classes.get_opt(&class).await?.is_none())
        })
        .await?;
    ground.patch(json!({"postgres": null})).await?;
    ground
        .shows("what is left", |status| {
            let (_, reason, message) = condition(status, "PostgresReady");
            reason == "HeldBack" && message.contains(&class)
        })
        .await?;
    assert!(services.get(NAME).await?.metadata.finalizers.is_some());
    secrets.delete(SECRETS[0], &DeleteParams::default()).await?;
    ground
        .until("a service that nothing holds", || async {
            Ok(services.get(NAME).await?.metadata.finalizers.is_none())
        })
        .await?;
    assert!(
        !ground.on_servers().await?.0.is_empty(),
        "what is there stays"
    );
    ground.finish().await
}
