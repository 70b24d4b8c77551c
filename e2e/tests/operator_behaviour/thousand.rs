//! A thousand ClusterServices with live Leases: how long until all are Ready, what the operator weighs,
//! and what one change of leadership costs. Ignored by default, since it takes minutes:
//! `make soak` and `cargo test --test operator_behaviour -- --ignored --nocapture thousand` run it.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use leasehold::{LeaseTiming, ServiceHandle};
use leasehold_crds::ClusterService;
use leasehold_e2e::audit::Filter;
use leasehold_e2e::bench::candidate::resident_mib;
use leasehold_e2e::bench::figure::{Report, Samples};
use leasehold_e2e::cluster::lease_rules;
use leasehold_e2e::control_plane::kubeconfig;
use leasehold_e2e::{Cluster, Result, TestNamespace, programs, wait};
use serde_json::json;

use super::stage::*;

const SERVICES: usize = 1000;
const READY_WITHIN: Duration = Duration::from_mins(5);
const CHANGES: usize = 10;
/// Of the preset calm.
const HEARTBEAT: Duration = Duration::from_secs(20);

fn id(index: usize) -> String {
    format!("service-{index}")
}

/// One process that holds all of them; renewals are one a heartbeat of 20 s each.
async fn holders(
    namespace: &TestNamespace<'_>,
) -> Result<(leasehold::Cluster, Vec<ServiceHandle>)> {
    let account = namespace.account("holder", lease_rules()).await?;
    let cluster = leasehold::Cluster::builder()
        .kubernetes_with(kubeconfig::config(&account.kubeconfig).await?)
        .namespace(namespace.name())
        .signals(false)
        .build()
        .await?;
    let mut handles = Vec::new();
    for index in 0..SERVICES {
        let service = cluster
            .service(id(index))
            .leader_elected()
            .timing(LeaseTiming::CALM);
        handles.push(service.spawn(|leadership| async move { leadership.draining().await })?);
    }
    let leases: Api<Lease> = namespace.api();
    wait::until_true("a thousand held Leases", READY_WITHIN, || async {
        let all = leases.list(&ListParams::default()).await?;
        let is_held = |lease: &&Lease| {
            let holder = lease
                .spec
                .as_ref()
                .and_then(|spec| spec.holder_identity.as_deref());
            holder.is_some_and(|holder| !holder.is_empty())
        };
        Ok(all.items.iter().filter(is_held).count() == SERVICES)
    })
    .await?;
    Ok((cluster, handles))
}

async fn declare_all(namespace: &TestNamespace<'_>) -> Result<()> {
    let calm = json!({
        "durationSeconds": 60, "heartbeatSeconds": 20, "attemptTimeoutSeconds": 5, "stopBudgetSeconds": 5,
    });
    stream::iter(0..SERVICES)
        .map(Ok)
        .try_for_each_concurrent(16, |index| {
            let mut spec = elected(&id(index));
            spec["lease"] = calm.clone();
            async move { declare(namespace, &id(index), spec).await.map(drop) }
        })
        .await
}

async fn count_ready(services: &Api<ClusterService>) -> Result<usize> {
    let all = services.list(&ListParams::default()).await?;
    let is_ready = |service: &&ClusterService| {
        let status = service.status.as_ref();
        status.is_some_and(|status| condition(status, "Ready").0 == "True")
    };
    Ok(all.items.iter().filter(is_ready).count())
}

/// Seconds of processor time that a process has used.
fn cpu_seconds(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: f64 = fields[11..13]
        .iter()
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum();
    ticks / 100.0
}

