//! A partitioned service that runs in tasks of its own.

use std::sync::Arc;

use leasehold_core::partition::hash::NoSelector;
use leasehold_core::partition::{Partition, Table, shard_selector};

use super::Shared;
use super::stream::Assignments;
use crate::changes::{Hub, LeadershipChanges};
use crate::error::RunError;
use crate::view::ServiceStatus;

/// A partitioned service that runs. Dropping the handle shuts the service down.
#[must_use = "dropping the handle shuts the service down"]
pub struct PartitionedHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) hub: Arc<Hub>,
    pub(super) task: Option<tokio::task::JoinHandle<Result<(), RunError>>>,
}

impl PartitionedHandle {
    /// What this process gets and gives up, in order; starts with what it owns now.
    pub fn assignments(&self) -> Assignments {
        self.shared.roster.subscribe()
    }

    /// The partition of a key, by the newest table; before there is one, by the number of
    /// partitions that is wanted.
    pub fn partition_for(&self, key: impl AsRef<[u8]>) -> Partition {
        self.shared.partition_for(key.as_ref())
    }

    /// The newest table that was seen: who owns what.
    pub fn table(&self) -> Option<Arc<Table>> {
        self.shared.table.borrow().clone()
    }

    /// The partitions of this process as the `shardSelector` of a sharded list or watch of the API
    /// server, by the UIDs of objects; `None` while it has none. For the hash `k8s-range/1` only.
    pub fn shard_selector(&self) -> Result<Option<String>, NoSelector> {
        let Some(layout) = self.shared.layout() else {
            return Ok(None);
        };
        let owned = self.shared.roster.owned();
        let present = owned.into_iter().filter(|slot| slot.layout == layout);
        shard_selector(layout, present.map(|slot| slot.partition))
    }

    /// The changes of the leadership that makes the table, own and of others, in order.
    pub fn changes(&self) -> LeadershipChanges {
        self.hub.subscribe()
    }

    /// Begins to shut this service down: others take its partitions over, then it releases.
    pub fn shutdown(&self) {
        self.shared.stopping.send_replace(true);
    }

    /// Waits until the service has ended, after a shutdown of it or of its cluster.
    pub async fn finished(mut self) -> Result<(), RunError> {
        let Some(task) = self.task.take() else {
            return Ok(());
        };
        task.await.unwrap_or(Err(RunError::ElectionEnded))
    }

    /// What the service believes and waits for.
    pub fn status(&self) -> ServiceStatus {
        self.shared.board.status()
    }
}

impl Drop for PartitionedHandle {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.shutdown();
        }
    }
}
