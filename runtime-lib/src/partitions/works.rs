//! The works of a member: one task for each partition that runs here.
//!
//! A task ends when its partition is lost or drained. Work that returns by itself or panics is
//! started again after a back-off, so that one poisoned partition harms no other.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use leasehold_core::id::FencingToken;
use leasehold_core::partition::Slot;
use leasehold_core::time::{Duration, Instant};
use tokio::sync::mpsc;
use tracing::Instrument;

use super::guard::PartitionGuard;
use crate::clock::Clock;
use crate::leadership::{Begun, Guarded, LostReason, TermState};
use crate::signal;

/// What is done for one partition.
pub(super) type Work = Arc<dyn Fn(PartitionGuard) -> Doing + Send + Sync>;
pub(super) type Doing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The pause before work that ended by itself is started again: doubled each time, up to the
/// longest, and the shortest again after it ran for as long as the longest.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_mins(1);

/// Everything that runs here.
pub(super) struct Works {
    work: Work,
    clock: Clock,
    running: BTreeMap<Slot, Running>,
    endings: mpsc::UnboundedSender<Slot>,
    ended: mpsc::UnboundedReceiver<Slot>,
}

/// One partition's task, as its member sees it. Dropping it ends the guard.
struct Running {
    begun: Begun,
    drained_at: Option<Instant>,
}

impl Works {
    pub(super) fn new(work: Work, clock: Clock) -> Self {
        let (endings, ended) = mpsc::unbounded_channel();
        Self {
            work,
            clock,
            running: BTreeMap::new(),
            endings,
            ended,
        }
    }

    /// Starts the work of `slot` under the member's own term.
    pub(super) fn start(&mut self, member: &Begun, slot: Slot, token: FencingToken) {
        let begun = member.within(slot.partition, token);
        let guard = PartitionGuard::new(begun.leadership(), slot);
        let ends = SaysEnded {
            slot,
            endings: self.endings.clone(),
        };
        let span = tracing::info_span!("partition", partition = %slot.partition, %token);
        let tending = tend(guard, Arc::clone(&self.work), self.clock.clone(), ends);
        tokio::spawn(tending.instrument(span));
        let drained_at = None;
        self.running.insert(slot, Running { begun, drained_at });
    }

    /// Does nothing run here?
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Asks the work to finish.
    pub(super) fn drain(&mut self, slot: Slot) {
        if let Some(running) = self.running.get_mut(&slot) {
            running.drained_at.get_or_insert(self.clock.now());
            running.begun.ask_to_drain();
        }
    }

    /// Invalidates the guard; the task drops the work and says that it ended.
    pub(super) fn lose(&self, slot: Slot, reason: LostReason) {
        if let Some(running) = self.running.get(&slot) {
            running.begun.end(reason);
        }
    }

    /// The next slot whose work has ended; nothing of it runs on.
    pub(super) async fn next_ended(&mut self) -> Slot {
        match self.ended.recv().await {
            Some(slot) => slot,
            // Not reached: one sender lives here.
            None => std::future::pending().await,
        }
    }

    /// Another one that has ended already.
    pub(super) fn also_ended(&mut self) -> Option<Slot> {
        self.ended.try_recv().ok()
    }

    /// Forgets a slot whose work has ended. True if it was lost before.
    pub(super) fn forget(&mut self, slot: Slot) -> bool {
        let Some(running) = self.running.remove(&slot) else {
            return false;
        };
        let was_lost = running.begun.leadership().check().is_err();
        running.begun.end(LostReason::Reassigned);
        was_lost
    }

    /// The state of each guard, for the watchdog.
    pub(super) fn states(&self) -> impl Iterator<Item = &TermState> {
        self.running.values().map(|running| running.begun.state())
    }

    /// The partitions that were asked to finish, and when.
    pub(super) fn draining(&self) -> impl Iterator<Item = (Slot, Instant)> {
        let all = self.running.iter();
        all.filter_map(|(slot, running)| Some((*slot, running.drained_at?)))
    }
}

/// Says that a work has ended when it is dropped, after everything else of its task.
struct SaysEnded {
    slot: Slot,
    endings: mpsc::UnboundedSender<Slot>,
}

impl Drop for SaysEnded {
    fn drop(&mut self) {
        // The member is gone: nobody waits for it.
        let _ = self.endings.send(self.slot);
    }
}

/// Does the work of one partition until it is lost or drained.
async fn tend(guard: PartitionGuard, work: Work, clock: Clock, ends: SaysEnded) {
    let leadership = guard.leadership().clone();
    let mut pause = PAUSE_FIRST;
    // E9: also the first call belongs to the work.
    while leadership.check().is_ok() {
        let began = clock.now();
        let doing = {
            let (work, guard) = (Arc::clone(&work), guard.clone());
            // Called while it is polled, so that a panic of the call is caught as well.
            Caught(Box::pin(async move { work(guard).await }))
        };
        Guarded::new(doing, leadership.clone()).await;
        if leadership.check().is_err() || leadership.state().is_draining() {
            break;
        }
        let ran = clock.now().since(began);
        if ran >= PAUSE_LONGEST {
            pause = PAUSE_FIRST;
        }
        tracing::warn!(key = signal::PARTITION_RESTARTED, partition = %guard.partition(), ran_s = ran.as_secs_f64(), pause_s = pause.as_secs_f64(), "the work of a partition has ended by itself; it is started again after a pause");
        signal::count(signal::PARTITION_RESTARTED);
        tokio::select! {
            () = clock.sleep(pause) => {}
            _ = leadership.lost() => {}
            () = leadership.draining() => break,
        }
        pause = (pause * 2).min(PAUSE_LONGEST);
    }
    drop(ends);
}

/// Work whose panic is logged, and ends it like a return.
struct Caught(Doing);

impl Future for Caught {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Nothing of it is used again after a panic: it is dropped.
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| {
            let text = crate::service::panic_text(panic.as_ref());
            tracing::error!(panic = text, "the work of a partition panicked");
            Poll::Ready(())
        })
    }
}
