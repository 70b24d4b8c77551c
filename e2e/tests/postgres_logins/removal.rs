//! The end of a service on the server.

use leasehold_e2e::error::Result;
use leasehold_operator::backend::{Removal, Slot};

use crate::ground::{Ground, code, remove, run, subject};

const LEFT: &str = "SELECT (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'lh!_%' ESCAPE '!')::text \
     || ' ' || (SELECT count(*) FROM pg_database WHERE datname LIKE 'lh!_%' ESCAPE '!')::text";

#[tokio::test]
async fn nothing_is_left_of_a_removed_service_though_sessions_were_open() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, pair) = ground.service(&operator, "billing").await?;
    let mut client = ground.client(&subject, Slot::A, &pair).await?;
    run(&mut client, "CREATE TABLE t (n int)").await?;
    assert_eq!(remove(&operator, &subject, true).await?, Removal::Done);
    assert_eq!(code(run(&mut client, "SELECT 1").await), "57P01");
    assert_eq!(ground.ask(LEFT).await?, "0 0");
    assert_eq!(remove(&operator, &subject, true).await?, Removal::Done);
    Ok(())
}

#[tokio::test]
async fn the_shared_part_stays_with_another_service_of_the_cluster_id() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (first, _) = ground.service(&operator, "billing").await?;
    let mut second = subject("billing");
    second.names.service = "billing-next".to_owned();
    let pair = ground.settle(&operator, &second).await?;
    assert_eq!(remove(&operator, &first, false).await?, Removal::Done);
    operator.verify(&second, Slot::A, &pair.password).await?;
    // Whoever thinks that it was the last is wrong.
    let Removal::Held(why) = remove(&operator, &first, true).await? else {
        panic!("it took the database of another service");
    };
    assert!(why.contains(&second.names.login(Slot::A)), "{why}");
    operator.verify(&second, Slot::A, &pair.password).await?;
    assert_eq!(remove(&operator, &second, true).await?, Removal::Done);
    assert_eq!(ground.ask(LEFT).await?, "0 0");
    Ok(())
}

#[tokio::test]
async fn objects_in_another_database_hold_a_role_until_they_are_gone() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, _pair) = ground.service(&operator, "billing").await?;
    let (owner, login) = (subject.names.owner(), subject.names.login(Slot::A));
    ground.by_superuser("CREATE DATABASE elsewhere").await?;
    let objects = format!(
        "CREATE TABLE theirs (n int); CREATE TABLE mine (n int); ALTER TABLE mine OWNER TO \"{owner}\"; \
         GRANT SELECT ON theirs TO \"{login}\""
    );
    ground.by_superuser_in("elsewhere", &objects).await?;

    let Removal::Held(why) = remove(&operator, &subject, true).await? else {
        panic!("it dropped a role that something depends on");
    };
    assert!(
        why.contains("elsewhere: owner of 0 objects, 1 grants") && why.contains(&login),
        "{why}"
    );
    // It cannot be used any more, and is still ours.
    let state = operator.look(&subject).await?;
    assert!(!crate::ground::ours(&state.logins[0]).1);

    ground
        .by_superuser_in("elsewhere", &format!("DROP OWNED BY \"{login}\""))
        .await?;
    let Removal::Held(why) = remove(&operator, &subject, true).await? else {
        panic!("it dropped a role that owns something");
    };
    assert!(
        why.contains("elsewhere: owner of 1 objects, 0 grants") && why.contains(&owner),
        "{why}"
    );
    let databases = format!("SELECT count(*)::text FROM pg_database WHERE datname = '{owner}'");
    assert_eq!(ground.ask(&databases).await?, "1", "nothing is half gone");

    ground
        .by_superuser_in("elsewhere", "DROP TABLE mine")
        .await?;
    assert_eq!(remove(&operator, &subject, true).await?, Removal::Done);
    assert_eq!(ground.ask(LEFT).await?, "0 0");
    Ok(())
}

#[tokio::test]
async fn a_session_that_only_a_superuser_may_end_holds_the_database() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, _pair) = ground.service(&operator, "billing").await?;
    let held = ground.superuser(&subject.names.owner()).await?;
    let Removal::Held(why) = remove(&operator, &subject, true).await? else {
        panic!("it dropped a database in use");
    };
    assert!(why.contains("database"), "{why}");
    sqlx::Connection::close(held).await?;
    assert_eq!(remove(&operator, &subject, true).await?, Removal::Done);
    Ok(())
}
