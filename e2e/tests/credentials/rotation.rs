//! New passwords, while clients go on.

use leasehold_e2e::Result;
use serde_json::json;
use sqlx::Connection as _;

use super::ground::{Ground, SECRETS};
use crate::stage::condition;

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_trigger_rotates_once_and_both_logins_work_through_the_grace() -> Result<()> {
    let ground = Ground::prepare("logins-rotated").await?;
    ground
        .service(&json!({"rotation": {"gracePeriod": "3s"}}))
        .await?;
    let mut before = Vec::new();
    for secret in SECRETS {
        before.push(ground.login(secret).await?);
    }
    ground
        .patch(json!({"rotation": {"trigger": "one"}}))
        .await?;
    let status = ground
        .shows("a second password", |status| {
            status.credentials.iter().all(|it| it.generation == 2)
        })
        .await?;
    assert!(
        ["Rotating", "WaitingForSessions"]
            .contains(&condition(&status, "CredentialsCurrent").1.as_str())
    );
    for (login, secret) in before.iter().zip(SECRETS) {
        login.use_it().await?;
        let now = ground.login(secret).await?;
        assert_ne!(now.text("username"), login.text("username"));
        assert_ne!(now.text("password"), login.text("password"));
    }
    ground.rotated_to(2).await?;
    for login in &before {
        assert!(login.use_it().await.is_err(), "the former login has ended");
    }
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_stays_open_keeps_the_former_login_and_status_counts_it() -> Result<()> {
    let ground = Ground::prepare("logins-held").await?;
    ground
        .service(&json!({"rotation": {"gracePeriod": "0s"}}))
        .await?;
    let login = ground.login(SECRETS[0]).await?;
    let mut client = login.postgres().await?;
    ground
        .patch(json!({"rotation": {"trigger": "one"}}))
        .await?;
    let status = ground
        .shows("an open session of the former login", |status| {
            condition(status, "CredentialsCurrent").1 == "WaitingForSessions"
        })
        .await?;
    let (_, _, message) = condition(&status, "CredentialsCurrent");
    assert!(message.contains("1 session is still open"), "{message}");
    client.ping().await?;
    client.close().await?;
    ground.rotated_to(2).await?;
    assert!(login.use_it().await.is_err(), "the former login has ended");
    ground.finish().await
}
