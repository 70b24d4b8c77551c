//! A process and its shell: one machine, one clock, one request under way, one watch, one work.

use std::collections::VecDeque;

use leasehold_core::election::{Effect, Election, Input, WriteOutcome};
use leasehold_core::id::{FencingToken, Identity};
use leasehold_core::lease::{LeaseTiming, Versioned};
use leasehold_core::time::{Duration, Instant};
use std::rc::Rc;

use crate::client_go::ClientGo;
use crate::clock::{Clock, Nanos};
use crate::store::News;

/// What decides in a process.
pub enum Machine {
    Ours(Box<Election>),
    ClientGo(Box<ClientGo>),
}

impl Machine {
    pub fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        match self {
            Self::Ours(election) => election.step(input, now),
            Self::ClientGo(model) => model.step(input, now),
        }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Ours(election) => election.next_deadline(),
            Self::ClientGo(model) => model.next_deadline(),
        }
    }

    pub fn leads(&self) -> bool {
        match self {
            Self::Ours(election) => election.view().leading.is_some(),
            Self::ClientGo(model) => model.leads(),
        }
    }
}

/// Something on its way to a process; a paused one finds it when it wakes up.
#[derive(Clone, Debug)]
pub enum Delivery {
    Timer {
        generation: u64,
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
    /// The watch is known to be dead, or a list is due again.
    Reconnect {
        connection: u64,
    },
    Listed {
        connection: u64,
        asked: Instant,
        state: Option<Versioned>,
        selected: bool,
    },
    ListFailed {
        connection: u64,
    },
    Input(Input),
    /// The work's turn.
    Poll {
        term: u64,
    },
    /// A write past its check, still inside the process.
    Commit {
        token: FencingToken,
    },
    WorkEnds {
        term: u64,
    },
}

#[derive(Clone, Debug)]
pub enum Answer {
    Write(WriteOutcome),
    Read(Option<Versioned>),
    ReadFailed(Option<Duration>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Up,
    Dropped,
    Held,
    OneWay,
    Refused,
}

/// The guard: valid while the clock shows less than `trusted_until` and no end was announced.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    pub token: FencingToken,
    pub from: Nanos,
    pub trusted_until: Instant,
    /// True time of `trusted_until`.
    pub until: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Number of the term within the process.
    pub term: u64,
    pub running: bool,
    pub hangs: bool,
    /// Paused or hung: no inequality holds for what it still does.
    pub tainted: bool,
    /// An end was scheduled already.
    pub stopping: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Draining {
    pub until: Instant,
    /// Something happened that may cost the lease.
    pub disturbed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Number of the newest connection.
    pub connection: u64,
    /// The server sends news to this connection.
    pub live: bool,
    /// The list of this connection was received.
    pub established: bool,
    /// When the newest news arrives: news never overtake.
    pub newest: Nanos,
    pub lag: Nanos,
    pub lag_until: Nanos,
    pub failures: u32,
}

/// What E5 asks a claimer to remember, kept apart from the machine that is judged.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Newest revision received.
    pub revision: u64,
    pub held: Option<HeldRevision>,
}

/// A held revision whose end was not seen.
#[derive(Clone, Debug)]
pub struct HeldRevision {
    at: Instant,
    published: Duration,
    life: String,
    term: u32,
    stamped: bool,
}

pub struct Process {
    pub identity: Identity,
    pub pod_uid: String,
    pub slot: Option<usize>,
    pub clock: Clock,
    pub machine: Machine,
    pub timing: LeaseTiming,
    pub alive: bool,
    pub paused: u32,
    pub stalled: u32,
    pub inbox: VecDeque<Delivery>,
    pub link: Link,
    /// Packets held by the link, in order: to the server, and to the process.
    pub held_out: Vec<crate::network::Call>,
    pub held_in: Vec<Delivery>,
    /// The request under way: its id, and its attempt number if it is a write.
    pub call: Option<(u64, Option<u64>)>,
    pub timer: u64,
    pub timer_at: Option<Nanos>,
    pub guard: Option<Guard>,
    pub work: Work,
    pub watch: Watch,
    pub draining: Option<Draining>,
    /// Trust ran out in an undisturbed drain that could have gone on until then (E10).
    pub drain_cut: Option<Nanos>,
    pub healthy: bool,
    pub stopping: bool,
    pub may_reclaim: bool,
    pub duplicate_of: Option<usize>,
    pub duplicate_noticed: bool,
    pub memory: Memory,
    /// Newest own revision that was acknowledged or adopted in this term.
    pub own_revision: u64,
    /// Claims since the last term, and whether they were sent after the wait that E5 demands.
    pub claims: Vec<(u64, bool)>,
    /// Send times of the newest requests, and of the newest timers.
    pub requests: VecDeque<Nanos>,
    pub wakes: VecDeque<Nanos>,
    pub able_since: Option<Nanos>,
}

impl Process {
    pub fn local(&self, now: Nanos) -> Instant {
        self.clock.local(now)
    }

    pub fn is_client_go(&self) -> bool {
        matches!(self.machine, Machine::ClientGo(_))
    }

    /// The guard answers yes at this true instant.
    pub fn guarded(&self, now: Nanos) -> bool {
        self.alive && self.guard.is_some_and(|guard| now < guard.until)
    }

    /// Could campaign or lead if the store answers.
    pub fn is_able(&self) -> bool {
        let stuck = self.work.running && self.guard.is_none();
        self.alive
            && self.paused == 0
            && self.stalled == 0
            && self.link == Link::Up
            && self.healthy
            && !self.stopping
            && !stuck
    }

    /// Nothing is wrong with its renewals: the newest one is not older than they should be.
    pub fn is_fresh(&self, now: Nanos) -> bool {
        let timing = &self.timing;
        let due = timing.heartbeat() + timing.attempt_timeout();
        let expected = self.local(now).after(timing.trusted().saturating_sub(due));
        let reachable = self.link == Link::Up && self.paused == 0 && self.stalled == 0;
        reachable
            && self
                .guard
                .is_some_and(|guard| guard.trusted_until >= expected)
    }

    /// E5, restated for the judge: a claim is due if no held revision was received, or its wait is over.
    pub fn has_waited(&self, now: Nanos) -> bool {
        let own = self.timing.lease_duration();
        let due = |held: &HeldRevision| held.at.after(own.max(held.published));
        let held = self.memory.held.as_ref();
        held.is_none_or(|held| self.local(now) >= due(held))
    }

    /// The claim with this number was sent after that wait.
    pub fn claim_waited(&self, attempt: u64) -> bool {
        let claim = self.claims.iter().find(|(number, _)| *number == attempt);
        claim.is_some_and(|(_, waited)| *waited)
    }

    /// Remembers a received state as E5 demands it.
    pub fn remember(&mut self, state: &Versioned, now: Nanos) {
        let revision = state.revision.number();
        if revision <= self.memory.revision {
            return; // answers and news may overtake each other
        }
        self.memory.revision = revision;
        let record = &state.record;
        let term = record.term;
        let stamped = record.attempt.as_ref().is_some_and(|a| a.term == term);
        let released = record.released.as_ref().is_some_and(|r| r.term == term);
        if record.holder.is_some() {
            self.memory.held = Some(HeldRevision {
                at: self.local(now),
                published: record.duration.unwrap_or_default(),
                life: state.uid.as_str().to_owned(),
                term: term.number(),
                stamped,
            });
        } else if let Some(held) = &self.memory.held {
            let peer = !stamped && (term.number() > held.term || !held.stamped);
            if held.life == state.uid.as_str() && (released || peer) {
                self.memory.held = None;
            }
        }
    }
}
