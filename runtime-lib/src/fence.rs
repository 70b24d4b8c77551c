//! Fences of guarded stores: what refuses a write that was decided under an older token.
//!
//! A process can be paused between its check and its write, for longer than its lease lasts. No
//! lease can prevent that; only the store can refuse the write, if it compares tokens
//! (`token-travels`). These do, each for all leaders or owners of one service:
//!
//! | Store | Feature | How a write is guarded |
//! | --- | --- | --- |
//! | [`MemoryFences`] | | a closure under a lock; for tests and laptops |
//! | `PostgresFences` | `postgres` | a check in the transaction of the write |
//! | `RedisFences` | `redis` | commands that one script runs after its check |
//!
//! All of them keep the same rules:
//!
//! - A new leader or owner **raises** its fence before its first read (H9), with
//!   [`Leadership::raise`](crate::Leadership::raise) or
//!   [`PartitionGuard::raise`](crate::PartitionGuard::raise). From then on nothing is written under
//!   a lower token to any hash of its range, whichever layout that token was from; and whatever was
//!   written before can be read.
//! - Every write shows the guard's [`Claim`]. It is taken if that claim was raised and nothing
//!   later overlaps it; otherwise it is [`Stale`](FenceError::Stale), or
//!   [`NotRaised`](FenceError::NotRaised), and nothing was changed.
//! - Claims that share no hash never disturb each other, whatever their tokens are.
//!
//! The service is a cluster id, and everything that is guarded under one name takes its tokens from
//! that one: tokens of different cluster ids cannot be compared. Its partitions are of one hash.
//! A leader claims all hashes, so one name serves either a leader or partitions.
//!
//! ```
//! use leasehold::Cluster;
//! use leasehold::fence::MemoryFences;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fences = MemoryFences::new("orders")?;
//! # let cluster = Cluster::builder().signals(false).build().await?;
//! # let closing = cluster.clone();
//! let service = cluster.service("orders").leader_elected();
//! service
//!     .run(move |leadership| {
//!         let fences = fences.clone();
//! #       let closing = closing.clone();
//!         async move {
//!             if leadership.raise(&fences).await.is_err() {
//!                 return; // somebody later leads, or this leadership is over
//!             }
//!             // Read, decide, and write with the claim:
//!             if let Ok(claim) = leadership.claim() {
//!                 let written = fences.write(claim, || "the write");
//!                 assert!(written.is_ok());
//!             }
//! #           closing.shutdown();
//!         }
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```

mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

use std::error::Error;
use std::sync::Arc;

use leasehold_core::fence::{Claim, Refused};
use leasehold_core::id::FencingToken;

use crate::key::LeaseKey;

#[cfg(feature = "redis")]
pub use self::redis::{Commands, RedisFences};
pub use memory::MemoryFences;
#[cfg(feature = "postgres")]
pub use postgres::PostgresFences;

/// Why a fence was not raised, or a write not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// Somebody later has raised a fence that overlaps this one. It stays so: this owner has lost
    /// what it owned, and will learn of it if it has not yet.
    #[error("fences of {service}: {claim} is stale: {highest} was raised since")]
    Stale {
        /// The service.
        service: Arc<str>,
        /// What was shown.
        claim: Claim,
        /// The highest token that was raised for one of these hashes.
        highest: FencingToken,
    },
    /// A write without a raise before it (H9), or the store has lost its fences since. Raise, read
    /// again, and only then write.
    #[error("fences of {service}: {claim} was not raised before the write; so far: {}", named(*raised))]
    NotRaised {
        /// The service.
        service: Arc<str>,
        /// What was shown.
        claim: Claim,
        /// To what the fence was raised so far, where that is lowest; `None` if it never was.
        raised: Option<FencingToken>,
    },
    /// The name of a service that is no cluster id.
    #[error("service: {0}")]
    InvalidService(String),
    /// The store failed or could not be reached. What it was asked for may have been done.
    #[error("fences of {service}: {step}")]
    Store {
        /// The service.
        service: Arc<str>,
        /// The step that failed.
        step: String,
        /// The error of the store's client, of type `sqlx::Error` or `redis::RedisError`.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

fn named(raised: Option<FencingToken>) -> String {
    raised.map_or_else(|| "nothing".to_owned(), |token| format!("token {token}"))
}

impl FenceError {
    fn refused(service: &Arc<str>, claim: Claim, refused: Refused) -> Self {
        let service = Arc::clone(service);
        match refused {
            Refused::Stale(stale) => Self::Stale {
                service,
                claim,
                highest: stale.highest,
            },
            Refused::NotRaised(missing) => Self::NotRaised {
                service,
                claim,
                raised: missing.raised,
            },
        }
    }
}

/// The cluster id that names the fences.
fn checked(service: &str) -> Result<Arc<str>, FenceError> {
    let key = LeaseKey::new(service);
    let key = key.map_err(|invalid| FenceError::InvalidService(invalid.to_string()))?;
    Ok(key.cluster_id().into())
}
