//! A real control plane without containers: etcd, API server, controller
//! manager and scheduler as local processes, with RBAC and an audit log.
//!
//! Started on free ports in a temporary folder; ended as process groups when
//! it is dropped, also by a panic, and by the kernel if its owner is killed.

pub mod certificates;
mod components;
pub mod folder;
pub mod kubeconfig;
pub mod ports;
mod ready;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use components::Component;
use components::{AUDIT_POLICY, Layout, command};

use crate::audit::AuditLog;
use crate::error::{Error, Result, Step};
use crate::process::{Lifetime, Process, ProcessRecord};
use crate::programs;
use certificates::Authority;
use folder::Folder;

/// The client certificate of this group skips RBAC; only the harness uses it.
const ADMIN_GROUP: &str = "system:masters";

/// Names under which pods and the harness reach the API server.
const API_NAMES: [&str; 6] = [
    "127.0.0.1",
    "10.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// Ports can be lost to others between choosing and binding.
const PORT_TRIES: usize = 5;

/// How to start a control plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where its state goes; a temporary folder if not given.
    pub folder: Option<PathBuf>,
    /// Whether it ends with this process.
    pub lifetime: Lifetime,
    /// Further flags of the API server, e.g. `--feature-gates=…`.
    pub apiserver: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            folder: None,
            lifetime: Lifetime::Bound,
            apiserver: Vec::new(),
        }
    }
}

/// A running control plane.
pub struct ControlPlane {
    // Processes end before their folder goes: fields drop in this order.
    processes: Mutex<BTreeMap<Component, Arc<Process>>>,
    folder: Folder,
    arguments: BTreeMap<Component, Vec<String>>,
    binary: PathBuf,
    lifetime: Lifetime,
    flags: Vec<String>,
    api_port: u16,
}

impl ControlPlane {
    /// Starts one and waits until it serves.
    pub async fn start(options: Options) -> Result<Self> {
        let binary = programs::control_plane().step(|| "finding the control plane")?;
        let folder = match &options.folder {
            Some(path) => Folder::lasting(path)?,
            None => Folder::temporary()?,
        };
        let mut plane = Self {
            processes: Mutex::default(),
            arguments: BTreeMap::new(),
            binary,
            lifetime: options.lifetime,
            flags: options.apiserver,
            api_port: 0,
            folder,
        };
        let started = plane.start_all().await;
        if started.is_err() {
            plane.folder.keep();
        }
        started.step(|| format!("starting a control plane in {}", plane.path().display()))?;
        Ok(plane)
    }

    /// Its folder: keys, logs, the audit log, etcd's data.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder after the end, for a person to read.
    pub fn keep(&self) {
        self.folder.keep();
    }

