//! Leadership changes, in order, for those who lead and for those who only look.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::election::observer::{Change, Ended, Missed, Observer};
use leasehold_core::id::{Revision, Term};
use leasehold_core::lease::Versioned;
use leasehold_core::time::Instant;
use tokio::sync::mpsc;

use crate::driver::{LeaseStore, News};
use crate::key::LeaseKey;

/// One change of leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeadershipChange {
    /// The cluster id.
    pub cluster_id: String,
    /// The term that began or ended.
    pub term: Term,
    /// Who began or ended it.
    pub holder: String,
    /// What happened.
    pub kind: ChangeKind,
    /// How the leadership (or the one before, for [`ChangeKind::Gained`]) ended.
    pub reason: String,
}

/// What happened to a leadership.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The holder leads.
    Gained,
    /// The holder lost it: not renewed, taken over, emptied or deleted.
    Lost,
    /// The holder gave it up so that another may lead.
    SteppedDown,
    /// The holder gave it back at the end of its work.
    Resigned,
    /// Terms that nobody here saw, both ends included; `holder` is empty.
    Missed {
        /// The first.
        from: Term,
        /// The last.
        to: Term,
    },
}

/// The changes of one cluster id, in order, none left out. Starts with the latest one, if known.
pub struct LeadershipChanges {
    changes: mpsc::UnboundedReceiver<LeadershipChange>,
}

impl LeadershipChanges {
    /// The next change; `None` once nobody reports any more (the service or cluster has ended).
    pub async fn next(&mut self) -> Option<LeadershipChange> {
        self.changes.recv().await
    }
}

/// Where changes are reported, and from where every subscriber gets all of them.
pub(crate) struct Hub {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    latest: Option<LeadershipChange>,
    subscribers: Vec<mpsc::UnboundedSender<LeadershipChange>>,
    closed: bool,
}

impl Hub {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
        })
    }

    pub(crate) fn subscribe(&self) -> LeadershipChanges {
        let (sender, changes) = mpsc::unbounded_channel();
        let mut inner = self.inner();
        if let Some(latest) = &inner.latest {
            let _ = sender.send(latest.clone());
        }
        if !inner.closed {
            inner.subscribers.push(sender);
        }
        LeadershipChanges { changes }
    }

    pub(crate) fn report(&self, change: &LeadershipChange) {
        let mut inner = self.inner();
        inner.latest = Some(change.clone());
        inner
            .subscribers
            .retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }

    /// No more changes will come.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        inner.subscribers.clear();
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is seen of a key, as changes.
pub(crate) struct Onlooker {
    key: LeaseKey,
    observer: Observer,
    newest: Option<Revision>,
    /// When the newest own write was acknowledged: older lists say nothing new (E4).
    acked_at: Instant,
    /// Identities whose changes are reported by themselves.
    own: BTreeSet<String>,
}

impl Onlooker {
    pub(crate) fn new(key: LeaseKey, own: impl IntoIterator<Item = String>) -> Self {
        Self {
            key,
            observer: Observer::new(),
            newest: None,
            acked_at: Instant::ZERO,
            own: own.into_iter().collect(),
        }
    }

    /// A revision from the watch.
    pub(crate) fn watched(&mut self, state: &Versioned) -> Vec<LeadershipChange> {
        if self.newest.is_some_and(|newest| state.revision <= newest) {
            return Vec::new();
        }
        self.note(Some(state))
    }

    /// The answer to a list or read sent at `asked`.
    pub(crate) fn read(
        &mut self,
        state: Option<&Versioned>,
        asked: Instant,
    ) -> Vec<LeadershipChange> {
        if asked < self.acked_at {
            return Vec::new();
        }
        self.note(state)
    }

    /// The answer to an own write.
    pub(crate) fn wrote(&mut self, state: &Versioned, now: Instant) -> Vec<LeadershipChange> {
        self.acked_at = now;
        self.note(Some(state))
    }

    fn note(&mut self, state: Option<&Versioned>) -> Vec<LeadershipChange> {
        if let Some(state) = state {
            self.newest = Some(state.revision);
        }
        let changes = self.observer.note(state);
        changes
            .into_iter()
            .flat_map(|change| self.translate(change))
            .collect()
    }

    fn translate(&self, change: Change) -> Vec<LeadershipChange> {
        let change_of = |term, holder, kind, reason: String| LeadershipChange {
            cluster_id: self.key.to_string(),
            term,
            holder,
            kind,
            reason,
        };
        match change {
            Change::Gained {
                term,
                holder,
                previous,
                ended,
                missed,
                ..
            } => {
                let mut changes = Vec::new();
                if let Some(Missed { from, to }) = missed {
                    let kind = ChangeKind::Missed { from, to };
                    let reason = "not observed".to_owned();
                    changes.push(change_of(to, String::new(), kind, reason));
                }
                if !self.own.contains(&holder) {
                    let reason = describe(ended, previous.as_deref());
                    changes.push(change_of(term, holder, ChangeKind::Gained, reason));
                }
                changes
            }
            Change::Vacated { holder, .. } if self.own.contains(&holder) => Vec::new(),
            Change::Vacated {
                term,
                holder,
                ended,
            } => {
                let kind = match ended {
                    Ended::Released => ChangeKind::Resigned,
                    _ => ChangeKind::Lost,
                };
                vec![change_of(term, holder, kind, describe(ended, None))]
            }
        }
    }
}

fn describe(ended: Ended, previous: Option<&str>) -> String {
    let of = previous
        .map(|holder| format!(" (before: {holder})"))
        .unwrap_or_default();
    let how = match ended {
        Ended::NotSeen => "no leadership was seen before",
        Ended::Released => "released by its holder",
        Ended::Emptied => "emptied by somebody else",
        Ended::Deleted => "the lease was deleted",
        Ended::TakenOver => "taken over",
        Ended::Restarted => "the same pod began anew",
    };
    format!("{how}{of}")
}

/// Reports what is seen of a key until nobody listens any more.
pub(crate) fn observe(
    store: Arc<dyn LeaseStore>,
    clock: crate::clock::Clock,
    key: LeaseKey,
) -> LeadershipChanges {
    let (sender, changes) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut feed = store.watch(&key);
        let mut onlooker = Onlooker::new(key.clone(), []);
        loop {
            let news = tokio::select! {
                news = feed.next() => news,
                () = sender.closed() => None,
            };
            let seen = match news {
                None => return,
                Some(News::Watched(state)) => onlooker.watched(&state),
                Some(News::Listed { asked, state }) => onlooker.read(state.as_ref(), asked),
                // E4: gone from the selection is not yet deleted.
                Some(News::Gone) => {
                    let asked = clock.now();
                    match store.read(&key, OBSERVER_LIMIT).await {
                        Ok(state) => onlooker.read(state.as_ref(), asked),
                        Err(error) => {
                            tracing::debug!(%error, cluster_id = %key, "cannot confirm a deletion");
                            Vec::new()
                        }
                    }
                }
                Some(News::Settings(_) | News::Down(_) | News::Up) => Vec::new(),
            };
            for change in seen {
                let _ = sender.send(change);
            }
        }
    });
    LeadershipChanges { changes }
}

const OBSERVER_LIMIT: leasehold_core::time::Duration = leasehold_core::time::Duration::from_secs(5);
