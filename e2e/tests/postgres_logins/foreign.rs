//! What is not ours is refused and stays as it is.

use leasehold_e2e::error::Result;
use leasehold_operator::backend::{BackendError, LoginState, SharedState, Slot};

use crate::ground::{Ground, error, pair, remove, subject};

#[tokio::test]
async fn a_role_without_our_mark_is_left_alone() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, first) = ground.service(&operator, "billing").await?;
    let (login, owner) = (subject.names.login(Slot::A), subject.names.owner());
    let elsewhere = subject
        .names
        .login_mark()
        .replace("0b1c", "another-namespace-uid");
    for comment in [
        "'by hand'".to_owned(),
        "NULL".to_owned(),
        format!("'{elsewhere} generation=9 fingerprint=x'"),
    ] {
        ground
            .by_superuser(&format!("COMMENT ON ROLE \"{login}\" IS {comment}"))
            .await?;
        let state = operator.look(&subject).await?;
        assert!(
            matches!(state.logins[0], LoginState::Foreign(_)),
            "{state:?}"
        );
        for outcome in [
            operator.set_login(&subject, 11, &pair().verifier).await,
            operator.end_generation(&subject, 11).await,
        ] {
            let refused = error(outcome);
            assert!(matches!(refused, BackendError::Foreign { .. }), "{refused}");
        }
        operator.verify(&subject, Slot::A, &first.password).await?;
    }
    ground
        .by_superuser(&format!("COMMENT ON ROLE \"{owner}\" IS 'by hand'"))
        .await?;
    let refused = error(operator.provision(&subject).await);
    assert!(refused.to_string().contains("by hand"), "{refused}");
    let refused = error(operator.set_login(&subject, 2, &pair().verifier).await);
    assert!(matches!(refused, BackendError::Foreign { .. }), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_database_of_somebody_else_is_left_alone() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    ground.by_superuser("CREATE DATABASE ledger").await?;
    let mut subject = subject("billing");
    subject.wants.database = Some("ledger".to_owned());
    let state = operator.look(&subject).await?;
    assert!(matches!(state.shared, SharedState::Foreign(_)), "{state:?}");
    let refused = error(operator.provision(&subject).await);
    assert!(refused.to_string().contains("database ledger"), "{refused}");
    let roles = format!(
        "SELECT count(*)::text FROM pg_roles WHERE rolname = '{}'",
        subject.names.owner()
    );
    assert_eq!(ground.ask(&roles).await?, "0");
    // Its end has nothing to end.
    remove(&operator, &subject, true).await?;
    assert_eq!(
        ground
            .ask("SELECT count(*)::text FROM pg_database WHERE datname = 'ledger'")
            .await?,
        "1"
    );
    Ok(())
}

#[tokio::test]
async fn of_two_services_that_want_one_database_the_first_has_it() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (mut one, mut other) = (subject("billing"), subject("orders"));
    one.wants.database = Some("ledger".to_owned());
    other.wants.database = one.wants.database.clone();
    let pair = ground.settle(&operator, &one).await?;
    let refused = error(operator.provision(&other).await);
    assert!(matches!(refused, BackendError::Foreign { .. }), "{refused}");
    operator.verify(&one, Slot::A, &pair.password).await?;
    // Nor may a tenant take the name that another service will need.
    other.wants.database = Some(subject("invoices").names.owner());
    let refused = error(operator.provision(&other).await);
    assert!(
        matches!(
            refused,
            BackendError::Invalid {
                field: "database",
                ..
            }
        ),
        "{refused}"
    );
    Ok(())
}
