//! The task behind a sharded list: list, then watch, and again whenever the partitions change.

use std::fmt;

use futures::StreamExt;
use kube::core::WatchEvent;
use leasehold_core::backoff::Backoff;
use leasehold_core::partition::Shard;
use leasehold_core::time::Duration;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::slice::{SERVER_LIMIT, Slice};
use super::{Ownership, ShardedEvent, is_ours};
use crate::random;

/// The partitions of one table come and go one after the other: they are followed together.
const GATHERING: Duration = Duration::from_millis(20);
/// What lived this long ends the back-off.
const SOUND_AFTER: Duration = Duration::from_secs(10);
/// Delays between requests that fail.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(500),
    ceiling: Duration::from_secs(15),
};

/// Follows the slice of one process.
pub(super) struct Follower<K> {
    slice: Slice<K>,
    ownership: Ownership,
    told: mpsc::Sender<ShardedEvent<K>>,
}

/// Why following a shard ended.
enum Ended {
    /// Other partitions are ours now.
    Regrouped,
    /// Something may have been missed: list anew.
    Stale,
    /// A request failed.
    Failed(kube::Error),
    /// Nobody listens any more.
    Unheard,
}

impl<K> Follower<K>
where
    K: kube::Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    pub(super) fn new(
        slice: Slice<K>,
        ownership: Ownership,
        told: mpsc::Sender<ShardedEvent<K>>,
    ) -> Self {
        Self {
            slice,
            ownership,
            told,
        }
    }

    /// Until the service has ended, or nobody listens any more.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        loop {
            tokio::time::sleep(GATHERING).await;
            let shard = self.ownership.shard().clone();
            if self.ownership.roster.is_closed() {
                return;
            }
            let since = Instant::now();
            let mut ownership = self.ownership.clone();
            let ended = tokio::select! {
                ended = self.follow(&shard) => ended,
                // Whatever was under way is listed again.
                () = ownership.differs_from(&shard) => Ended::Regrouped,
            };
            let lived = since.elapsed();
            let error = match ended {
                Ended::Unheard => return,
                Ended::Regrouped => continue,
                Ended::Stale if lived > Duration::from_secs(1) => continue,
                Ended::Stale => None,
                Ended::Failed(error) => Some(error),
            };
            failures = if lived > SOUND_AFTER { 1 } else { failures + 1 };
            let delay = BACKOFF.delay(failures, random::number());
            if let Some(error) = error {
                tracing::warn!(%error, failures, retry_in = ?delay, "the objects of the own partitions cannot be followed");
                if self.tell(ShardedEvent::Interrupted(error)).await.is_err() {
                    return;
                }
            }
            let mut ownership = self.ownership.clone();
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = ownership.differs_from(&shard) => {}
            }
        }
    }

    async fn tell(&self, event: ShardedEvent<K>) -> Result<(), Ended> {
        self.told.send(event).await.map_err(|_| Ended::Unheard)
    }

    async fn follow(&mut self, shard: &Shard) -> Ended {
        match self.try_follow(shard).await {
            Ok(()) => Ended::Stale,
            Err(ended) => ended,
        }
    }

    async fn try_follow(&mut self, shard: &Shard) -> Result<(), Ended> {
        if shard.is_empty() {
            self.tell(ShardedEvent::Listed {
                objects: Vec::new(),
                by_server: true,
            })
            .await?;
            return std::future::pending().await;
        }
        let listing = self.slice.list(shard).await.map_err(judge)?;
        let mut revision = listing.revision;
        self.tell(ShardedEvent::Listed {
            objects: listing.objects,
            by_server: listing.by_server,
        })
        .await?;
        loop {
            let opened = Instant::now();
            self.watch(shard, &mut revision).await?;
            // A watch that ends at once, every time, must not become a busy loop.
            if opened.elapsed() < Duration::from_secs(1) {
                return Ok(());
            }
        }
    }

    /// One watch, until the server closes it.
    async fn watch(&mut self, shard: &Shard, revision: &mut String) -> Result<(), Ended> {
        let overdue = Instant::now() + SERVER_LIMIT + Duration::from_secs(10);
        let mut events = self.slice.watch(shard, revision).await.map_err(judge)?;
        loop {
            let Ok(event) = tokio::time::timeout_at(overdue, events.next()).await else {
                return Err(Ended::Stale);
            };
            let (object, is_deleted) = match event {
                None => return Ok(()),
                Some(Err(error)) => return Err(judge(error)),
                Some(Ok(WatchEvent::Error(status))) => {
                    return Err(judge(kube::Error::Api(status)));
                }
                Some(Ok(WatchEvent::Bookmark(bookmark))) => {
                    *revision = bookmark.metadata.resource_version;
                    continue;
                }
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    (object, false)
                }
                Some(Ok(WatchEvent::Deleted(object))) => (object, true),
            };
            if let Some(seen) = &object.meta().resource_version {
                seen.clone_into(revision);
            }
            if !is_ours(shard, &object) {
                continue;
            }
            self.tell(if is_deleted {
                ShardedEvent::Deleted(object)
            } else {
                ShardedEvent::Applied(object)
            })
            .await?;
        }
    }
}

/// The server forgets old revisions as a matter of course.
fn judge(error: kube::Error) -> Ended {
    match error {
        kube::Error::Api(status) if status.code == 410 => Ended::Stale,
        error => Ended::Failed(error),
    }
}

impl Ownership {
    /// Returns when another shard than this one is ours, or when the service has ended.
    async fn differs_from(&mut self, shard: &Shard) {
        loop {
            if self.changes.changed().await.is_err() {
                return;
            }
            tokio::time::sleep(GATHERING).await;
            self.changes.mark_changed();
            if self.shard() != shard || self.roster.is_closed() {
                return;
            }
        }
    }
}
