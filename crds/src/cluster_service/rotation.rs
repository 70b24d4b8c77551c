//! When passwords change, and how long the ones before stay valid.

use std::time::Duration;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::credentials::found;
use crate::duration::{self, InvalidDuration, duration_allowed, duration_pattern};

/// A field is absent or a duration.
macro_rules! duration_rule {
    ($field:literal) => {
        concat!(
            "!has(self.",
            $field,
            ") || self.",
            $field,
            ".matches('",
            duration_pattern!(),
            "')"
        )
    };
}
macro_rules! duration_message {
    ($field:literal) => {
        concat!(
            "'",
            $field,
            ": found %s; allowed: ",
            duration_allowed!(),
            "'.format([",
            found!($field),
            "])"
        )
    };
}
/// What is no duration is told by the rules above; converting it would only add a second error.
const INTERVAL_RULE: &str = concat!(
    "!has(self.interval) || !self.interval.matches('",
    duration_pattern!(),
    "') || duration(self.interval) >= duration('1h')"
);
const INTERVAL_MESSAGE: &str = "'interval: found %s; allowed: 1h or longer, since each rotation changes what consumers use'.format([self.interval])";
const GRACE_RULE: &str = concat!(
    "!self.gracePeriod.matches('",
    duration_pattern!(),
    "') || !self.maxGrace.matches('",
    duration_pattern!(),
    "') || duration(self.maxGrace) >= duration(self.gracePeriod)"
);
const GRACE_MESSAGE: &str = "'maxGrace: found %s; allowed: gracePeriod (%s) or longer'.format([self.maxGrace, self.gracePeriod])";

/// When passwords change, and how long the ones before stay valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(duration_rule!("interval"))
        .message(Message::Expression(duration_message!("interval").into())),
    validation = Rule::new(duration_rule!("gracePeriod"))
        .message(Message::Expression(duration_message!("gracePeriod").into())),
    validation = Rule::new(duration_rule!("maxGrace"))
        .message(Message::Expression(duration_message!("maxGrace").into())),
    validation = Rule::new(INTERVAL_RULE).message(Message::Expression(INTERVAL_MESSAGE.into())),
    validation = Rule::new(GRACE_RULE).message(Message::Expression(GRACE_MESSAGE.into())),
)]
pub struct RotationSpec {
    /// How old a password may become, such as `720h`; at least 1h. Default: it is changed by `trigger`
    /// alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 32))]
    pub interval: Option<String>,

    /// How long the login before stays valid at least, so that every consumer has read the new one.
    #[serde(default = "grace_period_default")]
    #[schemars(length(min = 1, max = 32))]
    pub grace_period: String,

    /// How long the login before stays valid at most, if sessions still use it after the grace period.
    /// Behind a pooler it always stays that long, so it must exceed the longest life of a client's
    /// connection.
    #[serde(default = "max_grace_default")]
    #[schemars(length(min = 1, max = 32))]
    pub max_grace: String,

    /// Any text; a changed one rotates once. While the login before still lives it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253))]
    pub trigger: Option<String>,
}

fn grace_period_default() -> String {
    "5m".to_owned()
}

fn max_grace_default() -> String {
    "24h".to_owned()
}

impl Default for RotationSpec {
    fn default() -> Self {
        Self {
            interval: None,
            grace_period: grace_period_default(),
            max_grace: max_grace_default(),
            trigger: None,
        }
    }
}

/// The durations of a [`RotationSpec`], read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationDurations {
    /// How old a password may become.
    pub interval: Option<Duration>,
    /// How long the login before stays at least.
    pub grace_period: Duration,
    /// How long it stays at most; never below the grace period.
    pub max_grace: Duration,
}

impl RotationSpec {
    /// Shortest `interval`.
    pub const INTERVAL_MIN: Duration = Duration::from_hours(1);

    /// The durations; whatever the schema would refuse is refused here too, naming the field.
    pub fn durations(&self) -> Result<RotationDurations, String> {
        let named = |field: &'static str| {
            move |error: InvalidDuration| format!("spec.rotation.{field}: {error}")
        };
        let interval = self.interval.as_deref().map(duration::parse).transpose();
        let interval = interval.map_err(named("interval"))?;
        let grace_period = duration::parse(&self.grace_period).map_err(named("gracePeriod"))?;
        let max_grace = duration::parse(&self.max_grace).map_err(named("maxGrace"))?;
        if interval.is_some_and(|it| it < Self::INTERVAL_MIN) {
            let found = self.interval.as_deref().unwrap_or_default();
            return Err(format!(
                "spec.rotation.interval: found {found}; allowed: 1h or longer"
            ));
        }
        if max_grace < grace_period {
            return Err(format!(
                "spec.rotation.maxGrace: found {}; allowed: gracePeriod ({}) or longer",
                self.max_grace, self.grace_period
            ));
        }
        Ok(RotationDurations {
            interval,
            grace_period,
            max_grace,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(interval: Option<&str>, grace: &str, max: &str) -> RotationSpec {
        RotationSpec {
            interval: interval.map(str::to_owned),
            grace_period: grace.to_owned(),
            max_grace: max.to_owned(),
            trigger: None,
        }
    }

    #[test]
    fn the_defaults_are_five_minutes_and_a_day() {
        let durations = RotationSpec::default().durations().unwrap();
        assert_eq!(durations.interval, None);
        assert_eq!(durations.grace_period, Duration::from_mins(5));
        assert_eq!(durations.max_grace, Duration::from_hours(24));
        let empty: RotationSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(empty, RotationSpec::default());
    }

    #[test]
    fn bounds_are_checked_as_in_the_schema_naming_field_found_and_allowed() {
        assert!(rotation(Some("1h"), "0s", "0s").durations().is_ok());
        for (spec, parts) in [
            (
                rotation(Some("59m"), "5m", "24h"),
                ["interval", "59m", "1h or longer"],
            ),
            (
                rotation(Some("1"), "5m", "24h"),
                ["interval", "\"1\"", "unit of h"],
            ),
            (
                rotation(None, "-5s", "24h"),
                ["gracePeriod", "\"-5s\"", "unit of h"],
            ),
            (
                rotation(None, "5m", "1h30"),
                ["maxGrace", "\"1h30\"", "unit of h"],
            ),
            (
                rotation(None, "5m", "4m"),
                ["maxGrace", "4m", "gracePeriod (5m)"],
            ),
        ] {
            let message = spec.durations().unwrap_err();
            for part in parts {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
    }
}
