//! The stage: an installed CRD, an operator with the rights of its manifest, and hands that write Leases
//! as candidates do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use leasehold_crds::settings::LeaseSettings;
use leasehold_crds::{ClusterService, ClusterServiceStatus, Settings, keys};
use leasehold_e2e::control_plane::{kubeconfig, ports};
use leasehold_e2e::kubectl::Kubectl;
use leasehold_e2e::process::{Lifetime, Process};
use leasehold_e2e::{Cluster, Result, Step as _, TestNamespace, programs, wait};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// Where the manifest puts the operator's account.
pub(crate) const SYSTEM: &str = "leasehold-system";
pub(crate) const ACCOUNT: &str = "leasehold-operator";

/// CRD and rights, once per cluster.
pub(crate) async fn install(cluster: &Cluster) -> Result<()> {
    let kubectl = Kubectl::new(&cluster.admin_kubeconfig());
    let path = |part: &str| {
        programs::workspace()
            .join(part)
            .to_string_lossy()
            .into_owned()
    };
    kubectl.run(&["apply", "-f", &path("crds")]).await?;
    kubectl
        .run(&["apply", "-f", &path("operator/deploy/rbac.yaml")])
        .await?;
    served(&kubectl, "backendclasses", "bclass").await?;
    served(&kubectl, "clusterservices", "csvc").await
}

/// Waits until a kind of ours can be used.
pub(crate) async fn served(kubectl: &Kubectl, plural: &str, short: &str) -> Result<()> {
    let crd = format!("crd/{plural}.leasehold.dev");
    let established = ["wait", "--for=condition=Established", "--timeout=60s", &crd];
    kubectl.run(&established).await?;
    // Discovery follows a little later.
    wait::until_true("a kind that kubectl knows", MINUTE, || async {
        Ok(kubectl.run(&["explain", short]).await.is_ok())
    })
    .await
}

/// A namespace on the shared cluster, with everything installed.
pub(crate) async fn namespace(test: &str) -> Result<TestNamespace<'static>> {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let cluster = Cluster::shared().await?;
    INSTALLED.get_or_try_init(|| install(cluster)).await?;
    TestNamespace::new(test).await
}

/// A kubeconfig of the operator's account.
pub(crate) async fn operator_kubeconfig(cluster: &Cluster, name: &str) -> Result<PathBuf> {
    let path = cluster.folder().join(format!("operator.{name}.kubeconfig"));
    kubeconfig::write_for_account(&cluster.admin_kubeconfig(), SYSTEM, ACCOUNT, path).await
}

/// A running operator.
pub(crate) struct Operator {
    process: Process,
    address: String,
}

impl Operator {
    /// Starts one for `namespaces`; its own election is held in a namespace of its own choice.
    pub(crate) async fn start(
        cluster: &Cluster,
        kubeconfig: &Path,
        name: &str,
        namespaces: &[&str],
        lease_namespace: &str,
    ) -> Result<Self> {
        Self::start_with(cluster, kubeconfig, name, namespaces, lease_namespace, &[]).await
    }

    /// The same with more arguments.
    pub(crate) async fn start_with(
        cluster: &Cluster,
        kubeconfig: &Path,
        name: &str,
        namespaces: &[&str],
        lease_namespace: &str,
        more: &[&str],
    ) -> Result<Self> {
        let talk = "info,leasehold=debug,leasehold_operator=debug";
        let place = (name, lease_namespace);
        Self::start_talking(cluster, kubeconfig, place, namespaces, more, talk).await
    }

    /// The same, logging what `talk` chooses.
    #[allow(clippy::unused_async)] // started like everything else here
    pub(crate) async fn start_talking(
        cluster: &Cluster,
        kubeconfig: &Path,
        (name, lease_namespace): (&str, &str),
        namespaces: &[&str],
        more: &[&str],
        talk: &str,
    ) -> Result<Self> {
        let address = format!("127.0.0.1:{}", ports::free_port()?);
        let mut command = Command::new(programs::operator()?);
        command
            .args(["--kubeconfig", &kubeconfig.to_string_lossy()])
            .args(["--namespace", &namespaces.join(",")])
            .args(["--lease-namespace", lease_namespace])
            .args(["--metrics-address", &address])
            .args(more)
            .env("RUST_LOG", talk);
        if !more.contains(&"--timers-divisor") {
            command.args(["--timers-divisor", "10"]);
        }
        let log = cluster.folder().join(format!("operator.{name}.log"));
        let process = Process::spawn("leasehold-operator", &command, &log, Lifetime::Bound)?;
        Ok(Self { process, address })
    }

