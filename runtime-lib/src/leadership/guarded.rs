//! E9: the work of a term, polled only while its leadership holds.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Leadership;

/// Drives the work and drops it at the first poll after the end of trust, and at once when the
/// loss is announced. Ends when the work returned or was dropped.
pub(crate) struct Guarded<F> {
    work: Option<Pin<Box<F>>>,
    leadership: Leadership,
    lost: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<F: Future<Output = ()>> Guarded<F> {
    pub(crate) fn new(work: F, leadership: Leadership) -> Self {
        let lost = {
            let leadership = leadership.clone();
            Box::pin(async move {
                leadership.lost().await;
            })
        };
        Self {
            work: Some(Box::pin(work)),
            leadership,
            lost,
        }
    }
}

impl<F: Future<Output = ()>> Future for Guarded<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The announcement first: it also arranges to be woken by the next one.
        let announced = self.lost.as_mut().poll(context).is_ready();
        // Then the clock itself, whatever has been announced (E9).
        if announced || self.leadership.check().is_err() {
            self.work = None;
            return Poll::Ready(());
        }
        let state = self.leadership.state().clone();
        let Some(work) = &mut self.work else {
            return Poll::Ready(());
        };
        state.poll_begins();
        let polled = work.as_mut().poll(context);
        state.poll_ends();
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use leasehold_core::id::{FencingToken, Revision, Term};
    use leasehold_core::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::leadership::{Begun, LostReason};

    fn begun(clock: &Clock, trusted: Duration) -> Begun {
        let token = FencingToken::new(0, Revision::new(7).unwrap());
        Begun::new(
            clock.clone(),
            Term::new(1),
            token,
            clock.now().after(trusted),
        )
    }

    struct CountPolls(Arc<AtomicU32>);

    impl Future for CountPolls {
        type Output = ();
        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.0.fetch_add(1, Ordering::SeqCst);
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_the_check_fails_and_the_work_is_not_polled_again() {
        let clock = Clock::test();
        let begun = begun(&clock, Duration::from_secs(11));
        let leadership = begun.leadership();
        let polls = Arc::new(AtomicU32::new(0));
        let mut guarded = Box::pin(Guarded::new(
            CountPolls(Arc::clone(&polls)),
            leadership.clone(),
        ));
        let waker = std::task::Waker::noop();
        let mut context = Context::from_waker(waker);
        assert!(guarded.as_mut().poll(&mut context).is_pending());
        assert_eq!(
            polls.load(Ordering::SeqCst),
            1,
            "positive control: it runs while it may"
        );
        assert!(leadership.check().is_ok());

        clock.jump(Duration::from_secs(25)); // as after SIGSTOP and SIGCONT: no timer has fired
        assert!(guarded.as_mut().poll(&mut context).is_ready());
        assert_eq!(polls.load(Ordering::SeqCst), 1);
        assert_eq!(
            leadership.check().unwrap_err().reason,
            LostReason::TrustExpired
        );
        assert_eq!(leadership.remaining(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_failed_once_never_succeeds_again() {
        let clock = Clock::test();
        let begun = begun(&clock, Duration::from_secs(1));
        let leadership = begun.leadership();
        clock.jump(Duration::from_secs(2));
        assert!(leadership.check().is_err());
        begun.trust_until(clock.now().after(Duration::from_mins(1)));
        assert!(
            leadership.check().is_err(),
            "a late extension does not revive it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_extension_in_time_keeps_the_work_running() {
        let clock = Clock::test();
        let begun = begun(&clock, Duration::from_secs(10));
        let leadership = begun.leadership();
        clock.jump(Duration::from_secs(9));
        begun.trust_until(clock.now().after(Duration::from_secs(10)));
        clock.jump(Duration::from_secs(9));
        assert!(leadership.check().is_ok());
        assert_eq!(leadership.remaining(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_announced_loss_drops_the_work_at_once() {
        let clock = Clock::test();
        let begun = begun(&clock, Duration::from_hours(1));
        let guarded = Guarded::new(std::future::pending::<()>(), begun.leadership());
        let running = tokio::spawn(guarded);
        tokio::task::yield_now().await;
        let before = tokio::time::Instant::now();
        begun.end(LostReason::Emptied);
        running.await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert_eq!(
            begun.leadership().check().unwrap_err().reason,
            LostReason::Emptied
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_ends_with_the_elector_that_holds_it() {
        let clock = Clock::test();
        let begun = begun(&clock, Duration::from_hours(1));
        let leadership = begun.leadership();
        assert!(leadership.check().is_ok());
        drop(begun);
        assert_eq!(
            leadership.check().unwrap_err().reason,
            LostReason::Abandoned
        );
        assert_eq!(leadership.lost().await.reason, LostReason::Abandoned);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_by_time_is_announced_to_whoever_waits() {
        let clock = Clock::test();
        let begun = begun(&clock, Duration::from_secs(5));
        let lost = begun.leadership().lost().await;
        assert_eq!(lost.reason, LostReason::TrustExpired);
        assert_eq!(
            lost.to_string(),
            "leadership of term 1 is lost: no renewal succeeded in time"
        );
    }
}
