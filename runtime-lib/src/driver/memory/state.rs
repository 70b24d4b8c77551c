//! What the store in memory holds, and who is told of a change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::id::Revision;
use leasehold_core::lease::Versioned;
use tokio::sync::mpsc;

use crate::driver::{MemberNews, News, StoreError};
use crate::key::LeaseKey;
use crate::settings::Declared;

/// The state of one namespace.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
}

impl Shared {
    /// Every change is a single insertion, so a panic elsewhere leaves nothing half done.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct State {
    /// The last revision given out; one counter for all keys, as in etcd.
    pub(super) revision: u64,
    pub(super) lives: u64,
    pub(super) records: BTreeMap<LeaseKey, Stored>,
    pub(super) declared: BTreeMap<LeaseKey, Result<Declared, String>>,
    pub(super) watchers: Watchers<LeaseKey, News>,
    /// By cluster id.
    pub(super) member_watchers: Watchers<String, MemberNews>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            // As in etcd, a list of nothing has a revision that is older than the first record's:
            // the epoch of a first table must not come again (H2).
            revision: 1,
            lives: 0,
            records: BTreeMap::new(),
            declared: BTreeMap::new(),
            watchers: Watchers::default(),
            member_watchers: Watchers::default(),
        }
    }
}

#[derive(Clone)]
pub(super) struct Stored {
    pub(super) versioned: Versioned,
    pub(super) annotations: BTreeMap<String, String>,
    /// It carries the labels by which lists and watches find it (E4).
    pub(super) labelled: bool,
}

impl State {
    pub(super) fn next_revision(&mut self) -> Result<Revision, StoreError> {
        self.revision += 1;
        self.last_revision()
    }

    pub(super) fn last_revision(&self) -> Result<Revision, StoreError> {
        Revision::new(self.revision).map_err(|error| StoreError::Malformed {
            detail: error.to_string(),
        })
    }

    /// The assignment and the members of a cluster id.
    pub(super) fn parts_of(&self, key: &LeaseKey) -> impl Iterator<Item = (&LeaseKey, &Stored)> {
        let id = key.cluster_id().to_owned();
        let all = self.records.range(key.assignment()..);
        all.take_while(move |(key, _)| key.cluster_id() == id)
    }

    /// The members that a list by label finds.
    pub(super) fn members_of(&self, key: &LeaseKey) -> BTreeMap<Arc<str>, Versioned> {
        let labelled = self.parts_of(key).filter(|(_, stored)| stored.labelled);
        labelled
            .filter_map(|(key, stored)| {
                Some((Arc::clone(key.member_name()?), stored.versioned.clone()))
            })
            .collect()
    }

    pub(super) fn store(&mut self, key: &LeaseKey, stored: Stored) {
        let news = News::Watched(stored.versioned.clone());
        self.watchers.tell(key, &news);
        if let (Some(name), true) = (key.member_name(), stored.labelled) {
            let news = MemberNews::Seen(Arc::clone(name), stored.versioned.clone());
            self.member_watchers.tell(key.cluster_id(), &news);
        }
        self.records.insert(key.clone(), stored);
    }

    #[cfg(any(test, feature = "testing"))]
    pub(super) fn remove(&mut self, key: &LeaseKey) {
        self.revision += 1;
        self.records.remove(key);
        self.watchers.tell(key, &News::Gone);
        self.leave_members(key);
    }

    /// Takes the labels off: whoever follows by label sees the record go.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn unlabel(&mut self, key: &LeaseKey, mut stored: Stored) {
        stored.labelled = false;
        if key.member_name().is_some() {
            let news = News::Watched(stored.versioned.clone());
            self.watchers.tell(key, &news);
            self.leave_members(key);
        } else {
            self.watchers.tell(key, &News::Gone);
        }
        self.records.insert(key.clone(), stored);
    }

    #[cfg(any(test, feature = "testing"))]
    fn leave_members(&mut self, key: &LeaseKey) {
        if let Some(name) = key.member_name() {
            let news = MemberNews::Gone(Arc::clone(name));
            self.member_watchers.tell(key.cluster_id(), &news);
        }
    }
}

/// Who is told what of which subject.
pub(super) struct Watchers<K, N> {
    next: u64,
    by_subject: BTreeMap<K, Vec<(u64, mpsc::UnboundedSender<N>)>>,
}

impl<K, N> Default for Watchers<K, N> {
    fn default() -> Self {
        Self {
            next: 0,
            by_subject: BTreeMap::new(),
        }
    }
}

impl<K: Ord, N: Clone> Watchers<K, N> {
    /// The number under which [`Self::leave`] knows this watcher.
    pub(super) fn join(&mut self, subject: K, sender: mpsc::UnboundedSender<N>) -> u64 {
        let number = self.next;
        self.next += 1;
        let watchers = self.by_subject.entry(subject).or_default();
        watchers.push((number, sender));
        number
    }

    pub(super) fn tell<Q: Ord + ?Sized>(&mut self, subject: &Q, news: &N)
    where
        K: std::borrow::Borrow<Q>,
    {
        if let Some(watchers) = self.by_subject.get_mut(subject) {
            watchers.retain(|(_, sender)| sender.send(news.clone()).is_ok());
        }
    }

    pub(super) fn leave(&mut self, subject: &K, number: u64) {
        if let Some(watchers) = self.by_subject.get_mut(subject) {
            watchers.retain(|(other, _)| *other != number);
            if watchers.is_empty() {
                self.by_subject.remove(subject);
            }
        }
    }
}

/// Ends a subscription when it is dropped.
pub(super) struct Registration<K: Ord, N: Clone> {
    pub(super) shared: Arc<Shared>,
    pub(super) subject: K,
    pub(super) number: u64,
    pub(super) of: fn(&mut State) -> &mut Watchers<K, N>,
}

impl<K: Ord, N: Clone> Drop for Registration<K, N> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        (self.of)(&mut state).leave(&self.subject, self.number);
    }
}
