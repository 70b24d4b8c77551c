//! The leading container crashes and is restarted in place: how long until the
//! same pod leads again, under a new term (E8).

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use super::figure::{Report, Samples};
use crate::cluster::lease_rules;
use crate::error::{Error, Result, Step};
use crate::node::{ProcessNode, WORKLOAD_IMAGE};
use crate::{TestNamespace, history, wait};

const WITHIN: Duration = Duration::from_mins(1);
const CONTAINER: &str = "service";

/// Who leads, by the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Leader {
    holder: String,
    term: i32,
}

impl Leader {
    fn pod(&self) -> &str {
        leasehold_core::id::pod_name(&self.holder).unwrap_or(&self.holder)
    }
}

/// A fresh Deployment of two pods; the leading one crashes once.
async fn trial(namespace: &TestNamespace<'_>, node: &ProcessNode, number: usize) -> Result<f64> {
    let id = format!("restart-{number}");
    let deployments: Api<Deployment> = namespace.api();
    deployments
        .create(&PostParams::default(), &deployment(&id)?)
        .await
        .step(|| format!("creating deployment {id}"))?;
    let leases: Api<Lease> = namespace.api();
    let before = next_leader(&leases, &id, None).await?;
    // Somewhere between two heartbeats.
    tokio::time::sleep(Duration::from_millis(
        300 * u64::try_from(number % 17).unwrap_or(0),
    ))
    .await;
    let killed = history::now();
    node.kill(namespace.name(), before.pod(), CONTAINER)?;
    let after = next_leader(&leases, &id, Some(&before)).await?;
    let took = Duration::from_nanos(history::now() - killed).as_secs_f64();
    if after.pod() != before.pod() {
        return Err(Error::new(format!(
            "{id}: {} leads, but {} was restarted in place and should lead again",
            after.pod(),
            before.pod()
        )));
    }
    Ok(took)
}

async fn next_leader(leases: &Api<Lease>, id: &str, before: Option<&Leader>) -> Result<Leader> {
    wait::closely(&format!("a new leader of {id}"), WITHIN, || async {
        let lease = leases.get_opt(&format!("{id}.leader")).await?;
        let leader = lease.and_then(|lease| lease.spec).and_then(|spec| {
            let holder = spec.holder_identity.filter(|holder| !holder.is_empty())?;
            Some(Leader {
                holder,
                term: spec.lease_transitions.unwrap_or_default(),
            })
        });
        Ok(leader.filter(|leader| before.is_none_or(|before| leader.term > before.term)))
    })
    .await
}

fn deployment(id: &str) -> Result<Deployment> {
    let object = serde_json::json!({
        "metadata": ObjectMeta { name: Some(id.to_owned()), ..ObjectMeta::default() },
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": id}},
            "template": {
                "metadata": {"labels": {"app": id}},
                "spec": {
                    "serviceAccountName": "restart",
                    "containers": [{
                        "name": CONTAINER,
                        "image": WORKLOAD_IMAGE,
                        "env": [{"name": "WORKLOAD_SERVICES", "value": id}],
                    }],
                },
            },
        },
    });
    serde_json::from_value(object).step(|| "describing the deployment")
}

/// All trials in parallel, each the first crash of a fresh pod: later ones would measure the
/// node's restart back-off.
pub(super) async fn in_place(
    namespace: &TestNamespace<'_>,
    trials: usize,
    report: &mut Report,
) -> Result<()> {
    namespace.account("restart", lease_rules()).await?;
    let node = namespace.cluster().node().await?;
    let running = (0..trials).map(|number| trial(namespace, &node, number));
    let mut took = Samples::default();
    for result in futures::future::join_all(running).await {
        took.push(result?);
    }
    let none = Samples::default();
    report.median("crash_restart_in_place_p50_s", "s", &took, &none, Some(2.0))
}
