//! What is declared outside the program, and which value wins.
//!
//! Order: code, settings Lease, environment, default. A value fixed in code stays in force and is
//! said so on the leader Lease; a declaration that cannot be used is ignored, logged and shown.

use leasehold_core::lease::LeaseTiming;
use leasehold_core::partition::HashId;
#[cfg(feature = "kubernetes")]
use leasehold_core::partition::{Layout, PARTITIONS_MAX};
use leasehold_core::time::Duration;

use crate::driver::Marks;

/// How long a drain may take if nobody says otherwise (E10).
pub(crate) const DRAIN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(25);

/// How many partitions there are if nobody says otherwise.
pub(crate) const PARTITIONS_DEFAULT: u16 = 64;

/// Settings declared for a key, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The generation of the declaration.
    pub generation: i64,
    /// Timing of the election.
    pub timing: LeaseTiming,
    /// Longest drain; `None` leaves it to the program.
    pub drain_timeout: Option<Duration>,
    /// How the keys are cut, if they are declared to be partitioned; else a leader is elected.
    pub partitioned: Option<DeclaredPartitions>,
}

/// How the keys of a partitioned cluster id are declared to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredPartitions {
    /// How many partitions there are, from 1 to [`leasehold_core::partition::PARTITIONS_MAX`].
    pub count: u16,
    /// How a key becomes a number.
    pub hash: HashId,
}

const LEADER_ELECTED: &str = "leader-elected";
const PARTITIONED: &str = "partitioned";

impl Declared {
    /// A service follows no declaration that was made for the other strategy.
    pub(crate) fn check_strategy(&self, is_partitioned: bool) -> Result<(), String> {
        let (found, allowed) = match (self.partitioned.is_some(), is_partitioned) {
            (true, false) => (PARTITIONED, LEADER_ELECTED),
            (false, true) => (LEADER_ELECTED, PARTITIONED),
            _ => return Ok(()),
        };
        Err(format!("strategy: found {found:?}, allowed is {allowed:?}"))
    }
}

/// One value's sources, in the order in which they win.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) code_timing: Option<LeaseTiming>,
    pub(crate) env_timing: Option<LeaseTiming>,
    pub(crate) code_drain: Option<Duration>,
    pub(crate) env_drain: Option<Duration>,
    pub(crate) code_partitions: Option<u16>,
    pub(crate) env_partitions: Option<u16>,
    pub(crate) code_hash: Option<HashId>,
    pub(crate) declared: Option<Declared>,
    /// The strategy of the code, while the other one is declared: nothing that is declared is followed.
    #[cfg_attr(not(feature = "kubernetes"), allow(dead_code))] // only marks say it
    pub(crate) contradicted: Option<&'static str>,
}

impl Sources {
    /// Whether this is declared for the other strategy than the code's; the leader then says so.
    pub(crate) fn note_strategy(
        &mut self,
        declared: Option<&Result<Declared, String>>,
        is_partitioned: bool,
    ) {
        let is_other = declared
            .and_then(|declared| declared.as_ref().ok())
            .is_some_and(|declared| declared.check_strategy(is_partitioned).is_err());
        let own = if is_partitioned {
            PARTITIONED
        } else {
            LEADER_ELECTED
        };
        self.contradicted = is_other.then_some(own);
    }

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

    /// How many partitions there shall be.
    pub(crate) fn partitions(&self) -> u16 {
        let declared = self.declared.as_ref();
        let declared = declared.and_then(|declared| declared.partitioned.as_ref());
        self.code_partitions
            .or(declared.map(|declared| declared.count))
            .or(self.env_partitions)
            .unwrap_or(PARTITIONS_DEFAULT)
    }

    /// The hash that cuts the keys.
    pub(crate) fn hash(&self) -> HashId {
        let declared = self.declared.as_ref();
        let declared = declared.and_then(|declared| declared.partitioned.as_ref());
        self.code_hash
            .or(declared.map(|declared| declared.hash))
            .unwrap_or_default()
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
            strategy: self.contradicted.map(str::to_owned),
            partitions: self.code_partitions.map(i64::from),
            hash: self.code_hash.map(|hash| hash.to_string()),
            lease,
            drain_timeout_seconds,
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
    let partitioned = match settings.strategy.as_str() {
        LEADER_ELECTED => None,
        PARTITIONED => Some(read_partitions(&settings)?),
        other => {
            return Err(format!(
                "strategy: found {other:?}, allowed are {LEADER_ELECTED:?} and {PARTITIONED:?}"
            ));
        }
    };
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
        partitioned,
    })
}

