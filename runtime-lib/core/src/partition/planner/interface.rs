//! What a planner is born with, what it is told, and what it asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::election::{Purpose, Write, WriteOutcome};
use crate::id::{Identity, LeaseUid, Revision, Term};
use crate::lease::{LeaseTiming, Versioned};
use crate::partition::{HashId, Listing, Member};
use crate::rules::Rules;
use crate::time::{Duration, Instant};

/// How the keys should be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wanted {
    /// How many partitions; changed online (H8).
    pub count: u16,
    /// The hash; it counts only until the first table names one.
    pub hash: HashId,
}

/// What a planner is born with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The member name of this process.
    pub me: Arc<str>,
    /// Who publishes.
    pub identity: Identity,
    /// The term of the leadership that this planner belongs to.
    pub leader_term: Term,
    /// D is taken from here.
    pub timing: LeaseTiming,
    /// Number of the first attempt: random, as for the election.
    pub first_attempt: u64,
    /// How the keys should be cut.
    pub wanted: Wanted,
    /// When changes are made, and when they wait for more.
    pub pace: Pace,
    /// The rules in force; complete outside of tests.
    pub rules: Rules,
}

/// When changes are made, and when they wait for more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// Joins are taken together: so long after the last one ...
    pub join_quiet: Duration,
    /// ... but not longer after the first one.
    pub join_max: Duration,
    /// A rollout is over this long after its last sign.
    pub stabilization: Duration,
    /// ... or this long after it last made progress.
    pub rollout_max: Duration,
    /// A member that leaves keeps its share so long, in case a newcomer comes to take it whole.
    /// Shorter than the members' budget for a drain.
    pub hold: Duration,
    /// A member lost this often within the window ...
    pub flap_losses: usize,
    /// ... of this length ...
    pub flap_window: Duration,
    /// ... gets nothing new for so long, doubled with each further loss ...
    pub flap_first: Duration,
    /// ... up to this.
    pub flap_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            join_quiet: Duration::from_secs(2),
            join_max: Duration::from_secs(10),
            stabilization: Duration::from_secs(10),
            rollout_max: Duration::from_mins(5),
            hold: Duration::from_secs(10),
            flap_losses: 3,
            flap_window: Duration::from_mins(10),
            flap_first: Duration::from_secs(30),
            flap_max: Duration::from_mins(10),
        }
    }
}

/// A revision of a member Lease that this process has followed before it led (H10).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sighting {
    /// Which life of the Lease.
    pub uid: LeaseUid,
    /// Which version.
    pub revision: Revision,
    /// When it was received.
    pub since: Instant,
}

/// Something that happened. Shells feed every input with the boot-time clock's `now`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A deadline passed; see [`Planner::next_deadline`](super::Planner::next_deadline).
    Timer,
    /// The answer to [`Effect::List`].
    Listed {
        /// When the list was sent.
        asked: Instant,
        /// What it shows.
        listing: Listing,
    },
    /// The list failed or timed out.
    ListFailed {
        /// The server's wish, if it named one.
        retry_after: Option<Duration>,
    },
    /// The watch of the member Leases began with this quorum list.
    MembersListed {
        /// When it was sent.
        asked: Instant,
        /// The Leases by the names of their members.
        members: BTreeMap<Arc<str>, Versioned>,
    },
    /// The watch delivered a revision of a member Lease.
    MemberSeen {
        /// Whose.
        name: Arc<str>,
        /// The revision.
        lease: Versioned,
    },
    /// The watch says that a member Lease left its selection: deleted, or its labels were lost.
    MemberGone {
        /// Whose.
        name: Arc<str>,
    },
    /// The watch delivered a revision of the assignment Lease; `None` if it left the selection.
    Assignment(Option<Versioned>),
    /// A publish or a fence ended.
    WriteDone {
        /// [`Write::attempt`].
        attempt: u64,
        /// How.
        outcome: WriteOutcome,
    },
    /// The settings changed.
    Wanted(Wanted),
    /// The settings changed.
    Retime(LeaseTiming),
}

/// Something the shell must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a quorum list of the cluster id. At most one is under way.
    List,
    /// Write the assignment Lease. At most one publish is under way.
    Publish(Write),
    /// Empty the Lease of a silent member (H5). At most one for each member is under way.
    Fence {
        /// Whose.
        name: Arc<str>,
        /// The record of its Lease, without holder.
        write: Write,
    },
    /// Something a person should know; changes nothing.
    Notice(Notice),
}

/// Something a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A table was stored.
    Published {
        /// Its epoch.
        epoch: Revision,
        /// Partitions whose owner changed.
        moves: u16,
        /// Why.
        reason: Arc<str>,
    },
    /// A silent member was fenced: its Lease is empty (H5).
    Fenced(Member),
    /// A write met a newer revision.
    Conflict {
        /// What the write was for.
        purpose: Purpose,
    },
    /// A write's outcome is unknown.
    UnknownOutcome {
        /// What the write was for.
        purpose: Purpose,
    },
    /// A request failed; the next one comes after this delay.
    RetryIn(Duration),
    /// This is so from now on; see [`Planner::concerns`](super::Planner::concerns).
    Began(Concern),
    /// This is over.
    Ended(Concern),
}

/// A state of affairs that a person should know while it lasts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Concern {
    /// There is no table; one is made from what the members say, at that instant at the earliest (H7).
    TableMissing,
    /// The table cannot be read and is taken for lost (H7).
    TableUnreadable {
        /// Why.
        reason: Arc<str>,
    },
    /// A later version wrote the table: it is not touched, and nobody plans until one that can
    /// read it leads.
    TableNewer {
        /// Why.
        reason: Arc<str>,
    },
    /// What this member says cannot be read: it keeps what it has and receives nothing.
    MemberUnreadable {
        /// Whose Lease.
        name: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// This member is built for another hash than the table's: it receives nothing.
    HashDiffers {
        /// Whose.
        name: Arc<str>,
        /// The member's hash.
        hash: HashId,
    },
    /// The settings ask for another hash than the table's, which stays.
    WantedHash {
        /// The hash of the settings.
        hash: HashId,
    },
    /// The settings ask for a number of partitions that cannot be; the layout stays.
    WantedCount {
        /// That number.
        count: u16,
    },
    /// The number of partitions was changed again while a change still runs; this one comes next (H8).
    Queued {
        /// That number.
        count: u16,
    },
    /// Part of the table cannot be given away until this member's Lease is back, or missing long
    /// enough (H6).
    LeaseMissing(Member),
    /// A rollout is under way: newcomers stand by for the shares of those that leave.
    Rollout,
    /// This member leaves, and keeps its share for a newcomer that is expected.
    AwaitsNewcomer(Member),
    /// This member was lost often: it receives nothing for a while.
    Flaps {
        /// Whose name.
        name: Arc<str>,
    },
}
