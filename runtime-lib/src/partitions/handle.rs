//! A partitioned service that runs in tasks of its own.

use std::sync::Arc;

use leasehold_core::partition::{NoSelector, Partition, Shard, Table};

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

    /// The keys of the partitions that this process runs now, those too that it hands over.
    pub fn shard(&self) -> Shard {
        self.shared.roster.shard()
    }

    /// [`PartitionedHandle::shard`] as the `shardSelector` of a sharded list or watch of the API
    /// server, by the UIDs of objects: `shardRange(object.metadata.uid,'0x…','0x…') || …`. For the hash
    /// `k8s-range/1` only.
    ///
    /// `None` while this process has no partition: nothing is its own, and there is no request to
    /// make, since one without a selector brings everything. A server that knows the parameter says
    /// so in `metadata.shardInfo.selector` ([`Shard::is_echoed_by`]); any other sends everything, and
    /// [`Shard::contains`] picks. [`PartitionedHandle::sharded`] does all of that.
    pub fn shard_selector(&self) -> Result<Option<String>, NoSelector> {
        self.shard().selector()
    }

    /// Lists and watches the objects of `api` whose UIDs belong to the partitions of this process, and
    /// follows the changes of these. Of `params` the selectors count, and `limit`: how many objects one
    /// page of a list has (500 if not given).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[cfg(feature = "kubernetes")]
    pub fn sharded<K>(
        &self,
        api: kube::Api<K>,
        params: &kube::api::ListParams,
    ) -> crate::sharded::Sharded<K>
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        crate::sharded::Sharded::new(api, params, &self.shared.roster)
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
