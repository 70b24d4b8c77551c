//! Who wants the news of which Lease, and what the last news of each was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::id::Revision;
use leasehold_core::lease::Versioned;
use leasehold_core::time::Duration;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::selection::Selection;
use crate::driver::{Feed, MemberFeed, MemberNews, News};
use crate::key::LeaseKey;

/// A watch is silent for too long after this, if nobody said how often holders renew.
const IDLE_MIN: Duration = Duration::from_secs(7);
/// Objects kept per key: the newest, and the ones that a write under way may name.
const OBJECTS_MAX: usize = 3;
/// Keys without a follower whose last object is kept: one for each service of a process.
const WRITTEN_MAX: usize = 256;
/// Members of one cluster id that are followed by name; for more, one watch of all is cheaper.
const NAMES_MAX: usize = 8;

/// The subscriptions of one process to one namespace.
pub(super) struct Subscriptions {
    topics: Mutex<Topics>,
    /// Grows whenever somebody subscribes or leaves.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Topics {
    next: u64,
    by_key: BTreeMap<LeaseKey, Topic>,
    /// Who follows all members of a cluster id, by the key of its leader.
    members: BTreeMap<LeaseKey, Vec<Subscriber<MemberNews>>>,
    /// The selections that have a task of their own.
    followed: BTreeSet<Selection>,
    /// What was last written to keys that nobody follows: a member does not watch its own lease,
    /// and shall not read it before every renewal.
    written: BTreeMap<LeaseKey, (Revision, Arc<Value>)>,
}

#[derive(Default)]
struct Topic {
    subscribers: Vec<Subscriber<News>>,
    /// The last objects seen or written, oldest first: what a PUT must preserve stands in them.
    objects: Vec<(Revision, Arc<Value>)>,
}

struct Subscriber<N> {
    number: u64,
    news: mpsc::UnboundedSender<N>,
    heartbeat: Arc<AtomicU64>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            topics: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }
}

impl Subscriptions {
    /// A feed of one key. The watches are told that somebody joined.
    pub(super) fn subscribe(self: &Arc<Self>, key: &LeaseKey) -> Feed {
        let mut topics = self.topics();
        let (subscriber, receiver) = topics.subscriber();
        let (number, heartbeat) = (subscriber.number, Arc::clone(&subscriber.heartbeat));
        let topic = topics.by_key.entry(key.clone()).or_default();
        topic.subscribers.push(subscriber);
        drop(topics);
        self.changed();
        let (of, key) = (Arc::clone(self), key.clone());
        let registration = Registration::new(move || of.leave(&key, number));
        Feed::new(receiver, heartbeat, Box::new(registration))
    }

    /// A feed of all members of the key's cluster id.
    pub(super) fn subscribe_members(self: &Arc<Self>, key: &LeaseKey) -> MemberFeed {
        let id = key.leader();
        let mut topics = self.topics();
        let (subscriber, receiver) = topics.subscriber();
        let (number, heartbeat) = (subscriber.number, Arc::clone(&subscriber.heartbeat));
        topics
            .members
            .entry(id.clone())
            .or_default()
            .push(subscriber);
        drop(topics);
        self.changed();
        let of = Arc::clone(self);
        let registration = Registration::new(move || of.leave_members(&id, number));
        Feed::new(receiver, heartbeat, Box::new(registration))
    }

    fn leave(&self, key: &LeaseKey, number: u64) {
        let mut topics = self.topics();
        if let Some(topic) = topics.by_key.get_mut(key) {
            topic.subscribers.retain(|other| other.number != number);
            if topic.subscribers.is_empty() {
                topics.by_key.remove(key);
            }
        }
        drop(topics);
        self.changed();
    }

