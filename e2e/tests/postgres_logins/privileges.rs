//! Services of one cluster id that may do less than its owner.

use leasehold_e2e::error::Result;
use leasehold_operator::backend::postgres::{Privileges, Wants};
use leasehold_operator::backend::{SharedState, Slot, Subject};
use sqlx::Connection as _;

use crate::ground::{Ground, code, number, ours, run, subject};

fn with(name: &str, privileges: Privileges) -> Subject<Wants> {
    let mut subject = subject("billing");
    name.clone_into(&mut subject.names.service);
    subject.wants.privileges = privileges;
    subject
}

#[tokio::test]
async fn readers_read_and_writers_write_what_the_owner_made_before_and_after() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (owner, password) = ground.service(&operator, "billing").await?;
    let mut owns = ground.client(&owner, Slot::A, &password).await?;
    run(&mut owns, "CREATE TABLE before (id bigserial, n int8)").await?;

    let writer = with("writer", Privileges::ReadWrite);
    let written = ground.settle(&operator, &writer).await?;
    let reader = with("reader", Privileges::ReadOnly);
    let read = ground.settle(&operator, &reader).await?;
    run(&mut owns, "CREATE TABLE after (id bigserial, n int8)").await?;

    let mut writes = ground.client(&writer, Slot::A, &written).await?;
    let mut reads = ground.client(&reader, Slot::A, &read).await?;
    for table in ["before", "after"] {
        run(
            &mut writes,
            &format!("INSERT INTO {table} (n) VALUES (1); UPDATE {table} SET n = 2"),
        )
        .await?;
        assert_eq!(
            number(&mut reads, &format!("SELECT n FROM {table}")).await?,
            2
        );
        let insert = run(&mut reads, &format!("INSERT INTO {table} (n) VALUES (1)")).await;
        assert_eq!(code(insert), "42501");
        let drop = run(&mut writes, &format!("DROP TABLE {table}")).await;
        assert_eq!(code(drop), "42501");
    }
    for client in [&mut writes, &mut reads] {
        assert_eq!(
            code(run(client, "CREATE TABLE more (n int)").await),
            "42501"
        );
        let up = format!("SET ROLE \"{}\"", owner.names.owner());
        assert_eq!(code(run(client, &up).await), "42501");
    }
    for subject in [&owner, &writer, &reader] {
        let state = operator.look(subject).await?;
        assert_eq!(state.shared, SharedState::InShape);
        assert!(ours(&state.logins[0]).1, "{state:?}");
    }

    // A right that was taken from the group is seen and given back.
    run(
        &mut owns,
        &format!(
            "REVOKE SELECT ON before FROM \"{}\"",
            reader.wants.role(&reader.names)
        ),
    )
    .await?;
    assert_eq!(operator.look(&reader).await?.shared, SharedState::Drifted);
    operator.provision(&reader).await?;
    assert_eq!(number(&mut reads, "SELECT n FROM before").await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_service_that_may_do_less_from_now_on_is_no_owner_any_more() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (mut subject, pair) = ground.service(&operator, "billing").await?;
    subject.wants.privileges = Privileges::ReadOnly;
    assert!(!ours(&operator.look(&subject).await?.logins[0]).1);
    operator.provision(&subject).await?;
    operator.set_login(&subject, 1, &pair.verifier).await?;
    operator.verify(&subject, Slot::A, &pair.password).await?;
    let mut client = ground.client(&subject, Slot::A, &pair).await?;
    assert_eq!(
        code(run(&mut client, "CREATE TABLE t (n int)").await),
        "42501"
    );
    let up = format!("SET ROLE \"{}\"", subject.names.owner());
    assert_eq!(code(run(&mut client, &up).await), "42501");
    Ok(())
}

#[tokio::test]
async fn a_connection_limit_holds_for_each_login() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let mut subject = subject("billing");
    subject.wants.connection_limit = Some(1);
    let pair = ground.settle(&operator, &subject).await?;
    let first = ground.client(&subject, Slot::A, &pair).await?;
    assert_eq!(code(ground.client(&subject, Slot::A, &pair).await), "53300");
    first.close().await?;
    subject.wants.connection_limit = None;
    assert!(!ours(&operator.look(&subject).await?.logins[0]).1);
    operator.set_login(&subject, 1, &pair.verifier).await?;
    assert!(ours(&operator.look(&subject).await?.logins[0]).1);
    Ok(())
}
