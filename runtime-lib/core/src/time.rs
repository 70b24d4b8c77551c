//! Time as data: instants are arguments, deadlines are return values.

use core::fmt;
pub use core::time::Duration;

/// An instant of one node's own clock, in nanoseconds since an origin only that clock knows.
///
/// Instants of different nodes are never compared (E3). Shells take it from the boot-time clock,
/// which goes on during a suspend (E9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant plus `duration`, at most [`Instant::MAX`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// Time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX {
            return f.write_str("never");
        }
        write!(
            f,
            "{}.{:03}s",
            self.0 / 1_000_000_000,
            self.0 / 1_000_000 % 1000
        )
    }
}

/// A wall clock's seconds since 1970: for what lasts days, outlives a process and is read by people.
///
/// It dates passwords (C3) and decides nothing that must exclude another: no lease, no token. The
/// instant of one machine's boot clock ([`Instant`]) could not be kept in an annotation, because the
/// next process, on another machine, could not read it. What a wrong clock does is said at
/// [`WallTime::is_beyond`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime(u64);

impl WallTime {
    /// The time `seconds` after 1970-01-01T00:00:00Z.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    pub const fn as_seconds(self) -> u64 {
        self.0
    }

    /// This time plus `duration`, whose part of a second counts as a whole one: a wait is never
    /// shorter than it was asked for.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let rest = u64::from(duration.subsec_nanos() > 0);
        Self(
            self.0
                .saturating_add(duration.as_secs())
                .saturating_add(rest),
        )
    }

    /// Is this later than `now` by more than `skew`, the difference that is usual between two clocks?
    /// Then a clock was wrong when it was written, or is now: who waits for it could wait for years.
    pub fn is_beyond(self, now: Self, skew: Duration) -> bool {
        self > now.after(skew)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_reads_back_its_nanoseconds() {
        assert_eq!(Instant::from_nanos(7).as_nanos(), 7);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::MAX.after(Duration::from_secs(1)), Instant::MAX);
        assert_eq!(Instant::ZERO.after(Duration::MAX), Instant::MAX);
        assert_eq!(Instant::ZERO.since(Instant::MAX), Duration::ZERO);
    }

    #[test]
    fn a_wall_time_rounds_waits_up_and_saturates() {
        let time = WallTime::from_seconds(10);
        assert_eq!(time.after(Duration::from_millis(1)).as_seconds(), 11);
        assert_eq!(time.after(Duration::from_secs(1)).as_seconds(), 11);
        assert_eq!(time.after(Duration::MAX).as_seconds(), u64::MAX);
    }

    #[test]
    fn only_a_time_beyond_the_usual_skew_is_a_mistake() {
        let (now, skew) = (WallTime::from_seconds(100), Duration::from_secs(5));
        assert!(!WallTime::from_seconds(105).is_beyond(now, skew));
        assert!(WallTime::from_seconds(106).is_beyond(now, skew));
    }

    #[test]
    fn an_instant_prints_as_seconds() {
        assert_eq!(
            format!("{:?}", Instant::from_nanos(1_234_567_890)),
            "1.234s"
        );
        assert_eq!(format!("{:?}", Instant::MAX), "never");
    }
}
