//! `trust-ends-first`: the arithmetic that makes a leader stop before anybody else may start.
//!
//! With D the lease duration, V the trusted time counted from the *send* of the last successful
//! write, S the stop budget, I the heartbeat, A the attempt timeout, R the gap between attempts,
//! and ρ the bound on the rate error of any node's clock:
//!
//! - safety: `V/(1−ρ) + S ≤ D/(1+ρ)`. A leader with the slowest clock has stopped, and its last
//!   effects are done, before a candidate with the fastest clock sees the lease lapse.
//! - liveness: `I + k(A+R) ≤ V` with k = 2: two attempts fit between a heartbeat and the end.
//!
//! V is derived (the largest that safety allows, rounded down to 0.1 s) and R is A/4.

use crate::time::Duration;

/// ρ in percent.
pub const RATE_ERROR_PERCENT: u64 = 1;
/// k: attempts that must fit between a due heartbeat and the end of trust.
pub const ATTEMPTS_MIN: u64 = 2;
/// Longest lease duration.
pub const LEASE_DURATION_MAX: Duration = Duration::from_hours(1);
const FIELD_MIN: Duration = Duration::from_millis(100);

/// Durations that satisfy the inequality; there is no way to hold others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseTiming {
    lease_duration: Duration,
    heartbeat: Duration,
    attempt_timeout: Duration,
    stop_budget: Duration,
    trusted: Duration,
}

/// Why durations were refused; the message names the field, both numbers, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    /// The lease duration is published in whole seconds (int32).
    #[error("lease.durationSeconds: found {} s, allowed are whole seconds from 1 to 3600", .found.as_secs_f64())]
    LeaseDuration {
        /// What was given.
        found: Duration,
    },
    /// A part of the timing is outside its bounds.
    #[error("lease.{field}: found {} s, allowed is 0.1 s up to the lease duration of {} s", .found.as_secs_f64(), .lease_duration.as_secs())]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What was given.
        found: Duration,
        /// The lease duration that bounds it.
        lease_duration: Duration,
    },
    /// Nothing is left to trust once the stop budget and the clock-rate bound are taken off.
    #[error("lease.stopBudgetSeconds: {} s leave no trusted time in a lease of {} s; lower the stop budget or raise the duration", .stop_budget.as_secs_f64(), .lease_duration.as_secs())]
    NoTrust {
        /// S.
        stop_budget: Duration,
        /// D.
        lease_duration: Duration,
    },
    /// The heartbeat and two attempts do not fit into the trusted time.
    #[error("lease: heartbeat plus two attempts take {} s, but only {} s are trusted in a lease of {} s with a stop budget of {} s; lower heartbeatSeconds or attemptTimeoutSeconds, or raise durationSeconds", .needed.as_secs_f64(), .trusted.as_secs_f64(), .lease_duration.as_secs(), .stop_budget.as_secs_f64())]
    NoRoom {
        /// I + k(A+R).
        needed: Duration,
        /// V.
        trusted: Duration,
        /// D.
        lease_duration: Duration,
        /// S.
        stop_budget: Duration,
    },
}

impl LeaseTiming {
    /// 15 s lease, 5 s heartbeat, 2 s attempts, 3 s stop budget; 11.7 s are trusted.
    pub const DEFAULT: Self = Self::preset(15, 5, 2, 3, 11_700);
    /// 6 s lease, 2 s heartbeat, 1 s attempts, 1 s stop budget; 4.8 s are trusted.
    pub const FAST: Self = Self::preset(6, 2, 1, 1, 4_800);
    /// 60 s lease, 20 s heartbeat, 5 s attempts, 5 s stop budget; 53.8 s are trusted.
    pub const CALM: Self = Self::preset(60, 20, 5, 5, 53_800);

    const fn preset(duration: u64, heartbeat: u64, attempt: u64, stop: u64, trusted: u64) -> Self {
        Self {
            lease_duration: Duration::from_secs(duration),
            heartbeat: Duration::from_secs(heartbeat),
            attempt_timeout: Duration::from_secs(attempt),
            stop_budget: Duration::from_secs(stop),
            trusted: Duration::from_millis(trusted),
        }
    }

    /// Checks both halves of the inequality.
    pub fn new(
        lease_duration: Duration,
        heartbeat: Duration,
        attempt_timeout: Duration,
        stop_budget: Duration,
    ) -> Result<Self, InvalidTiming> {
        let whole = lease_duration.subsec_nanos() == 0;
        if !whole || lease_duration < Duration::from_secs(1) || lease_duration > LEASE_DURATION_MAX
        {
            return Err(InvalidTiming::LeaseDuration {
                found: lease_duration,
            });
        }
        for (field, found) in [
            ("heartbeatSeconds", heartbeat),
            ("attemptTimeoutSeconds", attempt_timeout),
            ("stopBudgetSeconds", stop_budget),
        ] {
            if found < FIELD_MIN || found > lease_duration {
                return Err(InvalidTiming::Field {
                    field,
                    found,
                    lease_duration,
                });
            }
        }
        let trusted = trusted_time(lease_duration, stop_budget).ok_or(InvalidTiming::NoTrust {
            stop_budget,
            lease_duration,
        })?;
        let timing = Self {
            lease_duration,
            heartbeat,
            attempt_timeout,
            stop_budget,
            trusted,
        };
        let needed = timing.needed();
        if needed > trusted {
            return Err(InvalidTiming::NoRoom {
                needed,
                trusted,
                lease_duration,
                stop_budget,
            });
        }
        Ok(timing)
    }

