//! Leases as no well-behaved candidate writes them. Some of them an API server
//! would refuse to store, so they can reach a client only through the proxy.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::rules::Rewrite;

/// What is wrong with the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// `holderIdentity: null`.
    NullHolder,
    /// A holder text of 10 kB that nobody of ours wrote.
    LongHolder,
    /// `renewTime: null`.
    NullRenewTime,
    /// A `renewTime` in the next century.
    FutureRenewTime,
    /// `leaseTransitions: -7`.
    NegativeTransitions,
    /// `leaseDurationSeconds: 0`.
    ZeroDuration,
    /// A resource version that is no number.
    TextRevision,
    /// No `spec` at all.
    NullSpec,
}

impl Malformed {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::NullHolder,
        Self::LongHolder,
        Self::NullRenewTime,
        Self::FutureRenewTime,
        Self::NegativeTransitions,
        Self::ZeroDuration,
        Self::TextRevision,
        Self::NullSpec,
    ];

    /// Makes a sound Lease so.
    pub fn apply(self, lease: &mut Value) {
        match self {
            Self::NullHolder => lease["spec"]["holderIdentity"] = Value::Null,
            Self::LongHolder => lease["spec"]["holderIdentity"] = json!("x".repeat(10_000)),
            Self::NullRenewTime => lease["spec"]["renewTime"] = Value::Null,
            Self::FutureRenewTime => {
                lease["spec"]["renewTime"] = json!("2126-01-01T00:00:00.000000Z");
            }
            Self::NegativeTransitions => lease["spec"]["leaseTransitions"] = json!(-7),
            Self::ZeroDuration => lease["spec"]["leaseDurationSeconds"] = json!(0),
            Self::TextRevision => {
                lease["metadata"]["resourceVersion"] = json!("not-a-number");
            }
            Self::NullSpec => lease["spec"] = Value::Null,
        }
    }

    /// The change for [`Action::Rewrite`](super::Action::Rewrite).
    pub fn rewrite(self) -> Rewrite {
        Arc::new(move |lease| self.apply(lease))
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NullHolder => "null-holder",
            Self::LongHolder => "long-holder",
            Self::NullRenewTime => "null-renew-time",
            Self::FutureRenewTime => "future-renew-time",
            Self::NegativeTransitions => "negative-transitions",
            Self::ZeroDuration => "zero-duration",
            Self::TextRevision => "text-revision",
            Self::NullSpec => "null-spec",
        })
    }
}
