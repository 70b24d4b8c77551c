//! Everything that can happen to a candidate.

use crate::id::Term;
use crate::lease::{Contents, LeaseTiming, Versioned};
use crate::time::{Duration, Instant};

/// Something that happened. Shells feed every input with the boot-time clock's `now`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A deadline passed; see [`Election::next_deadline`](super::Election::next_deadline).
    Timer,
    /// The watch delivered a revision.
    Watched(Versioned),
    /// The watch says that the record left its selection: deleted, or its labels were lost (E4).
    WatchedGone,
    /// A quorum list, asked for by the shell at `asked`, contained this (E4).
    Listed {
        /// When the list was sent.
        asked: Instant,
        /// The record, if the list has it. A record outside the list's selection is not `None`
        /// but [`Input::WatchedGone`].
        state: Option<Versioned>,
    },
    /// The read asked for by [`Effect::Read`](super::Effect::Read) answered; always a quorum read.
    Read(Option<Versioned>),
    /// The read asked for by [`Effect::Read`](super::Effect::Read) failed or timed out.
    ReadFailed {
        /// The server's wish, if it named one.
        retry_after: Option<Duration>,
    },
    /// The write with this attempt number ended.
    WriteDone {
        /// [`Write::attempt`](super::Write::attempt).
        attempt: u64,
        /// How.
        outcome: WriteOutcome,
    },
    /// The veto or the watchdog changed its mind: an unhealthy process neither leads nor campaigns.
    Health(bool),
    /// The work of the term ended: its future was dropped or returned, nothing of it runs on.
    WorkEnded,
    /// Give the term up after draining, then let others go first.
    StepDown {
        /// Longest time for the drain.
        drain: Duration,
    },
    /// Stop campaigning for good; a leader drains first (E10).
    Shutdown {
        /// Longest time for the drain.
        drain: Duration,
    },
    /// New timing from the settings; a leader publishes it at once.
    Retime(LeaseTiming),
    /// What every record of ours carries from now on.
    Contents {
        /// That.
        contents: Contents,
        /// Publish it at once; else the next renewal carries it.
        at_once: bool,
    },
    /// The next term is later than this one, whatever the record says (H1).
    TermFloor(Term),
}

/// How a write ended. Three outcomes are kept apart: done, definitely not done, unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriteOutcome {
    /// Done: the record as stored.
    Done(Versioned),
    /// Not done: the precondition failed (newer revision, other uid, exists already, gone).
    Conflict,
    /// Not done: the store refused (no right, throttled, invalid).
    Refused {
        /// The server's wish, if it named one.
        retry_after: Option<Duration>,
    },
    /// Nobody knows: timed out, connection lost, server error (E2).
    Unknown,
}