    /// Starts one for a test's namespace and waits until it leads.
    pub(crate) async fn leading(namespace: &TestNamespace<'_>) -> Result<Self> {
        let cluster = namespace.cluster();
        let kubeconfig = operator_kubeconfig(cluster, namespace.name()).await?;
        let name = namespace.name();
        let operator = Self::start(cluster, &kubeconfig, name, &[name], name).await?;
        operator.wait_until_leading().await?;
        Ok(operator)
    }

    pub(crate) async fn wait_until_leading(&self) -> Result<()> {
        wait::until_true("an operator that leads", MINUTE, || async {
            if let Some(end) = self.process.ended() {
                panic!("the operator ended: {end}\n{}", self.process.last_lines(20));
            }
            Ok(self
                .page("/metrics")
                .await?
                .contains("leasehold_operator_leading 1"))
        })
        .await
    }

    /// One of its pages.
    pub(crate) async fn page(&self, path: &str) -> Result<String> {
        let (_, body) = self.get(path).await?;
        Ok(body)
    }

    /// Status and body of one of its pages.
    pub(crate) async fn get(&self, path: &str) -> Result<(u16, String)> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: operator\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0);
        Ok((status, body.to_owned()))
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }
}

/// The spec of an elected service.
pub(crate) fn elected(cluster_id: &str) -> Value {
    json!({"clusterScope": "cluster", "leaderStrategy": "leader-elected", "clusterId": cluster_id})
}

/// Makes a ClusterService.
pub(crate) async fn declare(
    namespace: &TestNamespace<'_>,
    name: &str,
    spec: Value,
) -> Result<ClusterService> {
    let service = serde_json::from_value(json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "ClusterService",
        "metadata": {"name": name}, "spec": spec,
    }))?;
    let services: Api<ClusterService> = namespace.api();
    let created = services.create(&PostParams::default(), &service).await;
    created.step(|| format!("creating ClusterService {name}"))
}

/// Waits until the status of a ClusterService, which speaks about its present spec, is as wanted.
pub(crate) async fn shown(
    namespace: &TestNamespace<'_>,
    name: &str,
    what: &str,
    is_wanted: impl Fn(&ClusterServiceStatus) -> bool,
) -> Result<ClusterServiceStatus> {
    let services: Api<ClusterService> = namespace.api();
    let newest = std::cell::RefCell::new(None);
    let waited = wait::until(what, MINUTE, || async {
        let service = services.get(name).await?;
        let status = service.status.unwrap_or_default();
        *newest.borrow_mut() = Some(status.clone());
        let is_current = status.observed_generation == service.metadata.generation;
        Ok((is_current && is_wanted(&status)).then_some(status))
    })
    .await;
    waited.step(|| format!("{name} shows {}", json!(*newest.borrow())))
}

/// Status, reason and message of a condition.
pub(crate) fn condition(status: &ClusterServiceStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|it| it.type_ == type_);
    found
        .map(|it| (it.status.clone(), it.reason.clone(), it.message.clone()))
        .unwrap_or_default()
}

pub(crate) fn is_led_by(status: &ClusterServiceStatus, pod: &str, term: i64) -> bool {
    status
        .leader
        .as_ref()
        .is_some_and(|it| it.pod == pod && it.term == term)
        && status
            .history
            .as_ref()
            .is_some_and(|it| it.first().is_some_and(|it| it.term == term))
}

/// Writes the leader Lease of `cluster_id` as a candidate that acquires or renews does.
pub(crate) async fn hold(
    namespace: &TestNamespace<'_>,
    cluster_id: &str,
    pod: &str,
    term: i64,
) -> Result<Lease> {
    let holder = identity(pod);
    write_lease(namespace, cluster_id, |lease| {
        lease["metadata"]["annotations"][keys::ANNOTATION_ATTEMPT] =
            json!(format!("{holder}#{term}#1"));
        let now = jiff::Timestamp::now();
        let spec = &mut lease["spec"];
        if spec["leaseTransitions"] != json!(term) || spec["holderIdentity"] != json!(holder) {
            spec["acquireTime"] = json!(format!("{now:.6}"));
        }
        spec["renewTime"] = json!(format!("{now:.6}"));
        spec["holderIdentity"] = json!(holder);
        spec["leaseTransitions"] = json!(term);
        spec["leaseDurationSeconds"] = json!(3600);
    })
    .await
}

