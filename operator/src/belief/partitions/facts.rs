//! What a pass knows of the partitions: a snapshot, with every question of time answered.

use std::time::Duration;

use leasehold_core::{
    id::Revision,
    partition::{Layout, MemberState, Rebalance},
};
use tokio::time::Instant;

use super::{super::Heard, Blocker};

/// What a pass knows of the partitions.
#[derive(Clone, Debug, Default)]
pub struct PartitionFacts {
    /// The assignment Lease.
    pub assignment: AssignmentFacts,
    /// The member Leases, by name.
    pub members: Vec<MemberFacts>,
}

/// What is known of the assignment Lease.
#[derive(Clone, Debug, Default)]
pub enum AssignmentFacts {
    /// There is none.
    #[default]
    Absent,
    /// It holds what cannot be read, and why.
    Unreadable(String),
    /// It holds a table.
    Table(Box<TableFacts>),
}

/// A table and how it fares.
#[derive(Clone, Debug)]
pub struct TableFacts {
    /// uid of the Lease.
    pub uid: String,
    /// Epoch of the newest publish.
    pub epoch: Revision,
    /// How the keys are cut.
    pub layout: Layout,
    /// A count that waits for the end of this change.
    pub queued: Option<u16>,
    /// What the newest publish did.
    pub rebalance: Rebalance,
    /// How the partitions fare.
    pub owned: usize,
    /// See `moving` of [`Tally`](super::table::Tally).
    pub moving: usize,
    /// See `unowned` of [`Tally`](super::table::Tally).
    pub unowned: usize,
    /// Who keeps owners waiting.
    pub blockers: Vec<BlockerFacts>,
    /// How this epoch came in.
    pub heard: Heard,
    /// When this epoch came in.
    pub published: Instant,
    /// For how long any table of this service has been known.
    pub known_for: Duration,
    /// See [`leasehold_crds::LastRebalance::seconds`].
    pub settled: Option<Duration>,
}

/// A member that keeps owners waiting.
#[derive(Clone, Debug)]
pub struct BlockerFacts {
    /// Who, which epoch and which partitions.
    pub blocker: Blocker,
    /// Since when, for people.
    pub since: jiff::Timestamp,
    /// For how long.
    pub waited: Duration,
    /// Its Lease.
    pub life: Option<Life>,
}

/// What a member Lease means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Held and renewed, as far as we know.
    Renewed,
    /// Held, and its holder wrote nothing for its duration.
    Silent,
    /// Nobody holds it: given up, or fenced (H5).
    Empty,
}

/// One member Lease.
#[derive(Clone, Debug)]
pub struct MemberFacts {
    /// Name of the pod.
    pub pod: String,
    /// uid of the Lease.
    pub uid: String,
    /// resourceVersion of the Lease.
    pub revision: String,
    /// What it means.
    pub life: Life,
    /// What it says.
    pub state: MemberState,
    /// What cannot be read, if anything.
    pub problem: Option<String>,
    /// The values that its code fixes.
    pub fixed: Option<String>,
    /// Partitions that the table gives to this life of it.
    pub owns: usize,
    /// The table names it, in whatever life.
    pub is_named: bool,
    /// How long ago its newest revision came in.
    pub unchanged_for: Duration,
    /// How long it keeps others out after each write.
    pub duration: Duration,
}
