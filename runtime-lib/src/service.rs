//! A service: work that runs on every node, or on the one that leads.

use std::future::Future;
use std::sync::Arc;

use leasehold_core::id::Identity;
use leasehold_core::lease::LeaseTiming;
use leasehold_core::time::Duration;
use tokio::sync::mpsc;

use crate::changes::Hub;
use crate::cluster::{Cluster, Registration};
use crate::elector::{Elector, Ends, Setup};
use crate::error::{RunError, StartError};
use crate::key::LeaseKey;
use crate::leadership::Leadership;
use crate::partitions::PartitionedBuilder;
use crate::settings::Sources;
use crate::view::Board;
use crate::watchdog::{Veto, Watchdog};

mod running;

pub use running::ServiceHandle;
pub(crate) use running::panic_text;
use running::{Kind, Local, Started};

/// Where the work of a service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Scope {
    /// On every node, each for itself; nothing is elected.
    #[default]
    Node,
    /// On the nodes that the strategy names.
    Cluster,
}

/// Describes a service before it starts.
#[must_use = "a service does nothing until it is run or spawned"]
pub struct ServiceBuilder {
    pub(crate) cluster: Cluster,
    pub(crate) name: String,
    cluster_id: Option<String>,
    scope: Option<Scope>,
    leader_elected: bool,
    partitioned: bool,
    timing: Option<LeaseTiming>,
    drain_timeout: Option<Duration>,
    pub(crate) veto: Option<Veto>,
    pub(crate) progress_timeout: Option<Duration>,
}

impl ServiceBuilder {
    pub(crate) fn new(cluster: Cluster, name: String) -> Self {
        Self {
            cluster,
            name,
            cluster_id: None,
            scope: None,
            leader_elected: false,
            partitioned: false,
            timing: None,
            drain_timeout: None,
            veto: None,
            progress_timeout: None,
        }
    }

    /// The leadership this service contends for; default: `LEASEHOLD_CLUSTER_ID`, else the
    /// service's name. Differently named services with one id share one leader.
    pub fn cluster_id(mut self, id: impl Into<String>) -> Self {
        self.cluster_id = Some(id.into());
        self
    }

    /// Where the work runs; default: [`Scope::Node`], or [`Scope::Cluster`] under
    /// `LEASEHOLD_CLUSTER=true`.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Cluster scope, and the work runs on one elected node.
    pub fn leader_elected(mut self) -> Self {
        self.leader_elected = true;
        self
    }

    /// Cluster scope, and each partition of the keys is worked on by one node. Everything else
    /// that this builder offers is said before it.
    pub fn partitioned(mut self) -> PartitionedBuilder {
        self.partitioned = true;
        PartitionedBuilder::new(self)
    }

    /// Fixes the election's timing. Otherwise the declared settings, then the environment decide.
    pub fn timing(mut self, timing: LeaseTiming) -> Self {
        self.timing = Some(timing);
        self
    }

