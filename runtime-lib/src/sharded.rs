//! Lists and watches of which each member of a partitioned service gets its own slice.
//!
//! ```text
//!   partitions of ──shard──▶ ┌──────────┐ list, watch with shardSelector ┌────────────┐
//!   this process             │ follower │ ─────────────────────────────▶ │ API server │
//!                            └──────────┘ ◀───────────────────────────── └────────────┘
//!   controller ◀── next ─────────┘        the slice, or everything from a server without sharding
//! ```
//!
//! Whatever the server sends, what is not ours is left out here.

use std::fmt;
use std::sync::Arc;

use kube::api::ListParams;
use leasehold_core::partition::Shard;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::partitions::Roster;

mod follower;
mod slice;

use follower::Follower;
use slice::Slice;

/// Events that wait for the controller; after that the follower waits.
const QUEUE: usize = 64;

/// The objects of the partitions of this process: all that there are, and then what happens to them.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::api::{Api, ListParams};
/// use leasehold::kubernetes::ShardedEvent;
/// use leasehold::{Cluster, HashId};
///
/// # async fn run(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = Cluster::from_env().await?;
/// let service = cluster.service("orders").partitioned().hash(HashId::K8sRange1);
/// let handle = service.spawn(|partition| async move { partition.draining().await })?;
/// let mut objects = handle.sharded(Api::<ConfigMap>::all(client), &ListParams::default());
/// while let Some(event) = objects.next().await {
///     match event {
///         ShardedEvent::Listed { objects, .. } => println!("ours now: {}", objects.len()),
///         ShardedEvent::Applied(object) => println!("changed: {:?}", object.metadata.name),
///         ShardedEvent::Deleted(object) => println!("deleted: {:?}", object.metadata.name),
///         ShardedEvent::Interrupted(error) => println!("trying again: {error}"),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// With the hash `k8s-range/1` and an API server that shards (feature gate `ShardedListAndWatch`, 1.36
/// and later) only the slice travels; with any other hash or server everything does, and the rest is
/// left out here. While this process has no partition nothing is asked.
///
/// An event is no proof of ownership: what is written for an object carries the token of the guard of
/// its partition (`token-travels`).
///
/// Dropping it ends its requests.
#[must_use = "its requests end when it is dropped"]
pub struct Sharded<K> {
    told: mpsc::Receiver<ShardedEvent<K>>,
    ownership: Ownership,
    /// Ends with this.
    _follower: JoinSet<()>,
}

/// What happened to the objects of the partitions of this process.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShardedEvent<K> {
    /// All of them, as they are now: at the start, after the partitions have changed, and where
    /// something may have been missed. What was known before and is not among them belongs to another
    /// member now, or is gone.
    Listed {
        /// The objects, in the order of the server.
        objects: Vec<K>,
        /// The server sent only these; false where it sent everything. True for none, since then
        /// nothing was asked.
        by_server: bool,
    },
    /// One was created or changed.
    Applied(K),
    /// One was deleted; this is its last state.
    Deleted(K),
    /// A request failed. It is made again with a growing delay, and then all are listed.
    Interrupted(kube::Error),
}

impl<K> Sharded<K>
where
    K: kube::Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    pub(crate) fn new(api: kube::Api<K>, params: &ListParams, roster: &Arc<Roster>) -> Self {
        let ownership = Ownership::of(roster);
        let (sender, told) = mpsc::channel(QUEUE);
        let follower = Follower::new(Slice::new(api, params), ownership.clone(), sender);
        let mut tasks = JoinSet::new();
        tasks.spawn(follower.run());
        Self {
            told,
            ownership,
            _follower: tasks,
        }
    }
}

impl<K: kube::Resource> Sharded<K> {
    /// The next event; `None` once the service has ended. Nothing is lost if the future is dropped.
    ///
    /// An object whose partition was given up meanwhile does not come any more.
    pub async fn next(&mut self) -> Option<ShardedEvent<K>> {
        loop {
            let event = self.told.recv().await?;
            let shard = self.ownership.shard();
            match event {
                ShardedEvent::Listed {
                    mut objects,
                    by_server,
                } => {
                    objects.retain(|object| is_ours(shard, object));
                    return Some(ShardedEvent::Listed { objects, by_server });
                }
                ShardedEvent::Applied(object) | ShardedEvent::Deleted(object)
                    if !is_ours(shard, &object) => {}
                event => return Some(event),
            }
        }
    }
}

impl<K> fmt::Debug for Sharded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharded").finish_non_exhaustive()
    }
}

fn is_ours<K: kube::Resource>(shard: &Shard, object: &K) -> bool {
    let uid = object.meta().uid.as_deref().unwrap_or_default();
    shard.contains(uid.as_bytes())
}

/// The keys that are ours, as of now.
#[derive(Clone)]
struct Ownership {
    roster: Arc<Roster>,
    changes: watch::Receiver<u64>,
    shard: Shard,
}

impl Ownership {
    fn of(roster: &Arc<Roster>) -> Self {
        let mut changes = roster.changes();
        changes.mark_changed();
        Self {
            roster: Arc::clone(roster),
            changes,
            shard: Shard::default(),
        }
    }

    /// Looked up anew only after a change: of thousands of partitions that is work.
    fn shard(&mut self) -> &Shard {
        // It cannot fail: the sender lives in the roster.
        if self.changes.has_changed().unwrap_or(true) {
            self.changes.mark_unchanged();
            self.shard = self.roster.shard();
        }
        &self.shard
    }
}

#[cfg(test)]
mod tests;
