//! Partitions: every partition of a cluster id is worked on by exactly one member.
//!
//! One service runs two tasks beside its election of a leader:
//!
//! - the `member` holds the member lease of this process, runs the works of the partitions
//!   that the table gives it, and hands them over;
//! - while this process leads, `planning` makes the table. Leadership is renewed only
//!   as long as the planner lives; owners go on without it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::id::Identity;
use leasehold_core::lease::LeaseTiming;
use leasehold_core::partition::planner::{Sighting, Wanted};
use leasehold_core::partition::{Layout, Listing, Partition, Table};
use leasehold_core::time::Duration;
use tokio::sync::{oneshot, watch};

use crate::changes::Hub;
use crate::clock::Clock;
use crate::driver::{LeaseStore, StoreError};
use crate::elector::Ends;
use crate::error::RunError;
use crate::key::LeaseKey;
use crate::settings::Sources;
use crate::view::Board;

mod around;
mod builder;
mod guard;
mod handle;
mod late;
mod member;
mod pending;
mod planning;
mod stream;
mod works;

pub use builder::{OnDrainTimeout, PartitionedBuilder};
pub use guard::PartitionGuard;
pub use handle::PartitionedHandle;
pub(crate) use stream::Roster;
pub use stream::{Assignment, AssignmentKind, Assignments};

/// What the tasks of one partitioned service share.
pub(crate) struct Shared {
    /// The key of the leader lease, and of the cluster id.
    id: LeaseKey,
    /// The key of the own member lease.
    member: LeaseKey,
    /// The member's name.
    name: Arc<str>,
    /// As it stands in the member lease.
    identity: Identity,
    /// As it stands in the leader lease, and in the tables that it publishes.
    leader_identity: Identity,
    token_era: u32,
    store: Arc<dyn LeaseStore>,
    clock: Clock,
    board: Arc<Board>,
    roster: Arc<Roster>,
    policy: watch::Sender<Policy>,
    /// The newest table seen.
    table: watch::Sender<Option<Arc<Table>>>,
    /// The service shuts down.
    stopping: watch::Sender<bool>,
    /// The member has left, or has nothing to hand over.
    left: watch::Sender<bool>,
    /// This process leads, and nobody else could take over what runs here.
    alone: watch::Sender<bool>,
    /// The newest revisions of leading pods that were followed (H10).
    sightings: Mutex<BTreeMap<Arc<str>, Sighting>>,
}

/// The settings in force, as the planner needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy {
    timing: LeaseTiming,
    drain_timeout: Duration,
    wanted: Wanted,
}

/// The present leader's and the former one's: more are never of use.
const SIGHTINGS_MAX: usize = 2;

impl Policy {
    fn of(sources: &Sources) -> Self {
        Self {
            timing: sources.timing(),
            drain_timeout: sources.drain_timeout(),
            wanted: Wanted {
                count: sources.partitions(),
                hash: sources.hash(),
            },
        }
    }
}

impl Shared {
    /// A quorum list of the cluster id.
    fn list(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Listing, StoreError>> + Send + use<> {
        let (store, key) = (Arc::clone(&self.store), self.member.clone());
        async move {
            let answer = store.list(&key, limit).await;
            crate::metrics::count_read(answer.is_ok());
            answer
        }
    }

    fn set_policy(&self, sources: &Sources) {
        let policy = Policy::of(sources);
        self.policy.send_if_modified(|present| {
            let is_new = *present != policy;
            *present = policy;
            is_new
        });
    }

    /// A leading pod's member lease was seen; the same revision seen again keeps its instant.
    fn sight(&self, name: &Arc<str>, sighting: Sighting) {
        let mut sightings = self
            .sightings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let same =
            |known: &Sighting| known.uid == sighting.uid && known.revision == sighting.revision;
        if sightings.get(name).is_some_and(same) {
            return;
        }
        sightings.insert(Arc::clone(name), sighting);
        if sightings.len() > SIGHTINGS_MAX {
            let all = sightings.iter();
            let oldest = all.min_by_key(|(_, sighting)| sighting.since);
            if let Some(oldest) = oldest.map(|(name, _)| Arc::clone(name)) {
                sightings.remove(&oldest);
            }
        }
    }

    fn sightings(&self) -> BTreeMap<Arc<str>, Sighting> {
        let sightings = self.sightings.lock();
        sightings.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The layout of the newest table; before there is one, the layout that is wanted.
    pub(crate) fn layout(&self) -> Option<Layout> {
        if let Some(table) = &*self.table.borrow() {
            return Some(table.layout);
        }
        let wanted = self.policy.borrow().wanted;
        Layout::new(1, wanted.hash, wanted.count).ok()
    }

    /// The partition of a key.
    pub(crate) fn partition_for(&self, key: &[u8]) -> Partition {
        let layout = self.layout();
        layout.map_or(Partition::new(0), |layout| layout.partition_for_key(key))
    }
}

/// The member's name in a holder of our form: the pod, or the node id outside a pod.
fn member_name(holder: &str) -> &str {
    holder.split('_').next().unwrap_or(holder)
}

/// A partitioned service that was started.
struct Started {
    shared: Arc<Shared>,
    hub: Arc<Hub>,
    ends: Ends,
    member: tokio::task::JoinHandle<()>,
    /// The member ends when this is dropped.
    care: oneshot::Sender<Infallible>,
    cluster_stops: watch::Receiver<bool>,
}

impl Started {
    /// Runs until the service has shut down. Dropping this drops every work and releases.
    async fn drive(self) -> Result<(), RunError> {
        let Self {
            shared,
            ends,
            member,
            care,
            mut cluster_stops,
            ..
        } = self;
        let forward = async {
            // A cluster that is gone without a word shuts down as well.
            let _ = cluster_stops.wait_for(|asked| *asked).await;
            shared.stopping.send_replace(true);
            std::future::pending::<()>().await;
        };
        let member = async {
            let ended = member.await.map_err(|_| RunError::ElectionEnded);
            drop(care);
            ended
        };
        let planner = planning::drive(Arc::clone(&shared), ends);
        let both = async { tokio::try_join!(member, planner) };
        tokio::select! {
            ended = both => ended.map(|_| ())?,
            () = forward => {}
        }
        if shared.board.overran() {
            return Err(RunError::DrainOverrun);
        }
        Ok(())
    }
}