    /// Fixes how long the work may take to end after [`Leadership::draining`]; default: the
    /// declared settings, then `LEASEHOLD_DRAIN_TIMEOUT`, then 25 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = Some(timeout);
        self
    }

    /// A veto: while it returns false, this process neither leads nor campaigns. It is asked four
    /// times a heartbeat and must not block.
    pub fn healthy(mut self, is_healthy: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.veto = Some(Box::new(is_healthy));
        self
    }

    /// The work promises to call [`Leadership::progress`] at least this often; a leader that does
    /// not steps down. This finds work that waits for ever; work that blocks its thread for
    /// longer than the stop budget is found without it.
    pub fn progress_timeout(mut self, timeout: Duration) -> Self {
        self.progress_timeout = Some(timeout);
        self
    }

    /// Runs the service until the cluster shuts down. `work` is called at the beginning of every
    /// term; its future is dropped when the term is lost. Work that returns gives the term back;
    /// after a while this process campaigns again.
    pub async fn run<W, F>(self, work: W) -> Result<(), RunError>
    where
        W: FnMut(Leadership) -> F + Send,
        F: Future<Output = ()> + Send,
    {
        self.start()?.drive(work).await
    }

    /// The same in a task of its own.
    pub fn spawn<W, F>(self, work: W) -> Result<ServiceHandle, StartError>
    where
        W: FnMut(Leadership) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let started = self.start()?;
        let (hub, board) = (Arc::clone(&started.hub), Arc::clone(&started.board));
        let commands = started.commands.clone();
        let task = tokio::spawn(started.drive(work));
        Ok(ServiceHandle {
            hub,
            board,
            commands,
            task: Some(task),
        })
    }

    /// Checks everything and starts the election, if there is one.
    fn start(self) -> Result<Started, StartError> {
        let key = self.check()?;
        let clock = self.cluster.clock().clone();
        let shown = key
            .as_ref()
            .map_or(self.name.as_str(), LeaseKey::cluster_id);
        let board = Board::new(&self.name, shown, clock);
        let registration = self
            .cluster
            .register(&self.name, key.clone(), Arc::clone(&board))?;
        let hub = Hub::new();
        let (commands, kind) = if let Some(key) = key {
            let ends = self.elect(key, &hub, &board, registration)?;
            (ends.commands.clone(), Kind::Elected(ends))
        } else {
            let (commands, queue) = mpsc::unbounded_channel();
            let drain_timeout = self.sources().drain_timeout();
            let local = Local {
                cluster: self.cluster.clone(),
                queue,
                drain_timeout,
                _registration: registration,
            };
            (commands, Kind::Local(local))
        };
        Ok(Started {
            hub,
            board,
            commands,
            kind,
        })
    }

    fn is_elected(&self) -> bool {
        let by_default = self.cluster.environment().clustered && self.scope.is_none();
        let by_strategy = self.leader_elected || self.partitioned;
        by_strategy || by_default || self.scope == Some(Scope::Cluster)
    }

    fn check(&self) -> Result<Option<LeaseKey>, StartError> {
        let (key, problems) = self.find_problems();
        StartError::unless_empty(problems).map(|()| key)
    }

    /// Every problem of this service at once; the key, if anything is elected.
    pub(crate) fn find_problems(&self) -> (Option<LeaseKey>, Vec<String>) {
        let environment = self.cluster.environment();
        let mut problems = Vec::new();
        let strategy = match (self.leader_elected, self.partitioned) {
            (true, true) => {
                problems.push(format!(
                    "service {:?}: leader_elected() and partitioned() contradict each other: \
                     remove one",
                    self.name
                ));
                None
            }
            (true, false) => Some("leader_elected()"),
            (false, true) => Some("partitioned()"),
            (false, false) => None,
        };
        match (self.scope, strategy) {
            (Some(Scope::Cluster), None) if !self.partitioned => problems.push(format!(
                "service {:?}: scope cluster needs a strategy: call leader_elected() or \
                 partitioned()",
                self.name
            )),
            (Some(Scope::Node), Some(strategy)) => problems.push(format!(
                "service {:?}: scope node and {strategy} contradict each other: remove one",
                self.name
            )),
            _ => {}
        }
        if !self.is_elected() {
            return (None, problems);
        }
        let text = self.cluster_id.clone();
        let text = text.or_else(|| environment.cluster_id.as_ref().map(ToString::to_string));
        let key = LeaseKey::new(text.unwrap_or_else(|| self.name.clone()))
            .map_err(|error| {
                problems.push(format!(
                    "cluster id of service {:?}: {error}; call cluster_id() or set \
                     LEASEHOLD_CLUSTER_ID",
                    self.name
                ));
            })
            .ok();
        problems.extend(self.cluster.problems_with_store());
        (key, problems)
    }

    pub(crate) fn sources(&self) -> Sources {
        let environment = self.cluster.environment();
        Sources {
            code_timing: self.timing,
            env_timing: environment.timing,
            code_drain: self.drain_timeout,
            env_drain: environment.drain_timeout,
            env_partitions: environment.partitions,
            ..Sources::default()
        }
    }

    fn elect(
        self,
        key: LeaseKey,
        hub: &Arc<Hub>,
        board: &Arc<Board>,
        registration: Registration,
    ) -> Result<Ends, StartError> {
        let (identity, may_reclaim) = identity_for(&self.cluster, &key);
        let setup = Setup {
            sources: self.sources(),
            partitioned: false,
            may_reclaim,
            token_era: self.cluster.token_era(),
            store: self.cluster.store()?,
            clock: self.cluster.clock().clone(),
            watchdog: Watchdog::new(self.veto, self.progress_timeout),
            service: self.name,
            key,
            identity,
            hub: Arc::clone(hub),
            board: Arc::clone(board),
            registration: Arc::new(registration),
        };
        Ok(Elector::start(setup, self.cluster.shutdown_asked()))
    }
}

/// The identity under which this process contends for a key, and whether it may reclaim it.
pub(crate) fn identity_for(cluster: &Cluster, key: &LeaseKey) -> (Identity, bool) {
    let identity = cluster.identity().clone();
    let may_reclaim = crate::reclaim::may_reclaim(&identity, key);
    // E8: without the proof nobody may take this process for one that has ended.
    let identity = if may_reclaim {
        identity
    } else {
        identity.as_stranger()
    };
    (identity, may_reclaim)
}
