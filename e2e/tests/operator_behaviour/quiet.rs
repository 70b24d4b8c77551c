//! `quiet-when-settled`: nothing to do means no write, while Leases are renewed all the time.

use std::time::Duration;

use leasehold_e2e::audit::Filter;
use leasehold_e2e::{Cluster, Result};

use super::stage::*;
use super::table::Member;

/// Real time; the operator's own timers run ten times faster.
fn settled_for() -> Duration {
    let seconds = std::env::var("LEASEHOLD_QUIET_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(120))
}

#[tokio::test]
async fn a_settled_operator_writes_nothing() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let Some(plane) = cluster.control_plane_or_skip("counting writes") else {
        return Ok(());
    };
    let namespace = namespace("quiet").await?;
    let elections = namespace_for_elections().await?;
    let kubeconfig = operator_kubeconfig(cluster, namespace.name()).await?;
    let name = namespace.name();
    let operator = Operator::start(cluster, &kubeconfig, name, &[name], elections.name()).await?;
    operator.wait_until_leading().await?;
    let writes = Filter::default()
        .account(SYSTEM, ACCOUNT)
        .namespace(name)
        .verbs(&["create", "update", "patch", "delete"]);
    let start = plane.audit_log().mark()?;
    for index in 0..10 {
        let id = format!("service-{index}");
        declare(&namespace, &id, elected(&id)).await?;
        if index % 2 == 0 {
            hold(&namespace, &id, "pod-0", 0).await?;
            shown(&namespace, &id, "a leader", |it| is_led_by(it, "pod-0", 0)).await?;
        } else {
            shown(&namespace, &id, "a status", |it| it.history.is_some()).await?;
        }
    }
    super::partitions::settled(&namespace).await?;
    // The control: it does write while there is something to do.
    plane.audit_log().at_least_one(start, &writes)?;

    // The last pass may still be writing: a length of time without a write ends the story.
    loop {
        let mark = plane.audit_log().mark()?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        if plane.audit_log().since(mark, &writes)?.is_empty() {
            break;
        }
    }

    let reconciles = reconciles(&operator).await?;
    let settled = plane.audit_log().mark()?;
    let end = std::time::Instant::now() + settled_for();
    let mut renewals = 0;
    while std::time::Instant::now() < end {
        for index in (0..10).step_by(2) {
            hold(&namespace, &format!("service-{index}"), "pod-0", 0).await?;
            renewals += 1;
        }
        let (a, b) = (Member::new("a", 4), Member::new("b", 4));
        a.acks(1, &[0, 1]).renew(&namespace, "billing").await?;
        b.acks(1, &[2, 3]).renew(&namespace, "billing").await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let found = plane.audit_log().since(settled, &writes)?;
    assert!(
        found.is_empty(),
        "{} writes while settled, the first: {:?}",
        found.len(),
        found[0]
    );
    assert!(renewals > 5, "nothing was renewed");
    // Renewals start no pass; services without a Lease look again now and then (every 6 s here).
    let passes = self::reconciles(&operator).await? - reconciles;
    let looks = 5 * (settled_for().as_secs() / 4 + 2);
    assert!(passes <= looks, "{passes} passes for {renewals} renewals");
    elections.finish().await?;
    namespace.finish().await
}

async fn reconciles(operator: &Operator) -> Result<u64> {
    let metrics = operator.page("/metrics").await?;
    let counts = metrics
        .lines()
        .filter(|line| line.starts_with("leasehold_operator_reconcile_total"));
    Ok(counts
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum())
}

async fn namespace_for_elections() -> Result<leasehold_e2e::TestNamespace<'static>> {
    namespace("quiet-elections").await
}
