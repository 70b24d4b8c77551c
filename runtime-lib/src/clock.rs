//! The only file that reads a clock.
//!
//! Everything that decides reads CLOCK_BOOTTIME, which goes on during a suspend (E9). Timers of
//! tokio stop meanwhile; so a sleeper looks at the boot clock again whenever it is woken, and one
//! short timer of the process compares the two clocks and wakes all sleepers after a resume. What
//! must not be late at all ([`Leadership::check`](crate::Leadership::check), polls of the work)
//! reads the clock itself.

use std::sync::Arc;

use leasehold_core::time::{Duration, Instant};
use tokio::sync::watch;

/// After a resume, sleepers are late by at most this.
#[cfg(target_os = "linux")]
const COMPARED_EVERY: Duration = Duration::from_secs(1);

/// The clock of this process, or of a test.
#[derive(Clone)]
pub struct Clock {
    source: Source,
    /// Changes whenever the clock may have jumped.
    resumed: Arc<watch::Sender<u64>>,
}

#[derive(Clone)]
enum Source {
    Boot,
    #[cfg(any(test, feature = "testing"))]
    Test(Arc<TestSource>),
    #[cfg(any(test, feature = "testing"))]
    Rated(Rated),
}

/// The boot-time clock as a quartz of another rate would show it.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Copy)]
struct Rated {
    start: Instant,
    rate: f64,
}

#[cfg(any(test, feature = "testing"))]
struct TestSource {
    start: tokio::time::Instant,
    jumped_nanos: std::sync::atomic::AtomicU64,
}

impl Clock {
    /// The boot-time clock.
    pub(crate) fn boot() -> Self {
        Self {
            source: Source::Boot,
            resumed: Arc::new(watch::Sender::new(0)),
        }
    }

    /// The boot-time clock, for tests on real servers.
    #[cfg(any(test, feature = "testing"))]
    pub fn real() -> Self {
        Self::boot()
    }

    /// A clock that follows tokio's (which a test can pause) and can jump as in a suspend.
    #[cfg(any(test, feature = "testing"))]
    pub fn test() -> Self {
        let start = tokio::time::Instant::now();
        let source = TestSource {
            start,
            jumped_nanos: std::sync::atomic::AtomicU64::new(0),
        };
        Self {
            source: Source::Test(Arc::new(source)),
            resumed: Arc::new(watch::Sender::new(0)),
        }
    }

