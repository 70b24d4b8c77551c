//! What everyone believes and waits for: status of a service, debug view of a cluster.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::election::{View, Waiting};
use leasehold_core::lease::LeaseTiming;
use leasehold_core::time::Instant;
use serde::Serialize;

use crate::clock::Clock;
use crate::driver::{Marks, StoreError};

/// The beliefs of one process, for a debug page.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ClusterView {
    /// This process, as in the holder of a lease.
    pub identity: String,
    /// The lease store.
    pub driver: String,
    /// Its namespace.
    pub namespace: String,
    /// One entry for each service that was started.
    pub services: Vec<ServiceStatus>,
}

/// What one service believes and waits for.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ServiceStatus {
    /// The service's name.
    pub service: String,
    /// Its cluster id.
    pub cluster_id: String,
    /// What this process is: `node`, `candidate`, `leader`, `draining`, `ending` or `stopped`.
    pub role: &'static str,
    /// The holder in the newest record seen.
    pub holder: Option<String>,
    /// The highest term seen.
    pub term: u32,
    /// The own fencing token, while leading.
    pub token: Option<String>,
    /// For how many seconds the own leadership may act if no renewal succeeds.
    pub trusted_for_s: Option<f64>,
    /// What it waits for.
    pub waits_for: String,
    /// In how many seconds the wait ends, if that is known.
    pub until_s: Option<f64>,
    /// Failed requests in a row.
    pub failures: u32,
    /// The last error of the lease store, until it serves again.
    pub last_error: Option<String>,
    /// The generation of the declared settings in force.
    pub settings_generation: Option<i64>,
    /// Why the declared settings are ignored.
    pub settings_problem: Option<String>,
    /// The values fixed in code, in the format of the settings.
    pub fixed: Option<String>,
    /// Lease duration in force, in seconds.
    pub lease_duration_s: f64,
    /// What this process has of the partitions; `None` if the service has none.
    pub partitions: Option<PartitionsStatus>,
}

/// What one member has of the partitions of its cluster id, and what it waits for.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PartitionsStatus {
    /// The member's name: the pod, or the node id.
    pub member: String,
    /// Its present life; `None` while it does not hold its member lease.
    pub incarnation: Option<u32>,
    /// What the member is: `candidate`, `joining`, `member`, `leaving`, `ending` or `stopped`.
    pub state: &'static str,
    /// How many partitions there are, by the newest table.
    pub total: Option<u16>,
    /// The epoch of that table.
    pub epoch: Option<u64>,
    /// Partitions whose work runs here.
    pub owned: usize,
    /// Partitions whose work was asked to finish, because another member takes them over.
    pub draining: usize,
    /// Partitions that are ours and wait for their former owners.
    pub waiting: usize,
    /// The first of those, with whom each of them waits for.
    pub waits_for_members: Vec<WaitingPartition>,
    /// What the member lease waits for.
    pub waits_for: String,
    /// In how many seconds that wait ends, if it is known.
    pub until_s: Option<f64>,
    /// For how many seconds everything here may act if no renewal succeeds.
    pub trusted_for_s: Option<f64>,
    /// Why the newest table is not used.
    pub table_problem: Option<String>,
}

/// A partition that is ours, and whom it waits for.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WaitingPartition {
    /// Its number.
    pub partition: u16,
    /// The members that have not released it, as `<name>#<incarnation>`.
    pub members: Vec<String>,
}

