//! A cluster: one process's membership, its lease store, and the services it registers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use leasehold_core::id::Identity;
use leasehold_core::partition::Partition;
use tokio::sync::watch;

use crate::changes::{self, LeadershipChanges};
use crate::clock::Clock;
use crate::config::{Driver, Environment};
use crate::driver::LeaseStore;
use crate::driver::memory::MemoryStore;
use crate::error::StartError;
use crate::key::LeaseKey;
use crate::partitions::Shared;
use crate::service::ServiceBuilder;
use crate::view::{Board, ClusterView};

mod builder;

pub use builder::ClusterBuilder;

/// This process as a member. Cheap to clone; every service is registered through it.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    environment: Environment,
    identity: Identity,
    node_id: String,
    namespace: String,
    token_era: u32,
    driver: Driver,
    source: Source,
    store: OnceLock<Result<Arc<dyn LeaseStore>, String>>,
    /// Why a cluster-scoped service cannot start here; found when the first one does.
    store_problems: Vec<String>,
    clock: Clock,
    shutdown: watch::Sender<bool>,
    running: watch::Sender<usize>,
    services: Mutex<BTreeMap<u64, Registered>>,
    _tasks: Vec<AbortOnDrop>,
}

/// Where the lease store comes from when it is first used.
enum Source {
    Memory,
    #[cfg(feature = "kubernetes")]
    Kubernetes(Box<kube::Config>),
    #[cfg(any(test, feature = "testing"))]
    Given(Arc<dyn LeaseStore>),
    /// Not available; `store_problems` says why.
    Nothing,
}

struct Registered {
    service: String,
    /// The key it contends for, if anything is elected.
    key: Option<LeaseKey>,
    board: Arc<Board>,
    partitions: Option<Arc<Shared>>,
}

