//! A process and its shell: two elections, a handoff, a planner while it leads, its watches and its
//! works, all on one clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use leasehold_core::election::{self, Election, WriteOutcome};
use leasehold_core::id::{Identity, Revision, Term};
use leasehold_core::lease::Versioned;
use leasehold_core::partition::handoff::{self, Handoff, Slot};
use leasehold_core::partition::planner::{self, Planner};
use leasehold_core::partition::{Listing, Table};
use leasehold_core::time::{Duration, Instant};

use crate::clock::{Clock, Nanos};
use crate::network::Call;
use crate::store::Key;

/// Something that one of the machines is about to be told.
#[derive(Clone, Debug)]
pub enum Todo {
    Leader(election::Input),
    Member(election::Input),
    Handoff(handoff::Input),
    Planner(planner::Input),
}

/// Something on its way to a process; a paused one finds it when it wakes up.
#[derive(Clone, Debug)]
pub enum Delivery {
    Timer {
        number: u64,
    },
    Answer {
        call: u64,
        answer: Answer,
    },
    Timeout {
        call: u64,
    },
    News {
        connection: u64,
        news: Rc<News>,
    },
    Listed {
        connection: u64,
        asked: Instant,
        listing: Rc<Listing>,
        leader: Option<Versioned>,
    },
    ListFailed {
        connection: u64,
    },
    /// The watch is known to be dead, or a list is due again.
    Reconnect {
        connection: u64,
    },
    /// The settings ask for this count.
    Wanted(u16),
    /// SIGTERM.
    Terminate,
    /// Nobody took the partitions in time.
    DrainAll,
    /// A work came to its end.
    WorkEnds {
        slot: Slot,
        work: u64,
    },
    /// The work's turn at the guarded store.
    Turn {
        slot: Slot,
        work: u64,
        turn: Turn,
    },
    /// A request that the process was stopped before.
    Transmit(Call),
}

/// What a watch delivers.
#[derive(Clone, Debug)]
pub struct News {
    pub key: Key,
    pub state: Option<Versioned>,
}

#[derive(Clone, Debug)]
pub enum Answer {
    Write(WriteOutcome),
    Read(Option<Versioned>),
    List(Listing),
    Failed(Option<Duration>),
}

/// One step of the read-modify-write of a work (H9).
#[derive(Clone, Copy, Debug)]
pub enum Turn {
    Raise,
    /// The store's answer to it.
    Raised(bool),
    Read,
    /// Write what follows from the value that was read.
    Write {
        row: usize,
        seen: u64,
    },
}

/// Who waits for the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// An election's write with its attempt number, or its read.
    Leader(Option<u64>),
    Member(Option<u64>),
    /// The planner of this leadership: a write with its attempt number.
    Planner(u64, u64),
    /// Its list, and when it was asked for.
    PlannerList(u64, Instant),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Up,
    Dropped,
    Held,
    OneWay,
}

/// The guard of all works: valid while the clock shows less and no end was announced.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    pub incarnation: Term,
    /// True time of the end of trust.
    pub until: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Running,
    Draining,
    Lost,
}

/// The work of one partition.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub number: u64,
    pub epoch: Revision,
    /// Its hashes: the first one, and the one past the last.
    pub range: (u128, u128),
    pub phase: Phase,
    /// The table that gave it to somebody else.
    pub taken: Option<Revision>,
    /// Paused or stuck: no inequality holds for what it still does.
    pub tainted: bool,
    /// It was said to have ended, and runs on (a control).
    pub disowned: bool,
}

/// What a watch selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selector {
    /// Leader and assignment (H10).
    Shared,
    /// All members: the leader's.
    Members,
    Named(Arc<str>),
}

