//! Five hundred ClusterServices with both stores on one class each: how long until all are Ready, what
//! that asks of the servers, and that it then asks nothing. Ignored by default, since it takes minutes:
//! `make test-credentials` runs it.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Api;
use kube::api::ListParams;
use leasehold_crds::ClusterService;
use leasehold_e2e::audit::Filter;
use leasehold_e2e::bench::candidate::resident_mib;
use leasehold_e2e::bench::figure::{Report, Samples};
use leasehold_e2e::{Result, programs, wait};
use serde_json::json;

use super::ground::Ground;
use crate::stage::{ACCOUNT, SYSTEM, condition, declare};

const SERVICES: usize = 500;
const READY_WITHIN: Duration = Duration::from_mins(8);
/// How long a settled system is watched.
const SETTLED: Duration = Duration::from_mins(1);
/// Between two looks at the servers.
const LOOK: Duration = Duration::from_millis(500);

/// What both servers were asked so far, and how many connections there are now.
struct Asked {
    transactions: f64,
    commands: f64,
    sessions: f64,
    clients: f64,
}

async fn asked(ground: &Ground) -> Result<Asked> {
    let number = |text: &str| text.trim().parse().unwrap_or_default();
    let sql = "SELECT xact_commit::text FROM pg_stat_database WHERE datname = 'postgres'";
    let transactions = ground.stores.ask(sql).await?;
    let sql = "SELECT count(*)::text FROM pg_stat_activity WHERE backend_type = 'client backend'";
    let sessions = ground.stores.ask(sql).await?;
    let mut admin = ground.stores.redis_admin().await?;
    let info: String = redis::cmd("INFO").query_async(&mut admin).await?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.map(number).unwrap_or_default()
    };
    Ok(Asked {
        transactions: transactions
            .first()
            .map(|it| number(it))
            .unwrap_or_default(),
        commands: field("total_commands_processed:"),
        sessions: sessions.first().map(|it| number(it)).unwrap_or_default(),
        clients: field("connected_clients:"),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; run by make test-credentials"]
async fn five_hundred_services_get_their_logins_and_then_ask_nothing() -> Result<()> {
    let ground = Ground::prepare("logins-many").await?;
    let namespace = &ground.namespace;
    let Some(plane) = namespace.cluster().control_plane() else {
        return Ok(());
    };
    let services: Api<ClusterService> = namespace.api();
    let before = asked(&ground).await?;
    let began = Instant::now();
    let spec = ground.spec(&json!({}));
    stream::iter(0..SERVICES)
        .map(Ok)
        .try_for_each_concurrent(16, |index| {
            let (spec, name) = (spec.clone(), format!("service-{index}"));
            async move { declare(namespace, &name, spec).await.map(drop) }
        })
        .await?;
    let most = std::cell::RefCell::new((0.0_f64, 0.0_f64));
    wait::until_true("500 Ready services", READY_WITHIN, || async {
        let now = asked(&ground).await?;
        let (sessions, clients) = *most.borrow();
        *most.borrow_mut() = (sessions.max(now.sessions), clients.max(now.clients));
        let all = services.list(&ListParams::default()).await?;
        let is_ready = |service: &&ClusterService| {
            let status = service.status.as_ref();
            status.is_some_and(|it| it.credentials.len() == 2 && condition(it, "Ready").0 == "True")
        };
        let ready = all.items.iter().filter(is_ready).count();
        tokio::time::sleep(LOOK).await;
        Ok(ready == SERVICES)
    })
    .await?;
    let to_ready = began.elapsed().as_secs_f64();
    let after = asked(&ground).await?;

    // Settled: one survey for each class and interval, and no write.
    let writes = Filter::default()
        .account(SYSTEM, ACCOUNT)
        .namespace(namespace.name())
        .verbs(&["create", "update", "patch", "delete"]);
    loop {
        let mark = plane.audit_log().mark()?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let written = plane.audit_log().since(mark, &writes)?;
        if written.iter().all(|it| it.resource() == "leases") {
            break;
        }
    }
    let (start, mark) = (asked(&ground).await?, plane.audit_log().mark()?);
    tokio::time::sleep(SETTLED).await;
    let end = asked(&ground).await?;
    let written = plane.audit_log().since(mark, &writes)?;
    let written: Vec<_> = written
        .iter()
        .filter(|it| it.resource() != "leases")
        .collect();
    assert!(written.is_empty(), "settled, but {:?}", written[0]);

    let each = |all: f64| all / SERVICES as f64;
    let most = *most.borrow();
    let mut report = Report::default();
    for (metric, unit, value) in [
        ("credentials_ready_500_s", "s", to_ready),
        (
            "postgres_transactions_per_service",
            "transactions",
            each(after.transactions - before.transactions),
        ),
        (
            "redis_commands_per_service",
            "commands",
            each(after.commands - before.commands),
        ),
        ("postgres_sessions_max", "sessions", most.0),
        ("redis_clients_max", "clients", most.1),
        (
            "credentials_rss_mib_500",
            "MiB",
            resident_mib(ground.pid())?,
        ),
        (
            "postgres_transactions_settled_per_min",
            "transactions",
            end.transactions - start.transactions,
        ),
        (
            "redis_commands_settled_per_min",
            "commands",
            end.commands - start.commands,
        ),
    ] {
        let mut samples = Samples::default();
        samples.push(value);
        report.median(metric, unit, &samples, &Samples::default(), None)?;
    }
    report.write(&programs::workspace().join("target/bench/credentials.json"))?;
    ground.finish().await
}
