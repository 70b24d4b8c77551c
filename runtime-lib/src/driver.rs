//! The contract of a lease store.
//!
//! A store keeps one record per lease key and changes it by compare-and-set only (E1). Everything
//! above this file works with any store and never asks which one it is (`drivers-are-equal`); one
//! [conformance suite](conformance) proves that they are alike.
//!
//! - **Atomicity**: a write replaces exactly the revision and life it names, or nothing.
//! - **Order**: revisions of a key only grow, also across deletion; a watch shows them in order.
//! - **Reads** and lists are quorum reads: a write acknowledged before one was sent is in its answer.
//! - **Time**: `limit` bounds every request. A request that ran into it may still be carried out.
//! - **Cancellation**: dropping a request's future leaves its outcome unknown, nothing else.
//! - A store keeps whatever else stands in a record: labels, annotations, fields of others.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use leasehold_core::election::Write;
use leasehold_core::lease::Versioned;
use leasehold_core::partition::Listing;
use leasehold_core::time::{Duration, Instant};
use tokio::sync::mpsc;

use crate::key::LeaseKey;
use crate::settings::Declared;

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(any(test, feature = "testing"))]
pub mod fault;
#[cfg(feature = "kubernetes")]
pub(crate) mod kubernetes;
pub(crate) mod memory;
#[cfg_attr(not(feature = "kubernetes"), allow(dead_code))] // memory has no troubles
mod trouble;

pub use trouble::StoreError;

/// A future of a store. Boxed, so that stores can be exchanged at run time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps the records that leases are made of.
pub trait LeaseStore: Send + Sync + 'static {
    /// A quorum read.
    fn read<'a>(
        &'a self,
        key: &'a LeaseKey,
        limit: Duration,
    ) -> Answer<'a, Result<Option<Versioned>, StoreError>>;

    /// A quorum list of the assignment and the members of the key's cluster id.
    ///
    /// It finds Leases by their labels. Two of them are looked for by name as well, so that lost
    /// labels never read as absence (E4): the assignment, and the Lease of `key` if that is a
    /// member's. Such a member was absent before the list was sent, so the table of this list is no
    /// older than the absence (H1).
    fn list<'a>(
        &'a self,
        key: &'a LeaseKey,
        limit: Duration,
    ) -> Answer<'a, Result<Listing, StoreError>>;

    /// A compare-and-set write; `marks` are kept beside the record. A fence leaves those of the
    /// store untouched: they are the member's.
    ///
    /// Contents that are nothing, or that could not be read, leave those of the store untouched.
    fn write<'a>(
        &'a self,
        key: &'a LeaseKey,
        write: &'a Write,
        marks: &'a Marks,
        limit: Duration,
    ) -> Answer<'a, Result<Versioned, WriteFailed>>;

    /// Follows one key. The first news is a [`News::Listed`] or a [`News::Gone`].
    ///
    /// All leaders and assignments of a process share one watch (H10); a member is followed by its
    /// name.
    fn watch(&self, key: &LeaseKey) -> Feed;

    /// Follows all members of the key's cluster id. The first news is a [`MemberNews::Listed`].
    fn watch_members(&self, key: &LeaseKey) -> MemberFeed;
}

/// Why a write was not acknowledged.
#[derive(Debug)]
pub enum WriteFailed {
    /// Not done: the record is not what the write replaces.
    Conflict,
    /// Not done, or nobody knows: [`StoreError::is_outcome_unknown`] tells.
    Failed(StoreError),
}

/// What a leader says about itself beside the record (settings in force, values fixed in code).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The settings generation that the leader follows.
    pub settings_generation: Option<i64>,
    /// The values that code fixes, in the format of the settings.
    pub fixed: Option<String>,
}

/// Something a watch has to say about a key.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "kubernetes"), allow(dead_code))] // a watch in memory is never down
pub enum News {
    /// A revision, in order.
    Watched(Versioned),
    /// The record left the watch's selection: deleted, or no longer labelled (E4).
    Gone,
    /// A quorum list or read that was sent at `asked` had this.
    Listed {
        /// When it was sent.
        asked: Instant,
        /// The record; `None` only after a read by name.
        state: Option<Versioned>,
    },
    /// What is declared for this key; `None` if nothing is.
    Settings(Option<Result<Declared, String>>),
    /// The watch is down since this error; news may be missing until the next list.
    Down(StoreError),
    /// The watch is up again.
    Up,
}

/// Something a watch has to say about the members of a cluster id.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "kubernetes"), allow(dead_code))] // a watch in memory is never down
pub enum MemberNews {
    /// A quorum list that was sent at `asked` had these, and no others.
    Listed {
        /// When it was sent.
        asked: Instant,
        /// The member Leases by the names of their members.
        members: BTreeMap<Arc<str>, Versioned>,
    },
    /// A revision of that member's Lease, in order.
    Seen(Arc<str>, Versioned),
    /// That member's Lease left the watch's selection: deleted, or no longer labelled. It is no
    /// release (H6).
    Gone(Arc<str>),
    /// The watch is down since this error; news may be missing until the next list.
    Down(StoreError),
    /// The watch is up again.
    Up,
}

/// The news of all members of a cluster id.
pub type MemberFeed = Feed<MemberNews>;

/// The news of one subscription. Dropping it ends the subscription.
pub struct Feed<N = News> {
    news: mpsc::UnboundedReceiver<N>,
    heartbeat: Arc<AtomicU64>,
    /// Ends the subscription when the feed is dropped.
    _registration: Box<dyn Send + Sync>,
}

impl<N> Feed<N> {
    /// A feed and the cell through which its reader says how often renewals are to be expected.
    pub(crate) fn new(
        news: mpsc::UnboundedReceiver<N>,
        heartbeat: Arc<AtomicU64>,
        registration: Box<dyn Send + Sync>,
    ) -> Self {
        Self {
            news,
            heartbeat,
            _registration: registration,
        }
    }

    /// The next news; `None` if the store has ended.
    pub async fn next(&mut self) -> Option<N> {
        self.news.recv().await
    }

    /// The same for whoever awaits several feeds at once.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<N>> {
        self.news.poll_recv(context)
    }

    /// Tells the watch how often a living holder renews, so that it notices silence.
    pub fn expect_heartbeat(&self, heartbeat: Duration) {
        let millis = u64::try_from(heartbeat.as_millis()).unwrap_or(u64::MAX);
        self.heartbeat.store(millis, Ordering::Relaxed);
    }
}
