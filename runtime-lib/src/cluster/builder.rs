//! From code and environment to a cluster, with every problem listed at once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use leasehold_core::id::Identity;
use tokio::sync::watch;

use super::{AbortOnDrop, Cluster, Inner, Source};
use crate::clock::Clock;
use crate::config::{Driver, Environment};
use crate::error::StartError;
use crate::identity::{self, Pod};
use crate::key::LeaseKey;

/// Describes a cluster. What stays open is decided by `LEASEHOLD_*` variables, then by where the
/// process runs.
#[must_use = "a builder does nothing until it is built"]
pub struct ClusterBuilder {
    driver: Option<Driver>,
    #[cfg(feature = "kubernetes")]
    config: Option<kube::Config>,
    namespace: Option<String>,
    identity: Option<Identity>,
    token_era: Option<u32>,
    signals: bool,
    variables: Option<BTreeMap<String, String>>,
    account: PathBuf,
    #[cfg(any(test, feature = "testing"))]
    store: Option<Arc<dyn crate::driver::LeaseStore>>,
    clock: Clock,
}

impl ClusterBuilder {
    pub(super) fn new() -> Self {
        Self {
            driver: None,
            #[cfg(feature = "kubernetes")]
            config: None,
            namespace: None,
            identity: None,
            token_era: None,
            signals: true,
            variables: None,
            account: identity::service_account_folder(),
            #[cfg(any(test, feature = "testing"))]
            store: None,
            clock: Clock::boot(),
        }
    }

    /// Leases in the memory of this process: for one process, and for tests.
    pub fn memory(mut self) -> Self {
        self.driver = Some(Driver::Memory);
        self
    }

    /// Leases on Kubernetes: in a pod with its service account, elsewhere with the kubeconfig.
    pub fn kubernetes(mut self) -> Self {
        self.driver = Some(Driver::Kubernetes);
        self
    }

    /// Leases on Kubernetes, reached with `config`.
    #[cfg(feature = "kubernetes")]
    pub fn kubernetes_with(mut self, config: kube::Config) -> Self {
        self.driver = Some(Driver::Kubernetes);
        self.config = Some(config);
        self
    }

    /// The namespace of the leases; default: `LEASEHOLD_NAMESPACE`, the pod's own, the
    /// kubeconfig's, `default`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The identity of this process, for programs that are no pod. It must never be used twice.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Do SIGTERM and SIGINT begin the shutdown? Default: yes.
    pub fn signals(mut self, signals: bool) -> Self {
        self.signals = signals;
        self
    }

    /// First half of every fencing token; raised by people after a restore of the cluster's
    /// storage (E7). Default: `LEASEHOLD_TOKEN_ERA`, else 0.
    pub fn token_era(mut self, era: u32) -> Self {
        self.token_era = Some(era);
        self
    }

