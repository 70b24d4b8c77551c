//! What the controller of credentials keeps in mind between passes. All of it may be lost: the next
//! look finds it again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use leasehold_core::credential::Tried;
use leasehold_crds::{ClusterService, cluster_service::BackendKind};

use super::reports::Reports;
use crate::{backend::Survey, context::Failures};

/// One object at one store; another object of the same name is somebody else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whom {
    uid: String,
    kind: BackendKind,
}

impl Whom {
    /// This object at this store.
    pub fn new(service: &ClusterService, kind: BackendKind) -> Self {
        Self {
            uid: service.metadata.uid.clone().unwrap_or_default(),
            kind,
        }
    }
}

/// (namespace, name) of a ClusterService.
type Key = (String, String);

/// Counts what was done to Secrets, services and servers. A test can have the process die right after
/// any of it, as a crash would: nothing is said, finished or cleaned up.
#[derive(Debug, Default)]
pub struct Effects {
    done: AtomicU64,
    last: Option<u64>,
}

impl Effects {
    /// Dies after so many; never without a number.
    pub fn until(last: Option<u64>) -> Self {
        Self {
            done: AtomicU64::default(),
            last,
        }
    }

    /// One more was done, with whatever outcome.
    pub fn done(&self) {
        let done = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        if self.last.is_some_and(|last| done >= last) {
            std::process::abort();
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct State {
    /// What was done so far.
    pub effects: Effects,
    /// What was found, for status.
    pub reports: Reports,
    /// Passes with trouble in a row, by object.
    pub failures: Failures,
    tried: Mutex<BTreeMap<Whom, Tried>>,
    /// Who has no Secret at a store that its spec does not name.
    leaving_nothing: Mutex<BTreeSet<Whom>>,
    /// Who waits since the server of a class is in trouble that may pass, by class.
    stuck: Mutex<BTreeMap<String, BTreeSet<Key>>>,
    /// By class and name on its server.
    shown: Mutex<BTreeMap<String, BTreeMap<String, Shown>>>,
}

/// A name on a server that belongs to a service at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    service: Key,
    digest: Digest,
}

/// What the last survey showed under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Digest {
    /// There was no survey yet.
    Unknown,
    /// Nothing.
    Absent,
    /// This.
    Seen(String),
}

impl State {
    /// Nothing is known yet.
    pub fn new(effects: Effects) -> Self {
        Self {
            effects,
            ..Self::default()
        }
    }

    /// What was tried for somebody.
    pub fn tried(&self, whom: &Whom) -> Tried {
        lock(&self.tried).get(whom).cloned().unwrap_or_default()
    }

    /// Keeps what was tried.
    pub fn remember_tried(&self, whom: Whom, tried: Tried) {
        lock(&self.tried).insert(whom, tried);
    }

    /// An object is gone.
    pub fn forget_tried(&self, whom: &Whom) {
        lock(&self.tried).remove(whom);
        self.may_leave(whom);
    }

    /// Nothing is left of somebody at a store that is not wanted.
    pub fn leaves_nothing(&self, whom: Whom) {
        lock(&self.leaving_nothing).insert(whom);
    }

    /// Whether that is known.
    pub fn left_nothing(&self, whom: &Whom) -> bool {
        lock(&self.leaving_nothing).contains(whom)
    }

    /// The store is wanted (again), or the object is gone.
    pub fn may_leave(&self, whom: &Whom) {
        lock(&self.leaving_nothing).remove(whom);
    }

    /// A service wants nothing of this store any more; true if anything was known of it.
    pub fn forget(&self, service: &Key, kind: BackendKind) -> bool {
        self.reports.forget(service, kind)
    }

    /// A service is at rest: from now on its names on the server should stay as they are.
    pub fn rests(&self, class: &str, service: &Key, names: Vec<String>) {
        let mut shown = lock(&self.shown);
        let of_class = shown.entry(class.to_owned()).or_default();
        for name in names {
            of_class.entry(name).or_insert_with(|| Shown {
                service: service.clone(),
                digest: Digest::Unknown,
            });
        }
    }

    /// Something of a service is being changed: what a server showed of it says nothing any more.
    pub fn moves(&self, class: &str, service: &Key) {
        if let Some(of_class) = lock(&self.shown).get_mut(class) {
            of_class.retain(|_, shown| shown.service != *service);
        }
    }