    /// I + k(A+R).
    fn needed(&self) -> Duration {
        let attempts = (self.attempt_timeout + self.retry_gap()).saturating_mul(2);
        debug_assert_eq!(ATTEMPTS_MIN, 2);
        self.heartbeat + attempts
    }

    /// D: others may take over when a record stayed unchanged for this long.
    pub const fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// I: time from the send of one renewal to the next.
    pub const fn heartbeat(&self) -> Duration {
        self.heartbeat
    }

    /// A: longest wait for one request.
    pub const fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout
    }

    /// S: work must have ended this long after trust did.
    pub const fn stop_budget(&self) -> Duration {
        self.stop_budget
    }

    /// V: trust from the send of the last successful write (E2).
    pub const fn trusted(&self) -> Duration {
        self.trusted
    }

    /// R: pause between two attempts.
    pub fn retry_gap(&self) -> Duration {
        self.attempt_timeout / 4
    }
}

impl Default for LeaseTiming {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// V = (1−ρ)·(D/(1+ρ) − S), rounded down to 0.1 s; `None` if nothing is left.
fn trusted_time(lease_duration: Duration, stop_budget: Duration) -> Option<Duration> {
    let (duration, stop) = (lease_duration.as_nanos(), stop_budget.as_nanos());
    let (slow, fast) = (
        u128::from(100 - RATE_ERROR_PERCENT),
        u128::from(100 + RATE_ERROR_PERCENT),
    );
    let left = (100 * duration).checked_sub(fast * stop)?;
    let tenths = u64::try_from(slow * left / (fast * 100) / 100_000_000).ok()?;
    (tenths > 0).then(|| Duration::from_millis(tenths * 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(d: u64, i: u64, a: u64, s: u64) -> Result<LeaseTiming, InvalidTiming> {
        let ms = Duration::from_millis;
        LeaseTiming::new(ms(d), ms(i), ms(a), ms(s))
    }

    #[test]
    fn presets_are_what_the_constructor_derives() {
        assert_eq!(
            timing(15_000, 5_000, 2_000, 3_000),
            Ok(LeaseTiming::DEFAULT)
        );
        assert_eq!(timing(6_000, 2_000, 1_000, 1_000), Ok(LeaseTiming::FAST));
        assert_eq!(timing(60_000, 20_000, 5_000, 5_000), Ok(LeaseTiming::CALM));
    }

    #[test]
    fn trust_is_the_largest_multiple_of_a_tenth_that_is_safe() {
        for duration in 1..=120_u64 {
            for stop in (100..duration * 1000).step_by(700) {
                let Some(v) =
                    trusted_time(Duration::from_secs(duration), Duration::from_millis(stop))
                else {
                    continue;
                };
                let safe = |v: f64| v / 0.99 + stop as f64 / 1000.0 <= duration as f64 / 1.01;
                let v = v.as_secs_f64();
                assert!(safe(v), "D={duration} S={stop} V={v}");
                assert!(
                    !safe(v + 0.1 + 1e-9),
                    "D={duration} S={stop} V={v} is not the largest"
                );
            }
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_both_numbers() {
        let text = |r: Result<LeaseTiming, InvalidTiming>| r.unwrap_err().to_string();
        assert_eq!(
            text(timing(15_000, 9_000, 2_000, 3_000)),
            "lease: heartbeat plus two attempts take 14 s, but only 11.7 s are trusted in a lease \
             of 15 s with a stop budget of 3 s; lower heartbeatSeconds or attemptTimeoutSeconds, \
             or raise durationSeconds"
        );
        assert_eq!(
            text(timing(5_000, 1_000, 500, 5_000)),
            "lease.stopBudgetSeconds: 5 s leave no trusted time in a lease of 5 s; lower the stop \
             budget or raise the duration"
        );
        assert_eq!(
            text(timing(1_000, 100, 100, 950)),
            "lease.stopBudgetSeconds: 0.95 s leave no trusted time in a lease of 1 s; lower the \
             stop budget or raise the duration"
        );
        assert_eq!(
            text(timing(1_500, 500, 200, 100)),
            "lease.durationSeconds: found 1.5 s, allowed are whole seconds from 1 to 3600"
        );
        assert_eq!(
            text(timing(15_000, 0, 2_000, 3_000)),
            "lease.heartbeatSeconds: found 0 s, allowed is 0.1 s up to the lease duration of 15 s"
        );
    }

    #[test]
    fn huge_and_zero_durations_are_refused_without_overflow() {
        assert!(
            LeaseTiming::new(Duration::MAX, Duration::MAX, Duration::MAX, Duration::MAX).is_err()
        );
        assert!(
            LeaseTiming::new(
                Duration::from_hours(1),
                Duration::MAX,
                Duration::MAX,
                Duration::MAX
            )
            .is_err()
        );
        assert!(timing(0, 0, 0, 0).is_err());
    }
}
