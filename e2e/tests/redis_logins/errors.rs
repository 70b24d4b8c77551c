//! What goes wrong is told apart, and never with a password.

use std::time::Duration;

use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::servers::Redis;
use leasehold_e2e::servers::redis::Setup;
use leasehold_operator::backend::redis::{
    Address, Admin, Endpoint, Profile, Server, Tls, Topology,
};
use leasehold_operator::backend::{BackendError, Slot};

use crate::subject::{address, admin, run, standalone, subject, verifier};

fn at(node: Address, admin: Admin, tls: Option<Tls>) -> Result<Server> {
    let mut endpoint = Endpoint::new(Topology::Standalone, vec![node]);
    endpoint.tls = tls;
    endpoint.connect_timeout = Duration::from_secs(2);
    endpoint.answer_timeout = Duration::from_secs(2);
    Ok(Server::new(endpoint, admin)?)
}

fn trusting(redis: &Redis) -> Result<Option<Tls>> {
    let ca = Some(redis.ca()?);
    Ok(Some(Tls { ca }))
}

async fn error_of(server: &Server) -> Result<BackendError> {
    let subject = subject("orders", Profile::Default);
    let outcome = server.set_login(&subject, 1, &verifier("one")).await;
    outcome.err().ok_or_else(|| Error::new("it worked"))
}

#[tokio::test]
async fn a_wrong_password_a_missing_right_and_a_silent_host_are_told_apart() -> Result<()> {
    let redis = Redis::start().await?;
    let with = |username: Option<&str>, password: &str| Admin {
        username: username.map(str::to_owned),
        password: password.into(),
    };
    let node = address(&redis);
    for admin in [
        with(None, "canary-wrong"),
        with(Some("nobody"), "canary-wrong"),
        with(None, ""),
    ] {
        let error = error_of(&at(node.clone(), admin, None)?).await?;
        assert!(
            matches!(error, BackendError::LoginRefused { .. }),
            "{error:?}"
        );
        assert!(!error.is_passing());
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
    let mut connection = redis.connect().await?;
    let () = run(
        &mut connection,
        "ACL SETUSER small on >canary-small +info +acl|list",
    )
    .await?;
    let error = error_of(&at(
        node.clone(),
        with(Some("small"), "canary-small"),
        None,
    )?)
    .await?;
    let BackendError::NotAllowed { remedy, login, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(
        (login.as_str(), remedy.as_str()),
        ("small", "ACL SETUSER small +acl|setuser")
    );
    let () = run(&mut connection, remedy).await?;
    let server = at(node.clone(), with(Some("small"), "canary-small"), None)?;
    server
        .set_login(&subject("orders", Profile::Default), 1, &verifier("one"))
        .await?;

    // A consumer's wrong password is refused by name.
    let wrong = standalone(&redis)?;
    let subject = subject("orders", Profile::Default);
    let refused = wrong.verify(&subject, Slot::A, &"canary-two".into()).await;
    let Err(BackendError::LoginRefused { login, .. }) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(*login, subject.names.login(Slot::A));

    let nowhere = Address::new("nowhere.invalid", 6379);
    for node in [Address::new("127.0.0.1", 1), nowhere] {
        let error = error_of(&at(node, admin(&redis), None)?).await?;
        assert!(
            matches!(error, BackendError::Unreachable { .. }),
            "{error:?}"
        );
        assert!(error.is_passing());
    }
    redis.pause()?;
    let error = error_of(&at(node, admin(&redis), None)?).await?;
    assert!(
        matches!(error, BackendError::Unreachable { .. }),
        "{error:?}"
    );
    redis.resume()?;
    // A connection that broke is replaced without an error.
    let server = standalone(&redis)?;
    server.survey().await?;
    redis.restart().await?;
    server.survey().await?;
    Ok(())
}

#[tokio::test]
async fn tls_is_verified_by_authority_and_by_name() -> Result<()> {
    let started = Redis::start_with(Setup::default().with_tls(&["localhost", "127.0.0.1"])).await;
    if started
        .as_ref()
        .is_err_and(|error| error.mentions("Failed finding TLS support"))
    {
        println!("left out: this server was built without TLS");
        return Ok(());
    }
    let redis = started?;
    let other = Redis::start_with(Setup::default().with_tls(&["localhost"])).await?;
    let subject = subject("orders", Profile::Default);
    for host in ["127.0.0.1", "localhost"] {
        let node = Address::new(host, redis.port());
        let server = at(node, admin(&redis), trusting(&redis)?)?;
        server.set_login(&subject, 1, &verifier("one")).await?;
        server.verify(&subject, Slot::A, &"one".into()).await?;
    }
    for (what, node, server_admin, ca) in [
        (
            "another authority",
            address(&redis),
            admin(&redis),
            trusting(&other)?,
        ),
        (
            "the system's authorities",
            address(&redis),
            admin(&redis),
            Some(Tls { ca: None }),
        ),
        (
            "another name",
            address(&other),
            admin(&other),
            trusting(&other)?,
        ),
        ("clear text to TLS", address(&redis), admin(&redis), None),
    ] {
        let error = error_of(&at(node, server_admin, ca)?).await?;
        assert!(
            matches!(error, BackendError::Unreachable { .. }),
            "{what}: {error:?}"
        );
        println!("{what}: {error}");
    }
    let clear = Redis::start().await?;
    let error = error_of(&at(address(&clear), admin(&clear), trusting(&redis)?)?).await?;
    assert!(
        matches!(error, BackendError::Unreachable { .. }),
        "{error:?}"
    );
    println!("TLS to clear text: {error}");
    Ok(())
}
