//! Delays between attempts, from the attempt's number and a given spread.

use crate::time::Duration;

/// Exponential back-off with a ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// No delay is longer than this, before the spread.
    pub ceiling: Duration,
}

impl Backoff {
    /// Delay after `failures` failures in a row (1 = the first), shortened by up to a quarter.
    ///
    /// `spread` decides by how much: callers pass something that differs between candidates, so
    /// that they do not return together.
    pub fn delay(&self, failures: u32, spread: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let full = self.first.saturating_mul(1 << doublings).min(self.ceiling);
        let eighths = u32::try_from(spread % 256).unwrap_or(0);
        full.saturating_sub(full / 4 * eighths / 256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        first: Duration::from_millis(500),
        ceiling: Duration::from_secs(5),
    };

    #[test]
    fn delays_double_up_to_the_ceiling() {
        let delays: Vec<u128> = (1..7).map(|n| BACKOFF.delay(n, 0).as_millis()).collect();
        assert_eq!(delays, [500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(BACKOFF.delay(u32::MAX, 0), Duration::from_secs(5));
    }

    #[test]
    fn the_spread_shortens_by_less_than_a_quarter() {
        for spread in 0..1000 {
            let delay = BACKOFF.delay(1, spread);
            assert!(delay > Duration::from_millis(375) && delay <= Duration::from_millis(500));
        }
    }
}
