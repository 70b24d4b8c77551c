//! The cluster a test runs against: one control plane for all tests of a test
//! binary, or a cluster of yours named by `LEASEHOLD_E2E_KUBECONFIG`. Every test
//! works in a namespace of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::OnceCell;

use crate::control_plane::{ControlPlane, Options, folder::Folder, kubeconfig};
use crate::error::{Error, Result, Step};
use crate::kubectl::Kubectl;
use crate::node::{NodeOptions, ProcessNode};
use crate::wait;

/// Names a kubeconfig (with the rights of a cluster administrator): the suite
/// then runs against that cluster. It is not `KUBECONFIG` itself, which many
/// shells have set and which may well point at a cluster that matters.
pub const EXTERNAL_ENV: &str = "LEASEHOLD_E2E_KUBECONFIG";

/// The label of every namespace that the suite makes.
pub const TEST_LABEL: &str = "leasehold.dev/e2e";

/// The cluster of this test binary.
pub struct Cluster {
    target: Target,
    node: OnceCell<Arc<ProcessNode>>,
}

enum Target {
    Local(ControlPlane),
    /// Somebody's cluster; the folder holds kubeconfigs and logs.
    External {
        kubeconfig: PathBuf,
        folder: Folder,
    },
}

impl Cluster {
    /// The one cluster that all tests of this binary share. It ends with the
    /// process.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// A cluster of one's own, for tests that disturb everyone on it. With a
    /// cluster given from outside there is none: the test skips itself.
    pub async fn own(test: &str) -> Result<Option<Self>> {
        Self::own_with(test, Options::default()).await
    }

    /// The same, started in another way than the shared one.
    pub async fn own_with(test: &str, options: Options) -> Result<Option<Self>> {
        if std::env::var_os(EXTERNAL_ENV).is_some() {
            println!(
                "skipped: {test} needs a control plane of its own to start, pause or restart, and {EXTERNAL_ENV} names a cluster that is not"
            );
            return Ok(None);
        }
        Self::start_with(options).await.map(Some)
    }

    async fn start() -> Result<Self> {
        Self::start_with(Options::default()).await
    }

    async fn start_with(options: Options) -> Result<Self> {
        let target = match std::env::var_os(EXTERNAL_ENV) {
            None => Target::Local(ControlPlane::start(options).await?),
            Some(path) => {
                let kubeconfig = PathBuf::from(path);
                let client = kubeconfig::client(&kubeconfig).await;
                let version = client.step(|| EXTERNAL_ENV)?.apiserver_version().await;
                let version = version.step(|| format!("reaching the cluster of {EXTERNAL_ENV}"))?;
                println!(
                    "using the cluster of {EXTERNAL_ENV}, Kubernetes {}",
                    version.git_version
                );
                remove_left_nodes(&kubeconfig)
                    .await
                    .step(|| "removing nodes of earlier runs")?;
                Target::External {
                    kubeconfig,
                    folder: Folder::temporary()?,
                }
            }
        };
        Ok(Self {
            target,
            node: OnceCell::new(),
        })
    }

    /// The control plane, if it is ours: to pause, restart and read its audit
    /// log.
    pub fn control_plane(&self) -> Option<&ControlPlane> {
        match &self.target {
            Target::Local(plane) => Some(plane),
            Target::External { .. } => None,
        }
    }

    /// The control plane, or a printed reason why `test` cannot run here.
    pub fn control_plane_or_skip(&self, test: &str) -> Option<&ControlPlane> {
        let plane = self.control_plane();
        if plane.is_none() {
            println!(
                "skipped: {test} needs the audit log or processes of a control plane of ours, and {EXTERNAL_ENV} is set"
            );
        }
        plane
    }

    /// The kubeconfig of the harness, never of code under test.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        match &self.target {
            Target::Local(plane) => plane.admin_kubeconfig(),
            Target::External { kubeconfig, .. } => kubeconfig.clone(),
        }
    }

    /// The node that runs pods as local processes, started by the first who asks.
    pub async fn node(&self) -> Result<Arc<ProcessNode>> {
        let start = || async {
            let options = NodeOptions::with_our_programs()?;
            let node = match &self.target {
                Target::Local(plane) => ProcessNode::start(plane, options).await,
                Target::External { kubeconfig, folder } => {
                    ProcessNode::start_for(kubeconfig, folder, options).await
                }
            };
            node.map(Arc::new).step(|| "starting the process node")
        };
        self.node.get_or_try_init(start).await.cloned()
    }

    /// Where files of a test may go; removed with the cluster.
    pub fn folder(&self) -> &Path {
        match &self.target {
            Target::Local(plane) => plane.path(),
            Target::External { folder, .. } => folder.path(),
        }
    }

    fn keep(&self) {
        match &self.target {
            Target::Local(plane) => plane.keep(),
            Target::External { folder, .. } => folder.keep(),
        }
    }
}

/// The namespace of one test. [`TestNamespace::finish`] says that the test
/// passed; dropped without it, the logs are kept and their place is printed.
pub struct TestNamespace<'a> {
    cluster: &'a Cluster,
    name: String,
    client: Client,
    finished: bool,
}

/// A service account with rights, as code under test runs.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its name in the namespace of the test.
    pub name: String,
    /// A kubeconfig with its token.
    pub kubeconfig: PathBuf,
}

