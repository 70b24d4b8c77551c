//! Servers that come back empty, fail over or grow: the login that a Secret holds works again within
//! seconds, without a new password and without waiting for the look of each minute.

use std::time::{Duration, Instant};

use leasehold_e2e::bench::figure::{Report, Samples};
use leasehold_e2e::kubectl::Kubectl;
use leasehold_e2e::logins::Login;
use leasehold_e2e::servers::redis::{Redis, Setup};
use leasehold_e2e::{Error, Result, programs, wait};
use serde_json::json;

use super::ground::{Ground, SECRETS};
use crate::stage::{MINUTE, declare, shown};

/// The look of each minute must not be what helps.
const RARELY: [&str; 2] = ["--drift-interval", "1h"];
/// Between two attempts of a client.
const LOOK: Duration = Duration::from_millis(20);
/// Measurements of each kind.
const SAMPLES: usize = 10;
/// In seconds, half of the time.
const GOAL: f64 = 3.0;
/// How the Sentinels call the group.
const GROUP: &str = "main";

/// How long until `works` does not fail any more.
async fn until_it_works<F>(what: &str, works: impl Fn() -> F) -> Result<Duration>
where
    F: Future<Output = Result<()>>,
{
    let began = Instant::now();
    loop {
        match works().await {
            Ok(()) => return Ok(began.elapsed()),
            Err(error) if began.elapsed() > MINUTE => {
                return Err(Error::new(format!("{what}: {error}")));
            }
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// A Redis without persistence dies and is there again.
async fn restarted_empty(ground: &Ground) -> Result<Duration> {
    let login = ground.login(SECRETS[1]).await?;
    ground.stores.redis.restart().await?;
    until_it_works("the user of Redis", || login.use_it()).await
}

/// A standby that never saw the newest password takes over. Until it is promoted it refuses to be
/// changed.
async fn promoted_without_the_last_change(
    ground: &mut Ground,
    generation: i64,
) -> Result<Duration> {
    let mut standby = ground.stores.postgres.standby().await?;
    standby.stop();
    let trigger = format!("for {generation}");
    ground
        .patch(json!({"rotation": {"trigger": trigger}}))
        .await?;
    ground.rotated_to(generation).await?;
    let login = ground.login(SECRETS[0]).await?;
    standby.take_over(&ground.stores.postgres).await?;
    ground.stores.postgres = standby;
    let user = login.text("username").unwrap_or_default();
    let role = format!("SELECT rolname::text FROM pg_roles WHERE rolname = '{user}'");
    let found = ground.stores.ask(&role).await?;
    assert!(found.is_empty(), "nothing was lost");
    ground
        .until("an operator that saw the standby", || async {
            let status = ground.status().await?;
            let (is_ready, reason, _) = crate::stage::condition(&status, "PostgresReady");
            Ok(is_ready == "False" && reason == "BackendRefused")
        })
        .await?;
    ground.stores.postgres.promote().await?;
    until_it_works("the role of Postgres", || login.use_it()).await
}

/// A primary with a replica, watched by a Sentinel, and a login there.
struct Group {
    nodes: Vec<Redis>,
    sentinel: Redis,
    login: Option<Login>,
}

impl Group {
    async fn start(ground: &Ground) -> Result<Self> {
        let primary = Redis::start().await?;
        let replica = Redis::start_with(Setup::replica_of(&primary)).await?;
        let sentinel = Redis::start_with(Setup::sentinel(GROUP, &primary)).await?;
        let mut group = Self {
            nodes: vec![primary, replica],
            sentinel,
            login: None,
        };
        let (name, namespace) = (ground.namespace.name(), &ground.namespace);
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "group-admin", "namespace": name},
                "stringData": {
                    "username": "default", "password": group.nodes[0].password(),
                    "sentinel-password": group.sentinel.password(),
                },
            },
            {
                "apiVersion": "leasehold.dev/v1alpha1", "kind": "BackendClass",
                "metadata": {"name": format!("{name}-group")},
                "spec": {
                    "redis": {
                        "topology": "Sentinel", "masterName": GROUP, "announcedHosts": ["127.0.0.1"],
                        "nodes": [format!("127.0.0.1:{}", group.sentinel.port())],
                        "tls": {"mode": "disable"}, "adminSecretRef": {"name": "group-admin"},
                    },
                    "allowedNamespaces": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                },
            },
        ]});
        let kubectl = Kubectl::new(&namespace.cluster().admin_kubeconfig());
        let apply = ["apply", "-f", "-"];
        kubectl.run_with_input(&apply, &objects.to_string()).await?;
        let spec = json!({"redis": {"className": format!("{name}-group")}});
        declare(namespace, "grouped", spec).await?;
        shown(namespace, "grouped", "a login in the group", |status| {
            crate::stage::condition(status, "RedisReady").0 == "True"
        })
        .await?;
        group.login = Login::read(&namespace.client(), name, "grouped-redis").await?;
        for node in &group.nodes {
            until_it_works("the first users", || group.lets_in(node)).await?;
        }
        Ok(group)
    }

    /// A node knows the login.
    async fn lets_in(&self, node: &Redis) -> Result<()> {
        let text = |key: &str| {
            let login = self.login.as_ref();
            login.and_then(|it| it.text(key)).unwrap_or_default()
        };
        let (user, password) = (text("username"), text("password"));
        let url = format!("redis://{user}:{password}@127.0.0.1:{}/", node.port());
        let client = redis::Client::open(url)?;
        client.get_multiplexed_async_connection().await?;
        Ok(())
    }

    /// One more replica, which nobody tells the operator of.
    async fn grows(&mut self) -> Result<Duration> {
        let primary = self.primary().await?;
        let setup = Setup::replica_of(&self.nodes[primary]);
        self.nodes.push(Redis::start_with(setup).await?);
        let newest = &self.nodes[self.nodes.len() - 1];
        until_it_works("the user of a new replica", || self.lets_in(newest)).await
    }

    /// The primary dies and stays away until another one was chosen; then it is there again, empty.
    /// Returns how long the login did not work on the new one, and then on the old one.
    async fn fails_over(&self) -> Result<(Duration, Duration)> {
        let old = self.primary().await?;
        self.nodes[old].stop();
        let new = wait::until("another primary", MINUTE, || async {
            let found = self.primary().await.ok();
            Ok(found.filter(|new| *new != old))
        })
        .await?;
        let on_new = until_it_works("the user of the new primary", || {
            self.lets_in(&self.nodes[new])
        });
        let on_new = on_new.await?;
        self.nodes[old].restart().await?;
        let on_old = until_it_works("the user of the old primary", || {
            self.lets_in(&self.nodes[old])
        });
        Ok((on_new, on_old.await?))
    }

    /// Which of the nodes the Sentinel calls primary, if it agrees.
    async fn primary(&self) -> Result<usize> {
        let mut sentinel = self.sentinel.connect().await?;
        let (_, port): (String, u16) = redis::cmd("SENTINEL")
            .arg("get-master-addr-by-name")
            .arg(GROUP)
            .query_async(&mut sentinel)
            .await?;
        let at = self.nodes.iter().position(|node| node.port() == port);
        let at = at.ok_or_else(|| Error::new("the Sentinel names a stranger"))?;
        let mut node = self.nodes[at].connect().await?;
        let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut node).await?;
        let is_primary = role.first() == Some(&redis::Value::BulkString(b"master".to_vec()));
        is_primary
            .then_some(at)
            .ok_or_else(|| Error::new("the primary does not know it yet"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_comes_back_empty_again_and_again_gets_its_user_each_time() -> Result<()> {
    let ground = Ground::prepare_with("logins-emptied", &RARELY).await?;
    ground.service(&json!({})).await?;
    for _ in 0..3 {
        restarted_empty(&ground).await?;
    }
    let status = ground.ready().await?;
    let is_first = status.credentials.iter().all(|it| it.generation == 1);
    assert!(is_first, "{status:?}");
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_of_a_group_that_grows_and_fails_over_gets_its_user() -> Result<()> {
    let ground = Ground::prepare_with("logins-grouped", &RARELY).await?;
    let mut group = Group::start(&ground).await?;
    group.grows().await?;
    group.fails_over().await?;
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_missed_the_last_password_gets_it_as_soon_as_it_is_promoted() -> Result<()> {
    let mut ground = Ground::prepare_with("logins-promoted", &RARELY).await?;
    ground
        .service(&json!({"rotation": {"gracePeriod": "0s"}}))
        .await?;
    promoted_without_the_last_change(&mut ground, 2).await?;
    let status = ground.ready().await?;
    let is_second = status.credentials.iter().all(|it| it.generation == 2);
    assert!(is_second, "{status:?}");
    ground.finish().await
}

/// C5: what a former leader writes late is seen, though no look is due.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_of_a_former_leader_is_undone_within_seconds() -> Result<()> {
    let mut ground = Ground::prepare_with("logins-late", &RARELY).await?;
    ground.service(&json!({})).await?;
    let login = ground.login(SECRETS[1]).await?;
    // Each 5 s for 30 s, instead of each 10 s for a minute.
    let timers = ["--timers-divisor", "2"];
    ground.succeed(&[&RARELY[..], &timers].concat()).await?;
    ground.ready().await?;
    let mut admin = ground.stores.redis_admin().await?;
    let user = login.text("username").unwrap_or_default();
    let () = redis::cmd("ACL")
        .arg("SETUSER")
        .arg(&[user.as_str(), "resetpass", ">late"])
        .query_async(&mut admin)
        .await?;
    let is_refused = login.use_it().await.is_err();
    assert!(is_refused, "the late write did nothing");
    until_it_works("the user of Redis", || async {
        let (client, namespace) = (ground.namespace.client(), ground.namespace.name());
        let login = Login::read(&client, namespace, SECRETS[1]).await?;
        let login = login.ok_or_else(|| Error::new("no login"))?;
        login.use_it().await
    })
    .await?;
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; measures with the waits of production"]
async fn servers_that_are_back_let_in_again_within_seconds() -> Result<()> {
    let production = ["--timers-divisor", "1", "--drift-interval", "1h"];
    let mut ground = Ground::prepare_with("logins-back", &production).await?;
    ground
        .service(&json!({"rotation": {"gracePeriod": "0s"}}))
        .await?;
    let mut group = Group::start(&ground).await?;
    let names = [
        "redis_restarted_empty",
        "redis_new_replica",
        "redis_new_primary",
        "redis_old_primary_empty",
        "postgres_promoted_stale",
    ];
    let mut samples = names.map(|_| Samples::default());
    for sample in 0..SAMPLES {
        let emptied = restarted_empty(&ground).await?;
        let grown = group.grows().await?;
        let (new, old) = group.fails_over().await?;
        // It would be one more of many.
        let replica = group.nodes.len() - 1;
        if group
            .primary()
            .await
            .is_ok_and(|primary| primary != replica)
        {
            group.nodes.pop();
        }
        let generation = i64::try_from(sample).unwrap_or_default() + 2;
        let promoted = promoted_without_the_last_change(&mut ground, generation).await?;
        for (samples, took) in samples.iter_mut().zip([emptied, grown, new, old, promoted]) {
            samples.push(took.as_secs_f64());
        }
        println!("{sample}: {emptied:?} {grown:?} {new:?} {old:?} {promoted:?}");
    }
    let mut report = Report::default();
    for (name, samples) in names.iter().zip(&samples) {
        let none = Samples::default();
        report.median(&format!("{name}_p50_s"), "s", samples, &none, Some(GOAL))?;
        report.largest(&format!("{name}_max_s"), "s", samples, &none, None)?;
    }
    let path = "target/bench/credentials-failover.json";
    report.write(&programs::workspace().join(path))?;
    assert_eq!(report.missed().count(), 0, "the goal is missed");
    ground.finish().await
}
