//! A service gets its logins, and they take turns.

use leasehold_e2e::error::Result;
use leasehold_operator::backend::{LoginState, SharedState, Slot, fingerprint};
use secrecy::ExposeSecret as _;

use crate::ground::{Ground, code, number, ours, pair, run, text};

#[tokio::test]
async fn a_service_logs_in_as_its_owner_and_finds_its_own_database() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let subject = crate::ground::subject("billing");
    let before = operator.look(&subject).await?;
    assert_eq!(before.shared, SharedState::Drifted);
    assert_eq!(before.logins, [LoginState::Absent, LoginState::Absent]);

    let first = ground.settle(&operator, &subject).await?;
    let mut client = ground.client(&subject, Slot::A, &first).await?;
    let owner = subject.names.owner();
    assert_eq!(text(&mut client, "SELECT current_user::text").await?, owner);
    assert_eq!(
        text(&mut client, "SELECT current_database()::text").await?,
        owner
    );
    assert_eq!(text(&mut client, "SHOW search_path").await?, "public");
    run(
        &mut client,
        "CREATE TABLE orders (n int8); INSERT INTO orders VALUES (7)",
    )
    .await?;

    let state = operator.look(&subject).await?;
    assert_eq!(state.shared, SharedState::InShape);
    let LoginState::Ours {
        fingerprint: shown, ..
    } = &state.logins[0]
    else {
        panic!("{state:?}")
    };
    assert_eq!(*shown, fingerprint(first.verifier.0.expose_secret()));
    assert_eq!(ours(&state.logins[0]), (1, true, 1));
    assert_eq!(state.logins[1], LoginState::Absent);
    Ok(())
}

#[tokio::test]
async fn logins_take_turns_and_each_works_on_what_the_other_made() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, first) = ground.service(&operator, "billing").await?;
    let mut old = ground.client(&subject, Slot::A, &first).await?;
    run(
        &mut old,
        "CREATE TABLE a (n int8); INSERT INTO a VALUES (1)",
    )
    .await?;

    let second = pair();
    operator.set_login(&subject, 2, &second.verifier).await?;
    operator.verify(&subject, Slot::B, &second.password).await?;
    let mut new = ground.client(&subject, Slot::B, &second).await?;
    // Both live: nothing that one made is closed to the other.
    run(
        &mut new,
        "ALTER TABLE a ADD COLUMN m int8; CREATE TABLE b (n int8)",
    )
    .await?;
    run(
        &mut old,
        "ALTER TABLE b ADD COLUMN m int8; INSERT INTO a (m) VALUES (2)",
    )
    .await?;
    let state = operator.look(&subject).await?;
    assert_eq!(ours(&state.logins[0]), (1, true, 1));
    assert_eq!(ours(&state.logins[1]), (2, true, 1));

    operator.end_generation(&subject, 1).await?;
    assert_eq!(code(run(&mut old, "SELECT 1").await), "57P01");
    assert_eq!(
        code(ground.client(&subject, Slot::A, &first).await),
        "28P01"
    );
    assert_eq!(number(&mut new, "SELECT count(*) FROM a").await?, 2);
    let state = operator.look(&subject).await?;
    assert_eq!(state.logins[0], LoginState::Absent);
    assert_eq!(ours(&state.logins[1]), (2, true, 1));

    // Again, with a session that never ended.
    let third = pair();
    operator.set_login(&subject, 3, &third.verifier).await?;
    operator.verify(&subject, Slot::A, &third.password).await?;
    run(&mut new, "INSERT INTO b VALUES (1)").await?;
    operator.end_generation(&subject, 2).await?;
    operator.end_generation(&subject, 2).await?; // done is done
    let mut newest = ground.client(&subject, Slot::A, &third).await?;
    assert_eq!(number(&mut newest, "SELECT count(*) FROM b").await?, 1);
    Ok(())
}

#[tokio::test]
async fn what_a_login_made_after_a_reset_goes_to_the_owner_when_it_ends() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, first) = ground.service(&operator, "billing").await?;
    let mut old = ground.client(&subject, Slot::A, &first).await?;
    run(
        &mut old,
        "SET ROLE NONE; CREATE TABLE astray (n int8); INSERT INTO astray VALUES (1)",
    )
    .await?;
    let second = pair();
    operator.set_login(&subject, 2, &second.verifier).await?;
    let mut new = ground.client(&subject, Slot::B, &second).await?;
    assert_eq!(
        code(number(&mut new, "SELECT count(*) FROM astray").await),
        "42501"
    );
    operator.end_generation(&subject, 1).await?;
    assert_eq!(number(&mut new, "SELECT count(*) FROM astray").await?, 1);
    Ok(())
}

#[tokio::test]
async fn no_statement_holds_a_password() -> Result<()> {
    let ground = Ground::start().await?;
    ground
        .by_superuser("ALTER SYSTEM SET log_statement = 'all'; ")
        .await?;
    ground.by_superuser("SELECT pg_reload_conf()").await?;
    let operator = ground.operator();
    let (_, pair) = ground.service(&operator, "billing").await?;
    let log = std::fs::read_to_string(ground.server.path().join("logs/postgres.log"))?;
    assert!(log.contains("CREATE ROLE") && log.contains("SCRAM-SHA-256$"));
    assert!(!log.contains(pair.password.expose_secret()));
    assert!(!log.contains(ground.admin.password.expose_secret()));
    Ok(())
}
