//! The value that proves that a partition is ours, handed to its work.

use leasehold_core::fence::{Claim, KeyRange};
use leasehold_core::id::{FencingToken, Term};
use leasehold_core::partition::{Layout, Partition, Slot};
use leasehold_core::time::Duration;
use std::fmt;

use crate::leadership::{Fence, Leadership, Lost, RaiseError};

/// Proof that this process owns a partition. Cheap to clone and to check.
///
/// It is valid as long as the member's lease may be trusted and the partition has not been given
/// up; it ends for good. A partition that comes back has another guard with a larger token.
#[derive(Clone)]
pub struct PartitionGuard {
    leadership: Leadership,
    slot: Slot,
}

impl PartitionGuard {
    pub(super) fn new(leadership: Leadership, slot: Slot) -> Self {
        Self { leadership, slot }
    }

    /// The partition.
    pub fn partition(&self) -> Partition {
        self.slot.partition
    }

    /// The layout that its number belongs to.
    pub fn layout(&self) -> Layout {
        self.slot.layout
    }

    /// The hashes of its keys.
    pub fn range(&self) -> KeyRange {
        self.slot.layout.range(self.slot.partition)
    }

    /// The fencing token: send it with every guarded write to what belongs to this partition
    /// (`token-travels`). Tokens of different partitions say nothing about each other.
    pub fn token(&self) -> FencingToken {
        self.leadership.token()
    }

    /// The incarnation of this member: one life of its member lease.
    pub fn incarnation(&self) -> Term {
        self.leadership.term()
    }

    /// The token, if the partition may still be acted upon. Compares the boot-time clock, so it
    /// fails at once after a pause or a suspend (E9).
    pub fn check(&self) -> Result<FencingToken, Lost> {
        self.leadership.check()
    }

    /// For how long it may be acted upon if no renewal succeeds; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.leadership.remaining()
    }

    /// Returns when the partition is lost. The work's future is dropped at that moment anyway;
    /// this is for tasks that it has started.
    pub async fn lost(&self) -> Lost {
        self.leadership.lost().await
    }

    /// Returns when the work should finish, because another member takes the partition over. It
    /// may act until it returns; the next owner starts only afterwards (`release-after-drain`).
    pub async fn draining(&self) {
        self.leadership.draining().await;
    }

    /// Says that the work makes progress, for a service with a
    /// [`progress_timeout`](crate::ServiceBuilder::progress_timeout).
    pub fn progress(&self) {
        self.leadership.progress();
    }

    /// What to show to a store with every write, as [`check`](Self::check): the token, for the
    /// hashes of this partition.
    pub fn claim(&self) -> Result<Claim, Lost> {
        Ok(Claim::new(self.range(), self.check()?))
    }

    /// Raises the fence of a guarded store to this token, for the hashes of this partition. Call it
    /// before the first read: a store refuses a lower token only after it was shown a higher one,
    /// also the tokens of those who owned these hashes in a former layout (H9).
    ///
    /// When it is cancelled, the store may have taken the token; raising it again changes nothing.
    pub async fn raise<F: Fence>(&self, store: &F) -> Result<FencingToken, RaiseError<F::Error>> {
        let claim = self.claim().map_err(RaiseError::Lost)?;
        store.raise(claim).await.map_err(RaiseError::Store)?;
        Ok(claim.token)
    }

    pub(super) fn leadership(&self) -> &Leadership {
        &self.leadership
    }
}

impl fmt::Debug for PartitionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionGuard")
            .field("partition", &self.partition())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