impl TestNamespace<'static> {
    /// A new namespace on the shared cluster, named after the test.
    pub async fn new(test: &str) -> Result<Self> {
        Self::on(Cluster::shared().await?, test).await
    }
}

impl<'a> TestNamespace<'a> {
    /// A new namespace on `cluster`, named after the test.
    pub async fn on(cluster: &'a Cluster, test: &str) -> Result<TestNamespace<'a>> {
        let making = || format!("making a namespace for {test}");
        let client = kubeconfig::client(&cluster.admin_kubeconfig()).await?;
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", label(test))),
                labels: Some(BTreeMap::from([(TEST_LABEL.to_owned(), "test".to_owned())])),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let created = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .step(making)?;
        let name = created
            .metadata
            .name
            .ok_or_else(|| Error::new("the API server gave no name"))
            .step(making)?;
        let namespace = Self {
            cluster,
            name,
            client,
            finished: false,
        };
        // Without its account no pod is admitted.
        let accounts: Api<ServiceAccount> = namespace.api();
        wait::until_true(
            "the default service account",
            Duration::from_secs(30),
            || async { Ok(accounts.get_opt("default").await?.is_some()) },
        )
        .await
        .step(making)?;
        Ok(namespace)
    }

    /// The cluster it is on.
    pub fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The harness's client, for arranging and asserting.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The harness's view of one kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// kubectl as the harness, in this namespace.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.cluster.admin_kubeconfig()).namespace(&self.name)
    }

    /// Makes a service account with `rules` in this namespace, and a
    /// kubeconfig with its token. Code under test runs as one of these.
    pub async fn account(&self, name: &str, rules: Vec<PolicyRule>) -> Result<Account> {
        let making = || format!("making service account {}/{name}", self.name);
        let metadata = || ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let params = PostParams::default();
        let account = ServiceAccount {
            metadata: metadata(),
            ..ServiceAccount::default()
        };
        self.api::<ServiceAccount>()
            .create(&params, &account)
            .await
            .step(making)?;
        let role = Role {
            metadata: metadata(),
            rules: Some(rules),
        };
        self.api::<Role>()
            .create(&params, &role)
            .await
            .step(making)?;
        let binding = RoleBinding {
            metadata: metadata(),
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "Role".to_owned(),
                name: name.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(self.name.clone()),
                ..Subject::default()
            }]),
        };
        self.api::<RoleBinding>()
            .create(&params, &binding)
            .await
            .step(making)?;
        let path = self
            .cluster
            .folder()
            .join(format!("{}.{name}.kubeconfig", self.name));
        let kubeconfig =
            kubeconfig::write_for_account(&self.cluster.admin_kubeconfig(), &self.name, name, path)
                .await?;
        Ok(Account {
            name: name.to_owned(),
            kubeconfig,
        })
    }

    /// Says that the test passed; the namespace goes.
    pub async fn finish(mut self) -> Result<()> {
        self.finished = true;
        let deleting = || format!("deleting namespace {}", self.name);
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces
            .delete(&self.name, &DeleteParams::background())
            .await
            .step(deleting)?;
        if self.cluster.control_plane().is_none() {
            // Its pods need our node to end, and the cluster outlives the node.
            wait::until_true("the namespace to go", Duration::from_mins(1), || async {
                Ok(namespaces.get_opt(&self.name).await?.is_none())
            })
            .await
            .step(deleting)?;
        }
        Ok(())
    }
}

impl Drop for TestNamespace<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.cluster.keep();
            eprintln!(
                "the test in namespace {} did not finish; logs and state are kept in {}",
                self.name,
                self.cluster.folder().display()
            );
        }
    }
}

/// A node object outlives its process. In a cluster that is thrown away this is
/// no matter; in somebody's cluster the next run removes what is not Ready.
async fn remove_left_nodes(kubeconfig: &Path) -> Result<()> {
    let nodes: Api<Node> = Api::all(kubeconfig::client(kubeconfig).await?);
    let ours = ListParams::default().labels("leasehold.dev/process-node=true");
    for node in nodes.list(&ours).await? {
        let conditions = node
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let is_ready = conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        if let Some(name) = node.metadata.name.filter(|_| !is_ready) {
            nodes.delete(&name, &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

/// The rights a workload needs for its leases: no delete, no patch (E1).
pub fn lease_rules() -> Vec<PolicyRule> {
    vec![PolicyRule {
        api_groups: Some(vec!["coordination.k8s.io".to_owned()]),
        resources: Some(vec!["leases".to_owned()]),
        verbs: ["get", "list", "watch", "create", "update"]
            .map(str::to_owned)
            .to_vec(),
        ..PolicyRule::default()
    }]
}

/// A DNS label from the name of a test.
fn label(test: &str) -> String {
    let dashed: String = test
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(50)
        .collect();
    let trimmed = dashed.trim_matches('-');
    if trimmed.is_empty() {
        "test".to_owned()
    } else {
        trimmed.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn a_test_name_becomes_a_dns_label() {
        assert_eq!(label("graceful_Failover: one"), "graceful-failover--one");
        assert_eq!(label("__"), "test");
        assert_eq!(label(&"x".repeat(80)).len(), 50);
    }
}
