//! Everything a candidate can ask for.

use crate::id::{FencingToken, LeaseUid, Revision, Term};
use crate::lease::LeaseRecord;
use crate::time::{Duration, Instant};

/// Something the shell must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this write, with the attempt timeout. At most one request is under way at a time.
    Write(Write),
    /// Send a quorum read of the record, with the attempt timeout.
    Read,
    /// A term begins: start the work.
    Begin {
        /// The term.
        term: Term,
        /// Its fencing token.
        token: FencingToken,
        /// The guard is valid until then.
        trusted_until: Instant,
    },
    /// The term's trust was extended.
    Extend {
        /// The guard is valid until then.
        trusted_until: Instant,
    },
    /// The term's trust ends earlier than said before: a shorter lease duration is about to be
    /// published, and candidates will honour it (E3). Shorten the guard before the next effect.
    Shorten {
        /// The guard is valid until then.
        trusted_until: Instant,
    },
    /// Ask the work to finish; the term and its trust go on meanwhile (E10).
    Drain {
        /// After this instant the term ends without a release.
        until: Instant,
    },
    /// The term ended: invalidate the guard now, then drop the work, then say
    /// [`Input::WorkEnded`](super::Input::WorkEnded).
    End {
        /// The term.
        term: Term,
        /// Why.
        reason: EndReason,
    },
    /// The lease was given back.
    Released {
        /// The term that was released.
        term: Term,
    },
    /// Nothing more will come: the shutdown is complete.
    Stopped,
    /// Something a person should know; changes nothing.
    Notice(Notice),
}

/// A compare-and-set write. There is no other kind (E1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Number of the attempt, as in the record's stamp.
    pub attempt: u64,
    /// What it replaces.
    pub target: Target,
    /// What it is for.
    pub purpose: Purpose,
    /// The record to store. Everything else in the stored object is preserved.
    pub record: LeaseRecord,
}

/// What a write replaces (E1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Nothing: create the record.
    Absent,
    /// Exactly this revision of this life of the record.
    Exactly {
        /// Which life.
        uid: LeaseUid,
        /// Which version.
        revision: Revision,
    },
}

/// What a write is for; shells set `acquireTime` on a claim, metrics count by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Begins a new term.
    Claim,
    /// Extends the term.
    Renew,
    /// Ends the term by choice.
    Release,
    /// Publishes a table of partitions (H2).
    Publish,
    /// Empties the Lease of a silent member (H5).
    Fence,
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The work ended and the lease is being given back.
    Resigned,
    /// No renewal succeeded in time.
    TrustExpired,
    /// Somebody else holds the lease.
    HeldBy(String),
    /// Somebody emptied the holder.
    Emptied,
    /// The record was deleted.
    Deleted,
    /// The record was deleted and made anew.
    Recreated,
    /// Somebody wrote under our identity, or changed the term.
    DuplicateIdentity,
    /// The veto or the watchdog said so.
    Unhealthy,
    /// The drain took longer than its budget; the lease runs out instead of being released.
    DrainOverrun,
}

/// Something a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A record under our identity that we did not write: two processes share an identity.
    DuplicateIdentity,
    /// A write's outcome is unknown.
    UnknownOutcome {
        /// What the write was for.
        purpose: Purpose,
    },
    /// A write met a newer revision.
    Conflict {
        /// What the write was for.
        purpose: Purpose,
    },
    /// The lease could not be given back; others wait until it lapses.
    NotReleased {
        /// The term.
        term: Term,
    },
    /// An unknown attempt turned out to have been stored.
    Adopted {
        /// The attempt.
        attempt: u64,
    },
    /// The record names another holder as preferred: the shell should answer with
    /// [`Input::StepDown`](super::Input::StepDown).
    PreferredHolder(String),
    /// An attempt failed; the next one comes after this delay.
    RetryIn(Duration),
}
