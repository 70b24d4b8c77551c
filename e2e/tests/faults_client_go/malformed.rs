//! Leases that no well-behaved candidate writes, served through the proxy.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use leasehold_e2e::history::Event;
use leasehold_e2e::proxy::malformed::Malformed;
use leasehold_e2e::proxy::{Action, When};
use leasehold_e2e::{Result, wait};
use serde_json::json;

use crate::ground::{Ground, PATIENCE, demand, lease};
use crate::run::Found;

/// Served often enough that every path has met it.
const ANSWERS: usize = 4;

/// Each candidate lives through it, and leads once the Lease is sound again.
pub(crate) async fn candidates_survive_malformed_leases(ground: &Ground) -> Found {
    futures::future::try_join_all(Malformed::ALL.map(|malformed| survives(ground, malformed)))
        .await?;
    Ok(Vec::new())
}

async fn survives(ground: &Ground, malformed: Malformed) -> Result<()> {
    let service = format!("malformed-{malformed}");
    let service = service.as_str();
    let foreign: Lease = serde_json::from_value(json!({
        "metadata": { "name": lease(service) },
        "spec": {
            "holderIdentity": "somebody",
            "leaseDurationSeconds": 2,
            "leaseTransitions": 3,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }))?;
    ground
        .namespace
        .api::<Lease>()
        .create(&PostParams::default(), &foreign)
        .await?;
    let link = ground.proxy.http().await?;
    let rule = link.rule(When::any(), Action::Rewrite(malformed.rewrite()));
    let ours = ground.ours(service, service, Some(&link)).await?;

    wait::until_true(&format!("{malformed} to be met"), PATIENCE, || async {
        let answered = link
            .seen()
            .iter()
            .filter(|seen| seen.status.is_some())
            .count();
        let led = ours
            .lines(service)?
            .iter()
            .any(|line| line.event == Event::Gained);
        Ok(answered >= ANSWERS || led)
    })
    .await?;
    demand(ours.process().ended().is_none(), || {
        format!(
            "{malformed}: the candidate ended: {}",
            ours.process().last_lines(3)
        )
    })?;
    rule.end();
    link.cut();
    let sound = leasehold_e2e::history::now();
    ours.until(
        &format!("leadership after {malformed}"),
        service,
        sound,
        PATIENCE,
        |line| line.event == Event::Held,
    )
    .await?;
    Ok(())
}
