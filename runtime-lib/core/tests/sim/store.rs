//! The API server's half of the truth: one Lease with compare-and-set, a revision counter that all
//! objects share, a new uid for each life, and the news that a watch with a label selector gets.

use leasehold_core::election::{Target, Write};
use leasehold_core::id::{LeaseUid, Revision, Term};
use leasehold_core::lease::{LeaseRecord, Versioned};
use leasehold_core::time::Duration;

/// The stored Lease.
#[derive(Clone, Debug)]
pub struct Stored {
    pub state: Versioned,
    pub labelled: bool,
    /// The process whose term this record is, as far as its stamps say; the judge uses it.
    pub keeper: Option<usize>,
}

/// One change in the life of the Lease.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub revision: u64,
    pub life: u64,
    /// The newest write of a process up to here.
    pub attempt: u64,
    pub keeper: Option<usize>,
}

/// What a label watch delivers.
#[derive(Clone, Debug)]
pub enum News {
    Changed(Versioned),
    Gone,
}

/// What somebody outside the election may do to a Lease.
#[derive(Clone, Debug)]
pub enum Edit {
    Delete,
    /// Deleted and made anew, with an empty holder.
    Recreate,
    Empty,
    Forge(String),
    Unlabel,
    Duration(u64),
    Term(u32),
    Prefer(String),
}

/// How a write went, with what the judge needs.
#[allow(clippy::large_enum_variant, reason = "one at a time")]
pub enum Applied {
    Stored {
        before: Option<Box<Stored>>,
        /// The precondition did not hold (only with the precondition check switched off).
        mismatch: bool,
        news: News,
    },
    Conflict,
}

/// A store with one Lease.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    lives: u64,
    attempt: u64,
    writer: usize,
    current: Option<Stored>,
    pub entries: Vec<Entry>,
    /// Positive control of E1: a PATCH or a bare PUT instead of a compare-and-set.
    pub ignores_preconditions: bool,
    /// Watches select by name: labels do not matter.
    by_name: bool,
}

impl Store {
    pub fn new(ignores_preconditions: bool, by_name: bool) -> Self {
        Self {
            revision: 1000,
            lives: 0,
            attempt: 0,
            writer: 0,
            current: None,
            entries: Vec::new(),
            ignores_preconditions,
            by_name,
        }
    }

    pub fn current(&self) -> Option<&Stored> {
        self.current.as_ref()
    }

    pub fn state(&self) -> Option<&Versioned> {
        self.current.as_ref().map(|stored| &stored.state)
    }

    /// A write of some other object: revisions are shared.
    pub fn bump(&mut self) {
        self.revision += 1;
    }

    /// A write of process `p`.
    pub fn write(&mut self, p: usize, write: &Write) -> Applied {
        let holds = match (&write.target, self.state()) {
            (Target::Absent, None) => true,
            (Target::Exactly { uid, revision }, Some(state)) => {
                *uid == state.uid && *revision == state.revision
            }
            _ => false,
        };
        let is_create = write.target == Target::Absent;
        if !holds && (is_create || !self.ignores_preconditions) {
            return Applied::Conflict;
        }
        let before = self.current.clone().map(Box::new);
        (self.attempt, self.writer) = (write.attempt, p);
        let keeper = write.record.holder.is_some().then_some(p);
        let news = self.put(write.record.clone(), true, keeper);
        Applied::Stored {
            before,
            mismatch: !holds,
            news,
        }
    }

    fn put(&mut self, record: LeaseRecord, labelled: bool, keeper: Option<usize>) -> News {
        let labelled = labelled || self.by_name;
        self.revision += 1;
        let uid = if let Some(stored) = &self.current {
            stored.state.uid.clone()
        } else {
            self.lives += 1;
            LeaseUid::new(format!("life-{}", self.lives))
        };
        let state = Versioned {
            uid,
            revision: revision(self.revision),
            record,
        };
        self.note(keeper);
        self.current = Some(Stored {
            state: state.clone(),
            labelled,
            keeper,
        });
        News::Changed(state)
    }

    fn note(&mut self, keeper: Option<usize>) {
        self.entries.push(Entry {
            revision: self.revision,
            life: self.lives,
            attempt: self.attempt,
            keeper,
        });
    }

    fn delete(&mut self) -> Option<News> {
        let stored = self.current.take()?;
        self.revision += 1;
        self.note(None);
        stored.labelled.then_some(News::Gone)
    }

    /// An edit from outside; returns what a label watch sees of it.
    pub fn edit(&mut self, edit: &Edit) -> Vec<News> {
        let Some(stored) = self.current.clone() else {
            return Vec::new();
        };
        let mut record = stored.state.record.clone();
        let mut labelled = stored.labelled;
        match edit {
            Edit::Delete => return self.delete().into_iter().collect(),
            Edit::Recreate => {
                let mut news: Vec<News> = self.delete().into_iter().collect();
                news.push(self.put(LeaseRecord::default(), true, None));
                return news;
            }
            Edit::Empty => record.holder = None,
            Edit::Forge(holder) => record.holder = Some(holder.clone()),
            Edit::Unlabel => labelled = false,
            Edit::Duration(seconds) => record.duration = Some(Duration::from_secs(*seconds)),
            Edit::Term(term) => record.term = Term::new(*term),
            Edit::Prefer(holder) => record.preferred_holder = Some(holder.clone()),
        }
        // Nobody can tell a record that was put back from one that was never changed.
        let stamp = record.attempt.as_ref();
        let signed = stamp.is_some_and(|stamp| {
            record.holder.as_deref() == Some(stamp.identity.as_str()) && stamp.term == record.term
        });
        let keeper = signed.then_some(self.writer);
        let news = self.put(record, labelled, keeper);
        match (stored.labelled, labelled || self.by_name) {
            (_, true) => vec![news],
            (true, false) => vec![News::Gone],
            (false, false) => Vec::new(),
        }
    }

    /// Was there a state after `revision` in which process `p` no longer held its term?
    pub fn lost_after(&self, p: usize, revision: u64) -> bool {
        let newer = self.entries.iter().rev();
        newer
            .take_while(|entry| entry.revision > revision)
            .any(|entry| entry.keeper != Some(p))
    }

    /// Does the state `shown` go on with the term of process `p` that had `own`?
    pub fn goes_on(&self, p: usize, own: u64, shown: u64) -> bool {
        let life = |revision| self.entry(revision).map(|entry| entry.life);
        self.keeper_of(shown) == Some(p) && life(own) == life(shown)
    }

    /// What is written down about a revision.
    pub fn entry(&self, revision: u64) -> Option<Entry> {
        let found = self
            .entries
            .binary_search_by_key(&revision, |entry| entry.revision);
        found.ok().map(|index| self.entries[index])
    }

    /// Whose term the state with this revision was.
    pub fn keeper_of(&self, revision: u64) -> Option<usize> {
        self.entry(revision)?.keeper
    }
}

fn revision(number: u64) -> Revision {
    Revision::new(number).expect("revisions of a run fit")
}
