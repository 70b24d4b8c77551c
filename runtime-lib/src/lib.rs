//! Make a workload behave as one cluster: exactly one leader, with a fencing token for every write.
//!
//! ```
//! use leasehold::Cluster;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = Cluster::from_env().await?; // in memory on a laptop, Leases in a pod
//! let service = cluster.service("orders").leader_elected();
//! service
//!     .run(|leadership| {
//!         let cluster = cluster.clone();
//!         async move {
//!             // Only one process at a time is here. Every guarded write carries the token.
//!             println!("leading term {} with token {}", leadership.term(), leadership.token());
//!             cluster.shutdown();
//!         }
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! Partitioned: every partition of the keys is worked on by exactly one process.
//!
//! ```
//! use leasehold::Cluster;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let node = ("LEASEHOLD_NODE_ID", "worker-1");
//! # let cluster = Cluster::builder().environment([node]).signals(false).build().await?;
//! let service = cluster.service("orders").partitioned().partitions(8);
//! # let closing = cluster.clone();
//! service
//!     .run(move |partition| {
//! #       closing.shutdown();
//!         async move {
//!             // Only one process at a time is here for this partition.
//!             println!("partition {} with token {}", partition.partition(), partition.token());
//!             partition.draining().await; // another process takes it over
//!         }
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - `one-term-one-leader`: no two identities act under the same token of one cluster id.
//! - `tokens-only-grow`: a later leadership has a larger [`FencingToken`].
//! - `trust-ends-first`: a leader's guard is invalid before anyone else can take over, provided
//!   that clocks differ in rate by at most 1 %.
//! - `token-travels`: a store that compares tokens refuses a write decided under an older
//!   leadership, also if the process was paused between its check and the write.
//! - `release-after-drain`: leadership and partitions are given back only after the work has
//!   ended.
//! - `one-owner`: a partition that is handed over never has two owners that may act.
//!
//! A lease alone is not mutual exclusion: use the token. `docs/guarantees.md` says what is not
//! promised.
//!
//! # Features
//!
//! All are off by default.
//!
//! | Feature | Adds |
//! | --- | --- |
//! | `kubernetes` | leases as `coordination.k8s.io` Leases |
//! | `metrics` | `Cluster::metrics` |
//! | `postgres` | `binding`: a pool whose login is reloaded; `fence::PostgresFences`, which guard what is in a Postgres |
//! | `redis` | `binding`: a connection whose login is reloaded; `fence::RedisFences`, which guard what is in a Redis |
//! | `testing` | a store that fails on demand, a test clock, the conformance suite of stores |

#[cfg(any(feature = "postgres", feature = "redis"))]
pub mod binding;
mod changes;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))] // public under `testing`
mod clock;
mod cluster;
mod config;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))] // public under `testing`
mod driver;
mod elector;
mod error;
pub mod fence;
mod identity;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))] // public under `testing`
mod key;
mod leadership;
mod metrics;
mod partitions;
mod random;
mod reclaim;
mod service;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))] // public under `testing`
mod settings;
#[cfg(feature = "kubernetes")]
mod sharded;
mod signal;
mod view;
mod watchdog;

pub use changes::{ChangeKind, LeadershipChange, LeadershipChanges};
pub use cluster::{Cluster, ClusterBuilder};
pub use error::{RunError, StartError};
pub use leadership::{Fence, Leadership, Lost, LostReason, RaiseError};
pub use leasehold_core::fence::{Claim, KeyRange};
pub use leasehold_core::id::{FencingToken, Identity, Term};
pub use leasehold_core::lease::{InvalidTiming, LeaseTiming};
pub use leasehold_core::partition::{
    HashId, Layout, Member, NoSelector, Partition, Shard, Slot, Table,
};
pub use partitions::{
    Assignment, AssignmentKind, Assignments, OnDrainTimeout, PartitionGuard, PartitionedBuilder,
    PartitionedHandle,
};
pub use service::{Scope, ServiceBuilder, ServiceHandle};
pub use view::{ClusterView, PartitionsStatus, ServiceStatus, WaitingPartition};

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Leases as other programs read them, and lists of which each member gets its slice.
#[cfg(feature = "kubernetes")]
pub mod kubernetes {
    pub use crate::driver::kubernetes::{Malformed, read_lease};
    pub use crate::sharded::{Sharded, ShardedEvent};
}

/// For tests of drivers and of services.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub use crate::binding::mounted::MountedSecret;
    pub use crate::clock::Clock;
    #[cfg(feature = "kubernetes")]
    pub use crate::driver::kubernetes::{KubernetesStore, wire};
    pub use crate::driver::memory::MemoryStore;
    pub use crate::driver::{
        Answer, Feed, LeaseStore, Marks, MemberFeed, MemberNews, News, StoreError, WriteFailed,
        conformance, fault,
    };
    pub use crate::key::{InvalidKey, LeaseKey, LeaseKind};
    pub use crate::settings::{Declared, DeclaredPartitions};
}
