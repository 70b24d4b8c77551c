//! What a server lacks is said, with the command that helps.

use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Redis;
use leasehold_e2e::servers::redis::Setup;
use leasehold_operator::backend::Finding;
use leasehold_operator::backend::redis::{Admin, Endpoint, Persist, Profile, Server, Topology};

use crate::subject::{address, admin, run, standalone, subject, verifier};

fn found<'a>(findings: &'a [Finding], condition: &str) -> &'a Finding {
    let found = findings.iter().find(|one| one.condition == condition);
    assert!(found.is_some(), "no {condition} in {findings:?}");
    found.unwrap_or(&findings[0])
}

#[tokio::test]
async fn a_server_that_lacks_nothing_but_a_place_for_its_users_says_so() -> Result<()> {
    let redis = Redis::start().await?;
    let findings = standalone(&redis)?.preflight().await;
    for condition in [
        "Reachable",
        "VersionSupported",
        "Writable",
        "AdminRights",
        "DefaultUserClosed",
        "KeysKept",
    ] {
        let finding = found(&findings, condition);
        assert_eq!(finding.is_met, Some(true), "{finding:?}");
        assert!(!finding.message.contains(redis.password()));
    }
    let finding = found(&findings, "Persistence");
    assert_eq!(
        (finding.is_met, finding.reason),
        (Some(false), "SetAgain"),
        "{finding:?}"
    );
    // It asked only: no user was made.
    let users: Vec<String> = run(&mut redis.connect().await?, "ACL USERS").await?;
    assert_eq!(users, ["default"]);
    Ok(())
}

#[tokio::test]
async fn the_rule_that_an_admin_lacks_is_the_one_that_helps() -> Result<()> {
    let redis = Redis::start().await?;
    let mut connection = redis.connect().await?;
    let () = run(
        &mut connection,
        "ACL SETUSER ops on >canary +info +acl|whoami +acl|dryrun +acl|list",
    )
    .await?;
    let mut endpoint = Endpoint::new(Topology::Standalone, vec![address(&redis)]);
    endpoint.persist = Persist::Rewrite;
    let ops = Admin {
        username: Some("ops".to_owned()),
        password: "canary".into(),
    };
    let server = Server::new(endpoint, ops)?;
    for lacking in [
        &["+acl|setuser", "+client|list", "+config|rewrite"][..],
        &["+acl|dryrun", "+acl|getuser"],
    ] {
        let findings = server.preflight().await;
        let finding = found(&findings, "AdminRights");
        assert_eq!(finding.is_met, Some(false), "{finding:?}");
        for rule in lacking {
            assert!(finding.message.contains(rule), "{finding:?}");
        }
        let command = finding
            .message
            .split_once(": ")
            .map(|(_, rest)| rest.split_once(": ").map_or(rest, |(_, last)| last));
        let command = command.unwrap_or_default();
        assert!(command.starts_with("ACL SETUSER ops +"), "{command}");
        let () = run(&mut connection, command).await?;
        let findings = server.preflight().await;
        assert_eq!(
            found(&findings, "AdminRights").is_met,
            Some(true),
            "{findings:?}"
        );
        assert!(!format!("{findings:?}").contains("canary"));
        let subject = subject("orders", Profile::Default);
        server.set_login(&subject, 1, &verifier("one")).await?;
        server
            .end_login(&subject, leasehold_operator::backend::Slot::A)
            .await?;
        let () = run(&mut connection, "ACL SETUSER ops -@all +info").await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_open_default_user_and_an_eviction_of_any_key_are_warned_of() -> Result<()> {
    let setup = Setup::default()
        .with_password("")
        .with("maxmemory-policy allkeys-lru")
        .with("maxmemory 100mb");
    let redis = Redis::start_with(setup).await?;
    let findings = standalone(&redis)?.preflight().await;
    let open = found(&findings, "DefaultUserClosed");
    assert_eq!((open.is_met, open.reason), (Some(false), "DefaultUserOpen"));
    let evicts = found(&findings, "KeysKept");
    assert_eq!(
        (evicts.is_met, evicts.reason),
        (Some(false), "EvictsAnyKey")
    );
    redis.stop();
    let endpoint = Endpoint::new(Topology::Standalone, vec![address(&redis)]);
    let findings = Server::new(endpoint, admin(&redis))?.preflight().await;
    assert_eq!(findings.len(), 1);
    assert_eq!(
        (findings[0].is_met, findings[0].reason),
        (Some(false), "Unreachable")
    );
    Ok(())
}
