//! Users on every node: a primary with replicas, Sentinels, a cluster.

use std::time::Duration;

use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Redis;
use leasehold_e2e::servers::redis::Setup;
use leasehold_e2e::wait;
use leasehold_operator::backend::redis::{
    Announced, Endpoint, Happened, Profile, Role, Server, Topology, Wants,
};
use leasehold_operator::backend::{BackendError, Removal, Slot, Subject};

use crate::subject::{address, admin, log_in, run, seen, subject, verifier};

const SOON: Duration = Duration::from_mins(1);

async fn info(redis: &Redis) -> Result<String> {
    let mut connection = redis.connect().await?;
    Ok(run(&mut connection, "INFO replication").await?)
}

async fn replica_of(primary: &Redis) -> Result<Redis> {
    let replica = Redis::start_with(Setup::replica_of(primary)).await?;
    wait::until_true("the replica to be in step", SOON, || async {
        let primary = info(primary).await?;
        Ok(primary.contains("state=online") && info(&replica).await?.contains("link_status:up"))
    })
    .await?;
    Ok(replica)
}

fn replicated(nodes: &[&Redis], announced: Announced) -> Result<Server> {
    let addresses = nodes.iter().map(|node| address(node)).collect();
    let mut endpoint = Endpoint::new(Topology::Replicated, addresses);
    endpoint.announced = announced;
    Ok(Server::new(endpoint, admin(nodes[0]))?)
}

/// What happened, sorted by its words.
async fn happened(server: &Server) -> Result<Vec<Happened>> {
    let changes = server.changes().await?;
    let mut all: Vec<_> = changes.into_iter().map(|change| change.happened).collect();
    all.sort_by_key(|one| format!("{one:?}"));
    Ok(all)
}

