//! A server that does not serve: what is said, and whether it may pass.

use leasehold_e2e::error::Result;
use leasehold_operator::backend::postgres::{Admin, Server};
use leasehold_operator::backend::{BackendError, Finding, Slot};

use crate::ground::{ADMIN, Ground, PATIENCE, error, pair, subject};

fn finding<'a>(findings: &'a [Finding], condition: &str) -> &'a Finding {
    findings
        .iter()
        .find(|finding| finding.condition == condition)
        .expect("it was looked at")
}

#[tokio::test]
async fn a_fit_server_passes_the_preflight() -> Result<()> {
    let ground = Ground::start().await?;
    let findings = ground.operator().preflight().await;
    for condition in ["Reachable", "VersionSupported", "Writable", "AdminRights"] {
        assert_eq!(
            finding(&findings, condition).is_met,
            Some(true),
            "{findings:?}"
        );
    }
    assert_eq!(finding(&findings, "TlsVerified").is_met, Some(false));
    Ok(())
}

#[tokio::test]
async fn missing_rights_are_named_with_the_statement_that_gives_them() -> Result<()> {
    let ground = Ground::start().await?;
    ground
        .by_superuser(&format!("ALTER ROLE \"{ADMIN}\" NOCREATEROLE NOCREATEDB"))
        .await?;
    let operator = ground.operator();
    let findings = operator.preflight().await;
    let rights = finding(&findings, "AdminRights");
    assert_eq!(rights.is_met, Some(false));
    let statement = format!("ALTER ROLE \"{ADMIN}\" CREATEROLE CREATEDB");
    assert!(rights.message.contains(&statement), "{}", rights.message);
    let refused = error(operator.provision(&subject("billing")).await);
    assert!(
        matches!(refused, BackendError::NotAllowed { .. }),
        "{refused}"
    );
    // The remedy as it is said does help.
    ground.by_superuser(&statement).await?;
    operator.provision(&subject("billing")).await?;
    Ok(())
}

#[tokio::test]
async fn a_read_only_server_is_said_to_be_one() -> Result<()> {
    let ground = Ground::start().await?;
    ground
        .by_superuser("ALTER SYSTEM SET default_transaction_read_only = on; ")
        .await?;
    ground.by_superuser("SELECT pg_reload_conf()").await?;
    let operator = ground.operator();
    let is_read_only = || async {
        let findings = operator.preflight().await;
        Ok((finding(&findings, "Writable").is_met == Some(false)).then_some(()))
    };
    leasehold_e2e::wait::until(
        "the server to be read-only",
        std::time::Duration::from_secs(30),
        is_read_only,
    )
    .await?;
    let refused = error(operator.provision(&subject("billing")).await);
    assert!(
        refused.to_string().contains("25006") && refused.is_passing(),
        "{refused}"
    );
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_a_full_server_and_an_absent_one_are_told_apart() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, _pair) = ground.service(&operator, "billing").await?;
    let refused = error(operator.verify(&subject, Slot::A, &pair().password).await);
    assert!(
        matches!(refused, BackendError::LoginRefused { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("28P01"), "{refused}");

    let wrong = Admin {
        username: ADMIN.to_owned(),
        password: pair().password,
    };
    let wrong = Server::new(ground.endpoint(), wrong).patient(PATIENCE);
    let refused = error(wrong.look(&subject).await);
    assert!(
        matches!(refused, BackendError::LoginRefused { .. }) && !refused.is_passing(),
        "{refused}"
    );
    let findings = wrong.preflight().await;
    assert_eq!(finding(&findings, "Reachable").reason, "LoginRefused");

    ground
        .by_superuser(&format!("ALTER ROLE \"{ADMIN}\" CONNECTION LIMIT 0"))
        .await?;
    let full = ground.operator();
    let refused = error(full.look(&subject).await);
    assert!(
        refused.to_string().contains("53300") && refused.is_passing(),
        "{refused}"
    );
    assert_eq!(
        finding(&full.preflight().await, "Reachable").reason,
        "TooManyConnections"
    );

    ground.server.stop();
    let absent = ground.operator();
    let refused = error(absent.look(&subject).await);
    assert!(
        matches!(refused, BackendError::Unreachable { .. }),
        "{refused}"
    );
    assert_eq!(
        finding(&absent.preflight().await, "Reachable").reason,
        "Unreachable"
    );
    Ok(())
}

#[tokio::test]
async fn a_login_without_its_role_or_its_schema_is_not_verified() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, pair) = ground.service(&operator, "billing").await?;
    let login = subject.names.login(Slot::A);
    ground
        .by_superuser(&format!("ALTER ROLE \"{login}\" RESET role"))
        .await?;
    let refused = error(operator.verify(&subject, Slot::A, &pair.password).await);
    assert!(
        refused.to_string().contains("its sessions are"),
        "{refused}"
    );
    Ok(())
}
