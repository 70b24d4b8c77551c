//! The store in memory: for one process, for tests, and the reference of the contract.
//!
//! Records live as long as the process. Clusters of one process that name the same namespace share
//! them, so that several candidates can run in one program.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use leasehold_core::election::{Purpose, Target, Write};
use leasehold_core::id::LeaseUid;
use leasehold_core::lease::{Contents, LeaseRecord, Versioned};
use leasehold_core::partition::Listing;
use leasehold_core::time::Duration;
use tokio::sync::mpsc;

use super::{
    Answer, Feed, LeaseStore, Marks, MemberFeed, MemberNews, News, StoreError, WriteFailed,
};
use crate::clock::Clock;
use crate::key::LeaseKey;
#[cfg(any(test, feature = "testing"))]
use crate::settings::Declared;

mod state;

use state::{Registration, Shared, State, Stored};

/// The records of one namespace.
pub struct MemoryStore {
    shared: Arc<Shared>,
    clock: Clock,
}

impl MemoryStore {
    /// The store that all clusters of this process with this namespace share.
    pub(crate) fn of_process(namespace: &str, clock: Clock) -> Self {
        static SPACES: OnceLock<Mutex<BTreeMap<String, Arc<Shared>>>> = OnceLock::new();
        let spaces = SPACES.get_or_init(Mutex::default);
        let mut spaces = spaces.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            shared: Arc::clone(spaces.entry(namespace.to_owned()).or_default()),
            clock,
        }
    }

    /// A store of its own.
    #[cfg(any(test, feature = "testing"))]
    pub fn separate(clock: Clock) -> Self {
        Self {
            shared: Arc::default(),
            clock,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Declares settings for a key, as the operator does on Kubernetes.
    #[cfg(any(test, feature = "testing"))]
    pub fn declare(&self, key: &LeaseKey, declared: Option<Result<Declared, String>>) {
        let mut state = self.state();
        match &declared {
            Some(declared) => state.declared.insert(key.clone(), declared.clone()),
            None => state.declared.remove(key),
        };
        state.watchers.tell(key, &News::Settings(declared));
    }

    /// Changes a record from outside the election, as a person could; `None` deletes it.
    ///
    /// Returns false if there is no record to change.
    #[cfg(any(test, feature = "testing"))]
    pub fn edit(
        &self,
        key: &LeaseKey,
        change: impl FnOnce(LeaseRecord) -> Option<LeaseRecord>,
    ) -> bool {
        let mut state = self.state();
        let Some(stored) = state.records.get(key).cloned() else {
            return false;
        };
        match change(stored.versioned.record.clone()) {
            None => state.remove(key),
            Some(record) => {
                let Ok(revision) = state.next_revision() else {
                    return false;
                };
                let versioned = Versioned {
                    revision,
                    record,
                    ..stored.versioned
                };
                state.store(
                    key,
                    Stored {
                        versioned,
                        ..stored
                    },
                );
            }
        }
        true
    }

    /// Sets an annotation that is not ours.
    #[cfg(any(test, feature = "testing"))]
    pub fn annotate(&self, key: &LeaseKey, name: &str, value: &str) -> bool {
        let mut state = self.state();
        let Some(mut stored) = state.records.get(key).cloned() else {
            return false;
        };
        let Ok(revision) = state.next_revision() else {
            return false;
        };
        stored.versioned.revision = revision;
        stored.annotations.insert(name.to_owned(), value.to_owned());
        state.store(key, stored);
        true
    }

    /// Takes off the labels by which lists and watches find the record, as a person could (E4).
    #[cfg(any(test, feature = "testing"))]
    pub fn unlabel(&self, key: &LeaseKey) -> bool {
        let mut state = self.state();
        let Some(mut stored) = state.records.get(key).cloned() else {
            return false;
        };
        let Ok(revision) = state.next_revision() else {
            return false;
        };
        stored.versioned.revision = revision;
        state.unlabel(key, stored);
        true
    }

    /// The annotation's value.
    #[cfg(any(test, feature = "testing"))]
    pub fn annotation(&self, key: &LeaseKey, name: &str) -> Option<String> {
        self.state()
            .records
            .get(key)?
            .annotations
            .get(name)
            .cloned()
    }

    fn try_write(
        &self,
        key: &LeaseKey,
        write: &Write,
        marks: &Marks,
    ) -> Result<Versioned, WriteFailed> {
        let mut state = self.state();
        let present = state.records.get(key).cloned();
        let (uid, mut annotations, contents) = match (&write.target, present) {
            (Target::Absent, None) => {
                state.lives += 1;
                (
                    LeaseUid::new(format!("memory-{}", state.lives)),
                    BTreeMap::new(),
                    Contents::Nothing,
                )
            }
            // E1: revision and life must both be the ones that the write replaces.
            (Target::Exactly { uid, revision }, Some(stored))
                if stored.versioned.uid == *uid && stored.versioned.revision == *revision =>
            {
                (
                    uid.clone(),
                    stored.annotations,
                    stored.versioned.record.contents,
                )
            }
            _ => return Err(WriteFailed::Conflict),
        };
        if write.purpose != Purpose::Fence {
            set(
                &mut annotations,
                GENERATION,
                marks.settings_generation.map(|n| n.to_string()),
            );
            set(&mut annotations, FIXED, marks.fixed.clone());
        }
        let revision = state.next_revision().map_err(WriteFailed::Failed)?;
        let versioned = Versioned {
            uid,
            revision,
            record: LeaseRecord {
                contents: replaced(contents, &write.record.contents),
                ..write.record.clone()
            },
        };
        let stored = Stored {
            versioned: versioned.clone(),
            annotations,
            labelled: true, // E4: every own write restores the labels
        };
        state.store(key, stored);
        Ok(versioned)
    }
}

/// The names under which the marks are kept, as on Kubernetes.
const GENERATION: &str = "leasehold.dev/settings-generation";
const FIXED: &str = "leasehold.dev/fixed";

fn set(annotations: &mut BTreeMap<String, String>, name: &str, value: Option<String>) {
    match value {
        Some(value) => annotations.insert(name.to_owned(), value),
        None => annotations.remove(name),
    };
}

/// What stands there after a write of `new`.
fn replaced(old: Contents, new: &Contents) -> Contents {
    match new {
        Contents::Nothing | Contents::Unreadable { .. } => old,
        Contents::Member(_) | Contents::Table(_) => new.clone(),
    }
}

fn listing(state: &State, key: &LeaseKey) -> Result<Listing, StoreError> {
    let by_name = |key: &LeaseKey| {
        let stored = state.records.get(key)?;
        Some(stored.versioned.clone())
    };
    let mut members = state.members_of(key);
    if let (Some(name), Some(own)) = (key.member_name(), by_name(key)) {
        members.insert(Arc::clone(name), own);
    }
    Ok(Listing {
        revision: state.last_revision()?,
        assignment: by_name(&key.assignment()),
        members,
    })
}

impl LeaseStore for MemoryStore {
    fn read<'a>(
        &'a self,
        key: &'a LeaseKey,
        _limit: Duration,
    ) -> Answer<'a, Result<Option<Versioned>, StoreError>> {
        Box::pin(async move {
            Ok(self
                .state()
                .records
                .get(key)
                .map(|stored| stored.versioned.clone()))
        })
    }

    fn write<'a>(
        &'a self,
        key: &'a LeaseKey,
        write: &'a Write,
        marks: &'a Marks,
        _limit: Duration,
    ) -> Answer<'a, Result<Versioned, WriteFailed>> {
        Box::pin(async move { self.try_write(key, write, marks) })
    }

    fn list<'a>(
        &'a self,
        key: &'a LeaseKey,
        _limit: Duration,
    ) -> Answer<'a, Result<Listing, StoreError>> {
        Box::pin(async move { listing(&self.state(), key) })
    }

    fn watch(&self, key: &LeaseKey) -> Feed {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        let present = state
            .records
            .get(key)
            .map(|stored| stored.versioned.clone());
        // The receiver is still here, so nothing is lost by not looking at the result.
        let _ = sender.send(News::Listed {
            asked: self.clock.now(),
            state: present,
        });
        if let Some(declared) = state.declared.get(key) {
            let _ = sender.send(News::Settings(Some(declared.clone())));
        }
        let registration = Registration {
            shared: Arc::clone(&self.shared),
            subject: key.clone(),
            number: state.watchers.join(key.clone(), sender),
            of: |state| &mut state.watchers,
        };
        Feed::new(
            receiver,
            Arc::new(AtomicU64::new(0)),
            Box::new(registration),
        )
    }

    fn watch_members(&self, key: &LeaseKey) -> MemberFeed {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.state();
        // As above.
        let _ = sender.send(MemberNews::Listed {
            asked: self.clock.now(),
            members: state.members_of(key),
        });
        let id = key.cluster_id().to_owned();
        let registration = Registration {
            shared: Arc::clone(&self.shared),
            subject: id.clone(),
            number: state.member_watchers.join(id, sender),
            of: |state| &mut state.member_watchers,
        };
        Feed::new(
            receiver,
            Arc::new(AtomicU64::new(0)),
            Box::new(registration),
        )
    }
}