    /// Variables to read instead of the process's environment.
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        let pairs = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.variables = Some(pairs.collect());
        self
    }

    /// A store of the test's own.
    #[cfg(any(test, feature = "testing"))]
    pub fn store(mut self, store: Arc<dyn crate::driver::LeaseStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// A clock of the test's own.
    #[cfg(any(test, feature = "testing"))]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// A service-account folder of the test's own.
    #[cfg(any(test, feature = "testing"))]
    pub fn account(mut self, folder: impl Into<PathBuf>) -> Self {
        self.account = folder.into();
        self
    }

    /// Checks everything; an error lists every problem. Must be called within a tokio runtime.
    pub async fn build(mut self) -> Result<Cluster, StartError> {
        let given = self
            .variables
            .take()
            .map(|variables| (variables, Vec::new()));
        let (variables, mut problems) = given.unwrap_or_else(process_variables);
        let (environment, found) = Environment::read(&variables);
        problems.extend(found);
        let pod = environment
            .in_pod
            .then(|| identity::read_pod(&self.account));
        let readable = pod.as_ref().and_then(|pod| pod.as_ref().ok());
        let by_default = if environment.in_pod {
            Driver::Kubernetes
        } else {
            Driver::Memory
        };
        let chosen = self.driver.or(environment.driver);
        let driver = chosen.unwrap_or(by_default);

        let has_own_store = self.has_own_store();
        let mut store_problems = Vec::new();
        let (source, config_namespace) = match self.source(driver, &environment).await {
            Ok(found) => found,
            Err(problem) => {
                // Asked for, it is an error now; by default, only once it is needed.
                let list = if chosen.is_some() {
                    &mut problems
                } else {
                    &mut store_problems
                };
                list.push(problem);
                (Source::Nothing, None)
            }
        };
        if let (Some(Err(problem)), false) = (&pod, has_own_store) {
            store_problems.push(format!(
                "a cluster-scoped service in a pod needs its service account: {problem}; set \
                 automountServiceAccountToken: true in the pod's spec"
            ));
        }
        let namespace =
            self.find_namespace(&environment, readable, config_namespace, &mut problems);
        let identity = match self.identity.take() {
            Some(identity) => Ok(identity),
            None => identity::new_identity(readable, environment.node_id.as_deref()),
        };
        let identity = identity.map_err(|problem| problems.push(problem)).ok();
        StartError::unless_empty(problems)?;
        let identity = identity.ok_or_else(|| StartError::new("no identity"))?;
        Ok(self.finish(
            environment,
            readable,
            driver,
            source,
            store_problems,
            namespace,
            identity,
        ))
    }

    #[allow(clippy::too_many_arguments)] // everything that build() has found out, once
    fn finish(
        self,
        environment: Environment,
        pod: Option<&Pod>,
        driver: Driver,
        source: Source,
        store_problems: Vec<String>,
        namespace: String,
        identity: Identity,
    ) -> Cluster {
        let node_id = pod
            .and_then(|pod| pod.name.clone())
            .or_else(|| environment.node_id.clone());
        let shutdown = watch::Sender::new(false);
        let mut tasks = vec![AbortOnDrop(tokio::spawn(
            self.clock.clone().watch_for_resume(),
        ))];
        if self.signals {
            tasks.push(AbortOnDrop(tokio::spawn(shut_down_on_signal(
                shutdown.clone(),
            ))));
        }
        let token_era = self.token_era.or(environment.token_era).unwrap_or(0);
        tracing::info!(
            %identity, ?driver, namespace, token_era,
            node = pod.and_then(|pod| pod.node.as_deref()),
            timing = ?environment.timing, drain_timeout = ?environment.drain_timeout,
            "configuration in force"
        );
        let inner = Inner {
            node_id: node_id.unwrap_or_else(identity::host_name),
            environment,
            identity,
            namespace,
            token_era,
            driver,
            source,
            store: OnceLock::new(),
            store_problems,
            clock: self.clock,
            shutdown,
            running: watch::Sender::new(0),
            services: Mutex::default(),
            _tasks: tasks,
        };
        Cluster {
            inner: Arc::new(inner),
        }
    }

    /// The way to the store was given in code, so that no account of the pod is needed.
    #[allow(clippy::unused_self)] // without features nothing can be given
    fn has_own_store(&self) -> bool {
        #[cfg(any(test, feature = "testing"))]
        if self.store.is_some() {
            return true;
        }
        #[cfg(feature = "kubernetes")]
        if self.config.is_some() {
            return true;
        }
        false
    }

    /// The source of the store, and the namespace that its configuration names.
    async fn source(
        &mut self,
        driver: Driver,
        environment: &Environment,
    ) -> Result<(Source, Option<String>), String> {
        #[cfg(any(test, feature = "testing"))]
        if let Some(store) = self.store.clone() {
            return Ok((Source::Given(store), None));
        }
        match driver {
            Driver::Memory => Ok((Source::Memory, None)),
            Driver::Kubernetes => self.kubernetes_source(environment).await,
        }
    }

    #[cfg(feature = "kubernetes")]
    async fn kubernetes_source(
        &mut self,
        environment: &Environment,
    ) -> Result<(Source, Option<String>), String> {
        use crate::driver::kubernetes::{config_from_kubeconfig, config_of_pod};
        let config = match self.config.take() {
            Some(config) => config,
            None if environment.in_pod => config_of_pod().map_err(|error| error.to_string())?,
            None => config_from_kubeconfig()
                .await
                .map_err(|error| error.to_string())?,
        };
        let namespace = config.default_namespace.clone();
        Ok((Source::Kubernetes(Box::new(config)), Some(namespace)))
    }

    #[cfg(not(feature = "kubernetes"))]
    #[allow(clippy::unused_async, clippy::unused_self)] // the same call in both builds
    async fn kubernetes_source(
        &mut self,
        _environment: &Environment,
    ) -> Result<(Source, Option<String>), String> {
        Err(
            "leases on Kubernetes: this program was built without the feature `kubernetes` of the \
             crate `leasehold`; enable it, or set LEASEHOLD_LEASES_DRIVER=memory"
                .to_owned(),
        )
    }

    fn find_namespace(
        &self,
        environment: &Environment,
        pod: Option<&Pod>,
        of_config: Option<String>,
        problems: &mut Vec<String>,
    ) -> String {
        if let Some(namespace) = &self.namespace {
            if let Err(error) = LeaseKey::new(namespace.as_str()) {
                problems.push(format!("namespace: {error}"));
            }
            return namespace.clone();
        }
        let named = environment.namespace.clone();
        let named = named.or_else(|| pod.and_then(|pod| pod.namespace.clone()));
        named.or(of_config).unwrap_or_else(|| "default".to_owned())
    }
}

/// The process's variables; one that is no text is a problem if it is ours.
fn process_variables() -> (BTreeMap<String, String>, Vec<String>) {
    let mut variables = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => {
                variables.insert(name, value);
            }
            (Ok(name), Err(_)) if name.starts_with("LEASEHOLD_") => {
                problems.push(format!(
                    "{name}: found bytes that are no UTF-8, allowed is text"
                ));
            }
            _ => {}
        }
    }
    (variables, problems)
}

/// SIGTERM and SIGINT begin the shutdown. Later ones change nothing: the drain has its timeout.
async fn shut_down_on_signal(shutdown: watch::Sender<bool>) {
    use tokio::signal::unix::{SignalKind, signal};
    let streams = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    );
    let (Ok(mut terminate), Ok(mut interrupt)) = streams else {
        tracing::warn!("signals cannot be listened to; call shutdown() instead");
        return;
    };
    loop {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        shutdown.send_replace(true);
        tracing::info!(signal = name, "shutting down: leaders drain, then release");
    }
}
