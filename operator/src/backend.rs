//! What the operator asks of a store for the logins of a service. Postgres and Redis answer alike, so
//! that one machine rotates both (C2, C8).
//!
//! A store holds for each service a shared part (an owner role and its database or schema; Redis needs
//! none) and two logins that take turns. Every call is idempotent, looks before it writes, and never
//! touches what is not marked as ours. Calls may be dropped at any await: the next one repairs.

pub mod postgres;
pub mod redis;

use std::{collections::BTreeMap, fmt::Write as _};

pub use leasehold_core::credential::{LoginState, ServerState, SharedState, Slot};
use secrecy::SecretString;

use crate::credential::names::Names;

/// What a store keeps of a password: enough to recognise it, useless to log in with.
///
/// Postgres: a SCRAM-SHA-256 verifier with its salt, made once per password and kept in the Secret, so
/// that it can be applied again byte for byte (C6). Redis: the lower-case hex of its SHA-256.
#[derive(Clone, Debug)]
pub struct Verifier(pub SecretString);

/// First 16 hex digits of the SHA-256 of a verifier: tells two of them apart and gives nothing away.
pub fn fingerprint(verifier: &str) -> String {
    use sha2::Digest as _;
    hex(&sha2::Sha256::digest(verifier.as_bytes())[..8])
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // to a String: it cannot fail
        text
    })
}

/// What a store shows of all services at once, by one statement (`quiet-when-settled`): a digest for
/// each login and each shared part of this installation, which changes if and only if it drifts.
pub type Survey = BTreeMap<String, String>;

/// What a removal could not do yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nothing of it is left.
    Done,
    /// Other things on the server hold it: what, where and how many.
    Held(String),
}

/// One thing that the preflight of a server looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Condition type, such as `Reachable`, `VersionSupported`, `Writable` or `AdminRights`.
    pub condition: &'static str,
    /// None if it could not be found out.
    pub is_met: Option<bool>,
    /// Reason of the condition.
    pub reason: &'static str,
    /// What was found, and the exact statement that would help.
    pub message: String,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BackendError {
    /// No connection, or it broke.
    #[error("{server} cannot be reached: {problem}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// What the system says; never a password.
        problem: String,
    },
    /// The login was refused.
    #[error("{server} refuses the login of {login}: {problem}")]
    LoginRefused {
        /// Host and port.
        server: String,
        /// Which.
        login: String,
        /// What the server says, with its code.
        problem: String,
    },
    /// The admin may not do it.
    #[error("{server}: {login} may not {what}; run there: {remedy}")]
    NotAllowed {
        /// Host and port.
        server: String,
        /// The admin.
        login: String,
        /// In words.
        what: String,
        /// The statement that would permit it.
        remedy: String,
    },
    /// Something of the needed name belongs to somebody else.
    #[error("{server}: {what} exists but is not ours ({owner}); it is left alone")]
    Foreign {
        /// Host and port.
        server: String,
        /// Kind and name.
        what: String,
        /// Who owns it, as far as it says.
        owner: String,
    },
    /// The server knows a newer password than the one it was asked to set or end, or another one of the
    /// same generation (C5).
    #[error(
        "{server}: {login} has another password, of generation {found}; it is not changed for generation {ours}"
    )]
    Newer {
        /// Host and port.
        server: String,
        /// Which.
        login: String,
        /// On the server.
        found: u64,
        /// What was to be set.
        ours: u64,
    },
    /// What was to be removed is gone, and something of the same name was made since (C5).
    #[error("{server}: {what} was made anew meanwhile; it is not removed for the one before")]
    Anew {
        /// Host and port.
        server: String,
        /// Kind and name.
        what: String,
    },
    /// The server answered with an error.
    #[error("{server}: {what} failed: {problem}")]
    Refused {
        /// Host and port.
        server: String,
        /// In words.
        what: String,
        /// What the server says, with its code; never a password.
        problem: String,
    },
    /// What was asked for cannot be done on any server.
    #[error("{field}: {problem}")]
    Invalid {
        /// Field of the resource.
        field: &'static str,
        /// What was found, and what is allowed.
        problem: String,
    },
}

impl BackendError {
    /// Trying again by itself may help: the network, a failover, a limit of connections.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Refused { .. } | Self::Anew { .. }
        )
    }
}

/// What was there when a removal was decided: ids that no server gives twice, by name. A Redis gives none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight(pub BTreeMap<String, i64>);

/// Who a service is to a store, without any password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject<W> {
    /// Its names there.
    pub names: Names,
    /// What it wants there.
    pub wants: W,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_tells_verifiers_apart_and_is_short() {
        assert_eq!(fingerprint("abc"), "ba7816bf8f01cfea");
        assert_ne!(fingerprint("abc"), fingerprint("abd"));
    }
}
