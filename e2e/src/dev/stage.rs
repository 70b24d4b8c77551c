//! What the demo and `up` both start: control plane, node, CRD, operator and
//! the example of three pods.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;

use super::leader::{Leader, LeaderView};
use super::narrator::Narrator;
use crate::control_plane::{ControlPlane, Options, kubeconfig};
use crate::error::{Error, Result, Step};
use crate::kubectl::Kubectl;
use crate::node::{NodeOptions, ProcessNode};
use crate::process::{Lifetime, ProcessRecord};
use crate::{programs, wait};

/// Generous, for a machine that compiles meanwhile.
const START_MAX: Duration = Duration::from_secs(90);

/// The cluster id, Deployment and container name of the example.
pub(super) const EXAMPLE: &str = "orders";
/// Its namespace.
pub(super) const NAMESPACE: &str = "default";

/// Everything that runs.
pub(super) struct Stage {
    // The node ends first: it still has pods to end while the API server lives.
    pub(super) node: ProcessNode,
    pub(super) plane: ControlPlane,
    pub(super) kubectl: Kubectl,
    pub(super) leaders: LeaderView,
}

impl Stage {
    /// Starts control plane and node; `folder` is temporary if not given.
    pub(super) async fn start(
        narrator: &mut Narrator,
        folder: Option<PathBuf>,
        lifetime: Lifetime,
    ) -> Result<Self> {
        programs::operator()?;
        programs::workload()?;
        narrator.chapter("A Kubernetes control plane and a node that runs pods as local processes");
        let started = Instant::now();
        let plane = ControlPlane::start(Options {
            folder,
            lifetime,
            ..Options::default()
        })
        .await?;
        let admin = plane.admin_kubeconfig();
        let version = kubeconfig::client(&admin)
            .await?
            .apiserver_version()
            .await?
            .git_version;
        narrator.took(
            &format!("etcd, API server {version}, controllers, scheduler"),
            started.elapsed(),
        );

        let started = Instant::now();
        let mut options = NodeOptions::with_our_programs()?;
        options.lifetime = lifetime;
        "process-node".clone_into(&mut options.name);
        let node = ProcessNode::start(&plane, options).await?;
        narrator.took("the node is Ready", started.elapsed());
        let kubectl = Kubectl::new(&admin);
        let leaders = LeaderView::new(&admin, NAMESPACE, EXAMPLE).await?;
        Ok(Self {
            node,
            plane,
            kubectl,
            leaders,
        })
    }

    /// Everything that runs in the background.
    pub(super) fn records(&self) -> Vec<ProcessRecord> {
        let mut records = self.plane.records();
        records.push(self.node.record().clone());
        records
    }

    /// Installs the CRD and the operator, as a user would.
    pub(super) async fn install(&self, narrator: &mut Narrator) -> Result<()> {
        self.install_with(narrator, &[]).await
    }

    /// The same, with more arguments for the operator.
    pub(super) async fn install_with(&self, narrator: &mut Narrator, more: &[&str]) -> Result<()> {
        narrator.chapter("Leasehold: its CRD, and the operator as a Deployment");
        let crds = programs::workspace().join("crds");
        narrator.command("kubectl apply -f crds/");
        narrator.output(
            &self
                .kubectl
                .run(&["apply", "-f", &crds.to_string_lossy()])
                .await?,
        );
        let established = [
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd/clusterservices.leasehold.dev",
            "crd/backendclasses.leasehold.dev",
        ];
        self.kubectl.run(&established).await?;

        let started = Instant::now();
        let rights = programs::workspace()
            .join("operator")
            .join("deploy")
            .join("rbac.yaml");
        let operator = manifest("operator.yaml");
        narrator
            .command("kubectl apply -f operator/deploy/rbac.yaml -f e2e/manifests/operator.yaml");
        let rights = rights.to_string_lossy();
        narrator.output(&self.kubectl.run(&["apply", "-f", &rights]).await?);
        let text = std::fs::read_to_string(&operator);
        let text = text.step(|| format!("reading {}", operator.display()))?;
        let arguments = [&["$(POD_IP):8080"], more].concat().join(", ");
        let text = text.replace("$(POD_IP):8080", &arguments);
        let apply = ["apply", "-f", "-"];
        narrator.output(&self.kubectl.run_with_input(&apply, &text).await?);
        self.wait_for_deployment("leasehold-system", "leasehold-operator")
            .await?;
        narrator.took("the operator is Ready", started.elapsed());
        Ok(())
    }

