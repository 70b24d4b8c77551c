//! Is the work fit to lead? Asked at a rate that leaves a hung leader replaced within D + I.
//!
//! Three ways to be unfit: the service's own veto; work that promised to say that it makes
//! progress, and does not; work that holds its thread for longer than the stop budget, so that it
//! could not stop in time if trust were lost now. A stalled executor needs no watching: renewals
//! stall with it, and every check compares the clock itself.

use std::fmt;

use leasehold_core::lease::LeaseTiming;
use leasehold_core::time::{Duration, Instant};

use crate::leadership::TermState;

/// A service's own veto.
pub(crate) type Veto = Box<dyn Fn() -> bool + Send + Sync>;

/// Watches one service's work.
pub(crate) struct Watchdog {
    veto: Option<Veto>,
    progress_timeout: Option<Duration>,
    healthy: bool,
    next_check: Instant,
    /// Someone else shall have a chance: unfit at least until then.
    unfit_until: Instant,
}

/// Why work is unfit to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Vetoed,
    NoProgress(Duration),
    HoldsThread(Duration),
}

impl Watchdog {
    pub(crate) fn new(veto: Option<Veto>, progress_timeout: Option<Duration>) -> Self {
        Self {
            veto,
            progress_timeout,
            healthy: true,
            next_check: Instant::ZERO,
            unfit_until: Instant::ZERO,
        }
    }

    /// When to ask again; never, while there is nothing to ask about.
    pub(crate) fn next_check(&self, leading: bool) -> Instant {
        let idle = self.veto.is_none() && self.healthy && !leading;
        if idle { Instant::MAX } else { self.next_check }
    }

    /// Asks about the work of a term, or of several partitions; returns the verdict if it has
    /// changed.
    pub(crate) fn check<'a>(
        &mut self,
        works: impl IntoIterator<Item = &'a TermState>,
        timing: &LeaseTiming,
        now: Instant,
    ) -> Option<Result<(), Unfit>> {
        self.next_check = now.after(timing.heartbeat() / 4);
        let problem = self.problem(works, timing, now);
        let healthy = problem.is_none() && now >= self.unfit_until;
        if healthy == self.healthy {
            return None;
        }
        self.healthy = healthy;
        match problem {
            Some(unfit) => {
                self.unfit_until = now.after(timing.heartbeat());
                Some(Err(unfit))
            }
            None => Some(Ok(())),
        }
    }

    fn problem<'a>(
        &self,
        works: impl IntoIterator<Item = &'a TermState>,
        timing: &LeaseTiming,
        now: Instant,
    ) -> Option<Unfit> {
        if self.veto.as_ref().is_some_and(|is_healthy| !is_healthy()) {
            return Some(Unfit::Vetoed);
        }
        let mut works = works.into_iter();
        works.find_map(|work| self.problem_of(work, timing, now))
    }

    fn problem_of(&self, term: &TermState, timing: &LeaseTiming, now: Instant) -> Option<Unfit> {
        let held = term.holds_thread_for(now);
        // With the interval above: found within I, so that the lease has lapsed within D + I.
        if held > timing.stop_budget().min(timing.heartbeat() / 2) {
            return Some(Unfit::HoldsThread(held));
        }
        let silent = term.silent_for(now);
        self.progress_timeout
            .filter(|limit| silent > *limit)
            .map(|_| Unfit::NoProgress(silent))
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vetoed => f.write_str("the service's health check says no"),
            Self::NoProgress(silent) => {
                write!(
                    f,
                    "the work has not said that it makes progress for {:.1} s",
                    silent.as_secs_f64()
                )
            }
            Self::HoldsThread(held) => write!(
                f,
                "the work has held its thread for {:.1} s, longer than the stop budget allows; move \
                 blocking work to tokio::task::spawn_blocking",
                held.as_secs_f64()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use leasehold_core::id::{FencingToken, Revision, Term};

    use super::*;
    use crate::clock::Clock;
    use crate::leadership::Begun;

    const TIMING: LeaseTiming = LeaseTiming::DEFAULT;

    fn begun(clock: &Clock) -> Begun {
        let token = FencingToken::new(0, Revision::new(1).unwrap());
        Begun::new(clock.clone(), Term::new(1), token, Instant::MAX)
    }

    #[tokio::test(start_paused = true)]
    async fn a_veto_is_said_once_and_withdrawn_no_sooner_than_a_heartbeat_later() {
        let clock = Clock::test();
        let fit = Arc::new(AtomicBool::new(true));
        let veto = {
            let fit = Arc::clone(&fit);
            move || fit.load(Ordering::SeqCst)
        };
        let mut watchdog = Watchdog::new(Some(Box::new(veto)), None);
        assert_eq!(watchdog.check(None, &TIMING, clock.now()), None);
        fit.store(false, Ordering::SeqCst);
        assert_eq!(
            watchdog.check(None, &TIMING, clock.now()),
            Some(Err(Unfit::Vetoed))
        );
        assert_eq!(watchdog.check(None, &TIMING, clock.now()), None);
        fit.store(true, Ordering::SeqCst);
        assert_eq!(
            watchdog.check(None, &TIMING, clock.now()),
            None,
            "others go first"
        );
        clock.jump(TIMING.heartbeat());
        assert_eq!(watchdog.check(None, &TIMING, clock.now()), Some(Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_stops_saying_that_it_makes_progress_is_unfit() {
        let clock = Clock::test();
        let begun = begun(&clock);
        let mut watchdog = Watchdog::new(None, Some(Duration::from_secs(4)));
        clock.jump(Duration::from_secs(3));
        begun.leadership().progress();
        clock.jump(Duration::from_secs(3));
        assert_eq!(
            watchdog.check(Some(begun.state()), &TIMING, clock.now()),
            None
        );
        clock.jump(Duration::from_secs(2));
        let verdict = watchdog.check(Some(begun.state()), &TIMING, clock.now());
        assert_eq!(
            verdict,
            Some(Err(Unfit::NoProgress(Duration::from_secs(5))))
        );
    }

    #[test]
    fn a_hang_is_found_within_a_heartbeat_under_every_preset() {
        for timing in [LeaseTiming::FAST, LeaseTiming::DEFAULT, LeaseTiming::CALM] {
            let limit = timing.stop_budget().min(timing.heartbeat() / 2);
            assert!(limit + timing.heartbeat() / 4 <= timing.heartbeat());
        }
    }
}
