//! Clocks of nodes: any offset, a rate that is up to 1 % wrong, and no idea of true time.

use leasehold_core::time::{Duration, Instant};

/// True time of the simulation, in nanoseconds since its start.
pub type Nanos = u64;
pub const MS: Nanos = 1_000_000;
pub const SEC: Nanos = 1_000 * MS;

const MILLION: i128 = 1_000_000;

pub fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The boot-time clock of one node, or (for a positive control of E9) one that stops in a suspend.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset: u64,
    rate_ppm: i64,
    stopped: Nanos,
    stopped_since: Option<Nanos>,
}

impl Clock {
    pub fn new(offset: u64, rate_ppm: i64) -> Self {
        Self {
            offset,
            rate_ppm,
            stopped: 0,
            stopped_since: None,
        }
    }

    fn rate(&self) -> i128 {
        MILLION + i128::from(self.rate_ppm)
    }

    /// What the clock shows.
    pub fn local(&self, now: Nanos) -> Instant {
        let running = self.stopped_since.unwrap_or(now) - self.stopped;
        let shown = i128::from(running) * self.rate() / MILLION;
        Instant::from_nanos(self.offset + shown as u64)
    }

    /// The first true instant at which the clock shows `local` or more, if it never stops again.
    pub fn truth(&self, local: Instant) -> Nanos {
        if local == Instant::MAX || self.stopped_since.is_some() {
            return Nanos::MAX;
        }
        let shown = i128::from(local.as_nanos().saturating_sub(self.offset));
        let running = (shown * MILLION + self.rate() - 1) / self.rate();
        running as u64 + self.stopped
    }

    /// The true time that passes while the clock advances by `duration`.
    pub fn stretch(&self, duration: Duration) -> Nanos {
        (i128::from(nanos(duration)) * MILLION / self.rate()) as u64
    }

    pub fn stop(&mut self, now: Nanos) {
        self.stopped_since.get_or_insert(now);
    }

    pub fn go_on(&mut self, now: Nanos) {
        if let Some(since) = self.stopped_since.take() {
            self.stopped += now - since;
        }
    }
}

#[test]
fn a_clock_and_its_inverse_agree_to_the_nanosecond() {
    for ppm in [-10_000, -1, 0, 7, 10_000] {
        let mut clock = Clock::new(123_456_789, ppm);
        clock.stop(5 * SEC);
        clock.go_on(9 * SEC);
        for step in 0..2000_u64 {
            let local = Instant::from_nanos(7_000_000_000 + step * 1_234_567);
            let truth = clock.truth(local);
            assert!(clock.local(truth) >= local && clock.local(truth - 1) < local);
        }
    }
}
