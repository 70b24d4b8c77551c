//! What happens while the watch is down: a back-off that grows, and reads where lists are refused.

use leasehold_core::backoff::Backoff;
use leasehold_core::time::Duration;

use super::{PROBE_LIMIT, Watch};
use crate::driver::kubernetes::convert::trimmed;
use crate::driver::kubernetes::selection::Selection;
use crate::driver::{MemberNews, News, StoreError};
use crate::random;
use crate::signal;

impl Watch {
    /// Waits before the next try. If lists are refused but reads are not, reads stand in.
    pub(super) async fn recover(
        &self,
        selection: &Selection,
        error: StoreError,
        listed: bool,
        failures: u32,
    ) {
        let heartbeat = self.subscriptions.heartbeat(selection);
        let backoff = Backoff {
            first: Duration::from_millis(200),
            ceiling: heartbeat,
        };
        let asked_for = error.retry_after().unwrap_or_default().min(heartbeat * 4);
        let delay = backoff.delay(failures, random::number()).max(asked_for);
        let reason = error.reason();
        if failures == 1 {
            tracing::warn!(key = signal::WATCH_DOWN, reason, %error, retry_in = ?delay, "the watch of the leases is down");
        } else {
            tracing::debug!(key = signal::WATCH_DOWN, reason, %error, failures, retry_in = ?delay, "still down");
        }
        signal::count(signal::WATCH_DOWN);
        self.requests.redial();
        let may_read = !listed && !error.is_transport();
        self.subscriptions.tell_all(
            selection,
            &News::Down(error.clone()),
            &MemberNews::Down(error),
        );
        tokio::time::sleep(delay).await;
        if may_read {
            self.read_each(selection).await;
        }
    }

    /// Stands in for a list that is refused (a Role may allow single names only).
    async fn read_each(&self, selection: &Selection) {
        for key in self.subscriptions.keys_of(selection) {
            let asked = self.clock.now();
            let Ok(object) = self.requests.get(&key.lease_name(), PROBE_LIMIT).await else {
                return;
            };
            let state = object
                .map(trimmed)
                .and_then(|object| self.keep(&key, object));
            self.subscriptions
                .tell(&key, &News::Listed { asked, state });
            let jitter = random::number() % 50;
            tokio::time::sleep(Duration::from_millis(jitter)).await;
        }
    }
}