    /// A server is in trouble that may pass: a service waits.
    pub fn waits(&self, class: &str, service: &Key) {
        let mut stuck = lock(&self.stuck);
        let of_class = stuck.entry(class.to_owned()).or_default();
        of_class.insert(service.clone());
    }

    /// A server serves: those who waited for it.
    pub fn serves(&self, class: &str) -> BTreeSet<Key> {
        lock(&self.stuck).remove(class).unwrap_or_default()
    }

    /// One of those who wait, by chance; it waits no more unless it says so again.
    pub fn someone_stuck(&self, class: &str) -> Option<Key> {
        let mut stuck = lock(&self.stuck);
        let of_class = stuck.get_mut(class)?;
        let which = rand::random_range(0..of_class.len().max(1));
        let chosen = of_class.iter().nth(which).cloned()?;
        of_class.remove(&chosen);
        Some(chosen)
    }

    /// The classes that anybody rests at, or waits for.
    pub fn classes(&self) -> BTreeSet<String> {
        let (shown, stuck) = (lock(&self.shown), lock(&self.stuck));
        let used = shown.iter().filter(|(_, names)| !names.is_empty());
        // Who tries may be back in a moment.
        let classes = used.map(|(class, _)| class).chain(stuck.keys());
        classes.cloned().collect()
    }

    /// Somebody who rests at a class, or waits for it.
    pub fn somebody(&self, class: &str) -> Option<Key> {
        let resting = lock(&self.shown)
            .get(class)
            .and_then(|names| Some(names.values().next()?.service.clone()));
        resting.or_else(|| lock(&self.stuck).get(class)?.first().cloned())
    }

    /// Takes in a survey: the services to look at, since what is theirs differs from the last one. A
    /// name that is surveyed for the first time counts as different, since it may have drifted before.
    pub fn compare(&self, class: &str, survey: &Survey) -> BTreeSet<Key> {
        let mut shown = lock(&self.shown);
        let mut drifted = BTreeSet::new();
        for (name, shown) in shown.get_mut(class).into_iter().flatten() {
            let now = survey
                .get(name)
                .cloned()
                .map_or(Digest::Absent, Digest::Seen);
            if shown.digest != now {
                shown.digest = now;
                drifted.insert(shown.service.clone());
            }
        }
        drifted
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change leaves the maps whole, so a panic elsewhere does not spoil them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(entries: &[(&str, &str)]) -> Survey {
        let owned = |(name, digest): &(&str, &str)| ((*name).to_owned(), (*digest).to_owned());
        entries.iter().map(owned).collect()
    }

    #[test]
    fn those_who_wait_for_a_server_try_one_by_one_until_it_serves() {
        let state = State::default();
        let key = |name: &str| ("demo".to_owned(), name.to_owned());
        assert_eq!(state.someone_stuck("main"), None);
        state.waits("main", &key("a"));
        state.waits("main", &key("b"));
        assert_eq!(state.classes(), BTreeSet::from(["main".to_owned()]));
        let first = state.someone_stuck("main").unwrap();
        let other = if first == key("a") {
            key("b")
        } else {
            key("a")
        };
        assert_eq!(state.somebody("main"), Some(other.clone()));
        assert_eq!(state.serves("main"), BTreeSet::from([other]));
        assert!(state.classes().is_empty());
    }

    #[test]
    fn only_what_differs_from_the_last_survey_is_looked_at() {
        let state = State::default();
        let key = |name: &str| ("demo".to_owned(), name.to_owned());
        state.rests(
            "main",
            &key("a"),
            vec!["lh_a".to_owned(), "lh_b".to_owned()],
        );
        state.rests("main", &key("c"), vec!["lh_c".to_owned()]);
        let all = survey(&[("lh_a", "1"), ("lh_c", "1"), ("stranger", "1")]);
        let both = BTreeSet::from([key("a"), key("c")]);
        assert_eq!(
            state.compare("main", &all),
            both,
            "it may have drifted before"
        );
        assert!(state.compare("main", &all).is_empty());
        assert!(state.compare("other", &all).is_empty());
        let dropped = survey(&[("lh_c", "1")]);
        assert_eq!(state.compare("main", &dropped), BTreeSet::from([key("a")]));
        assert!(state.compare("main", &dropped).is_empty());
        state.moves("main", &key("c"));
        assert!(state.compare("main", &survey(&[])).is_empty());
        assert_eq!(state.somebody("main"), Some(key("a")));
        state.moves("main", &key("a"));
        assert!(state.classes().is_empty());
    }
}
