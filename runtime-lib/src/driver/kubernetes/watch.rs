//! The one watch of a process: list, then watch, again and again.
//!
//! It is written by hand because three things matter more here than in a controller: the back-off
//! really grows while the server is down, silence is noticed within seconds (a half-open
//! connection otherwise stays silent for minutes), and one unreadable object stops nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use kube::core::WatchEvent;
use leasehold_core::id::Revision;
use leasehold_core::lease::Versioned;
use leasehold_core::time::{Duration, Instant};
use serde_json::Value;

use super::convert::{has_our_labels, lease_name, read_object, trimmed};
use super::requests::{Event, Requests};
use super::selection::Selection;
use super::subscriptions::Subscriptions;
use crate::clock::Clock;
use crate::driver::{News, StoreError};
use crate::key::LeaseKey;
use crate::random;
use crate::settings::read_declared;
use crate::signal;

mod recovery;
mod subject;

use subject::{Subject, settings_text};

/// The server closes a watch after this long; short ones would cost more than all renewals (H10).
const SERVER_LIMIT: Duration = Duration::from_secs(290);
/// Longest wait for a list or for the head of a watch.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Longest wait for the read that tells a quiet watch from a dead one.
const PROBE_LIMIT: Duration = Duration::from_secs(2);
/// Services of one process start together: wait this long for more keys before listing.
const GATHERING: Duration = Duration::from_millis(10);
/// A watch that lived this long ends the back-off.
const SOUND_AFTER: Duration = Duration::from_secs(10);

/// Feeds the subscriptions of one namespace.
pub(super) struct Watch {
    pub(super) requests: Arc<Requests>,
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) clock: Clock,
}

/// Why following a selection ended.
enum Ended {
    /// More keys were subscribed.
    Grown,
    /// The server has forgotten the revision, or something was missed: list anew.
    Stale,
    /// The Lease of a [`Selection::Name`] is labelled now, or gone.
    Done,
    /// It broke. `listed`: a list succeeded, so every key was told its state.
    Failed { error: StoreError, listed: bool },
}

/// What a watch has shown of a key.
struct Shown {
    revision: Revision,
    held: bool,
}

type ShownByKey = BTreeMap<LeaseKey, Shown>;

