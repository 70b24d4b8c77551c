//! Who wants the news of which key, and what the last news of each key was.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::id::Revision;
use leasehold_core::lease::Versioned;
use leasehold_core::time::Duration;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use crate::driver::{Feed, News};
use crate::key::LeaseKey;

/// A watch is silent for too long after this, if nobody said how often holders renew.
const IDLE_MIN: Duration = Duration::from_secs(7);
/// Objects kept per key: the newest, and the ones that a write under way may name.
const OBJECTS_MAX: usize = 3;

/// The subscriptions of one process to one namespace.
#[derive(Default)]
pub(super) struct Subscriptions {
    keys: Mutex<Keys>,
    /// Woken when the set of keys grew.
    pub(super) grown: Notify,
}

#[derive(Default)]
struct Keys {
    next: u64,
    by_key: BTreeMap<LeaseKey, Topic>,
}

#[derive(Default)]
struct Topic {
    subscribers: Vec<Subscriber>,
    /// The last objects seen or written, oldest first: what a PUT must preserve stands in them.
    objects: Vec<(Revision, Arc<Value>)>,
}

struct Subscriber {
    number: u64,
    news: mpsc::UnboundedSender<News>,
    heartbeat: Arc<AtomicU64>,
}

impl Subscriptions {
    /// A feed of one key. The caller's watch is told that the set grew.
    pub(super) fn subscribe(self: &Arc<Self>, key: &LeaseKey) -> Feed {
        let (sender, receiver) = mpsc::unbounded_channel();
        let heartbeat = Arc::new(AtomicU64::new(0));
        let mut keys = self.keys();
        let number = keys.next;
        keys.next += 1;
        let subscriber = Subscriber {
            number,
            news: sender,
            heartbeat: Arc::clone(&heartbeat),
        };
        keys.by_key
            .entry(key.clone())
            .or_default()
            .subscribers
            .push(subscriber);
        drop(keys);
        self.grown.notify_one();
        let registration = Registration {
            subscriptions: Arc::clone(self),
            key: key.clone(),
            number,
        };
        Feed::new(receiver, heartbeat, Box::new(registration))
    }

    /// The keys with subscribers.
    pub(super) fn selected(&self) -> Vec<LeaseKey> {
        self.keys().by_key.keys().cloned().collect()
    }

    /// Number of subscriptions ever made; a later one has not been told a list.
    pub(super) fn made(&self) -> u64 {
        self.keys().next
    }

    /// Is anybody interested in `key`?
    pub(super) fn contains(&self, key: &LeaseKey) -> bool {
        self.keys().by_key.contains_key(key)
    }

    pub(super) fn tell(&self, key: &LeaseKey, news: &News) {
        if let Some(topic) = self.keys().by_key.get(key) {
            topic.tell(news);
        }
    }

    pub(super) fn tell_all(&self, news: &News) {
        for topic in self.keys().by_key.values() {
            topic.tell(news);
        }
    }

    /// Silence for this long is suspicious: two heartbeats of the fastest lease, at least 7 s.
    pub(super) fn idle_limit(&self) -> Duration {
        let keys = self.keys();
        let beats = keys.by_key.values().flat_map(|topic| &topic.subscribers);
        let millis = beats
            .map(|s| s.heartbeat.load(Ordering::Relaxed))
            .filter(|ms| *ms > 0)
            .min();
        Duration::from_millis(millis.unwrap_or(5_000))
            .saturating_mul(2)
            .max(IDLE_MIN)
    }

    /// The shortest heartbeat that a subscriber expects.
    pub(super) fn heartbeat(&self) -> Duration {
        let keys = self.keys();
        let beats = keys.by_key.values().flat_map(|topic| &topic.subscribers);
        let millis = beats
            .map(|s| s.heartbeat.load(Ordering::Relaxed))
            .filter(|ms| *ms > 0)
            .min();
        Duration::from_millis(millis.unwrap_or(5_000))
    }

    /// Keeps the object of a revision for a later PUT.
    pub(super) fn keep(&self, key: &LeaseKey, state: &Versioned, object: Value) {
        let mut keys = self.keys();
        let Some(topic) = keys.by_key.get_mut(key) else {
            return;
        };
        topic
            .objects
            .retain(|(revision, _)| *revision != state.revision);
        topic.objects.push((state.revision, Arc::new(object)));
        if topic.objects.len() > OBJECTS_MAX {
            topic.objects.remove(0);
        }
    }

    /// The object of exactly this revision, if it was seen lately.
    pub(super) fn object(&self, key: &LeaseKey, revision: Revision) -> Option<Arc<Value>> {
        let keys = self.keys();
        let objects = &keys.by_key.get(key)?.objects;
        objects
            .iter()
            .find(|(kept, _)| *kept == revision)
            .map(|(_, object)| Arc::clone(object))
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    fn tell(&self, news: &News) {
        for subscriber in &self.subscribers {
            // A receiver that is gone takes its subscriber with it in a moment.
            let _ = subscriber.news.send(news.clone());
        }
    }
}

struct Registration {
    subscriptions: Arc<Subscriptions>,
    key: LeaseKey,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut keys = self.subscriptions.keys();
        let Some(topic) = keys.by_key.get_mut(&self.key) else {
            return;
        };
        topic
            .subscribers
            .retain(|subscriber| subscriber.number != self.number);
        if topic.subscribers.is_empty() {
            keys.by_key.remove(&self.key);
        }
    }
}
