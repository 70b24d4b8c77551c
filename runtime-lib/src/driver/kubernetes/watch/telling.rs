//! What a list or an event of a watch means for whom.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::WatchEvent;
use leasehold_core::lease::Versioned;
use leasehold_core::time::Instant;
use serde_json::Value;

use super::subject::{Subject, settings_text};
use super::{Ended, Shown, ShownByKey, Watch};
use crate::driver::kubernetes::convert::{has_our_labels, read_object, trimmed};
use crate::driver::kubernetes::requests::Event;
use crate::driver::kubernetes::selection::Selection;
use crate::driver::{MemberNews, News, StoreError};
use crate::key::LeaseKey;
use crate::settings::read_declared;
use crate::signal;

impl Watch {
    /// Takes one event; `Some` ends the watch.
    pub(super) fn take(
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
        match Subject::of(&object) {
            Some(Subject::Settings(key)) => {
                let text = (!deleted).then(|| settings_text(&object)).flatten();
                self.tell_settings(&key, text);
                Ok(None)
            }
            Some(Subject::Lease(key)) if selection.includes(&key) => {
                let labelled = has_our_labels(&object, &key);
                if deleted {
                    shown.remove(&key);
                    self.tell_gone(selection, &key);
                } else if let Some(state) = self.keep(&key, trimmed(object)) {
                    shown.insert(key.clone(), Shown::of(&key, &state));
                    self.tell_seen(selection, &key, state);
                }
                let done = selection.is_makeshift() && (deleted || labelled);
                Ok(done.then_some(Ended::Done))
            }
            // A foreign name under our labels.
            _ => Ok(None),
        }
    }

    fn tell_seen(&self, selection: &Selection, key: &LeaseKey, state: Versioned) {
        if let (Selection::Members(id), Some(name)) = (selection, key.member_name()) {
            let news = MemberNews::Seen(Arc::clone(name), state.clone());
            self.subscriptions.tell_members(id, &news);
        }
        self.subscriptions.tell(key, &News::Watched(state));
    }

    fn tell_gone(&self, selection: &Selection, key: &LeaseKey) {
        if let (Selection::Members(id), Some(name)) = (selection, key.member_name()) {
            let news = MemberNews::Gone(Arc::clone(name));
            self.subscriptions.tell_members(id, &news);
        }
        self.subscriptions.tell(key, &News::Gone);
    }

    /// Tells every key what the list says of it; true if a makeshift selection is done.
    pub(super) fn deliver_list(
        &self,
        selection: &Selection,
        asked: Instant,
        objects: Vec<Value>,
        shown: &mut ShownByKey,
    ) -> bool {
        let mut settings = BTreeMap::new();
        let mut members = BTreeMap::new();
        let mut done = selection.is_makeshift();
        for object in objects {
            match Subject::of(&object) {
                Some(Subject::Settings(key)) => {
                    settings.insert(key, settings_text(&object));
                }
                Some(Subject::Lease(key)) if selection.includes(&key) => {
                    done &= has_our_labels(&object, &key);
                    let Some(state) = self.keep(&key, trimmed(object)) else {
                        continue;
                    };
                    shown.insert(key.clone(), Shown::of(&key, &state));
                    if let Some(name) = key.member_name() {
                        members.insert(Arc::clone(name), state.clone());
                    }
                    let state = Some(state);
                    self.subscriptions
                        .tell(&key, &News::Listed { asked, state });
                }
                _ => {}
            }
        }
        for key in self.subscriptions.keys_of(selection) {
            if !shown.contains_key(&key) {
                self.subscriptions.tell(&key, &absent(selection, asked));
            }
        }
        match selection {
            Selection::Shared(ids) => {
                for id in ids {
                    let text = settings.remove(id).flatten();
                    self.tell_settings(id, text);
                }
            }
            Selection::Members(id) => {
                let news = MemberNews::Listed { asked, members };
                self.subscriptions.tell_members(id, &news);
            }
            Selection::Name(_) => {}
        }
        done
    }

    fn tell_settings(&self, key: &LeaseKey, text: Option<String>) {
        let declared = text.map(|text| read_declared(&text));
        self.subscriptions.tell(key, &News::Settings(declared));
    }

    /// Reads and keeps an object; an unreadable one is logged and skipped, nothing more.
    pub(in crate::driver::kubernetes) fn keep(
        &self,
        key: &LeaseKey,
        object: Value,
    ) -> Option<Versioned> {
        match read_object(&object) {
            Ok(state) => {
                self.subscriptions.keep(key, &state, object);
                Some(state)
            }
            Err(error) => {
                let lease = key.lease_name();
                tracing::warn!(key = signal::LEASE_MALFORMED, cluster_id = %key, lease, %error, "a Lease cannot be read");
                signal::count(signal::LEASE_MALFORMED);
                None
            }
        }
    }
}

/// What the list says of a key that it does not show.
fn absent(selection: &Selection, asked: Instant) -> News {
    match selection {
        // A list by name is a read by name.
        Selection::Name(key) if key.member_name().is_some() => News::Listed { asked, state: None },
        // E4: deleted, or without our labels: only a read by name can tell.
        _ => News::Gone,
    }
}
