//! From a declaration to a login that works.

use leasehold_e2e::Result;
use serde_json::json;

use super::ground::{Ground, NAME, SECRETS};
use crate::stage::{condition, declare, shown};

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_service_gets_logins_that_work_and_status_names_them() -> Result<()> {
    let ground = Ground::prepare("logins-made").await?;
    let status = ground.service(&json!({})).await?;
    for secret in SECRETS {
        let login = ground.login(secret).await?;
        let credential = status
            .credentials
            .iter()
            .find(|it| it.secret_name == secret);
        let credential = credential.expect("the Secret is in the status");
        assert_eq!(Some(&credential.username), login.text("username").as_ref());
        assert_eq!(credential.generation, 1);
        assert_eq!(login.text("provider").as_deref(), Some("leasehold"));
        assert!(
            !login.keys().iter().any(|key| key.starts_with("next-")),
            "{:?}",
            login.keys()
        );
        assert!(
            login.secret().metadata.owner_references.is_none(),
            "Retain leaves no owner"
        );
    }
    assert_eq!(
        status.binding.as_ref().map(|it| it.name.as_str()),
        Some(SECRETS[0])
    );
    assert_eq!(condition(&status, "CredentialsCurrent").1, "Current");
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_no_class_allows_learns_nothing_else_and_gets_nothing() -> Result<()> {
    let ground = Ground::prepare("logins-refused").await?;
    let prefix = ground.namespace.name();
    let kubectl =
        leasehold_e2e::kubectl::Kubectl::new(&ground.namespace.cluster().admin_kubeconfig());
    let class = format!("{prefix}-redis");
    let closed = r#"{"spec":{"allowedNamespaces":null}}"#;
    kubectl
        .run(&[
            "patch",
            "backendclass",
            &class,
            "--type=merge",
            "-p",
            closed,
        ])
        .await?;
    declare(
        &ground.namespace,
        NAME,
        json!({"redis": {"className": class}}),
    )
    .await?;
    let status = shown(&ground.namespace, NAME, "a refusal", |status| {
        condition(status, "RedisReady").1 == "NotPermitted"
    })
    .await?;
    assert!(status.credentials.is_empty());
    let (_, users) = ground.on_servers().await?;
    assert!(users.is_empty(), "{users:?}");
    let (_, _, message) = condition(&status, "RedisReady");
    assert!(!message.contains("127.0.0.1"), "{message}");
    ground.finish().await
}
