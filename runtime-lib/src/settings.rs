//! What is declared outside the program, and which value wins.
//!
//! Order: code, settings Lease, environment, default. A value fixed in code stays in force and is
//! said so on the leader Lease; a declaration that cannot be used is ignored, logged and shown.

use leasehold_core::lease::LeaseTiming;
use leasehold_core::time::Duration;

use crate::driver::Marks;

/// How long a drain may take if nobody says otherwise (E10).
pub(crate) const DRAIN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(25);

/// Settings declared for a key, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The generation of the declaration.
    pub generation: i64,
    /// Timing of the election.
    pub timing: LeaseTiming,
    /// Longest drain; `None` leaves it to the program.
    pub drain_timeout: Option<Duration>,
}

/// One value's sources, in the order in which they win.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) code_timing: Option<LeaseTiming>,
    pub(crate) env_timing: Option<LeaseTiming>,
    pub(crate) code_drain: Option<Duration>,
    pub(crate) env_drain: Option<Duration>,
    pub(crate) declared: Option<Declared>,
}

impl Sources {
    /// The timing in force.
    pub(crate) fn timing(&self) -> LeaseTiming {
        let declared = self.declared.as_ref().map(|declared| declared.timing);
        self.code_timing
            .or(declared)
            .or(self.env_timing)
            .unwrap_or_default()
    }

    /// The drain timeout in force.
    pub(crate) fn drain_timeout(&self) -> Duration {
        let declared = self
            .declared
            .as_ref()
            .and_then(|declared| declared.drain_timeout);
        self.code_drain
            .or(declared)
            .or(self.env_drain)
            .unwrap_or(DRAIN_TIMEOUT_DEFAULT)
    }

    /// What the leader says about itself: the generation it follows, the values it does not.
    pub(crate) fn marks(&self) -> Marks {
        Marks {
            settings_generation: self.declared.as_ref().map(|declared| declared.generation),
            fixed: self.fixed(),
        }
    }

    #[cfg(feature = "kubernetes")]
    fn fixed(&self) -> Option<String> {
        use leasehold_crds::settings::{Fixed, FixedLease};
        let lease = self.code_timing.map(|timing| FixedLease {
            duration_seconds: Some(timing.lease_duration().as_secs_f64()),
            heartbeat_seconds: Some(timing.heartbeat().as_secs_f64()),
            attempt_timeout_seconds: Some(timing.attempt_timeout().as_secs_f64()),
            stop_budget_seconds: Some(timing.stop_budget().as_secs_f64()),
        });
        let drain_timeout_seconds = self.code_drain.map(|drain| drain.as_secs_f64());
        let fixed = Fixed {
            lease,
            drain_timeout_seconds,
            ..Fixed::default()
        };
        (!fixed.is_empty()).then(|| fixed.to_json())
    }

    /// Only stores that other programs read need to be told.
    #[cfg(not(feature = "kubernetes"))]
    #[allow(clippy::unused_self)] // the same call in both builds
    fn fixed(&self) -> Option<String> {
        None
    }
}

/// Reads the annotation of a settings Lease.
#[cfg(feature = "kubernetes")]
pub(crate) fn read_declared(text: &str) -> Result<Declared, String> {
    let settings = leasehold_crds::Settings::parse(text).map_err(|error| error.to_string())?;
    if settings.strategy != "leader-elected" {
        return Err(format!(
            "strategy: found {:?}, allowed is \"leader-elected\"",
            settings.strategy
        ));
    }
    let seconds = |field: &str, value: i64| {
        u64::try_from(value)
            .map(Duration::from_secs)
            .map_err(|_| format!("{field}: found {value}, allowed are whole seconds from 0"))
    };
    let lease = settings.lease;
    let timing = LeaseTiming::new(
        seconds("lease.durationSeconds", lease.duration_seconds)?,
        seconds("lease.heartbeatSeconds", lease.heartbeat_seconds)?,
        seconds("lease.attemptTimeoutSeconds", lease.attempt_timeout_seconds)?,
        seconds("lease.stopBudgetSeconds", lease.stop_budget_seconds)?,
    )
    .map_err(|error| error.to_string())?;
    let drain = settings
        .drain_timeout_seconds
        .map(|value| seconds("drainTimeoutSeconds", value));
    Ok(Declared {
        generation: settings.generation,
        timing,
        drain_timeout: drain.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Declared {
        Declared {
            generation: 4,
            timing: LeaseTiming::CALM,
            drain_timeout: Some(Duration::from_secs(40)),
        }
    }

    #[test]
    fn code_wins_over_settings_over_environment_over_default() {
        let mut sources = Sources::default();
        assert_eq!(sources.timing(), LeaseTiming::DEFAULT);
        assert_eq!(sources.drain_timeout(), DRAIN_TIMEOUT_DEFAULT);
        sources.env_timing = Some(LeaseTiming::FAST);
        sources.env_drain = Some(Duration::from_secs(1));
        assert_eq!(sources.timing(), LeaseTiming::FAST);
        assert_eq!(sources.drain_timeout(), Duration::from_secs(1));
        sources.declared = Some(declared());
        assert_eq!(sources.timing(), LeaseTiming::CALM);
        assert_eq!(sources.drain_timeout(), Duration::from_secs(40));
        sources.code_timing = Some(LeaseTiming::DEFAULT);
        sources.code_drain = Some(Duration::from_secs(2));
        assert_eq!(sources.timing(), LeaseTiming::DEFAULT);
        assert_eq!(sources.drain_timeout(), Duration::from_secs(2));
        assert_eq!(sources.marks().settings_generation, Some(4));
    }

    #[cfg(feature = "kubernetes")]
    #[test]
    fn a_value_fixed_in_code_is_said_in_the_format_of_the_settings() {
        let sources = Sources {
            code_timing: Some(LeaseTiming::FAST),
            ..Sources::default()
        };
        assert_eq!(
            sources.marks().fixed.as_deref(),
            Some(
                r#"{"lease":{"durationSeconds":6.0,"heartbeatSeconds":2.0,"attemptTimeoutSeconds":1.0,"stopBudgetSeconds":1.0}}"#
            )
        );
        assert_eq!(Sources::default().marks().fixed, None);
    }

    #[cfg(feature = "kubernetes")]
    #[test]
    fn a_bad_declaration_is_refused_with_the_field_and_what_is_allowed() {
        let good = r#"{"version":1,"generation":7,"strategy":"leader-elected","lease":{"durationSeconds":15,"heartbeatSeconds":5,"attemptTimeoutSeconds":2,"stopBudgetSeconds":3}}"#;
        assert_eq!(read_declared(good).unwrap().timing, LeaseTiming::DEFAULT);
        for (from, to, part) in [
            (
                "\"heartbeatSeconds\":5",
                "\"heartbeatSeconds\":9",
                "only 11.7 s are trusted",
            ),
            (
                "\"heartbeatSeconds\":5",
                "\"heartbeatSeconds\":-1",
                "lease.heartbeatSeconds: found -1",
            ),
            (
                "\"durationSeconds\":15",
                "\"durationSeconds\":0",
                "lease.durationSeconds: found 0",
            ),
            (
                "leader-elected",
                "partitioned",
                "strategy: found \"partitioned\"",
            ),
            ("{", "", "cannot be read"),
        ] {
            let message = read_declared(&good.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