impl Selector {
    pub fn selects(&self, key: &Key) -> bool {
        match (self, key) {
            (Self::Shared, Key::Leader | Key::Assignment) | (Self::Members, Key::Member(_)) => true,
            (Self::Named(name), Key::Member(other)) => name == other,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Number of the newest connection, unique in the run.
    pub connection: u64,
    /// The server sends news to this connection.
    pub live: bool,
    /// The list of this connection was received.
    pub established: bool,
    /// When the newest news arrives: news never overtake.
    pub newest: Nanos,
    pub failures: u32,
}

/// What a watch by name showed last.
#[derive(Clone, Debug)]
pub struct Known {
    pub state: Option<Versioned>,
    pub since: Instant,
}

pub struct Pod {
    pub name: Arc<str>,
    pub identity: Identity,
    pub slot: usize,
    /// Revision of the workload.
    pub revision: u32,
    pub clock: Clock,
    pub alive: bool,
    pub paused: u32,
    pub inbox: VecDeque<Delivery>,
    pub link: Link,
    /// Packets held by the link, in order: to the server, and to the process.
    pub held_out: Vec<Call>,
    pub held_in: Vec<Delivery>,
    pub lag: Nanos,
    pub lag_until: Nanos,

    pub leader: Election,
    pub member: Election,
    pub handoff: Handoff,
    pub planner: Option<Planner>,
    /// Counts its leaderships.
    pub leadership: u64,
    pub wanted: u16,
    pub todo: VecDeque<Todo>,
    pub timer: u64,
    pub timer_at: Option<Nanos>,
    pub calls: BTreeMap<u64, Asker>,

    pub guard: Option<Guard>,
    pub works: BTreeMap<Slot, Work>,
    /// The term of the member Lease is over; the works of it may not be.
    pub ending: bool,
    /// Works do not end when they are asked to.
    pub stuck: bool,
    pub stopping: bool,
    pub stopped: (bool, bool),
    /// Somebody outside changed its member Lease: nobody else is bound by its guard until then.
    pub tampered_until: Nanos,
    /// Somebody outside deleted its member Lease.
    pub deleted: bool,

    pub watches: BTreeMap<Selector, Watch>,
    pub known: BTreeMap<Arc<str>, Known>,
    /// Whose Leases the handoff asked for.
    pub followed: BTreeSet<Arc<str>>,
    pub followed_leader: Option<Arc<str>>,
    pub table: Option<Arc<Table>>,
    /// Stop before the next publish is sent, or die after it.
    pub trap: Option<Trap>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    PauseAtPublish(Nanos),
    CrashAtPublish,
}

impl Pod {
    /// Notes what a watch by name showed.
    pub fn know(&mut self, name: &Arc<str>, state: Option<Versioned>, since: Instant) {
        let known = self.known.get(name).and_then(|known| known.state.as_ref());
        let same = |old: &Versioned| {
            let new = state.as_ref();
            new.is_some_and(|new| new.uid == old.uid && new.revision == old.revision)
        };
        if !known.is_some_and(same) {
            self.known.insert(Arc::clone(name), Known { state, since });
        }
    }

    pub fn local(&self, now: Nanos) -> Instant {
        self.clock.local(now)
    }

    pub fn watch_of(&mut self, connection: u64) -> Option<&mut Watch> {
        let mut watches = self.watches.values_mut();
        watches.find(|watch| watch.connection == connection)
    }

    pub fn selector_of(&self, connection: u64) -> Option<Selector> {
        let mut watches = self.watches.iter();
        let found = watches.find(|(_, watch)| watch.connection == connection);
        found.map(|(selector, _)| selector.clone())
    }

    /// The guard of its works answers yes at this true instant.
    pub fn guarded(&self, now: Nanos) -> bool {
        self.alive && self.guard.is_some_and(|guard| now < guard.until)
    }

    pub fn leads(&self) -> bool {
        self.alive && self.planner.is_some()
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        let planner = self.planner.as_ref().and_then(Planner::next_deadline);
        let elections = [self.leader.next_deadline(), self.member.next_deadline()];
        elections.into_iter().chain([planner]).flatten().min()
    }
}
