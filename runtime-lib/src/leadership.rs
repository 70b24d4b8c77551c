//! Leadership: the value that proves that we lead, and the future that may only run meanwhile.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use leasehold_core::election::EndReason;
use leasehold_core::fence::{Claim, KeyRange};
use leasehold_core::id::{FencingToken, Term};
use leasehold_core::partition::Partition;
use leasehold_core::time::{Duration, Instant};

mod guarded;
mod term;

pub(crate) use guarded::Guarded;
pub(crate) use term::{Begun, TermState};

/// Proof of leadership, handed to the work of a term. Cheap to clone and to check.
///
/// It ends for good: once [`check`](Self::check) has failed, it never succeeds again, and a
/// leadership that is regained is another value with another token.
#[derive(Clone)]
pub struct Leadership {
    state: Arc<TermState>,
}

impl Leadership {
    pub(crate) fn new(state: Arc<TermState>) -> Self {
        Self { state }
    }

    /// The fencing token: send it with every guarded write (`token-travels`).
    pub fn token(&self) -> FencingToken {
        self.state.token
    }

    /// The number of this leadership, for people.
    pub fn term(&self) -> Term {
        self.state.term
    }

    /// The token, if this leadership may still act. Compares the boot-time clock, so it fails at
    /// once after a pause or a suspend (E9), whatever the election has noticed by then.
    pub fn check(&self) -> Result<FencingToken, Lost> {
        self.state.check().map(|_| self.state.token)
    }

    /// For how long this leadership may act if no renewal succeeds; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.state
            .check()
            .map_or(Duration::ZERO, |until| until.since(self.state.clock.now()))
    }

    /// Returns when this leadership is lost. The work's future is dropped at that moment anyway;
    /// this is for tasks that it has started.
    pub async fn lost(&self) -> Lost {
        self.state.lost().await
    }

    /// Returns when the work should finish: a shutdown or a step-down has begun. Leadership and
    /// renewals go on until the work returns or the drain timeout is over (E10).
    pub async fn draining(&self) {
        self.state.draining().await;
    }

    /// Says that the work makes progress, for a service with a
    /// [`progress_timeout`](crate::ServiceBuilder::progress_timeout).
    pub fn progress(&self) {
        self.state.note_progress();
    }

    /// What to show to a store with every write, as [`check`](Self::check): the token, for all
    /// hashes ([`KeyRange::ALL`]).
    pub fn claim(&self) -> Result<Claim, Lost> {
        Ok(Claim::new(KeyRange::ALL, self.check()?))
    }

    /// Raises the fence of a guarded store to this token. Call it before the first read of a term:
    /// a store refuses a lower token only after it was shown a higher one (H9).
    ///
    /// When it is cancelled, the store may have taken the token; raising it again changes nothing.
    pub async fn raise<F: Fence>(&self, store: &F) -> Result<FencingToken, RaiseError<F::Error>> {
        let claim = self.claim().map_err(RaiseError::Lost)?;
        store.raise(claim).await.map_err(RaiseError::Store)?;
        Ok(claim.token)
    }

    pub(crate) fn state(&self) -> &Arc<TermState> {
        &self.state
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("term", &self.term())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

/// A store that refuses tokens lower than the highest it was shown.
///
/// A fence belongs to the hashes of [`Claim::range`] and not to a partition's number: after a change
/// of the layout, a raise must shut out everyone who owned a part of the range before, whichever
/// layout that was (H9). A store that only a leader writes may ignore the range.
pub trait Fence {
    /// Why it could not be raised.
    type Error;

    /// Shows a token to the store. From now on it refuses lower ones, for writes and for raises,
    /// of every claim whose range overlaps this one; and it is told what such writers have stored
    /// so far. It changes nothing, and is an error, if one of these hashes was shown a higher token.
    fn raise(&self, claim: Claim) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Why a fence was not raised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaiseError<E> {
    /// The leadership is over.
    #[error(transparent)]
    Lost(Lost),
    /// The store refused or could not be reached.
    #[error("the guarded store did not take the token")]
    Store(#[source] E),
}

/// A leadership, or the ownership of a partition, that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The term that ended, or the incarnation under which the partition was owned.
    pub term: Term,
    /// The partition, if it is no leadership that is over but the ownership of one.
    pub partition: Option<Partition>,
    /// Why.
    pub reason: LostReason,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { term, reason, .. } = self;
        match self.partition {
            Some(partition) => write!(f, "partition {partition} is lost: {reason}"),
            None => write!(f, "leadership of term {term} is lost: {reason}"),
        }
    }
}

impl std::error::Error for Lost {}

/// Why a leadership is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The work ended, and the lease was given back.
    Resigned,
    /// The partition was given to another member, and its work here has ended.
    Reassigned,
    /// No renewal succeeded in time, or the process was paused.
    TrustExpired,
    /// Somebody else holds the lease.
    HeldBy(String),
    /// Somebody emptied the holder.
    Emptied,
    /// The lease was deleted.
    Deleted,
    /// The lease was deleted and made anew.
    Recreated,
    /// Another process uses the same identity, or somebody changed the term.
    DuplicateIdentity,
    /// The veto or the watchdog said so.
    Unhealthy,
    /// The drain took longer than its timeout; the lease runs out instead of being released.
    DrainOverrun,
    /// The election itself has ended (its task was dropped).
    Abandoned,
}

impl From<EndReason> for LostReason {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::Resigned => Self::Resigned,
            EndReason::TrustExpired => Self::TrustExpired,
            EndReason::HeldBy(holder) => Self::HeldBy(holder),
            EndReason::Emptied => Self::Emptied,
            EndReason::Deleted => Self::Deleted,
            EndReason::Recreated => Self::Recreated,
            EndReason::DuplicateIdentity => Self::DuplicateIdentity,
            EndReason::Unhealthy => Self::Unhealthy,
            EndReason::DrainOverrun => Self::DrainOverrun,
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resigned => f.write_str("the work ended"),
            Self::Reassigned => f.write_str("it was given to another member"),
            Self::TrustExpired => f.write_str("no renewal succeeded in time"),
            Self::HeldBy(holder) => {
                write!(
                    f,
                    "held by {}",
                    holder.chars().take(200).collect::<String>()
                )
            }
            Self::Emptied => f.write_str("somebody emptied the holder"),
            Self::Deleted => f.write_str("the lease was deleted"),
            Self::Recreated => f.write_str("the lease was deleted and made anew"),
            Self::DuplicateIdentity => f.write_str("somebody wrote under our identity"),
            Self::Unhealthy => f.write_str("the work was found unhealthy"),
            Self::DrainOverrun => f.write_str("the drain took longer than its timeout"),
            Self::Abandoned => f.write_str("the election has ended"),
        }
    }
}

/// The end of trust of a leadership that is never elected ([`Scope::Node`](crate::Scope::Node)).
pub(crate) const FOREVER: Instant = Instant::MAX;
