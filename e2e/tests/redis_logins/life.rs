//! A user on one node: made, rotated, repaired, ended.

use std::time::Duration;

use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Redis;
use leasehold_e2e::servers::redis::Setup;
use leasehold_e2e::wait;
use leasehold_operator::backend::redis::{Happened, Profile};
use leasehold_operator::backend::{LoginState, Removal, Slot, fingerprint};

use crate::subject::{log_in, run, seen, standalone, subject, verifier};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_user_is_made_and_the_consumer_can_log_in_and_reach_its_keys_alone() -> Result<()> {
    let redis = Redis::start().await?;
    let server = standalone(&redis)?;
    for profile in Profile::ALL {
        let subject = subject(&format!("orders-{profile:?}").to_ascii_lowercase(), profile);
        assert_eq!(
            server.look(&subject).await?.logins,
            [const { LoginState::Absent }; 2]
        );
        assert!(
            server
                .verify(&subject, Slot::A, &"one".into())
                .await
                .is_err()
        );
        server.provision(&subject).await?;
        server.set_login(&subject, 1, &verifier("one")).await?;
        server.verify(&subject, Slot::A, &"one".into()).await?;
        let hash = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
        let expected = LoginState::Ours {
            generation: 1,
            fingerprint: fingerprint(hash),
            is_in_shape: true,
            sessions: 0,
        };
        let looked = wait::until("the session of the check to end", SOON, || async {
            let state = server.look(&subject).await?;
            let [first, second] = state.logins;
            assert_eq!(second, LoginState::Absent);
            Ok((first == expected).then_some(()))
        });
        looked.await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_user_of_another_profile_is_out_of_shape_and_fails_the_check() -> Result<()> {
    let redis = Redis::start().await?;
    let server = standalone(&redis)?;
    for (made, wanted) in [
        (Profile::Default, Profile::Strict),
        (Profile::Strict, Profile::Default),
        (Profile::ReadOnly, Profile::Default),
        (Profile::Default, Profile::ReadOnly),
    ] {
        let (made, wanted) = (subject("orders", made), subject("orders", wanted));
        server.set_login(&made, 2, &verifier("x")).await?;
        assert!(matches!(
            seen(&server, &made, Slot::B).await?,
            Some((true, _))
        ));
        assert!(matches!(
            seen(&server, &wanted, Slot::B).await?,
            Some((false, _))
        ));
    }
    // Only a check by logging in finds what the rules look like from outside.
    server
        .set_login(&subject("orders", Profile::ReadOnly), 2, &verifier("x"))
        .await?;
    let wanted = subject("orders", Profile::Default);
    let checked = server.verify(&wanted, Slot::B, &"x".into()).await;
    let error = checked.unwrap_err().to_string();
    assert!(
        error.contains("SET demo:orders:leasehold-check is Denied"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn a_rotation_lets_the_old_sessions_be_seen_until_they_close_and_an_end_cuts_them()
-> Result<()> {
    let redis = Redis::start().await?;
    let server = standalone(&redis)?;
    let subject = subject("orders", Profile::Default);
    server.set_login(&subject, 1, &verifier("one")).await?;
    let mut old = log_in(&redis, &subject, Slot::A, "one").await?;
    let () = run(&mut old, "SET demo:orders:1 kept").await?;
    server.set_login(&subject, 2, &verifier("two")).await?;
    server.verify(&subject, Slot::B, &"two".into()).await?;
    let mut new = log_in(&redis, &subject, Slot::B, "two").await?;

    assert_eq!(seen(&server, &subject, Slot::A).await?, Some((true, 1)));
    let read: String = run(&mut old, "GET demo:orders:1").await?;
    assert_eq!(read, "kept"); // both work at once
    let second = log_in(&redis, &subject, Slot::A, "one").await?;
    assert_eq!(seen(&server, &subject, Slot::A).await?, Some((true, 2)));
    drop(second);
    wait::until_true("one session less", SOON, || async {
        Ok(seen(&server, &subject, Slot::A).await? == Some((true, 1)))
    })
    .await?;

    server.end_login(&subject, Slot::A).await?;
    assert!(run::<String>(&mut old, "PING").await.is_err());
    assert!(log_in(&redis, &subject, Slot::A, "one").await.is_err());
    assert_eq!(seen(&server, &subject, Slot::A).await?, None);
    server.end_login(&subject, Slot::A).await?; // again: no error
    let read: String = run(&mut new, "GET demo:orders:1").await?;
    assert_eq!(read, "kept");
    // Generation 3 has the first name again, with another password.
    server.set_login(&subject, 3, &verifier("three")).await?;
    assert!(log_in(&redis, &subject, Slot::A, "one").await.is_err());
    log_in(&redis, &subject, Slot::A, "three").await?;

    assert_eq!(server.remove(&subject).await?, Removal::Done);
    assert!(run::<String>(&mut new, "PING").await.is_err());
    assert_eq!(server.remove(&subject).await?, Removal::Done);
    assert!(server.survey().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn every_drift_by_hand_shows_in_the_survey_and_in_a_look_and_is_repaired() -> Result<()> {
    let redis = Redis::start().await?;
    let server = standalone(&redis)?;
    let (subject, other) = (
        subject("orders", Profile::Default),
        subject("other", Profile::Strict),
    );
    server.set_login(&subject, 1, &verifier("one")).await?;
    server.set_login(&other, 1, &verifier("other")).await?;
    let user = subject.names.login(Slot::A);
    let settled = server.survey().await?;
    assert_eq!(settled.len(), 2);
    assert_eq!(server.survey().await?, settled);
    let mut admin = redis.connect().await?;
    for drift in [
        "~*",
        "+flushall",
        "-get",
        "off",
        "nopass",
        ">another",
        "resetpass",
        "allchannels",
        "resetchannels",
        "%R~more:*",
        "(~*|+@all)",
        "resetkeys",
        "+@all",
        "+config|get",
        "-@all",
    ] {
        let rule = drift.replace('|', if drift.starts_with('(') { " " } else { "|" });
        let mut command = redis::cmd("ACL");
        let () = command
            .arg("SETUSER")
            .arg(&user)
            .arg(&rule)
            .query_async(&mut admin)
            .await?;
        let drifted = server.survey().await?;
        assert_ne!(drifted.get(&user), settled.get(&user), "{drift}");
        assert_eq!(drifted.len(), 2);
        let looked = seen(&server, &subject, Slot::A).await?;
        assert!(matches!(looked, Some((false, _))), "{drift}: {looked:?}");
        server.set_login(&subject, 1, &verifier("one")).await?;
        assert_eq!(server.survey().await?, settled, "{drift}");
        assert_eq!(
            seen(&server, &subject, Slot::A).await?,
            Some((true, 0)),
            "{drift}"
        );
    }
    let () = run(&mut admin, &format!("ACL DELUSER {user}")).await?;
    assert!(!server.survey().await?.contains_key(&user));
    assert_eq!(seen(&server, &subject, Slot::A).await?, None);
    server.set_login(&subject, 1, &verifier("one")).await?;
    assert_eq!(server.survey().await?, settled);
    // The positive control: without `reset` what was added by hand stays.
    let () = run(&mut admin, &format!("ACL SETUSER {user} +flushall")).await?;
    let () = run(
        &mut admin,
        &format!("ACL SETUSER {user} on ~demo:orders:* &demo:orders:*"),
    )
    .await?;
    assert_ne!(server.survey().await?, settled);
    Ok(())
}

#[tokio::test]
async fn the_same_rules_given_in_other_words_are_in_shape() -> Result<()> {
    let redis = Redis::start().await?;
    let server = standalone(&redis)?;
    let subject = subject("orders", Profile::Default);
    server.set_login(&subject, 1, &verifier("one")).await?;
    let user = subject.names.login(Slot::A);
    let mut admin = redis.connect().await?;
    let line = format!("ACL SETUSER {user} +keys +@admin -@admin -keys");
    let () = run(&mut admin, &line).await?;
    assert_eq!(seen(&server, &subject, Slot::A).await?, Some((true, 0)));
    Ok(())
}

#[tokio::test]
async fn a_redis_that_restarts_empty_is_noticed_and_gets_its_users_back() -> Result<()> {
    let redis = Redis::start().await?;
    let server = standalone(&redis)?;
    let subject = subject("orders", Profile::Default);
    let happened =
        async |server: &leasehold_operator::backend::redis::Server| -> Result<Vec<Happened>> {
            let changes = server.changes().await?;
            Ok(changes.into_iter().map(|change| change.happened).collect())
        };
    assert_eq!(happened(&server).await?, [Happened::Joined]);
    server.set_login(&subject, 1, &verifier("one")).await?;
    let settled = server.survey().await?;
    assert_eq!(happened(&server).await?, []);
    redis.restart().await?;
    assert_eq!(happened(&server).await?, [Happened::Restarted]);
    assert_eq!(happened(&server).await?, []);
    assert!(server.survey().await?.is_empty()); // the control: it did lose them
    assert!(log_in(&redis, &subject, Slot::A, "one").await.is_err());
    server.set_login(&subject, 1, &verifier("one")).await?;
    server.verify(&subject, Slot::A, &"one".into()).await?;
    assert_eq!(server.survey().await?, settled);

    redis.stop();
    assert_eq!(happened(&server).await?, [Happened::Silent]);
    assert!(server.look(&subject).await.is_err());
    assert!(server.survey().await.is_err());
    redis.restart().await?;
    assert_eq!(happened(&server).await?, [Happened::Returned]);
    Ok(())
}

#[tokio::test]
async fn users_outlive_a_restart_where_the_server_can_save_them_and_the_class_permits() -> Result<()>
{
    use leasehold_operator::backend::redis::{Endpoint, Persist, Server, Topology};
    let subject = subject("orders", Profile::Default);
    for (persist, has_file, is_kept) in [
        (Persist::Never, true, false),
        (Persist::AclFile, true, true),
        (Persist::AclFile, false, false),
        (Persist::Rewrite, false, true),
        (Persist::Rewrite, true, true),
    ] {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("users.acl");
        let mut setup = Setup::default();
        if has_file {
            std::fs::write(&file, "user default on >canary ~* &* +@all\n")?;
            setup = Setup::default()
                .with_password("canary")
                .with(format!("aclfile {}", file.display()));
        }
        let redis = Redis::start_with(setup).await?;
        let mut endpoint =
            Endpoint::new(Topology::Standalone, vec![crate::subject::address(&redis)]);
        endpoint.persist = persist;
        let server = Server::new(endpoint, crate::subject::admin(&redis))?;
        server.set_login(&subject, 1, &verifier("one")).await?;
        server.set_login(&subject, 2, &verifier("two")).await?;
        server.end_login(&subject, Slot::A).await?;
        redis.restart().await?;
        let case = format!("{persist:?}, file: {has_file}");
        let found = seen(&server, &subject, Slot::B).await?;
        assert_eq!(found.is_some(), is_kept, "{case}");
        assert_eq!(seen(&server, &subject, Slot::A).await?, None, "{case}");
        if is_kept {
            server.verify(&subject, Slot::B, &"two".into()).await?;
        }
    }
    Ok(())
}
