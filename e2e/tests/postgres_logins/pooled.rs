//! Logins through a PgBouncer, which holds copies of their verifiers (C6).

use leasehold_e2e::error::Result;
use leasehold_e2e::servers::PgBouncer;
use leasehold_e2e::servers::pgbouncer::Pooling;
use leasehold_operator::backend::postgres::{Endpoint, Server, Wants};
use leasehold_operator::backend::{Slot, Subject};
use secrecy::ExposeSecret as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use crate::ground::{Ground, PATIENCE, Pair, number, pair, run, text};

fn operator(ground: &Ground, pooler: &PgBouncer) -> Server {
    let endpoint = Endpoint {
        port: pooler.port(),
        pooled: true,
        ..ground.endpoint()
    };
    Server::new(endpoint, ground.admin.clone()).patient(PATIENCE)
}

async fn client(
    pooler: &PgBouncer,
    subject: &Subject<Wants>,
    slot: Slot,
    pair: &Pair,
) -> sqlx::Result<PgConnection> {
    let options = PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(pooler.port())
        .username(&subject.names.login(slot))
        .password(pair.password.expose_secret())
        .database(&subject.wants.database(&subject.names))
        .extra_float_digits(None)
        .statement_cache_capacity(0);
    PgConnection::connect_with(&options).await
}

async fn takes_turns(pooling: Pooling) -> Result<()> {
    let ground = Ground::start().await?;
    let pooler = PgBouncer::start(&ground.server, pooling).await?;
    let operator = operator(&ground, &pooler);
    let (subject, first) = ground.service(&operator, "billing").await?;
    let mut old = client(&pooler, &subject, Slot::A, &first).await?;
    run(
        &mut old,
        "CREATE TABLE a (n int8); INSERT INTO a VALUES (1)",
    )
    .await?;

    // The same verifier again, as after a drift: the pooler's copy stays right.
    operator.set_login(&subject, 1, &first.verifier).await?;
    operator.verify(&subject, Slot::A, &first.password).await?;
    run(&mut old, "INSERT INTO a VALUES (2)").await?;

    let second = pair();
    operator.set_login(&subject, 2, &second.verifier).await?;
    operator.verify(&subject, Slot::B, &second.password).await?;
    let mut new = client(&pooler, &subject, Slot::B, &second).await?;
    run(&mut new, "ALTER TABLE a ADD COLUMN m int8").await?;
    old.close().await?;
    operator.end_generation(&subject, 1).await?;
    assert_eq!(number(&mut new, "SELECT count(*) FROM a").await?, 2);
    assert!(client(&pooler, &subject, Slot::A, &first).await.is_err());
    let wrong = operator.verify(&subject, Slot::B, &pair().password).await;
    assert!(wrong.is_err());
    Ok(())
}

#[tokio::test]
async fn logins_take_turns_behind_a_pooler_of_sessions() -> Result<()> {
    takes_turns(Pooling::Session).await
}

#[tokio::test]
async fn logins_take_turns_behind_a_pooler_of_transactions() -> Result<()> {
    takes_turns(Pooling::Transaction).await
}

/// `DISCARD ALL` is how PgBouncer clears a session by default.
#[tokio::test]
async fn a_session_that_a_pooler_clears_is_still_the_owners() -> Result<()> {
    let ground = Ground::start().await?;
    let pooler = PgBouncer::start(&ground.server, Pooling::Session).await?;
    let operator = operator(&ground, &pooler);
    let (subject, first) = ground.service(&operator, "billing").await?;
    let mut client = client(&pooler, &subject, Slot::A, &first).await?;
    for clears in ["RESET ALL", "RESET ROLE", "DISCARD ALL"] {
        run(&mut client, clears).await?;
        let is = text(&mut client, "SELECT current_user::text").await?;
        assert_eq!(is, subject.names.owner(), "{clears}");
    }
    Ok(())
}