impl Watch {
    /// Follows all subscribed keys, for ever.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            if self.subscriptions.selected().is_empty() {
                self.subscriptions.grown.notified().await;
            }
            tokio::time::sleep(GATHERING).await;
            self.repeat(|| Selection::Labels(self.subscriptions.selected()))
                .await;
        }
    }

    /// Follows one Lease without labels until it has them, is gone, or nobody asks any more.
    pub(super) async fn run_by_name(self: Arc<Self>, key: LeaseKey) {
        self.repeat(|| Selection::Name(key.clone())).await;
    }

    /// Follows a selection again and again, until it is done or has to be made anew.
    async fn repeat(&self, select: impl Fn() -> Selection) {
        let mut failures = 0;
        loop {
            let made = self.subscriptions.made();
            let selection = select();
            if !self.is_wanted(&selection) {
                return;
            }
            let since = self.clock.now();
            match self.follow(&selection, made).await {
                Ended::Grown | Ended::Done => return,
                Ended::Stale => tokio::time::sleep(GATHERING).await,
                Ended::Failed { error, listed } => {
                    let lived = self.clock.now().since(since);
                    failures = if lived > SOUND_AFTER { 1 } else { failures + 1 };
                    self.recover(&selection, error, listed, failures).await;
                }
            }
        }
    }

    fn is_wanted(&self, selection: &Selection) -> bool {
        match selection {
            Selection::Labels(selected) => !selected.is_empty(),
            Selection::Name(key) => self.subscriptions.contains(key),
        }
    }

    /// One list and the watches that follow it without a gap.
    ///
    /// `made`: the number of subscriptions that the list serves.
    async fn follow(&self, selection: &Selection, made: u64) -> Ended {
        let query = selection.query();
        let asked = self.clock.now();
        let (objects, mut revision) = match self.requests.list(&query, REQUEST_LIMIT).await {
            Ok(listed) => listed,
            Err(error) => {
                return Ended::Failed {
                    error,
                    listed: false,
                };
            }
        };
        let mut shown = ShownByKey::new();
        if self.deliver_list(selection, asked, objects, &mut shown) {
            return Ended::Done;
        }
        loop {
            match self
                .stream(selection, made, &query, &mut revision, &mut shown)
                .await
            {
                Ok(None) => {} // closed on time: go on where it ended
                Ok(Some(ended)) => return ended,
                Err(StoreError::Expired { .. }) => return Ended::Stale,
                Err(error) => {
                    return Ended::Failed {
                        error,
                        listed: true,
                    };
                }
            }
        }
    }

    /// One watch. `Ok(None)`: the server closed it when its time was over.
    async fn stream(
        &self,
        selection: &Selection,
        made: u64,
        query: &str,
        revision: &mut String,
        shown: &mut ShownByKey,
    ) -> Result<Option<Ended>, StoreError> {
        let opened = self.clock.now();
        let server_limit = SERVER_LIMIT + Duration::from_secs(random::number() % 20);
        let mut events = match self
            .requests
            .watch(query, revision, server_limit, REQUEST_LIMIT)
            .await
        {
            Err(StoreError::Expired { .. }) => return Ok(Some(Ended::Stale)),
            other => other?,
        };
        self.tell(selection, &News::Up);
        let overdue = opened.after(server_limit + Duration::from_secs(10));
        loop {
            let by_label = matches!(selection, Selection::Labels(_));
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        if let Some(ended) = self.take(selection, event, revision, shown)? {
                            return Ok(Some(ended));
                        }
                    }
                    Some(Err(error)) => match self.requests.judge("watch", error) {
                        StoreError::Expired { .. } => return Ok(Some(Ended::Stale)),
                        error => return Err(error),
                    },
                    // A server that goes down closes early; only a list tells what it missed.
                    None if self.clock.now() < opened.after(SERVER_LIMIT) => {
                        return Ok(Some(self.closed_early(opened)));
                    }
                    None => return Ok(None),
                },
                () = self.subscriptions.grown.notified(), if by_label => {
                    if self.subscriptions.made() > made {
                        return Ok(Some(Ended::Grown));
                    }
                }
                () = tokio::time::sleep(self.subscriptions.idle_limit()) => {
                    if self.clock.now() > overdue {
                        return Ok(Some(Ended::Stale));
                    }
                    self.probe(shown, &mut events).await?;
                }
            }
        }
    }

    /// A watch that ends at once, every time, must not become a busy loop.
    fn closed_early(&self, opened: Instant) -> Ended {
        if self.clock.now().since(opened) > Duration::from_secs(1) {
            return Ended::Stale;
        }
        let detail = "the server closed the watch at once".to_owned();
        Ended::Failed {
            error: StoreError::Unreachable { detail },
            listed: true,
        }
    }

    /// Nothing came for a while: is it quiet, or is the connection dead?
    async fn probe(
        &self,
        shown: &mut ShownByKey,
        events: &mut (impl futures::Stream<Item = kube::Result<Event>> + Unpin + Send),
    ) -> Result<(), StoreError> {
        // Where nobody holds anything, silence is what one expects.
        let Some((key, last)) = shown.iter().find(|(_, shown)| shown.held) else {
            return Ok(());
        };
        let (key, last) = (key.clone(), last.revision);
        let asked = self.clock.now();
        let object = self.requests.get(&lease_name(&key), PROBE_LIMIT).await?;
        let state = object
            .map(trimmed)
            .and_then(|object| self.keep(&key, object));
        let is_news = state.as_ref().map(|state| state.revision) != Some(last);
        self.subscriptions
            .tell(&key, &News::Listed { asked, state });
        if !is_news {
            return Ok(());
        }
        // The event may be on its way: only a watch that still says nothing is dead.
        let mut peeked = std::pin::pin!(tokio::time::timeout(PROBE_LIMIT / 4, events.next()));
        match peeked.as_mut().await {
            Ok(Some(Ok(_))) => Err(StoreError::Expired {
                detail: "a late event".to_owned(),
            }),
            _ => Err(StoreError::Unreachable {
                detail: "the watch shows nothing although there is news".to_owned(),
            }),
        }
    }

    /// Takes one event; `Some` ends the watch.
    fn take(
        &self,
        selection: &Selection,
        event: Event,
        revision: &mut String,
        shown: &mut ShownByKey,
    ) -> Result<Option<Ended>, StoreError> {
        let (object, deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(bookmark) => {
                *revision = bookmark.metadata.resource_version;
                return Ok(None);
            }
            WatchEvent::Error(status) => {
                return match self.requests.judge("watch", kube::Error::Api(status)) {
                    StoreError::Expired { .. } => Ok(Some(Ended::Stale)),
                    error => Err(error),
                };
            }
        };
        if let Some(seen) = object["metadata"]["resourceVersion"].as_str() {
            seen.clone_into(revision);
        }
        let Some(subject) = Subject::of(&object) else {
            return Ok(None);
        };
        match subject {
            Subject::Settings(key) => {
                let text = if deleted {
                    None
                } else {
                    settings_text(&object)
                };
                self.tell_settings(&key, text);
            }
            Subject::Leader(key) if deleted => {
                shown.remove(&key);
                self.subscriptions.tell(&key, &News::Gone);
                return Ok(matches!(selection, Selection::Name(_)).then_some(Ended::Done));
            }
            Subject::Leader(key) => {
                let labelled = has_our_labels(&object, &key);
                if let Some(state) = self.keep(&key, trimmed(object)) {
                    shown.insert(key.clone(), Shown::of(&state));
                    self.subscriptions.tell(&key, &News::Watched(state));
                }
                let done = labelled && matches!(selection, Selection::Name(_));
                return Ok(done.then_some(Ended::Done));
            }
        }
        Ok(None)
    }

    /// Tells every key what the list says of it; true if a selection by name is done.
    fn deliver_list(
        &self,
        selection: &Selection,
        asked: Instant,
        objects: Vec<Value>,
        shown: &mut ShownByKey,
    ) -> bool {
        let mut settings = BTreeMap::new();
        let mut done = matches!(selection, Selection::Name(_));
        for object in objects {
            match Subject::of(&object) {
                Some(Subject::Settings(key)) => {
                    settings.insert(key, settings_text(&object));
                }
                Some(Subject::Leader(key)) => {
                    done &= has_our_labels(&object, &key);
                    let Some(state) = self.keep(&key, trimmed(object)) else {
                        continue;
                    };
                    shown.insert(key.clone(), Shown::of(&state));
                    self.subscriptions.tell(
                        &key,
                        &News::Listed {
                            asked,
                            state: Some(state),
                        },
                    );
                }
                None => {}
            }
        }
        for key in keys_of(selection) {
            if !shown.contains_key(&key) {
                // E4: deleted, or without our labels: only a read by name can tell.
                self.subscriptions.tell(&key, &News::Gone);
            }
            if matches!(selection, Selection::Labels(_)) {
                let text = settings.remove(&key).flatten();
                self.tell_settings(&key, text);
            }
        }
        done
    }

    fn tell_settings(&self, key: &LeaseKey, text: Option<String>) {
        let declared = text.map(|text| read_declared(&text));
        self.subscriptions.tell(key, &News::Settings(declared));
    }

    /// Reads and keeps an object; an unreadable one is logged and skipped, nothing more.
    fn keep(&self, key: &LeaseKey, object: Value) -> Option<Versioned> {
        match read_object(&object) {
            Ok(state) => {
                self.subscriptions.keep(key, &state, object);
                Some(state)
            }
            Err(error) => {
                tracing::warn!(key = signal::LEASE_MALFORMED, cluster_id = %key, %error, "a Lease cannot be read");
                signal::count(signal::LEASE_MALFORMED);
                None
            }
        }
    }

    fn tell(&self, selection: &Selection, news: &News) {
        match selection {
            Selection::Labels(_) => self.subscriptions.tell_all(news),
            Selection::Name(key) => self.subscriptions.tell(key, news),
        }
    }
}

fn keys_of(selection: &Selection) -> Vec<LeaseKey> {
    match selection {
        Selection::Labels(selected) => selected.clone(),
        Selection::Name(key) => vec![key.clone()],
    }
}

impl Shown {
    fn of(state: &Versioned) -> Self {
        Self {
            revision: state.revision,
            held: state.record.holder.is_some(),
        }
    }
}

#[cfg(test)]
mod tests;