impl Cluster {
    /// Begins a configuration in code; what it leaves open, `LEASEHOLD_*` variables decide.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::new()
    }

    /// A cluster that `LEASEHOLD_*` variables describe; in memory, if there are none and this is
    /// no pod.
    pub async fn from_env() -> Result<Self, StartError> {
        Self::builder().build().await
    }

    /// Begins the registration of a service.
    pub fn service(&self, name: impl Into<String>) -> ServiceBuilder {
        ServiceBuilder::new(self.clone(), name.into())
    }

    /// The leadership changes of a cluster id, seen by an observer that never campaigns.
    pub fn leadership_changes(&self, cluster_id: &str) -> Result<LeadershipChanges, StartError> {
        let key = LeaseKey::new(cluster_id)
            .map_err(|error| StartError::new(format!("cluster id: {error}")))?;
        StartError::unless_empty(self.problems_with_store())?;
        Ok(changes::observe(
            self.store()?,
            self.inner.clock.clone(),
            key,
        ))
    }

    /// The partition of a key, for a partitioned service of this process; `None` if none with this
    /// cluster id runs here.
    pub fn partition_for(&self, cluster_id: &str, key: impl AsRef<[u8]>) -> Option<Partition> {
        let services = self.inner.services();
        let of_id = |registered: &&Registered| {
            let id = registered.key.as_ref();
            id.is_some_and(|id| id.cluster_id() == cluster_id)
        };
        let shared = services.values().find(of_id)?.partitions.as_ref()?;
        Some(shared.partition_for(key.as_ref()))
    }

    /// The name of this node: the pod, or the node id outside a pod.
    pub fn node_id(&self) -> &str {
        &self.inner.node_id
    }

    /// The name of the lease store: `memory` or `kubernetes`.
    pub fn driver(&self) -> &'static str {
        match self.inner.driver {
            Driver::Memory => "memory",
            Driver::Kubernetes => "kubernetes",
        }
    }

    /// This process, as it stands in the leases it holds.
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// Begins the shutdown: no campaign any more; leaders drain, then release (E10).
    pub fn shutdown(&self) {
        self.inner.shutdown.send_replace(true);
    }

    /// Returns when a shutdown was begun and every service has ended.
    pub async fn closed(&self) {
        let mut shutdown = self.inner.shutdown.subscribe();
        let mut running = self.inner.running.subscribe();
        // Both senders live in `self`.
        let _ = shutdown.wait_for(|asked| *asked).await;
        let _ = running.wait_for(|count| *count == 0).await;
    }

    /// Shuts down, and returns when every service has ended.
    pub async fn close(&self) {
        self.shutdown();
        self.closed().await;
    }

    /// What this process believes and waits for, service by service.
    pub fn view(&self) -> ClusterView {
        let services = self.inner.services();
        ClusterView {
            identity: self.inner.identity.to_string(),
            driver: self.driver().to_owned(),
            namespace: self.inner.namespace.clone(),
            services: services
                .values()
                .map(|registered| registered.board.status())
                .collect(),
        }
    }

    /// Metrics of this process as OpenMetrics text, without the final EOF line, so that a
    /// program's own can follow.
    #[cfg(feature = "metrics")]
    pub fn metrics(&self) -> String {
        crate::metrics::expose(&self.view().services)
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.inner.environment
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub(crate) fn token_era(&self) -> u32 {
        self.inner.token_era
    }

    pub(crate) fn shutdown_asked(&self) -> watch::Receiver<bool> {
        self.inner.shutdown.subscribe()
    }

    /// Why a cluster-scoped service cannot start. Counts only a store that is about to be used.
    pub(crate) fn problems_with_store(&self) -> Vec<String> {
        let mut problems = self.inner.store_problems.clone();
        if self.inner.driver == Driver::Memory {
            problems.extend(self.inner.environment.problems_with_memory());
        }
        problems
    }

    /// The lease store, made when it is first used.
    pub(crate) fn store(&self) -> Result<Arc<dyn LeaseStore>, StartError> {
        let store = self.inner.store.get_or_init(|| self.inner.make_store());
        store.clone().map_err(StartError::new)
    }

    /// Notes that a service runs, until the registration is dropped.
    pub(crate) fn register(
        &self,
        service: &str,
        key: Option<LeaseKey>,
        board: Arc<Board>,
    ) -> Result<Registration, StartError> {
        let mut services = self.inner.services();
        let same = |other: &&Registered| key.is_some() && other.key == key;
        if let (Some(other), Some(key)) = (services.values().find(same), &key) {
            return Err(StartError::new(format!(
                "service {service:?}: cluster id {:?} is already used by service {:?} of this \
                 process; call cluster_id() with another one",
                key.cluster_id(),
                other.service
            )));
        }
        let number = services.keys().next_back().map_or(0, |last| last + 1);
        services.insert(
            number,
            Registered {
                service: service.to_owned(),
                key,
                board,
                partitions: None,
            },
        );
        drop(services);
        self.inner.running.send_modify(|count| *count += 1);
        Ok(Registration {
            inner: Arc::clone(&self.inner),
            number,
        })
    }
}

impl Cluster {
    /// Notes what the service with this key knows of its partitions.
    pub(crate) fn note_partitions(&self, key: &LeaseKey, shared: &Arc<Shared>) {
        let mut services = self.inner.services();
        let mut all = services.values_mut();
        if let Some(registered) = all.find(|registered| registered.key.as_ref() == Some(key)) {
            registered.partitions = Some(Arc::clone(shared));
        }
    }
}

impl Inner {
    fn make_store(&self) -> Result<Arc<dyn LeaseStore>, String> {
        match &self.source {
            Source::Memory => Ok(Arc::new(MemoryStore::of_process(
                &self.namespace,
                self.clock.clone(),
            ))),
            #[cfg(feature = "kubernetes")]
            Source::Kubernetes(config) => crate::driver::kubernetes::KubernetesStore::new(
                config.as_ref().clone(),
                &self.namespace,
                self.clock.clone(),
            )
            .map(|store| Arc::new(store) as Arc<dyn LeaseStore>)
            .map_err(|error| error.to_string()),
            #[cfg(any(test, feature = "testing"))]
            Source::Given(store) => Ok(Arc::clone(store)),
            Source::Nothing => Err(self.store_problems.join("; ")),
        }
    }

    fn services(&self) -> MutexGuard<'_, BTreeMap<u64, Registered>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running service. Held by whoever must have ended before the cluster is closed.
pub(crate) struct Registration {
    inner: Arc<Inner>,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.inner.services().remove(&self.number);
        self.inner
            .running
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// A task that ends with the cluster.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
