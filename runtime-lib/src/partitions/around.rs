//! Everything that a member listens to, as one stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Poll;

use leasehold_core::time::Duration;

use crate::driver::{Feed, News};

/// What some news is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    /// The own member lease; followed by a candidate only.
    Own,
    /// Who leads, and what is declared.
    Leader,
    /// The table.
    Assignment,
    /// The member lease of the leading pod: its silence is known to everyone (H10).
    LeadingPod,
    /// A member that holds up a partition of ours.
    Member(Arc<str>),
}

/// The feeds, each by what it is about.
#[derive(Default)]
pub(super) struct Around {
    feeds: BTreeMap<About, Feed>,
    heartbeat: Duration,
}

impl Around {
    pub(super) fn follow(&mut self, about: About, feed: Feed) {
        feed.expect_heartbeat(self.heartbeat);
        self.feeds.insert(about, feed);
    }

    pub(super) fn leave(&mut self, about: &About) {
        self.feeds.remove(about);
    }

    pub(super) fn follows(&self, about: &About) -> bool {
        self.feeds.contains_key(about)
    }

    /// Follows exactly these members; `open` opens the feed of a new one.
    pub(super) fn follow_members(
        &mut self,
        names: &BTreeSet<Arc<str>>,
        open: impl Fn(&str) -> Option<Feed>,
    ) {
        self.feeds.retain(|about, _| match about {
            About::Member(name) => names.contains(name),
            _ => true,
        });
        for name in names {
            let about = About::Member(Arc::clone(name));
            if let (false, Some(feed)) = (self.follows(&about), open(name)) {
                self.follow(about, feed);
            }
        }
    }

    /// How often living holders renew.
    pub(super) fn expect_heartbeat(&mut self, heartbeat: Duration) {
        self.heartbeat = heartbeat;
        for feed in self.feeds.values() {
            feed.expect_heartbeat(heartbeat);
        }
    }

    /// The next news; never returns while there is none. Dropping this loses nothing.
    pub(super) async fn next(&mut self) -> (About, News) {
        std::future::poll_fn(|context| {
            let mut closed = None;
            for (about, feed) in &mut self.feeds {
                match feed.poll_next(context) {
                    Poll::Ready(Some(news)) => return Poll::Ready((about.clone(), news)),
                    Poll::Ready(None) => closed = Some(about.clone()),
                    Poll::Pending => {}
                }
            }
            // The store has ended; the machines go on by reading.
            if let Some(about) = closed {
                self.feeds.remove(&about);
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }
}
