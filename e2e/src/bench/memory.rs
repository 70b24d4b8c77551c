//! Resident memory of the operator with many ClusterServices, all Ready.

use std::process::Command;
use std::time::Duration;

use kube::Api;
use kube::api::{ListParams, PostParams};
use leasehold_crds::cluster_service::ClusterService;

use super::candidate::{Ground, Kind, resident_mib};
use super::figure::{Report, Samples};
use crate::control_plane::{kubeconfig, ports};
use crate::error::{Result, Step};
use crate::kubectl::Kubectl;
use crate::process::{Lifetime, Process};
use crate::{TestNamespace, programs, wait};

const READY_WITHIN: Duration = Duration::from_mins(2);
const ACCOUNT: &str = "leasehold-operator";
const SYSTEM: &str = "leasehold-system";

/// `services` ClusterServices with live leaders; the operator runs under its shipped rights.
pub(super) async fn of_operator(
    namespace: &TestNamespace<'_>,
    services: usize,
    report: &mut Report,
) -> Result<()> {
    let admin = namespace.cluster().admin_kubeconfig();
    let kubectl = Kubectl::new(&admin);
    let path = |relative: &str| {
        programs::workspace()
            .join(relative)
            .to_string_lossy()
            .into_owned()
    };
    kubectl.run(&["apply", "-f", &path("crds")]).await?;
    let established = "--for=condition=Established";
    kubectl
        .run(&[
            "wait",
            established,
            "--timeout=60s",
            "crd/clusterservices.leasehold.dev",
        ])
        .await?;
    kubectl
        .run(&["apply", "-f", &path("operator/deploy/rbac.yaml")])
        .await?;
    let config = namespace
        .cluster()
        .folder()
        .join("bench-operator.kubeconfig");
    let config = kubeconfig::write_for_account(&admin, SYSTEM, ACCOUNT, config).await?;

    let ids: Vec<String> = (0..services)
        .map(|number| format!("svc-{number}"))
        .collect();
    let ground = Ground::new(namespace, Kind::Ours, "many", ids.clone()).await?;
    let holder = ground.start("holder")?;
    let mut command = Command::new(programs::operator()?);
    command
        .arg(format!("--kubeconfig={}", config.display()))
        .arg(format!("--lease-namespace={SYSTEM}"))
        .arg(format!(
            "--metrics-address=127.0.0.1:{}",
            ports::free_port()?
        ));
    let log = namespace.cluster().folder().join("bench-operator.log");
    let operator = Process::spawn("operator", &command, &log, Lifetime::Bound)?;

    let api: Api<ClusterService> = namespace.api();
    for id in &ids {
        let object = serde_json::json!({
            "apiVersion": "leasehold.dev/v1alpha1",
            "kind": "ClusterService",
            "metadata": {"name": id},
            "spec": {"clusterScope": "cluster", "leaderStrategy": "leader-elected"},
        });
        let service = serde_json::from_value(object).step(|| "describing a ClusterService")?;
        api.create(&PostParams::default(), &service)
            .await
            .step(|| format!("creating {id}"))?;
    }
    wait::until_true("all ClusterServices to be Ready", READY_WITHIN, || async {
        let list = api.list(&ListParams::default()).await?;
        let ready = |service: &ClusterService| {
            service
                .status
                .iter()
                .flat_map(|status| &status.conditions)
                .any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        Ok(list.items.iter().filter(|service| ready(service)).count() == services)
    })
    .await
    .step(|| operator.last_lines(5))?;
    // Settled: two heartbeats of everybody have passed through its watches.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut resident = Samples::default();
    resident.push(resident_mib(operator.record().pid)?);
    drop(holder);
    let metric = format!("operator_rss_mib_{services}");
    report.largest(&metric, "MiB", &resident, &Samples::default(), Some(40.0))
}
