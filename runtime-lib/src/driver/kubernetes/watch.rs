//! The watches of a process: list, then watch, again and again.
//!
//! One serves all leaders, assignments and settings (H10). Members are followed by name, or all
//! members of a cluster id by one watch, which then serves who asked for a single one as well.
//!
//! It is written by hand because three things matter more here than in a controller: the back-off
//! really grows while the server is down, silence is noticed within seconds (a half-open
//! connection otherwise stays silent for minutes), and one unreadable object stops nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use leasehold_core::id::Revision;
use leasehold_core::lease::Versioned;
use leasehold_core::time::{Duration, Instant};
use tokio::sync::watch::Receiver;

use super::convert::trimmed;
use super::requests::{Event, Requests};
use super::selection::Selection;
use super::subscriptions::Subscriptions;
use crate::clock::Clock;
use crate::driver::{MemberNews, News, StoreError};
use crate::key::{LeaseKey, LeaseKind};
use crate::random;

mod recovery;
mod subject;
mod telling;

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
    /// Somebody joined who was not told the list.
    Grown,
    /// The server has forgotten the revision, or something was missed: list anew.
    Stale,
    /// Nobody asks for it any more; or a Lease without labels has them now, or is gone.
    Done,
    /// It broke. `listed`: a list succeeded, so every key was told its state.
    Failed { error: StoreError, listed: bool },
}

/// What a watch has shown of a key.
struct Shown {
    revision: Revision,
    /// Somebody holds it, so that renewals are to be expected.
    held: bool,
}

type ShownByKey = BTreeMap<LeaseKey, Shown>;

impl Watch {
    /// Follows all leaders and assignments that are subscribed, for ever.
    pub(super) async fn run_shared(self: Arc<Self>) {
        let mut changes = self.subscriptions.changes();
        loop {
            while self.subscriptions.shared_ids().is_empty() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(GATHERING).await;
            self.repeat(|| Selection::Shared(self.subscriptions.shared_ids()))
                .await;
        }
    }

    /// Follows all members of a cluster id until nobody asks any more.
    pub(super) async fn run_members(self: Arc<Self>, id: LeaseKey) {
        let selection = Selection::Members(id);
        while !self.subscriptions.retire(&selection) {
            self.repeat(|| selection.clone()).await;
        }
    }

    /// Follows one member until nobody asks any more. While the watch of all members serves it,
    /// nothing is sent, but for one read for whoever joined since.
    pub(super) async fn run_member(self: Arc<Self>, key: LeaseKey) {
        let selection = Selection::Name(key.clone());
        let mut changes = self.subscriptions.changes();
        let mut told = 0;
        while !self.subscriptions.retire(&selection) {
            let newest = self.subscriptions.newest(&selection);
            if !self.subscriptions.is_covered(&key) {
                self.repeat(|| selection.clone()).await;
            } else if newest > told && !self.read_for(&key).await {
                tokio::time::sleep(self.subscriptions.heartbeat(&selection)).await;
                continue;
            } else if changes.changed().await.is_err() {
                return;
            }
            told = newest;
        }
    }

    /// Follows one Lease without labels until it has them, is gone, or nobody asks any more.
    pub(super) async fn run_makeshift(self: Arc<Self>, key: LeaseKey) {
        let selection = Selection::Name(key);
        self.repeat(|| selection.clone()).await;
        self.subscriptions.forget(&selection);
    }

    /// Follows a selection again and again, until it is done or has to be made anew.
    async fn repeat(&self, select: impl Fn() -> Selection) {
        let mut failures = 0;
        loop {
            let mut changes = self.subscriptions.changes();
            let selection = select();
            if !self.subscriptions.is_wanted(&selection) {
                return;
            }
            let since = self.clock.now();
            match self.follow(&selection, &mut changes).await {
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

    /// One list and the watches that follow it without a gap.
    async fn follow(&self, selection: &Selection, changes: &mut Receiver<u64>) -> Ended {
        let query = selection.query();
        let served = self.subscriptions.newest(selection);
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
                .stream(
                    selection,
                    (served, changes),
                    &query,
                    &mut revision,
                    &mut shown,
                )
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
    ///
    /// `served`: the newest subscription that was told the list.
    async fn stream(
        &self,
        selection: &Selection,
        (served, changes): (u64, &mut Receiver<u64>),
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
        self.subscriptions
            .tell_all(selection, &News::Up, &MemberNews::Up);
        let overdue = opened.after(server_limit + Duration::from_secs(10));
        let mut heard = tokio::time::Instant::now();
        loop {
            let is_quiet_at = heard + self.subscriptions.idle_limit(selection);
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        heard = tokio::time::Instant::now();
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
                // It cannot fail: the subscriptions outlive their watches.
                _ = changes.changed() => {
                    if self.subscriptions.newest(selection) > served {
                        return Ok(Some(Ended::Grown));
                    }
                    // The shared watch is kept: its selector costs nothing.
                    let is_shared = matches!(selection, Selection::Shared(_));
                    if !is_shared && !self.subscriptions.is_wanted(selection) {
                        return Ok(Some(Ended::Done));
                    }
                }
                () = tokio::time::sleep_until(is_quiet_at) => {
                    heard = tokio::time::Instant::now();
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
        let object = self.requests.get(&key.lease_name(), PROBE_LIMIT).await?;
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

    /// Reads a member's Lease for who follows it by name; false if that failed.
    async fn read_for(&self, key: &LeaseKey) -> bool {
        let asked = self.clock.now();
        match self.requests.get(&key.lease_name(), REQUEST_LIMIT).await {
            Ok(object) => {
                let state = object
                    .map(trimmed)
                    .and_then(|object| self.keep(key, object));
                self.subscriptions.tell(key, &News::Listed { asked, state });
                true
            }
            Err(error) => {
                self.subscriptions.tell(key, &News::Down(error));
                false
            }
        }
    }
}

impl Shown {
    fn of(key: &LeaseKey, state: &Versioned) -> Self {
        // Nobody renews an assignment.
        let is_renewed = *key.kind() != LeaseKind::Assignment;
        Self {
            revision: state.revision,
            held: state.record.holder.is_some() && is_renewed,
        }
    }
}

#[cfg(test)]
mod tests;
