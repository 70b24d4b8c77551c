//! What people and crashes do to servers and Secrets is mended.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use leasehold_e2e::Result;
use serde_json::json;

use super::ground::{Ground, NAME, SECRETS};
use crate::stage::events;

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_comes_back_empty_and_a_dropped_role_get_the_same_password_again() -> Result<()>
{
    let ground = Ground::prepare("logins-dropped").await?;
    ground.service(&json!({})).await?;
    let (postgres, redis) = (
        ground.login(SECRETS[0]).await?,
        ground.login(SECRETS[1]).await?,
    );
    ground.stores.redis.restart().await?;
    ground
        .until("the user of Redis", || async {
            Ok(redis.use_it().await.is_ok())
        })
        .await?;
    let role = postgres.text("username").unwrap();
    ground
        .stores
        .by_superuser(&format!("DROP ROLE \"{role}\""))
        .await?;
    assert!(postgres.use_it().await.is_err());
    ground
        .until("the role of Postgres", || async {
            Ok(postgres.use_it().await.is_ok())
        })
        .await?;
    let status = ground.ready().await?;
    assert!(
        status.credentials.iter().all(|it| it.generation == 1),
        "{status:?}"
    );
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_or_edited_secret_gets_a_new_password_and_an_event_says_so() -> Result<()> {
    let ground = Ground::prepare("logins-edited").await?;
    ground
        .service(&json!({"rotation": {"gracePeriod": "0s"}}))
        .await?;
    let secrets: Api<Secret> = ground.namespace.api();
    let before = ground.login(SECRETS[0]).await?;
    secrets.delete(SECRETS[0], &DeleteParams::default()).await?;
    let edit = Patch::Merge(json!({"stringData": {"password": "edited", "host": "elsewhere"}}));
    secrets
        .patch(SECRETS[1], &PatchParams::default(), &edit)
        .await?;
    ground.rotated_to(2).await?;
    for secret in SECRETS {
        let login = ground.login(secret).await?;
        assert_ne!(login.text("password"), before.text("password"));
        assert_eq!(login.text("host").as_deref(), Some("127.0.0.1"));
    }
    let told = events(&ground.namespace, NAME).await?;
    let reasons: Vec<_> = told.iter().filter_map(|it| it.reason.as_deref()).collect();
    assert!(
        reasons.contains(&"SecretLost") && reasons.contains(&"SecretOverwritten"),
        "{reasons:?}"
    );
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_somebody_else_is_left_alone_until_it_is_gone() -> Result<()> {
    let ground = Ground::prepare("logins-foreign").await?;
    let secrets: Api<Secret> = ground.namespace.api();
    let foreign: Secret = serde_json::from_value(json!({
        "metadata": {"name": SECRETS[1]}, "stringData": {"password": "mine"},
    }))?;
    secrets.create(&PostParams::default(), &foreign).await?;
    crate::stage::declare(&ground.namespace, NAME, ground.spec(&json!({}))).await?;
    ground
        .shows("a conflict", |status| {
            crate::stage::condition(status, "RedisReady").1 == "SecretConflict"
        })
        .await?;
    let kept = secrets.get(SECRETS[1]).await?;
    assert!(kept.metadata.annotations.is_none() && kept.data.unwrap().len() == 1);
    secrets.delete(SECRETS[1], &DeleteParams::default()).await?;
    ground.ready().await?;
    ground.finish().await
}