/// Writes of the operator in the namespace since `start`, once they have stopped.
async fn settled_writes(
    cluster: &Cluster,
    filter: &Filter,
    mark: leasehold_e2e::audit::Mark,
) -> Result<usize> {
    let Some(plane) = cluster.control_plane() else {
        return Ok(0);
    };
    let mut before = plane.audit_log().since(mark, filter)?.len();
    loop {
        // A leader says with its next renewal which settings it follows, and that is shown once.
        tokio::time::sleep(HEARTBEAT + Duration::from_secs(5)).await;
        let now = plane.audit_log().since(mark, filter)?.len();
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}

/// Some leaders step down, and lead again under a new term when nobody else wanted to (that takes them
/// a lease duration): an Event, a status without leader, a status with one.
async fn writes_per_change(
    cluster: &Cluster,
    namespace: &TestNamespace<'_>,
    handles: &[ServiceHandle],
    writes: &Filter,
) -> Result<f64> {
    let Some(plane) = cluster.control_plane() else {
        return Ok(0.0);
    };
    let mark = plane.audit_log().mark()?;
    let services: Api<ClusterService> = namespace.api();
    let changing: Vec<_> = handles
        .iter()
        .take(CHANGES)
        .map(ServiceHandle::status)
        .collect();
    for handle in handles.iter().take(CHANGES) {
        handle.step_down();
    }
    wait::until_true("the next terms", READY_WITHIN, || async {
        for before in &changing {
            let service = services.get(&before.cluster_id).await?;
            let leader = service.status.and_then(|status| status.leader);
            if leader.is_none_or(|leader| leader.term <= i64::from(before.term)) {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await?;
    let found = settled_writes(cluster, writes, mark).await?;
    assert!(found >= CHANGES, "{found} writes for {CHANGES} changes");
    Ok(found as f64 / CHANGES as f64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes; run by make soak"]
async fn a_thousand_services_become_ready_and_then_cost_nothing() -> Result<()> {
    let Some(cluster) = Cluster::own("a thousand services").await? else {
        return Ok(());
    };
    let Some(plane) = cluster.control_plane() else {
        return Ok(());
    };
    install(&cluster).await?;
    let namespace = TestNamespace::on(&cluster, "thousand").await?;
    let name = namespace.name();
    let (holder, handles) = holders(&namespace).await?;
    declare_all(&namespace).await?;
    let kubeconfig = operator_kubeconfig(&cluster, "thousand").await?;

    let services: Api<ClusterService> = namespace.api();
    let began = Instant::now();
    let operator = Operator::start(&cluster, &kubeconfig, "thousand", &[name], SYSTEM).await?;
    wait::until_true("a thousand Ready services", READY_WITHIN, || {
        let services = services.clone();
        async move { Ok(count_ready(&services).await? == SERVICES) }
    })
    .await?;
    let to_ready = began.elapsed().as_secs_f64();
    let pid = operator.process().record().pid;
    let writes = Filter::default()
        .account(SYSTEM, ACCOUNT)
        .namespace(name)
        .verbs(&["create", "update", "patch", "delete"]);

    // Settled: renewals go on (50 a second), the operator writes nothing.
    settled_writes(&cluster, &writes, plane.audit_log().mark()?).await?;
    let mark = plane.audit_log().mark()?;
    let (cpu, watched) = (cpu_seconds(pid), Instant::now());
    tokio::time::sleep(Duration::from_mins(1)).await;
    let load = (cpu_seconds(pid) - cpu) / watched.elapsed().as_secs_f64() * 100.0;
    let while_settled = plane.audit_log().since(mark, &writes)?;
    assert!(
        while_settled.is_empty(),
        "settled, but {:?}",
        while_settled[0]
    );

    let mut report = Report::default();
    for (metric, unit, value, goal) in [
        ("operator_ready_1000_s", "s", to_ready, 60.0),
        ("operator_rss_mib_1000", "MiB", resident_mib(pid)?, 64.0),
        ("operator_settled_cpu_1000_percent", "%", load, 5.0),
        (
            "operator_writes_per_change",
            "writes",
            writes_per_change(&cluster, &namespace, &handles, &writes).await?,
            3.0,
        ),
    ] {
        let mut samples = Samples::default();
        samples.push(value);
        report.median(metric, unit, &samples, &Samples::default(), Some(goal))?;
    }
    report.write(&programs::workspace().join("target/bench/operator.json"))?;
    holder.close().await;
    namespace.finish().await
}
