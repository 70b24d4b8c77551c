//! The store, and the way to it: one request per candidate, which may be slow, lost, or late.

use std::collections::VecDeque;

use leasehold_core::election::{Input, Target, Write, WriteOutcome};
use leasehold_core::id::{LeaseUid, Revision};
use leasehold_core::lease::Versioned;

/// Watch events that a candidate may be behind; older ones are left out, as after a relist.
const BEHIND_MAX: usize = 2;

/// A store with compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Store {
    pub(crate) record: Option<Versioned>,
    pub(crate) revision: u64,
    lives: u8,
}

/// Where the one request of a candidate is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Wire {
    #[default]
    Idle,
    Reading,
    Writing(Sending),
    /// The store has decided; the answer is under way.
    Answered(Answer),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sending(pub(crate) Hashed<Write>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Read(Option<Versioned>),
    Stored(u64, Versioned),
    Conflict(u64),
}

/// What the watch has to deliver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum News {
    Changed(Versioned),
    Gone,
}

/// A value that is told apart by its attempt number: one candidate numbers its writes.
#[derive(Clone, Debug)]
pub(crate) struct Hashed<T>(pub(crate) T);

impl PartialEq for Hashed<Write> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Hashed<Write> {}

impl std::hash::Hash for Hashed<Write> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.attempt.hash(state);
        self.0.record.hash(state);
        if let Target::Exactly { uid, revision } = &self.0.target {
            (uid, revision).hash(state);
        }
    }
}

impl Answer {
    pub(crate) fn input(self) -> Input {
        match self {
            Self::Read(state) => Input::Read(state),
            Self::Stored(attempt, state) => Input::WriteDone {
                attempt,
                outcome: WriteOutcome::Done(state),
            },
            Self::Conflict(attempt) => Input::WriteDone {
                attempt,
                outcome: WriteOutcome::Conflict,
            },
        }
    }

    /// What the candidate hears if the answer is lost.
    pub(crate) fn lost(&self) -> Input {
        match self {
            Self::Read(_) => Input::ReadFailed { retry_after: None },
            Self::Stored(attempt, _) | Self::Conflict(attempt) => unknown(*attempt),
        }
    }
}

pub(crate) fn unknown(attempt: u64) -> Input {
    Input::WriteDone {
        attempt,
        outcome: WriteOutcome::Unknown,
    }
}

impl Store {
    /// E1: creates, or replaces exactly the named revision of the named life.
    pub(crate) fn write(&mut self, write: &Write) -> Option<Versioned> {
        let uid = match (&write.target, &self.record) {
            (Target::Absent, None) => {
                self.lives += 1;
                LeaseUid::new(format!("u{}", self.lives))
            }
            (Target::Exactly { uid, revision }, Some(state))
                if *uid == state.uid && *revision == state.revision =>
            {
                uid.clone()
            }
            _ => return None,
        };
        self.record = Some(Versioned {
            uid,
            revision: self.next(),
            record: write.record.clone(),
        });
        self.record.clone()
    }

    /// Somebody outside empties the holder.
    pub(crate) fn empty(&mut self) -> Option<Versioned> {
        let revision = self.next();
        let state = self.record.as_mut()?;
        state.revision = revision;
        state.record.holder = None;
        self.record.clone()
    }

    /// Somebody outside deletes the record.
    pub(crate) fn delete(&mut self) {
        self.next();
        self.record = None;
    }

    fn next(&mut self) -> Revision {
        self.revision += 1;
        Revision::new(self.revision).unwrap_or_else(|error| unreachable!("{error}"))
    }
}

pub(crate) fn announce(queue: &mut VecDeque<News>, news: News) {
    if queue.len() == BEHIND_MAX {
        queue.pop_front();
    }
    queue.push_back(news);
}
