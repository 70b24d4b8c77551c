//! The node that runs pods as local processes: Deployments, logs, crashes and
//! restarts are real, without containers. It runs under its own identity, with
//! the rights in `e2e/process-node/rbac.yaml`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use rustix::process::Signal;

use crate::control_plane::{ControlPlane, folder::Folder, kubeconfig, ports};
use crate::error::{Error, Result, Step};
use crate::kubectl::Kubectl;
use crate::process::{Lifetime, Process, ProcessRecord};
use crate::{programs, wait};

/// The image of the example service.
pub const WORKLOAD_IMAGE: &str = "leasehold.dev/workload";
/// The image of the operator.
pub const OPERATOR_IMAGE: &str = "leasehold.dev/operator";
/// The image of a shell.
pub const SHELL_IMAGE: &str = "sh";

/// The identity of the node, made by its rbac.yaml.
const ACCOUNT: (&str, &str) = ("kube-system", "process-node");

/// How long the pods of a node that ends get between SIGTERM and SIGKILL.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// How to start a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Name of the Node object.
    pub name: String,
    /// Which local program each image name stands for.
    pub images: BTreeMap<String, PathBuf>,
    /// Whether it ends with this process.
    pub lifetime: Lifetime,
}

impl NodeOptions {
    /// A node that runs the example service, the operator, and a shell. They
    /// need not be built yet: a pod that wants a missing one says so.
    pub fn with_our_programs() -> Result<Self> {
        let images = BTreeMap::from([
            (
                WORKLOAD_IMAGE.to_owned(),
                programs::beside("leasehold-workload")?,
            ),
            (OPERATOR_IMAGE.to_owned(), programs::operator_path()?),
            (SHELL_IMAGE.to_owned(), PathBuf::from("/bin/sh")),
        ]);
        let name = format!("process-node-{}", std::process::id());
        Ok(Self {
            name,
            images,
            lifetime: Lifetime::Bound,
        })
    }

    /// One more image.
    #[must_use]
    pub fn image(mut self, name: &str, program: &Path) -> Self {
        self.images.insert(name.to_owned(), program.to_owned());
        self
    }
}

/// A running node.
#[derive(Debug)]
pub struct ProcessNode {
    name: String,
    root: PathBuf,
    process: Process,
    left_running: bool,
}

impl ProcessNode {
    /// Starts a node of `plane` and waits until it is Ready.
    pub async fn start(plane: &ControlPlane, options: NodeOptions) -> Result<Self> {
        Self::start_for(&plane.admin_kubeconfig(), plane.folder(), options).await
    }

    /// Starts a node of the cluster that `admin` reaches, with its state in
    /// `folder`.
    pub async fn start_for(admin: &Path, folder: &Folder, options: NodeOptions) -> Result<Self> {
        let NodeOptions {
            name,
            images,
            lifetime,
        } = options;
        let binary = programs::process_node().step(|| "finding the process node")?;
        let rbac = programs::workspace().join("e2e/process-node/rbac.yaml");
        Kubectl::new(admin)
            .run(&["apply", "-f", &rbac.to_string_lossy()])
            .await?;
        let (namespace, account) = ACCOUNT;
        let kubeconfig = kubeconfig::write_for_account(
            admin,
            namespace,
            account,
            folder.path().join(format!("{name}.kubeconfig")),
        )
        .await?;

        let root = folder.path().join(&name);
        let mut command = Command::new(binary);
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--node-name={name}"))
            .arg(format!("--root={}", root.display()))
            .arg(format!(
                "--listen={}",
                SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free_port()?))
            ))
            .arg(format!("--shutdown-grace={}s", SHUTDOWN_GRACE.as_secs()))
            .arg("--keep-logs");
        for (image, program) in &images {
            command.arg(format!("--image={image}={}", program.display()));
        }
        let process = Process::spawn("process-node", &command, &folder.log(&name), lifetime)?;
        let node = Self {
            name,
            root,
            process,
            left_running: false,
        };
        node.wait_ready(admin).await?;
        Ok(node)
    }

    /// Its name in the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it keeps the state of its pods; see [`container_in`].
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its process.
    pub fn record(&self) -> &ProcessRecord {
        self.process.record()
    }

    /// Lets a detached node go on without this owner.
    pub fn leave_running(mut self) {
        self.left_running = true;
    }

    /// The process in a pod's container: to kill it, pause it, or read its
    /// memory.
    pub fn container(&self, namespace: &str, pod: &str, container: &str) -> Result<ProcessRecord> {
        container_in(&self.root, namespace, pod, container)
    }

    /// Kills a container's process (SIGKILL). The node restarts it in place.
    pub fn kill(&self, namespace: &str, pod: &str, container: &str) -> Result<()> {
        self.container(namespace, pod, container)?
            .signal(Signal::KILL)
    }

    /// Stops a container's process where it stands (SIGSTOP).
    pub fn pause(&self, namespace: &str, pod: &str, container: &str) -> Result<()> {
        self.container(namespace, pod, container)?
            .signal(Signal::STOP)
    }

    /// Lets a paused container go on (SIGCONT).
    pub fn resume(&self, namespace: &str, pod: &str, container: &str) -> Result<()> {
        self.container(namespace, pod, container)?
            .signal(Signal::CONT)
    }

    async fn wait_ready(&self, admin: &Path) -> Result<()> {
        let nodes: Api<Node> = Api::all(kubeconfig::client(admin).await?);
        let what = format!("node {} to be Ready", self.name);
        let ready = wait::until(&what, Duration::from_mins(1), || async {
            if let Some(ended) = self.process.ended() {
                return Ok(Some(Err(ended)));
            }
            let Some(node) = nodes.get_opt(&self.name).await? else {
                return Ok(None);
            };
            let conditions = node
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            let ready = conditions
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == "True");
            Ok(ready.then_some(Ok(())))
        })
        .await;
        let log = || format!("the end of its log:\n{}", self.process.last_lines(12));
        match ready {
            Ok(Ok(())) => Ok(()),
            Ok(Err(ended)) => Err(Error::new(format!(
                "the process node ended ({ended}); {}",
                log()
            ))),
            Err(error) => Err(Error::new(format!("{error}; {}", log()))),
        }
    }
}

impl Drop for ProcessNode {
    fn drop(&mut self) {
        if !self.left_running {
            // It needs the time to end its pods.
            self.process.stop(SHUTDOWN_GRACE + Duration::from_secs(3));
        }
    }
}

/// The process of a container below the folder of a node.
pub fn container_in(
    root: &Path,
    namespace: &str,
    pod: &str,
    container: &str,
) -> Result<ProcessRecord> {
    let finding = || format!("finding the process of {namespace}/{pod}, container {container}");
    let beginning = format!("{namespace}_{pod}_");
    let pods = std::fs::read_dir(root.join("pods")).step(finding)?;
    // A pod that was deleted and made again under its name has two folders for
    // a moment; only one of them has a process.
    for entry in pods.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&beginning) {
            continue;
        }
        let file = entry.path().join(container).join("pid");
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let pid = text
            .trim()
            .parse()
            .step(|| file.display().to_string())
            .step(finding)?;
        if let Ok(record) = ProcessRecord::of(container, pid) {
            return Ok(record);
        }
    }
    Err(Error::new(format!("{}: it has none", finding())))
}