    /// The folder itself, to put further state and logs into.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The kubeconfig of the harness itself, which skips RBAC. Code under test
    /// gets one by [`kubeconfig::write_for_account`].
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.path().join("admin.kubeconfig")
    }

    /// The API server's URL.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.api_port)
    }

    /// The API server's port on 127.0.0.1.
    pub fn api_port(&self) -> u16 {
        self.api_port
    }

    /// The certificate of the CA.
    pub fn ca(&self) -> PathBuf {
        self.path().join("pki").join("ca.crt")
    }

    /// Every request that was answered so far.
    pub fn audit_log(&self) -> AuditLog {
        AuditLog::new(self.path().join("audit.log"))
    }

    /// The processes, to find them again after this one has ended.
    pub fn records(&self) -> Vec<ProcessRecord> {
        let processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        processes
            .values()
            .map(|process| process.record().clone())
            .collect()
    }

    /// Stops `component` where it stands, as a hung machine would: connections
    /// stay open and nothing answers.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.process(component)?.pause()
    }

    /// Lets a paused component go on.
    pub fn resume(&self, component: Component) -> Result<()> {
        self.process(component)?.resume()
    }

    /// Ends `component` at once (SIGKILL).
    pub fn kill(&self, component: Component) -> Result<()> {
        self.process(component)?.kill();
        Ok(())
    }

    /// Starts a component that has ended again, on its port, and waits until
    /// it serves.
    pub async fn start_again(&self, component: Component) -> Result<()> {
        let arguments = self.arguments.get(&component).cloned().unwrap_or_default();
        let process = self.spawn(component, &arguments)?;
        match component {
            Component::Etcd => ready::etcd(&process, port_of(&arguments)?).await,
            Component::Apiserver => ready::apiserver(&process, &self.admin_kubeconfig()).await,
            Component::ControllerManager | Component::Scheduler => Ok(()),
        }
    }

    /// Kills a component and starts it again.
    pub async fn restart(&self, component: Component) -> Result<()> {
        self.kill(component)?;
        self.start_again(component).await
    }

    /// Lets a detached control plane go on without this owner.
    pub fn leave_running(self) {
        let mut processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        processes.clear();
    }

    fn process(&self, component: Component) -> Result<Arc<Process>> {
        let processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        processes
            .get(&component)
            .cloned()
            .ok_or_else(|| Error::new(format!("{component} was not started")))
    }

    fn spawn(&self, component: Component, arguments: &[String]) -> Result<Arc<Process>> {
        let command = command(&self.binary, component, arguments);
        let log = self.folder.log(component.name());
        let process = Arc::new(Process::spawn(
            component.name(),
            &command,
            &log,
            self.lifetime,
        )?);
        let mut processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        processes.insert(component, Arc::clone(&process));
        Ok(process)
    }

    async fn start_all(&mut self) -> Result<()> {
        let folder = self.path().to_owned();
        let authority = Authority::create(&folder.join("pki"))?;
        let serving = authority.server("kube-apiserver", &API_NAMES)?;
        let layout = Layout {
            folder: &folder,
            authority: &authority,
            serving: &serving,
        };
        std::fs::write(folder.join("audit-policy.yaml"), AUDIT_POLICY)?;

        let etcd_port = self.start_etcd(&folder).await?;
        self.start_apiserver(&layout, etcd_port).await?;

        for (component, user) in [
            (
                Component::ControllerManager,
                "system:kube-controller-manager",
            ),
            (Component::Scheduler, "system:kube-scheduler"),
        ] {
            let kubeconfig = folder.join(format!("{component}.kubeconfig"));
            let certificate = authority.client(component.name(), user, None)?;
            kubeconfig::write_for_certificate(
                &kubeconfig,
                &self.server(),
                &authority.ca(),
                &certificate,
            )?;
            let arguments = match component {
                Component::ControllerManager => {
                    components::controller_manager(&layout, &kubeconfig)
                }
                _ => components::scheduler(&kubeconfig),
            };
            self.spawn(component, &arguments)?;
            self.arguments.insert(component, arguments);
        }
        let controllers = self.process(Component::ControllerManager)?;
        ready::default_account(&controllers, &self.admin_kubeconfig()).await
    }

    async fn start_etcd(&mut self, folder: &Path) -> Result<u16> {
        let mut tries = 0;
        loop {
            let (port, peer_port) = (ports::free_port()?, ports::free_port()?);
            let arguments = components::etcd(folder, port, peer_port);
            let process = self.spawn(Component::Etcd, &arguments)?;
            tries += 1;
            match ready::etcd(&process, port).await {
                Err(_) if tries < PORT_TRIES && process.lost_its_port() => {}
                outcome => {
                    self.arguments.insert(Component::Etcd, arguments);
                    return outcome.map(|()| port);
                }
            }
        }
    }

    async fn start_apiserver(&mut self, layout: &Layout<'_>, etcd_port: u16) -> Result<()> {
        let admin = layout
            .authority
            .client("admin", "leasehold-harness", Some(ADMIN_GROUP))?;
        let mut tries = 0;
        loop {
            self.api_port = ports::free_port()?;
            let kubeconfig = self.admin_kubeconfig();
            kubeconfig::write_for_certificate(
                &kubeconfig,
                &self.server(),
                &layout.authority.ca(),
                &admin,
            )?;
            let mut arguments = components::apiserver(layout, self.api_port, etcd_port);
            arguments.extend(self.flags.iter().cloned());
            let process = self.spawn(Component::Apiserver, &arguments)?;
            tries += 1;
            match ready::apiserver(&process, &kubeconfig).await {
                Err(_) if tries < PORT_TRIES && process.lost_its_port() => {}
                outcome => {
                    self.arguments.insert(Component::Apiserver, arguments);
                    return outcome;
                }
            }
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let mut processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // From the last to the first, so that none logs the loss of another.
        while let Some((_, process)) = processes.pop_last() {
            process.stop(Duration::ZERO);
        }
    }
}

/// The client port among etcd's arguments.
fn port_of(arguments: &[String]) -> Result<u16> {
    arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("--listen-client-urls=http://127.0.0.1:"))
        .and_then(|port| port.parse().ok())
        .ok_or_else(|| Error::new("etcd was not started"))
}
