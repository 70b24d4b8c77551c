//! The programs of a control plane and their flags.

use std::fmt;
use std::path::Path;
use std::process::Command;

use super::certificates::{Authority, CertificateFiles};

/// One program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The store behind the API server.
    Etcd,
    /// The API server.
    Apiserver,
    /// Controllers: Deployments, service accounts, garbage collection.
    ControllerManager,
    /// The scheduler, which binds pods to the process node.
    Scheduler,
}

impl Component {
    /// All of them, in the order in which they start.
    pub const ALL: [Self; 4] = [
        Self::Etcd,
        Self::Apiserver,
        Self::ControllerManager,
        Self::Scheduler,
    ];

    /// The name it is called by, and of its log file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counts every request once: who, verb, object, when, with what outcome.
pub(super) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    nonResourceURLs: [\"/livez*\", \"/readyz*\", \"/healthz*\"]
  - level: Metadata
";

/// Only what Deployments of test pods need: the rest costs CPU while idle, and
/// one of them (attach-detach) makes folders on the host. Without the node
/// life-cycle controller nothing removes the taint of a new node, so the
/// admission plug-in that sets it is off as well.
const CONTROLLERS: &[&str] = &[
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "endpointslice-controller",
    "job-controller",
    "disruption-controller",
    "pod-garbage-collector-controller",
    "clusterrole-aggregation-controller",
];

/// With the defaults of 20 requests a second the controllers need 4 s longer
/// to make the first service accounts.
const CLIENT_PACE: [&str; 2] = ["--kube-api-qps=200", "--kube-api-burst=400"];

/// What the flags are made of.
pub(super) struct Layout<'a> {
    pub(super) folder: &'a Path,
    pub(super) authority: &'a Authority,
    pub(super) serving: &'a CertificateFiles,
}

/// Arguments of etcd on these ports. It may lose its data with the machine, so
/// it need not wait for the disk.
pub(super) fn etcd(folder: &Path, client_port: u16, peer_port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        "--name=default".to_owned(),
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync=true".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

/// Arguments of the API server: RBAC on, and every request in the audit log
/// before it is answered, so that a count taken after an answer is complete.
pub(super) fn apiserver(layout: &Layout<'_>, port: u16, etcd_port: u16) -> Vec<String> {
    let Layout {
        folder,
        authority,
        serving,
    } = layout;
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", serving.certificate.display()),
        format!("--tls-private-key-file={}", serving.key.display()),
        format!("--client-ca-file={}", authority.ca().display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--service-account-signing-key-file={}",
            authority.accounts_key().display()
        ),
        format!(
            "--service-account-key-file={}",
            authority.accounts_public().display()
        ),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--disable-admission-plugins=TaintNodesByCondition".to_owned(),
        // Else a token asked for ten minutes may live for a year.
        "--service-account-extend-token-expiration=false".to_owned(),
        // Else a graceful end takes a minute while anybody watches.
        "--shutdown-watch-termination-grace-period=2s".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!(
            "--audit-policy-file={}",
            folder.join("audit-policy.yaml").display()
        ),
        format!("--audit-log-path={}", folder.join("audit.log").display()),
        "--audit-log-mode=blocking".to_owned(),
        // One file: a count must not lose what was moved away.
        "--audit-log-maxsize=100000".to_owned(),
        "--profiling=false".to_owned(),
    ]
}

/// Arguments of the controller manager.
pub(super) fn controller_manager(layout: &Layout<'_>, kubeconfig: &Path) -> Vec<String> {
    let Layout { authority, .. } = layout;
    [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        format!(
            "--service-account-private-key-file={}",
            authority.accounts_key().display()
        ),
        format!("--root-ca-file={}", authority.ca().display()),
        format!("--controllers={}", CONTROLLERS.join(",")),
        "--profiling=false".to_owned(),
    ]
    .into_iter()
    .chain(CLIENT_PACE.map(str::to_owned))
    .collect()
}

/// Arguments of the scheduler.
pub(super) fn scheduler(kubeconfig: &Path) -> Vec<String> {
    [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--profiling=false".to_owned(),
    ]
    .into_iter()
    .chain(CLIENT_PACE.map(str::to_owned))
    .collect()
}

/// The command that starts `component` from the one binary of them all. Where that is allowed it is served
/// before its clients: an API server that answers late is a fault, and tests choose their faults.
pub(super) fn command(binary: &Path, component: Component, arguments: &[String]) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut nice = Command::new("nice");
        nice.args(["-n", "-10"]).arg(binary);
        nice
    } else {
        Command::new(binary)
    };
    command.arg(component.name()).args(arguments);
    command
}