    fn leave_members(&self, id: &LeaseKey, number: u64) {
        let mut topics = self.topics();
        if let Some(subscribers) = topics.members.get_mut(id) {
            subscribers.retain(|other| other.number != number);
            if subscribers.is_empty() {
                topics.members.remove(id);
            }
        }
        drop(topics);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Wakes whenever somebody subscribes or leaves.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The cluster ids whose leader or assignment is followed.
    pub(super) fn shared_ids(&self) -> Vec<LeaseKey> {
        let topics = self.topics();
        let shared = topics
            .by_key
            .keys()
            .filter(|key| key.member_name().is_none());
        let ids: BTreeSet<LeaseKey> = shared.map(LeaseKey::leader).collect();
        ids.into_iter().collect()
    }

    /// The keys of a selection that somebody follows.
    pub(super) fn keys_of(&self, selection: &Selection) -> Vec<LeaseKey> {
        let topics = self.topics();
        topics.of(selection).map(|(key, _)| key.clone()).collect()
    }

    /// The number of the newest subscription that this selection serves; a list that was sent
    /// before it was made has not told it anything.
    pub(super) fn newest(&self, selection: &Selection) -> u64 {
        let topics = self.topics();
        let by_key = match selection {
            // Whoever follows a single member has a task that reads for it.
            Selection::Members(_) => None,
            _ => topics
                .of(selection)
                .flat_map(|(_, topic)| &topic.subscribers)
                .map(|s| s.number)
                .max(),
        };
        let members = topics.feeds(selection).iter().map(|s| s.number).max();
        by_key.max(members).unwrap_or(0)
    }

    /// Should this selection be followed?
    pub(super) fn is_wanted(&self, selection: &Selection) -> bool {
        self.topics().is_wanted(selection)
    }

    /// Is this member's Lease followed by the watch of all members?
    pub(super) fn is_covered(&self, key: &LeaseKey) -> bool {
        let all = Selection::Members(key.leader());
        key.member_name().is_some() && self.topics().is_wanted(&all)
    }

    /// True if a task is to be started for this selection: it is asked for, and has none.
    pub(super) fn claim(&self, selection: &Selection) -> bool {
        let mut topics = self.topics();
        topics.is_asked_for(selection) && topics.followed.insert(selection.clone())
    }

    /// True if the task of this selection is to end: nobody asks for it any more.
    ///
    /// Decided together with [`Self::claim`], so that no subscriber is left without a task.
    pub(super) fn retire(&self, selection: &Selection) -> bool {
        let mut topics = self.topics();
        if topics.is_asked_for(selection) {
            return false;
        }
        topics.followed.remove(selection);
        drop(topics);
        // Single members may need watches of their own from now on.
        self.changed();
        true
    }

    /// The task of this selection has ended.
    pub(super) fn forget(&self, selection: &Selection) {
        self.topics().followed.remove(selection);
    }

    pub(super) fn tell(&self, key: &LeaseKey, news: &News) {
        if let Some(topic) = self.topics().by_key.get(key) {
            tell(&topic.subscribers, news);
        }
    }

    /// Tells whoever follows all members of a cluster id.
    pub(super) fn tell_members(&self, id: &LeaseKey, news: &MemberNews) {
        if let Some(subscribers) = self.topics().members.get(id) {
            tell(subscribers, news);
        }
    }

    /// Tells everyone that a selection serves.
    pub(super) fn tell_all(&self, selection: &Selection, news: &News, members: &MemberNews) {
        let topics = self.topics();
        for (_, topic) in topics.of(selection) {
            tell(&topic.subscribers, news);
        }
        tell(topics.feeds(selection), members);
    }

    /// Silence for this long is suspicious: two heartbeats of the fastest lease, at least 7 s.
    pub(super) fn idle_limit(&self, selection: &Selection) -> Duration {
        self.heartbeat(selection).saturating_mul(2).max(IDLE_MIN)
    }

    /// The shortest heartbeat that a subscriber expects; where none said so, the one of its
    /// cluster id.
    pub(super) fn heartbeat(&self, selection: &Selection) -> Duration {
        let topics = self.topics();
        let millis = topics.beat(selection).or_else(|| {
            let (Selection::Members(id) | Selection::Name(id)) = selection else {
                return None;
            };
            let of_id = topics.by_key.iter();
            let of_id = of_id.filter(|(key, _)| key.cluster_id() == id.cluster_id());
            shortest(
                of_id
                    .flat_map(|(_, topic)| &topic.subscribers)
                    .map(|s| &s.heartbeat),
            )
        });
        Duration::from_millis(millis.unwrap_or(5_000))
    }

    /// Keeps the object of a revision for a later PUT.
    pub(super) fn keep(&self, key: &LeaseKey, state: &Versioned, object: Value) {
        let mut topics = self.topics();
        let Some(topic) = topics.by_key.get_mut(key) else {
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

    /// Keeps what a write has stored, also if nobody follows the key.
    pub(super) fn keep_written(&self, key: &LeaseKey, state: &Versioned, object: Value) {
        let mut topics = self.topics();
        if topics.by_key.contains_key(key) {
            topics.written.remove(key);
            drop(topics);
            return self.keep(key, state, object);
        }
        if topics.written.len() >= WRITTEN_MAX && !topics.written.contains_key(key) {
            topics.written.pop_first();
        }
        let kept = (state.revision, Arc::new(object));
        topics.written.insert(key.clone(), kept);
    }

    /// The object of exactly this revision, if it was seen or written lately.
    pub(super) fn object(&self, key: &LeaseKey, revision: Revision) -> Option<Arc<Value>> {
        let topics = self.topics();
        let seen = topics
            .by_key
            .get(key)
            .map_or(&[][..], |topic| &topic.objects);
        seen.iter()
            .chain(topics.written.get(key))
            .find(|(kept, _)| *kept == revision)
            .map(|(_, object)| Arc::clone(object))
    }

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topics {
    fn subscriber<N>(&mut self) -> (Subscriber<N>, mpsc::UnboundedReceiver<N>) {
        let (news, receiver) = mpsc::unbounded_channel();
        self.next += 1;
        let subscriber = Subscriber {
            number: self.next,
            news,
            heartbeat: Arc::default(),
        };
        (subscriber, receiver)
    }

    fn of<'a>(
        &'a self,
        selection: &'a Selection,
    ) -> impl Iterator<Item = (&'a LeaseKey, &'a Topic)> {
        let topics = self.by_key.iter();
        topics.filter(|(key, _)| selection.includes(key))
    }

    fn beat(&self, selection: &Selection) -> Option<u64> {
        let by_key = self.of(selection).flat_map(|(_, topic)| &topic.subscribers);
        let beats = by_key.map(|s| &s.heartbeat);
        shortest(beats.chain(self.feeds(selection).iter().map(|s| &s.heartbeat)))
    }

    fn feeds(&self, selection: &Selection) -> &[Subscriber<MemberNews>] {
        match selection {
            Selection::Members(id) => self.members.get(id).map_or(&[], Vec::as_slice),
            Selection::Shared(_) | Selection::Name(_) => &[],
        }
    }

    /// Does this selection need a task?
    fn is_asked_for(&self, selection: &Selection) -> bool {
        match selection {
            // Waits for the first id, for ever.
            Selection::Shared(_) => true,
            // Waits while the watch of all members serves it.
            Selection::Name(key) => self.by_key.contains_key(key),
            Selection::Members(_) => self.is_wanted(selection),
        }
    }

    fn is_wanted(&self, selection: &Selection) -> bool {
        match selection {
            Selection::Shared(ids) => !ids.is_empty(),
            Selection::Members(id) => self.members.contains_key(id) || self.is_crowded(id),
            Selection::Name(key) => {
                let all = Selection::Members(key.leader());
                let is_covered = key.member_name().is_some() && self.is_wanted(&all);
                self.by_key.contains_key(key) && !is_covered
            }
        }
    }

    /// So many members are followed by name that one watch of all is cheaper. It goes on until
    /// there are far fewer, so that it does not come and go.
    fn is_crowded(&self, id: &LeaseKey) -> bool {
        let all = Selection::Members(id.clone());
        let followed = self.of(&all).count();
        followed > NAMES_MAX || (followed > NAMES_MAX / 2 && self.followed.contains(&all))
    }
}

/// In milliseconds, of those who said one.
fn shortest<'a>(beats: impl Iterator<Item = &'a Arc<AtomicU64>>) -> Option<u64> {
    let beats = beats.map(|beat| beat.load(Ordering::Relaxed));
    beats.filter(|millis| *millis > 0).min()
}

/// A receiver that is gone takes its subscriber with it in a moment.
fn tell<N: Clone>(subscribers: &[Subscriber<N>], news: &N) {
    for subscriber in subscribers {
        let _ = subscriber.news.send(news.clone());
    }
}

/// Ends a subscription when it is dropped.
struct Registration<F: Fn()> {
    end: F,
}

impl<F: Fn()> Registration<F> {
    fn new(end: F) -> Self {
        Self { end }
    }
}

impl<F: Fn()> Drop for Registration<F> {
    fn drop(&mut self) {
        (self.end)();
    }
}
