//! The store in memory: for one process, for tests, and the reference of the contract.
//!
//! Records live as long as the process. Clusters of one process that name the same namespace share
//! them, so that several candidates can run in one program.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use leasehold_core::election::{Target, Write};
use leasehold_core::id::{LeaseUid, Revision};
#[cfg(any(test, feature = "testing"))]
use leasehold_core::lease::LeaseRecord;
use leasehold_core::lease::Versioned;
use leasehold_core::time::Duration;
use tokio::sync::mpsc;

use super::{Answer, Feed, LeaseStore, Marks, News, StoreError, WriteFailed};
use crate::clock::Clock;
use crate::key::LeaseKey;
use crate::settings::Declared;

/// The records of one namespace.
pub struct MemoryStore {
    shared: Arc<Shared>,
    clock: Clock,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last revision given out; one counter for all keys, as in etcd.
    revision: u64,
    lives: u64,
    records: BTreeMap<LeaseKey, Stored>,
    declared: BTreeMap<LeaseKey, Result<Declared, String>>,
    watchers: BTreeMap<LeaseKey, Vec<(u64, mpsc::UnboundedSender<News>)>>,
    next_watcher: u64,
}

#[derive(Clone)]
struct Stored {
    versioned: Versioned,
    annotations: BTreeMap<String, String>,
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
        state.tell(key, &News::Settings(declared));
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
            None => {
                state.revision += 1;
                state.records.remove(key);
                state.tell(key, &News::Gone);
            }
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
                        annotations: stored.annotations,
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
        let (uid, mut annotations) = match (&write.target, present) {
            (Target::Absent, None) => {
                state.lives += 1;
                (
                    LeaseUid::new(format!("memory-{}", state.lives)),
                    BTreeMap::new(),
                )
            }
            // E1: revision and life must both be the ones that the write replaces.
            (Target::Exactly { uid, revision }, Some(stored))
                if stored.versioned.uid == *uid && stored.versioned.revision == *revision =>
            {
                (uid.clone(), stored.annotations)
            }
            _ => return Err(WriteFailed::Conflict),
        };
        set(
            &mut annotations,
            GENERATION,
            marks.settings_generation.map(|n| n.to_string()),
        );
        set(&mut annotations, FIXED, marks.fixed.clone());
        let revision = state.next_revision().map_err(WriteFailed::Failed)?;
        let versioned = Versioned {
            uid,
            revision,
            record: write.record.clone(),
        };
        state.store(
            key,
            Stored {
                versioned: versioned.clone(),
                annotations,
            },
        );
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
        let number = state.next_watcher;
        state.next_watcher += 1;
        state
            .watchers
            .entry(key.clone())
            .or_default()
            .push((number, sender));
        let registration = Registration {
            shared: Arc::clone(&self.shared),
            key: key.clone(),
            number,
        };
        Feed::new(
            receiver,
            Arc::new(AtomicU64::new(0)),
            Box::new(registration),
        )
    }
}

impl Shared {
    /// Every change is a single insertion, so a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_revision(&mut self) -> Result<Revision, StoreError> {
        self.revision += 1;
        Revision::new(self.revision).map_err(|error| StoreError::Malformed {
            detail: error.to_string(),
        })
    }

    fn store(&mut self, key: &LeaseKey, stored: Stored) {
        let news = News::Watched(stored.versioned.clone());
        self.records.insert(key.clone(), stored);
        self.tell(key, &news);
    }

    fn tell(&mut self, key: &LeaseKey, news: &News) {
        if let Some(watchers) = self.watchers.get_mut(key) {
            watchers.retain(|(_, sender)| sender.send(news.clone()).is_ok());
        }
    }
}

/// Ends a subscription.
struct Registration {
    shared: Arc<Shared>,
    key: LeaseKey,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(watchers) = state.watchers.get_mut(&self.key) {
            watchers.retain(|(number, _)| *number != self.number);
            if watchers.is_empty() {
                state.watchers.remove(&self.key);
            }
        }
    }
}