    /// The boot-time clock with this many seconds for each real one: 1.01 is 1 % fast. For tests on
    /// real servers of what [`LeaseTiming`](crate::LeaseTiming) promises about clocks that drift.
    #[cfg(any(test, feature = "testing"))]
    pub fn at_rate(rate: f64) -> Self {
        let start = boot_now();
        Self {
            source: Source::Rated(Rated { start, rate }),
            resumed: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Jumps ahead without running a timer, as a process sees it that was stopped and went on.
    ///
    /// A real clock is left alone.
    #[cfg(any(test, feature = "testing"))]
    pub fn jump(&self, by: Duration) {
        if let Source::Test(source) = &self.source {
            let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
            source
                .jumped_nanos
                .fetch_add(nanos, std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// Wakes sleepers, as happens within a second of a resume.
    #[cfg(any(test, feature = "testing"))]
    pub fn wake_sleepers(&self) {
        self.resumed.send_modify(|count| *count += 1);
    }

    /// The present instant.
    pub fn now(&self) -> Instant {
        match &self.source {
            Source::Boot => boot_now(),
            #[cfg(any(test, feature = "testing"))]
            Source::Test(source) => {
                let jumped = source
                    .jumped_nanos
                    .load(std::sync::atomic::Ordering::SeqCst);
                // Origin above zero: the machine reads ZERO as "never happened".
                Instant::from_nanos(1_000_000_000 + jumped).after(source.start.elapsed())
            }
            #[cfg(any(test, feature = "testing"))]
            Source::Rated(Rated { start, rate }) => {
                start.after(boot_now().since(*start).mul_f64(*rate))
            }
        }
    }

    /// Returns once `deadline` is reached, within a second also across a suspend.
    pub(crate) async fn sleep_until(&self, deadline: Instant) {
        if deadline == Instant::MAX {
            return std::future::pending().await;
        }
        let mut resumed = self.resumed.subscribe();
        loop {
            let now = self.now();
            if now >= deadline {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(self.slept(deadline.since(now))) => {}
                _ = resumed.changed() => {}
            }
        }
    }

    /// How long a span of this clock takes by tokio's.
    fn slept(&self, duration: Duration) -> Duration {
        match &self.source {
            #[cfg(any(test, feature = "testing"))]
            Source::Rated(Rated { rate, .. }) => duration.div_f64(*rate),
            _ => duration,
        }
    }

    /// Returns after `duration` of this clock.
    pub(crate) async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now().after(duration)).await;
    }

    /// Wakes all sleepers after a suspend. Runs as long as it is polled; one per cluster.
    pub(crate) async fn watch_for_resume(self) {
        #[cfg(target_os = "linux")]
        if matches!(self.source, Source::Boot) {
            self.compare_clocks().await;
        }
        std::future::pending::<()>().await;
    }

    /// A suspend moves the boot-time clock and leaves the monotonic one, tokio's, where it was.
    #[cfg(target_os = "linux")]
    async fn compare_clocks(&self) {
        let mut ahead = ahead_of_monotonic();
        loop {
            tokio::time::sleep(COMPARED_EVERY).await;
            let now_ahead = ahead_of_monotonic();
            let suspended = now_ahead.saturating_sub(ahead);
            if suspended > Duration::from_millis(100) {
                tracing::info!(?suspended, "the machine was suspended");
                self.resumed.send_modify(|count| *count += 1);
            }
            ahead = now_ahead;
        }
    }
}

/// The wall clock, for times that only people and foreign readers look at (E3).
#[cfg(feature = "kubernetes")]
pub(crate) fn wall_now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn boot_now() -> Instant {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    Instant::from_nanos(nanos(rustix::time::clock_gettime(id)))
}

#[cfg(target_os = "linux")]
fn ahead_of_monotonic() -> Duration {
    let monotonic = nanos(rustix::time::clock_gettime(
        rustix::time::ClockId::Monotonic,
    ));
    boot_now().since(Instant::from_nanos(monotonic))
}

fn nanos(time: rustix::time::Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_goes_forward() {
        let clock = Clock::boot();
        let first = clock.now();
        assert!(first > Instant::ZERO);
        assert!(clock.now() >= first);
    }

    #[tokio::test]
    async fn a_clock_of_another_rate_drifts_from_the_real_one_and_its_sleepers_with_it() {
        let (real, fast) = (Clock::real(), Clock::at_rate(50.0));
        let (since_real, since_fast) = (real.now(), fast.now());
        fast.sleep(Duration::from_secs(1)).await;
        let passed = real.now().since(since_real);
        let shown = fast.now().since(since_fast);
        assert!(shown >= Duration::from_secs(1) && passed >= Duration::from_millis(19));
        assert!(shown > passed * 40, "{shown:?} in {passed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeper_wakes_when_the_clock_reached_its_deadline() {
        let clock = Clock::test();
        let deadline = clock.now().after(Duration::from_secs(5));
        clock.sleep_until(deadline).await;
        assert!(clock.now() >= deadline);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resume_wakes_a_sleeper_whose_timer_stood_still() {
        let clock = Clock::test();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_hours(1)).await }
        });
        tokio::task::yield_now().await;
        let before = tokio::time::Instant::now();
        clock.jump(Duration::from_hours(2));
        clock.wake_sleepers();
        sleeper.await.unwrap();
        assert_eq!(
            before.elapsed(),
            Duration::ZERO,
            "woken by the resume, not by the timer"
        );
    }
}
