//! E8: who may reclaim at once after a restart, and who has to wait.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use leasehold::Identity;
use leasehold_core::id::{pod_name, pod_uid};
use leasehold_crds::keys;
use leasehold_e2e::history::{self, Event, Line};
use leasehold_e2e::{Error, Result, wait};
use serde_json::json;

use crate::ground::{
    Ground, PATIENCE, demand, demand_good, demands, holder, lease, spawn, token, transitions,
    until_role,
};
use crate::pods::{CONTAINER, Deployed};

/// The first crash of a pod: its container is restarted at once, and leads again while the lease
/// of its former process has long not lapsed. The other pod never gets it.
pub(crate) async fn a_container_restarted_in_place_reclaims_at_once_with_a_new_term(
    ground: &Ground,
) -> Result<()> {
    let service = "reclaimed";
    // The longest preset: whoever had to wait for the lease would wait for a minute.
    let env = [("WORKLOAD_SERVICES", service), ("WORKLOAD_TIMING", "calm")];
    let deployed = Deployed::create(ground, service, 2, 5, &env).await?;
    let gained = deployed.gained(0).await?;
    deployed.started(2, 0).await?;
    let pod = pod_name(&gained.identity).ok_or_else(|| Error::new("the leader is no pod"))?;
    let node = ground.namespace.cluster().node().await?;
    node.kill(ground.namespace.name(), pod, CONTAINER)?;
    // The pods' histories tell pids of their own namespaces, so the end is told by the identity.
    let killed = Line {
        identity: gained.identity.clone(),
        ..Line::new(Event::Exit)
    };

    let again = deployed.gained(killed.t).await?;
    let same_pod = pod_uid(&again.identity) == pod_uid(&gained.identity);
    demand(same_pod && again.identity != gained.identity, || {
        format!("not reclaimed by a new process of the pod: {gained:?}, then {again:?}")
    })?;
    demand(token(&again)? > token(&gained)?, || {
        "the token did not grow".to_owned()
    })?;
    demand(again.term == gained.term.map(|term| term + 1), || {
        format!("not the next term: {gained:?}, then {again:?}")
    })?;
    let pods: Api<Pod> = ground.namespace.api();
    wait::until_true("restartCount 1", PATIENCE, || async {
        let statuses = pods
            .get(pod)
            .await?
            .status
            .and_then(|status| status.container_statuses);
        Ok(
            statuses
                .is_some_and(|statuses| statuses.iter().any(|status| status.restart_count == 1)),
        )
    })
    .await?;
    let histories = [deployed.history()];
    demand_good(&ground.judge(service, &histories, &[killed], &demands(1))?)
}

/// Two processes with the uid of one pod: the first has the proof that the former one is gone, and
/// reclaims a lease of an hour at once. The second has not, since the first still runs, and waits.
pub(crate) async fn a_restart_without_proof_waits_for_the_lease_to_lapse(
    ground: &Ground,
) -> Result<()> {
    let service = "unproven";
    let uid = format!("{:x}", history::now());
    let former = |process: u32| Identity::of_pod("orders-1", &uid, process);
    let namespace = ground.namespace.name();

    let hour = Duration::from_hours(1);
    let record = held(service, &former(1)?, hour, 7)?;
    ground
        .leases()
        .create(&PostParams::default(), &record)
        .await?;
    let proven = ground
        .member_as(&ground.account, namespace, former(2)?)
        .await?;
    let first = spawn(proven.service(service))?;
    until_role(&first, "leader").await?;
    let reclaimed = ground.lease(service).await?;
    demand(transitions(&reclaimed) == 8, || {
        format!("not a new term: {reclaimed:?}")
    })?;

    first.shutdown();
    first.finished().await?;

    // A former process held it once more; the proof stays with the first as long as that lives.
    let brief = Duration::from_secs(4);
    let record = serde_json::to_value(held(service, &former(3)?, brief, 9)?)?;
    let begun = history::now();
    ground
        .edit(&lease(service), &json!({ "spec": record["spec"] }))
        .await?;
    let unproven = ground
        .member_as(&ground.account, namespace, former(4)?)
        .await?;
    let second = spawn(unproven.service(service))?;
    until_role(&second, "leader").await?;
    let waited = Duration::from_nanos(history::now() - begun);
    demand(waited >= brief, || {
        format!("reclaimed without proof after {waited:?}")
    })?;
    let taken = ground.lease(service).await?;
    demand(
        holder(&taken) == Some(former(4)?.as_stranger().as_str()),
        || format!("held by {taken:?}"),
    )?;
    unproven.close().await;
    Ok(())
}

/// A Lease of that process, signed by it.
fn held(service: &str, by: &Identity, duration: Duration, transitions: i32) -> Result<Lease> {
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": lease(service),
            "annotations": { (keys::ANNOTATION_ATTEMPT): format!("{by}#{transitions}#1") },
        },
        "spec": {
            "holderIdentity": by.as_str(),
            "leaseDurationSeconds": duration.as_secs(),
            "leaseTransitions": transitions,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }))?)
}