#[cfg(feature = "kubernetes")]
fn read_partitions(settings: &leasehold_crds::Settings) -> Result<DeclaredPartitions, String> {
    let found = settings.partitions;
    let count = found
        .and_then(|found| u16::try_from(found).ok())
        .filter(|count| Layout::new(1, HashId::default(), *count).is_ok());
    let Some(count) = count else {
        let found = found.map_or("nothing".to_owned(), |found| found.to_string());
        return Err(format!(
            "partitions: found {found}, allowed are 1 to {PARTITIONS_MAX}"
        ));
    };
    let hash = match settings.hash.as_deref() {
        None => HashId::default(),
        Some(name) => HashId::from_name(name).ok_or_else(|| {
            format!(
                "hash: found {name:?}, allowed are \"{}\" and \"{}\"",
                HashId::CsHash1,
                HashId::K8sRange1
            )
        })?,
    };
    Ok(DeclaredPartitions { count, hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Declared {
        Declared {
            generation: 4,
            timing: LeaseTiming::CALM,
            drain_timeout: Some(Duration::from_secs(40)),
            partitioned: None,
        }
    }

    #[test]
    fn code_wins_over_settings_over_environment_over_default() {
        let mut sources = Sources::default();
        assert_eq!(sources.timing(), LeaseTiming::DEFAULT);
        assert_eq!(sources.drain_timeout(), DRAIN_TIMEOUT_DEFAULT);
        assert_eq!(
            (sources.partitions(), sources.hash()),
            (64, HashId::CsHash1)
        );
        sources.env_partitions = Some(7);
        assert_eq!(sources.partitions(), 7);
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
        let partitioned = Sources {
            code_partitions: Some(96),
            code_hash: Some(HashId::K8sRange1),
            ..Sources::default()
        };
        assert_eq!(
            partitioned.marks().fixed.as_deref(),
            Some(r#"{"partitions":96,"hash":"k8s-range/1"}"#)
        );
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
                "round-robin",
                "strategy: found \"round-robin\", allowed are \"leader-elected\" and \"partitioned\"",
            ),
            (
                "leader-elected",
                "partitioned",
                "partitions: found nothing, allowed are 1 to 4096",
            ),
            ("{", "", "cannot be read"),
        ] {
            let message = read_declared(&good.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[cfg(feature = "kubernetes")]
    fn partitioned(rest: &str) -> Result<Declared, String> {
        read_declared(&format!(
            r#"{{"version":1,"generation":7,"strategy":"partitioned"{rest},"lease":{{"durationSeconds":15,"heartbeatSeconds":5,"attemptTimeoutSeconds":2,"stopBudgetSeconds":3}}}}"#
        ))
    }

    #[cfg(feature = "kubernetes")]
    #[test]
    fn partitions_are_declared_with_their_count_and_hash() {
        let read = |rest| partitioned(rest).unwrap().partitioned.unwrap();
        let both = read(r#","partitions":4096,"hash":"k8s-range/1""#);
        assert_eq!((both.count, both.hash), (4096, HashId::K8sRange1));
        let count_only = read(r#","partitions":1"#);
        assert_eq!((count_only.count, count_only.hash), (1, HashId::CsHash1));
    }

    #[cfg(feature = "kubernetes")]
    #[test]
    fn partitions_that_cannot_be_are_refused_with_what_is_allowed() {
        for found in ["0", "-1", "4097", "65600", "9223372036854775807"] {
            let message = partitioned(&format!(r#","partitions":{found}"#)).unwrap_err();
            assert_eq!(
                message,
                format!("partitions: found {found}, allowed are 1 to 4096")
            );
        }
        let message = partitioned(r#","partitions":8,"hash":"md5""#).unwrap_err();
        assert_eq!(
            message,
            "hash: found \"md5\", allowed are \"cs-hash/1\" and \"k8s-range/1\""
        );
    }

    #[test]
    fn a_declaration_for_the_other_strategy_is_refused() {
        let elected = declared();
        let cut = Declared {
            partitioned: Some(DeclaredPartitions {
                count: 8,
                hash: HashId::CsHash1,
            }),
            ..declared()
        };
        assert_eq!(elected.check_strategy(false), Ok(()));
        assert_eq!(cut.check_strategy(true), Ok(()));
        assert_eq!(
            cut.check_strategy(false).unwrap_err(),
            "strategy: found \"partitioned\", allowed is \"leader-elected\""
        );
        assert_eq!(
            elected.check_strategy(true).unwrap_err(),
            "strategy: found \"leader-elected\", allowed is \"partitioned\""
        );
    }
}