    /// Starts the example and waits for its first leader.
    pub(super) async fn start_example(&self, narrator: &mut Narrator) -> Result<Leader> {
        narrator.chapter("Three pods of a service written on the library; one of them leads");
        let path = manifest("example.yaml");
        let text = std::fs::read_to_string(&path).step(|| format!("reading {}", path.display()))?;
        let text = text.replace("${LEDGER}", &self.ledger().to_string_lossy());
        let started = Instant::now();
        narrator.command("kubectl apply -f e2e/manifests/example.yaml");
        narrator.output(
            &self
                .kubectl
                .run_with_input(&["apply", "-f", "-"], &text)
                .await?,
        );
        let leader = self.leaders.first(START_MAX).await?;
        narrator.took("the first leader", started.elapsed());
        self.wait_for_deployment(NAMESPACE, EXAMPLE).await?;
        self.wait_for_status(&leader).await?;
        narrator.kubectl(&self.kubectl, &["get", "csvc"]).await?;
        Ok(leader)
    }

    /// The guarded store of the example.
    pub(super) fn ledger(&self) -> PathBuf {
        self.plane.path().join("ledger.jsonl")
    }

    /// Waits until the operator shows this leader and has announced it.
    pub(super) async fn wait_for_status(&self, leader: &Leader) -> Result<()> {
        let wanted = (leader.pod.as_str(), leader.term.to_string());
        wait::until_true("the leader in the status", START_MAX, || async {
            let shown = self
                .kubectl
                .run(&[
                    "get",
                    "csvc",
                    EXAMPLE,
                    "-o",
                    "jsonpath={.status.leader.pod} {.status.leader.term}",
                ])
                .await?;
            Ok(shown.split_once(' ') == Some((wanted.0, &wanted.1)))
        })
        .await
    }

    /// Waits until all replicas of a Deployment are Ready.
    pub(super) async fn wait_for_deployment(&self, namespace: &str, name: &str) -> Result<()> {
        let client = kubeconfig::client(&self.plane.admin_kubeconfig()).await?;
        let deployments: Api<Deployment> = Api::namespaced(client, namespace);
        let what = format!("all pods of {namespace}/{name} to be Ready");
        let ready = wait::until_true(&what, START_MAX, || async {
            let deployment = deployments.get(name).await?;
            let wanted = deployment.spec.replicas.unwrap_or(1);
            let status = deployment.status.unwrap_or_default();
            Ok(status.ready_replicas == Some(wanted)
                && status.replicas == Some(wanted)
                && status.updated_replicas == Some(wanted))
        });
        match ready.await {
            Ok(()) => Ok(()),
            Err(error) => {
                let pods = self.kubectl.clone().namespace(namespace);
                let shown = pods
                    .run(&["get", "pods", "-o", "wide"])
                    .await
                    .unwrap_or_default();
                let log = pods
                    .run(&["logs", &format!("deployment/{name}"), "--tail=15"])
                    .await
                    .unwrap_or_else(|error| error.to_string());
                Err(Error::new(format!("{error}\n{shown}\n{log}")))
            }
        }
    }
}

fn manifest(name: &str) -> PathBuf {
    programs::workspace()
        .join("e2e")
        .join("manifests")
        .join(name)
}

/// A path as people type it: relative to where they are, if it is below.
pub(super) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here)
        .unwrap_or(path)
        .display()
        .to_string()
}