#[tokio::test]
async fn a_replica_does_not_get_users_by_itself_so_both_nodes_are_told() -> Result<()> {
    let primary = Redis::start().await?;
    let replica = replica_of(&primary).await?;
    let subject = subject("orders", Profile::Default);
    // The positive control: told alone, the primary keeps it for itself.
    let alone = crate::subject::standalone(&primary)?;
    alone.set_login(&subject, 1, &verifier("one")).await?;
    assert!(log_in(&replica, &subject, Slot::A, "one").await.is_err());

    let server = replicated(&[&primary, &replica], Announced::Refused)?;
    let lacking = server.survey().await?;
    assert_eq!(seen(&server, &subject, Slot::A).await?, Some((false, 0)));
    server.set_login(&subject, 1, &verifier("one")).await?;
    assert_eq!(seen(&server, &subject, Slot::A).await?, Some((true, 0)));
    assert_ne!(server.survey().await?, lacking);
    server.verify(&subject, Slot::A, &"one".into()).await?;
    let mut on_replica = log_in(&replica, &subject, Slot::A, "one").await?;
    let _primary = log_in(&primary, &subject, Slot::A, "one").await?;
    let looked = wait::until_true("a session on each node", SOON, || async {
        Ok(seen(&server, &subject, Slot::A).await? == Some((true, 2)))
    });
    looked.await?;
    server.end_login(&subject, Slot::A).await?;
    assert!(run::<String>(&mut on_replica, "PING").await.is_err());
    assert!(server.survey().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_replica_that_restarts_is_noticed_and_one_that_is_away_holds_nothing_up() -> Result<()> {
    let primary = Redis::start().await?;
    let replica = replica_of(&primary).await?;
    let subject = subject("orders", Profile::Default);
    let server = replicated(&[&primary, &replica], Announced::Refused)?;
    assert_eq!(happened(&server).await?, [Happened::Joined; 2]);
    server.set_login(&subject, 1, &verifier("one")).await?;
    replica.restart().await?;
    assert_eq!(happened(&server).await?, [Happened::Restarted]);
    assert_eq!(seen(&server, &subject, Slot::A).await?, Some((false, 0)));
    replica.stop();
    assert_eq!(happened(&server).await?, [Happened::Silent]);
    server.set_login(&subject, 2, &verifier("two")).await?;
    server.verify(&subject, Slot::B, &"two".into()).await?;
    assert!(matches!(server.remove(&subject).await?, Removal::Held(_)));
    server.set_login(&subject, 2, &verifier("two")).await?;
    replica.restart().await?;
    assert_eq!(happened(&server).await?, [Happened::Returned]);
    assert!(log_in(&replica, &subject, Slot::B, "two").await.is_err());
    server.set_login(&subject, 2, &verifier("two")).await?;
    log_in(&replica, &subject, Slot::B, "two").await?;
    assert_eq!(server.remove(&subject).await?, Removal::Done);
    // But without a primary nothing is done by halves.
    primary.stop();
    let refused = server.set_login(&subject, 2, &verifier("two")).await;
    assert!(
        matches!(refused, Err(BackendError::Unreachable { .. })),
        "{refused:?}"
    );
    assert!(log_in(&replica, &subject, Slot::B, "two").await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_failover_is_noticed_and_the_users_are_on_the_new_primary() -> Result<()> {
    let primary = Redis::start().await?;
    let replica = replica_of(&primary).await?;
    let subject = subject("orders", Profile::Default);
    let server = replicated(&[&primary, &replica], Announced::Refused)?;
    server.changes().await?;
    server.set_login(&subject, 1, &verifier("one")).await?;
    let mut connection = replica.connect().await?;
    let () = run(&mut connection, "REPLICAOF NO ONE").await?;
    primary.stop();
    let expected = [Happened::Became(Role::Primary), Happened::Silent];
    assert_eq!(happened(&server).await?, expected);
    let mut consumer = log_in(&replica, &subject, Slot::A, "one").await?;
    let () = run(&mut consumer, "SET demo:orders:1 works").await?;
    server.verify(&subject, Slot::A, &"one".into()).await?;
    Ok(())
}

#[tokio::test]
async fn a_node_that_only_the_server_names_gets_the_password_where_the_class_permits() -> Result<()>
{
    let primary = Redis::start().await?;
    let replica = replica_of(&primary).await?;
    let subject = subject("orders", Profile::Default);
    let pinned = replicated(&[&primary], Announced::Refused)?;
    pinned.set_login(&subject, 1, &verifier("one")).await?;
    assert!(log_in(&replica, &subject, Slot::A, "one").await.is_err());
    let findings = pinned.preflight().await;
    let reachable = &findings[0];
    assert_eq!(
        (reachable.condition, reachable.is_met),
        ("Reachable", Some(false))
    );
    let node = address(&replica).to_string();
    assert!(reachable.message.contains(&node), "{}", reachable.message);

    for announced in [
        Announced::Followed,
        Announced::On(vec!["127.0.0.1".to_owned()]),
    ] {
        let following = replicated(&[&primary], announced)?;
        following.end_login(&subject, Slot::A).await?;
        following.set_login(&subject, 1, &verifier("one")).await?;
        log_in(&replica, &subject, Slot::A, "one").await?;
        assert_eq!(following.preflight().await[0].is_met, Some(true));
    }
    // From the replica alone the primary is found as well.
    let from_replica = replicated(&[&replica], Announced::Followed)?;
    from_replica
        .set_login(&subject, 2, &verifier("two"))
        .await?;
    log_in(&primary, &subject, Slot::B, "two").await?;
    let pinned = replicated(&[&replica], Announced::Refused)?;
    let refused = pinned.set_login(&subject, 2, &verifier("two")).await;
    assert!(
        matches!(refused, Err(BackendError::Refused { .. })),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test]
async fn sentinels_name_the_primary_and_its_replicas_also_after_a_failover() -> Result<()> {
    let primary = Redis::start().await?;
    let replica = replica_of(&primary).await?;
    let sentinel = Redis::start_with(Setup::sentinel("main", &primary)).await?;
    let mut endpoint = Endpoint::new(
        Topology::Sentinel {
            master: "main".to_owned(),
            admin: Some(admin(&sentinel)),
        },
        vec![address(&sentinel)],
    );
    assert_eq!(endpoint.announced, Announced::Followed);
    endpoint.announced = Announced::Refused;
    let subject = subject("orders", Profile::Default);
    let pinned = Server::new(endpoint.clone(), admin(&primary))?;
    assert!(
        pinned
            .set_login(&subject, 1, &verifier("one"))
            .await
            .is_err()
    );
    endpoint.announced = Announced::On(vec!["127.0.0.1".to_owned()]);
    let server = Server::new(endpoint, admin(&primary))?;
    wait::until_true("the Sentinel to know both", SOON, || async {
        server.changes().await?;
        Ok(server.preflight().await[0].message.contains("2 of 2 nodes"))
    })
    .await?;
    server.set_login(&subject, 1, &verifier("one")).await?;
    server.verify(&subject, Slot::A, &"one".into()).await?;
    log_in(&replica, &subject, Slot::A, "one").await?;
    primary.stop();
    wait::until_true("the failover to be noticed", SOON, || async {
        let now = server.changes().await?;
        Ok(now
            .iter()
            .any(|change| change.happened == Happened::Became(Role::Primary)))
    })
    .await?;
    server.set_login(&subject, 2, &verifier("two")).await?;
    server.verify(&subject, Slot::B, &"two".into()).await?;
    let mut consumer = log_in(&replica, &subject, Slot::B, "two").await?;
    let () = run(&mut consumer, "SET demo:orders:1 works").await?;
    Ok(())
}

/// Three primaries with a third of the slots each, and a replica of the first.
async fn cluster() -> Result<Vec<Redis>> {
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(Redis::start_with(Setup::node_of_cluster("canary")).await?);
    }
    for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
        let () = run(
            &mut node.connect().await?,
            &format!("CLUSTER ADDSLOTSRANGE {slots}"),
        )
        .await?;
    }
    let mut first = nodes[0].connect().await?;
    for node in &nodes[1..] {
        let mut files = node.connect().await?;
        let setting: Vec<String> = run(&mut files, "CONFIG GET cluster-port").await?;
        let line = format!("CLUSTER MEET 127.0.0.1 {} {}", node.port(), setting[1]);
        let () = run(&mut first, &line).await?;
    }
    let id: String = run(&mut first, "CLUSTER MYID").await?;
    let last = nodes[3].connect().await?;
    let joining = format!("CLUSTER REPLICATE {id}");
    wait::until_true("the replica to know its primary", SOON, || {
        let mut last = last.clone();
        let joining = &joining;
        async move { Ok(run::<()>(&mut last, joining).await.is_ok()) }
    })
    .await?;
    wait::until_true("the cluster to be whole", SOON, || async {
        for node in &nodes {
            let mut connection = node.connect().await?;
            let state: String = run(&mut connection, "CLUSTER INFO").await?;
            let members: String = run(&mut connection, "CLUSTER NODES").await?;
            if !state.contains("cluster_state:ok")
                || members.matches(" slave ").count() + members.matches("myself,slave").count() != 1
            {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await?;
    Ok(nodes)
}

fn of_cluster(nodes: &[&Redis], announced: Announced) -> Result<Server> {
    let addresses = nodes.iter().map(|node| address(node)).collect();
    let mut endpoint = Endpoint::new(Topology::Cluster, addresses);
    endpoint.announced = announced;
    Ok(Server::new(endpoint, admin(nodes[0]))?)
}

#[tokio::test]
async fn every_node_of_a_cluster_gets_the_users_and_a_missing_primary_is_an_error() -> Result<()> {
    let nodes = cluster().await?;
    let subject: Subject<Wants> = subject("orders", Profile::Default);
    let pinned = of_cluster(&[&nodes[0]], Announced::Refused)?;
    let refused = pinned.set_login(&subject, 1, &verifier("one")).await;
    assert!(
        matches!(refused, Err(BackendError::Refused { .. })),
        "{refused:?}"
    );
    let server = of_cluster(&[&nodes[0], &nodes[1]], Announced::Followed)?;
    assert_eq!(happened(&server).await?, [Happened::Joined; 4]);
    server.set_login(&subject, 1, &verifier("one")).await?;
    server.verify(&subject, Slot::A, &"one".into()).await?;
    for node in &nodes {
        let mut consumer = log_in(node, &subject, Slot::A, "one").await?;
        let error = run::<String>(&mut consumer, "GET other").await.unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"));
    }
    let looked = wait::until_true("no sessions any more", SOON, || async {
        Ok(seen(&server, &subject, Slot::A).await? == Some((true, 0)))
    });
    looked.await?;
    assert_eq!(server.survey().await?.len(), 1);
    nodes[3].restart().await?;
    wait::until_true("the replica's restart to be noticed", SOON, || async {
        let changes = server.changes().await?;
        Ok(changes.iter().any(|change| change.happened.needs_look()))
    })
    .await?;
    assert_eq!(seen(&server, &subject, Slot::A).await?, Some((false, 0)));
    nodes[2].stop();
    let refused = server.set_login(&subject, 1, &verifier("one")).await;
    assert!(refused.is_err());
    Ok(())
}
