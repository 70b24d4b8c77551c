//! Settings: the JSON in the settings Lease (operator to pods) and its answer on the leader Lease (pods to operator).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::keys;

/// What the operator tells the pods, in the annotation [`keys::ANNOTATION_SETTINGS`].
///
/// Readers ignore fields they do not know, and refuse a [`version`](Self::version) they do not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Version of this format; [`Settings::VERSION`] now.
    pub version: u32,
    /// `metadata.generation` of the ClusterService that these settings come from.
    pub generation: i64,
    /// How the work is shared out: `leader-elected` or `partitioned`.
    pub strategy: String,
    /// How many partitions there are; present if the strategy is `partitioned`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i64>,
    /// How a key becomes a number, such as `cs-hash/1`; present if the strategy is `partitioned`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Timing of the election.
    pub lease: LeaseSettings,
    /// How long a terminating pod may drain before it releases; absent: the pod decides (E10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_timeout_seconds: Option<i64>,
}

/// Timing of the election, in whole seconds; the names of the ClusterService's `spec.lease`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseSettings {
    /// How long an unrenewed Lease keeps others out (D).
    pub duration_seconds: i64,
    /// How often the leader renews (I).
    pub heartbeat_seconds: i64,
    /// How long one renewal may take (A).
    pub attempt_timeout_seconds: i64,
    /// How long work may need to stop once trust is lost (S).
    pub stop_budget_seconds: i64,
}

impl Settings {
    /// The version of the format that this build writes and reads.
    pub const VERSION: u32 = 1;

    /// Reads the annotation's text.
    pub fn parse(text: &str) -> Result<Self, InvalidSettings> {
        // The version first: another version may have other fields.
        let version: Version = serde_json::from_str(text).map_err(InvalidSettings::malformed)?;
        if version.version != u64::from(Self::VERSION) {
            return Err(InvalidSettings(format!(
                "version {} is not known; this build reads version {}",
                version.version,
                Self::VERSION
            )));
        }
        serde_json::from_str(text).map_err(InvalidSettings::malformed)
    }

    /// The annotation's text.
    pub fn to_json(&self) -> String {
        json_text(self)
    }
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

/// The values that a pod's code fixes, in the annotation [`keys::ANNOTATION_FIXED`]; absent fields are not fixed.
///
/// Names and units are those of [`Settings`]; code may fix fractions of seconds, so these are not whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fixed {
    /// How the work is shared out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// How many partitions there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<i64>,
    /// How a key becomes a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Timing of the election.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<FixedLease>,
    /// How long a terminating pod may drain before it releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_timeout_seconds: Option<f64>,
}

/// The part of [`Fixed`] about timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FixedLease {
    /// D, see [`LeaseSettings`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// I, see [`LeaseSettings`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_seconds: Option<f64>,
    /// A, see [`LeaseSettings`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_timeout_seconds: Option<f64>,
    /// S, see [`LeaseSettings`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_budget_seconds: Option<f64>,
}

impl Fixed {
    /// Reads the annotation's text.
    pub fn parse(text: &str) -> Result<Self, InvalidSettings> {
        serde_json::from_str(text)
            .map_err(|error| InvalidSettings(format!("{}: {error}", keys::ANNOTATION_FIXED)))
    }

    /// The annotation's text.
    pub fn to_json(&self) -> String {
        json_text(self)
    }

    /// True if nothing is fixed, so that no annotation is needed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a settings text could not be used; the message names the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSettings(String);

impl InvalidSettings {
    #[allow(clippy::needless_pass_by_value)] // for map_err
    fn malformed(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings cannot be read: {}", self.0)
    }
}

impl std::error::Error for InvalidSettings {}

/// Structs of numbers and strings always serialise; the empty object is what a reader refuses with a clear error.
fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"version":1,"generation":7,"strategy":"leader-elected","lease":{"durationSeconds":15,"heartbeatSeconds":5,"attemptTimeoutSeconds":2,"stopBudgetSeconds":3}}"#;

    #[test]
    fn the_text_of_settings_is_fixed() {
        let settings = Settings::parse(TEXT).unwrap();
        assert_eq!(settings.lease.duration_seconds, 15);
        assert_eq!(settings.drain_timeout_seconds, None);
        assert_eq!(settings.to_json(), TEXT);
    }

    #[test]
    fn partitions_and_hash_stand_beside_the_strategy() {
        let text = TEXT.replace(
            r#""leader-elected","#,
            r#""partitioned","partitions":96,"hash":"cs-hash/1","#,
        );
        let settings = Settings::parse(&text).unwrap();
        assert_eq!(settings.partitions, Some(96));
        assert_eq!(settings.hash.as_deref(), Some("cs-hash/1"));
        assert_eq!(settings.to_json(), text);
    }

    #[test]
    fn unknown_fields_are_ignored_so_that_settings_can_grow() {
        let grown = TEXT.replace("\"generation\"", "\"colour\":12,\"generation\"");
        assert_eq!(
            Settings::parse(&grown).unwrap(),
            Settings::parse(TEXT).unwrap()
        );
    }

    #[test]
    fn another_version_is_refused_whatever_its_fields() {
        let message = Settings::parse(r#"{"version":2}"#).unwrap_err().to_string();
        assert!(message.contains("version 2 is not known"), "{message}");
        assert!(message.contains("reads version 1"), "{message}");
    }

    #[test]
    fn malformed_settings_are_refused_with_the_place() {
        for text in [
            "",
            "[]",
            "{}",
            "null",
            r#"{"version":"1"}"#,
            &TEXT.replace("15", "\"15\""),
        ] {
            let message = Settings::parse(text).unwrap_err().to_string();
            assert!(message.contains("line 1 column"), "{text}: {message}");
        }
    }

    #[test]
    fn fixed_values_may_be_whole_or_broken_seconds() {
        let fixed =
            Fixed::parse(r#"{"lease":{"durationSeconds":6,"heartbeatSeconds":1.5}}"#).unwrap();
        let lease = fixed.lease.unwrap();
        assert_eq!(lease.duration_seconds, Some(6.0));
        assert_eq!(lease.heartbeat_seconds, Some(1.5));
        assert_eq!(lease.stop_budget_seconds, None);
        assert!(Fixed::parse("{}").unwrap().is_empty());
        assert!(Fixed::parse("7").is_err());
    }
}