/// Empties the leader Lease as its holder does when it gives it up.
pub(crate) async fn release(namespace: &TestNamespace<'_>, cluster_id: &str) -> Result<Lease> {
    write_lease(namespace, cluster_id, |lease| {
        let (holder, term) = (
            lease["spec"]["holderIdentity"].clone(),
            lease["spec"]["leaseTransitions"].clone(),
        );
        let stamp = format!("{}#{term}", holder.as_str().unwrap_or_default());
        lease["metadata"]["annotations"][keys::ANNOTATION_RELEASED] = json!(stamp);
        lease["spec"]["holderIdentity"] = json!("");
    })
    .await
}

/// Changes the leader Lease, or makes it, by compare-and-set.
pub(crate) async fn write_lease(
    namespace: &TestNamespace<'_>,
    cluster_id: &str,
    change: impl FnOnce(&mut Value),
) -> Result<Lease> {
    let name = format!("{cluster_id}.leader");
    let leases: Api<Lease> = namespace.api();
    let found = leases.get_opt(&name).await?;
    let is_new = found.is_none();
    let mut lease = match found {
        Some(found) => serde_json::to_value(found)?,
        None => json!({"metadata": {"name": name, "annotations": {}}, "spec": {}}),
    };
    lease["metadata"]["labels"][keys::LABEL_CLUSTER_ID] = json!(cluster_id);
    lease["metadata"]["labels"][keys::LABEL_LEASE] = json!(keys::LEASE_LEADER);
    change(&mut lease);
    let lease: Lease = serde_json::from_value(lease)?;
    let params = PostParams::default();
    let written = if is_new {
        leases.create(&params, &lease).await
    } else {
        leases.replace(&name, &params, &lease).await
    };
    written.step(|| format!("writing Lease {name}"))
}

/// The identity of the one process of a pod.
pub(crate) fn identity(pod: &str) -> String {
    format!("{pod}_uid-of-{pod}_0000000a")
}

/// The Events about a ClusterService, by name.
pub(crate) async fn events(namespace: &TestNamespace<'_>, service: &str) -> Result<Vec<Event>> {
    let events: Api<Event> = namespace.api();
    let mut events: Vec<Event> = events
        .list(&ListParams::default())
        .await?
        .items
        .into_iter()
        .filter(|event| {
            event.regarding.as_ref().is_some_and(|it| {
                it.kind.as_deref() == Some("ClusterService") && it.name.as_deref() == Some(service)
            })
        })
        .collect();
    events.sort_by_key(ResourceExt::name_any);
    Ok(events)
}

/// Names of Events without the Lease's uid, which differs from run to run.
pub(crate) fn names_without_uid(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| {
            let name = event.name_any();
            let (start, rest) = name.split_once(".leader.").unwrap_or((&name, ""));
            format!("{start}.leader.{}", rest.get(8..).unwrap_or_default())
        })
        .collect()
}

/// Settings for the operator's own election: whoever takes over from a killed one waits 6 s, not 15.
pub(crate) async fn fast_election(namespace: &TestNamespace<'_>) -> Result<()> {
    let settings = Settings {
        version: Settings::VERSION,
        generation: 1,
        strategy: "leader-elected".into(),
        partitions: None,
        hash: None,
        lease: LeaseSettings {
            duration_seconds: 6,
            heartbeat_seconds: 2,
            attempt_timeout_seconds: 1,
            stop_budget_seconds: 1,
        },
        drain_timeout_seconds: None,
    };
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {
            "name": "leasehold-operator.settings",
            "labels": {
                keys::LABEL_CLUSTER_ID: "leasehold-operator", keys::LABEL_LEASE: keys::LEASE_SETTINGS,
            },
            "annotations": {keys::ANNOTATION_SETTINGS: settings.to_json()},
        },
    }))?;
    let leases: Api<Lease> = namespace.api();
    let created = leases.create(&PostParams::default(), &lease).await;
    created
        .map(drop)
        .step(|| "making the settings of the operator's election")
}
