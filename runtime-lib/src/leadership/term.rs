//! The state of one term, shared by the elector (which alone extends it) and everyone who checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_core::id::{FencingToken, Term};
use leasehold_core::partition::Partition;
use leasehold_core::time::{Duration, Instant};
use tokio::sync::watch;

use super::{Leadership, Lost, LostReason};
use crate::clock::Clock;

/// `trusted_until` of a term that is over; it never changes again.
const OVER: u64 = 0;
/// `polling_since` while the work is not being polled.
const IDLE: u64 = 0;

/// One term, or what runs within one: a partition under its member's term.
pub(crate) struct TermState {
    pub(super) clock: Clock,
    pub(super) term: Term,
    pub(super) token: FencingToken,
    /// What it stands and falls with.
    within: Option<Arc<TermState>>,
    /// The partition, if it is not the term as a whole.
    partition: Option<Partition>,
    trusted_until: AtomicU64,
    lost: watch::Sender<Option<Lost>>,
    drain: watch::Sender<bool>,
    progress_at: AtomicU64,
    polling_since: AtomicU64,
}

/// The elector's side of a term. Dropping it ends the term, whatever the reason.
pub(crate) struct Begun {
    state: Arc<TermState>,
}

impl Begun {
    pub(crate) fn new(clock: Clock, term: Term, token: FencingToken, until: Instant) -> Self {
        Self::made(clock, term, token, until, None, None)
    }

    /// A partition that may act as long as this term, the member's own, and until it is ended.
    pub(crate) fn within(&self, partition: Partition, token: FencingToken) -> Self {
        Self::made(
            self.state.clock.clone(),
            self.state.term,
            token,
            Instant::MAX,
            Some(Arc::clone(&self.state)),
            Some(partition),
        )
    }

    fn made(
        clock: Clock,
        term: Term,
        token: FencingToken,
        until: Instant,
        within: Option<Arc<TermState>>,
        partition: Option<Partition>,
    ) -> Self {
        let now = clock.now().as_nanos();
        let state = TermState {
            clock,
            term,
            token,
            within,
            partition,
            trusted_until: AtomicU64::new(until.as_nanos()),
            lost: watch::Sender::new(None),
            drain: watch::Sender::new(false),
            progress_at: AtomicU64::new(now),
            polling_since: AtomicU64::new(IDLE),
        };
        Self {
            state: Arc::new(state),
        }
    }

    pub(crate) fn leadership(&self) -> Leadership {
        Leadership::new(Arc::clone(&self.state))
    }

    /// Moves the end of trust, later or earlier. A term that is over stays over.
    pub(crate) fn trust_until(&self, until: Instant) {
        let _ =
            self.state
                .trusted_until
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |current| {
                    (current != OVER).then_some(until.as_nanos())
                });
    }

    pub(crate) fn ask_to_drain(&self) {
        self.state.drain.send_replace(true);
    }

    pub(crate) fn end(&self, reason: LostReason) {
        self.state.trusted_until.store(OVER, Ordering::Release);
        self.state.announce(reason);
    }

    pub(crate) fn state(&self) -> &TermState {
        &self.state
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.end(LostReason::Abandoned);
    }
}

impl TermState {
    /// The end of trust, if it has not come yet.
    pub(super) fn check(&self) -> Result<Instant, Lost> {
        let own = self.check_own()?;
        let Some(within) = &self.within else {
            return Ok(own);
        };
        match within.check() {
            Ok(until) => Ok(own.min(until)),
            Err(lost) => {
                self.trusted_until.store(OVER, Ordering::Release);
                Err(self.announce(lost.reason))
            }
        }
    }

    fn check_own(&self) -> Result<Instant, Lost> {
        let mut until = self.trusted_until.load(Ordering::Acquire);
        loop {
            if until == OVER {
                return Err(self.announce(LostReason::TrustExpired));
            }
            if self.clock.now() < Instant::from_nanos(until) {
                return Ok(Instant::from_nanos(until));
            }
            // Expired is for ever (E9), unless the elector extended it between the two looks.
            match self.trusted_until.compare_exchange(
                until,
                OVER,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Err(self.announce(LostReason::TrustExpired)),
                Err(changed) => until = changed,
            }
        }
    }

    /// The first reason stays.
    fn announce(&self, reason: LostReason) -> Lost {
        let mut known = Lost {
            term: self.term,
            partition: self.partition,
            reason,
        };
        self.lost.send_if_modified(|lost| {
            if let Some(first) = lost {
                known = first.clone();
                return false;
            }
            *lost = Some(known.clone());
            true
        });
        known
    }

    pub(super) async fn lost(&self) -> Lost {
        let mut announced = self.lost.subscribe();
        loop {
            if let Some(lost) = announced.borrow_and_update().clone() {
                return lost;
            }
            let until = match self.check() {
                Ok(until) => until,
                Err(lost) => return lost,
            };
            tokio::select! {
                _ = announced.changed() => {}
                () = self.clock.sleep_until(until) => {}
            }
        }
    }

    pub(super) async fn draining(&self) {
        let mut drain = self.drain.subscribe();
        // The sender lives in `self`, so this only ends with the drain.
        let _ = drain.wait_for(|asked| *asked).await;
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.drain.borrow()
    }

    pub(super) fn note_progress(&self) {
        self.progress_at
            .store(self.clock.now().as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn poll_begins(&self) {
        self.polling_since
            .store(self.clock.now().as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn poll_ends(&self) {
        self.polling_since.store(IDLE, Ordering::Relaxed);
    }

    /// Time since the work last said that it makes progress.
    pub(crate) fn silent_for(&self, now: Instant) -> Duration {
        now.since(Instant::from_nanos(
            self.progress_at.load(Ordering::Relaxed),
        ))
    }

    /// How long the work has been holding its thread without a pause; zero if it is not.
    pub(crate) fn holds_thread_for(&self, now: Instant) -> Duration {
        match self.polling_since.load(Ordering::Relaxed) {
            IDLE => Duration::ZERO,
            since => now.since(Instant::from_nanos(since)),
        }
    }
}