/// Where an elector writes what it believes, and anybody reads it.
pub(crate) struct Board {
    service: String,
    cluster_id: String,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    belief: Option<Belief>,
    /// Reason and text.
    last_error: Option<(&'static str, String)>,
    watch_error: Option<String>,
    settings_problem: Option<String>,
    overrun: bool,
    partitions: Option<PartitionsStatus>,
}

struct Belief {
    view: View,
    marks: Marks,
    timing: LeaseTiming,
}

impl Board {
    pub(crate) fn new(service: &str, cluster_id: &str, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            service: service.to_owned(),
            cluster_id: cluster_id.to_owned(),
            clock,
            state: Mutex::default(),
        })
    }

    pub(crate) fn show(&self, view: View, marks: Marks, timing: LeaseTiming) {
        self.state().belief = Some(Belief {
            view,
            marks,
            timing,
        });
    }

    pub(crate) fn show_partitions(&self, status: PartitionsStatus) {
        self.state().partitions = Some(status);
    }

    /// Returns true if the last error had another reason.
    pub(crate) fn note_error(&self, error: &StoreError) -> bool {
        let mut state = self.state();
        let is_new = state.last_error.as_ref().map(|(reason, _)| *reason) != Some(error.reason());
        state.last_error = Some((error.reason(), error.to_string()));
        is_new
    }

    pub(crate) fn note_success(&self) {
        self.state().last_error = None;
    }

    /// The watch is down because of this; `None`: it is up.
    pub(crate) fn note_watch(&self, error: Option<String>) {
        self.state().watch_error = error;
    }

    /// Returns true if this is another problem than the last one.
    pub(crate) fn note_settings_problem(&self, problem: Option<&str>) -> bool {
        let mut state = self.state();
        let is_new = state.settings_problem.as_deref() != problem;
        state.settings_problem = problem.map(str::to_owned);
        is_new
    }

    pub(crate) fn note_overrun(&self) {
        self.state().overrun = true;
    }

    /// A drain took longer than its timeout.
    pub(crate) fn overran(&self) -> bool {
        self.state().overrun
    }

    pub(crate) fn status(&self) -> ServiceStatus {
        let state = self.state();
        let now = self.clock.now();
        let last_error = state.last_error.as_ref().map(|(_, text)| text.clone());
        let mut status = ServiceStatus {
            service: self.service.clone(),
            cluster_id: self.cluster_id.clone(),
            role: "node",
            holder: None,
            term: 0,
            token: None,
            trusted_for_s: None,
            waits_for: "nothing: every node does this work".to_owned(),
            until_s: None,
            failures: 0,
            last_error: last_error.or_else(|| state.watch_error.clone()),
            settings_generation: None,
            settings_problem: state.settings_problem.clone(),
            fixed: None,
            lease_duration_s: LeaseTiming::DEFAULT.lease_duration().as_secs_f64(),
            partitions: state.partitions.clone(),
        };
        let Some(belief) = &state.belief else {
            return status;
        };
        let (waits_for, until) = describe(&belief.view);
        status.role = role(&belief.view);
        status.holder.clone_from(&belief.view.holder);
        status.term = belief.view.term.number();
        status.waits_for = waits_for;
        status.until_s = until.map(|until| until.since(now).as_secs_f64());
        status.failures = belief.view.failures;
        status.settings_generation = belief.marks.settings_generation;
        status.fixed.clone_from(&belief.marks.fixed);
        status.lease_duration_s = belief.timing.lease_duration().as_secs_f64();
        if let Some((token, trusted_until)) = belief.view.leading {
            status.token = Some(token.to_string());
            status.trusted_for_s = Some(trusted_until.since(now).as_secs_f64());
        }
        status
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn role(view: &View) -> &'static str {
    match (view.waiting, view.leading) {
        (Waiting::Nothing, _) => "stopped",
        (Waiting::Drain { .. }, _) => "draining",
        (Waiting::WorkToEnd, _) => "ending",
        (_, Some(_)) => "leader",
        (_, None) => "candidate",
    }
}

/// Whoever waits says for what, and until when.
pub(crate) fn describe(view: &View) -> (String, Option<Instant>) {
    let known = |text: &str| text.to_owned();
    match view.waiting {
        Waiting::News => (known("the first news from the lease store"), None),
        Waiting::Vacancy(vacancy) => {
            let holder: String = view
                .holder
                .as_deref()
                .unwrap_or("nobody")
                .chars()
                .take(200)
                .collect();
            (
                format!("the lease to be vacant (held by {holder}; {})", vacancy.why),
                Some(vacancy.from),
            )
        }
        Waiting::Answer => (known("an answer from the lease store"), None),
        Waiting::Retry(at) => (known("the next attempt after a failure"), Some(at)),
        Waiting::Health => (known("the work to be healthy again"), None),
        Waiting::Heartbeat(at) => (known("the next renewal"), Some(at)),
        Waiting::Drain { until } => (known("the work to end (draining)"), Some(until)),
        Waiting::WorkToEnd => (known("the work of a lost term to end"), None),
        Waiting::Nothing => (known("nothing: it is shut down"), None),
    }
}
