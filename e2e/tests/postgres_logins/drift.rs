//! What somebody changes by hand is seen by the one statement that asks for all services, and repaired.

use leasehold_e2e::error::Result;
use leasehold_operator::backend::postgres::{Server, Wants};
use leasehold_operator::backend::{LoginState, SharedState, Slot, Subject, Survey};

use crate::ground::{Ground, ours};

async fn survey(operator: &Server, subject: &Subject<Wants>) -> Result<Survey> {
    let all = operator.survey().await?;
    let names = Server::survey_names(subject);
    Ok(all
        .into_iter()
        .filter(|(name, _)| names.contains(name))
        .collect())
}

#[tokio::test]
async fn a_change_of_a_login_by_hand_is_seen_and_repaired() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, pair) = ground.service(&operator, "billing").await?;
    let (login, owner) = (subject.names.login(Slot::A), subject.names.owner());
    let by_hand = [
        format!("DROP ROLE \"{login}\""),
        format!("ALTER ROLE \"{login}\" NOLOGIN"),
        format!("ALTER ROLE \"{login}\" CREATEDB"),
        format!("ALTER ROLE \"{login}\" CONNECTION LIMIT 3"),
        format!("ALTER ROLE \"{login}\" VALID UNTIL '2001-01-01'"),
        format!("ALTER ROLE \"{login}\" RESET role"),
        format!("ALTER ROLE \"{login}\" SET search_path = pg_catalog"),
        format!("REVOKE \"{owner}\" FROM \"{login}\" CASCADE"),
    ];
    for change in by_hand {
        let before = survey(&operator, &subject).await?;
        assert_eq!(before.len(), 2, "{before:?}");
        assert_eq!(survey(&operator, &subject).await?, before);
        // On 15 a superuser's grant and the admin's are one; later each has its own.
        let change = if change.starts_with("REVOKE") {
            let admin = crate::ground::ADMIN;
            format!("SET ROLE \"{admin}\"; {change}; RESET ROLE")
        } else {
            change
        };
        ground.by_superuser(&change).await?;
        assert_ne!(survey(&operator, &subject).await?, before, "{change}");
        let state = operator.look(&subject).await?;
        assert!(
            state.logins[0] == LoginState::Absent || !ours(&state.logins[0]).1,
            "{change}: {state:?}"
        );
        operator.set_login(&subject, 1, &pair.verifier).await?;
        operator.verify(&subject, Slot::A, &pair.password).await?;
        let state = operator.look(&subject).await?;
        assert!(ours(&state.logins[0]).1, "{change}: {state:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_change_of_the_shared_part_by_hand_is_seen_and_repaired() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, pair) = ground.service(&operator, "billing").await?;
    let owner = subject.names.owner();
    let by_hand = [
        format!("GRANT CONNECT ON DATABASE \"{owner}\" TO PUBLIC"),
        format!("ALTER DATABASE \"{owner}\" ALLOW_CONNECTIONS false"),
        format!("ALTER ROLE \"{owner}\" LOGIN"),
        format!("COMMENT ON DATABASE \"{owner}\" IS 'mine'"),
        format!("DROP DATABASE \"{owner}\" WITH (FORCE)"),
    ];
    for change in by_hand {
        let before = survey(&operator, &subject).await?;
        ground.by_superuser(&change).await?;
        assert_ne!(survey(&operator, &subject).await?, before, "{change}");
        assert_eq!(
            operator.look(&subject).await?.shared,
            SharedState::Drifted,
            "{change}"
        );
        operator.provision(&subject).await?;
        let state = operator.look(&subject).await?;
        assert_eq!(state.shared, SharedState::InShape, "{change}");
        operator.verify(&subject, Slot::A, &pair.password).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_rotation_changes_nothing_in_what_the_survey_says_of_the_shared_part() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, _pair) = ground.service(&operator, "billing").await?;
    let owner = subject.names.owner();
    let before = survey(&operator, &subject).await?;
    operator
        .set_login(&subject, 2, &crate::ground::pair().verifier)
        .await?;
    operator.end_generation(&subject, 1).await?;
    let after = survey(&operator, &subject).await?;
    assert_eq!(before[&owner], after[&owner]);
    assert!(!after.contains_key(&subject.names.login(Slot::A)));
    assert!(after.contains_key(&subject.names.login(Slot::B)));
    Ok(())
}

#[tokio::test]
async fn a_restarted_server_is_asked_on_a_new_connection() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, pair) = ground.service(&operator, "billing").await?;
    let before = operator.survey().await?;
    ground.server.restart().await?;
    assert_eq!(operator.survey().await?, before);
    operator.verify(&subject, Slot::A, &pair.password).await?;
    Ok(())
}
