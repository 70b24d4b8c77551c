//! What the operator asks of a store for the logins of a service. Postgres and Redis answer alike, so
//! that one machine rotates both (C2, C8).
//!
//! A store holds for each service a shared part (an owner role and its database or schema; Redis needs
//! none) and two logins that take turns. Every call is idempotent, looks before it writes, and never
//! touches what is not marked as ours. Calls may be dropped at any await: the next one repairs.

use std::{collections::BTreeMap, fmt::Write as _};

use secrecy::SecretString;

use crate::credential::names::Names;

/// One of the two logins of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Passwords of odd generations.
    A,
    /// Passwords of even generations.
    B,
}

impl Slot {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The last letter of the login's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// The login whose turn it is with the password of this generation; the first generation is 1.
    pub fn of_generation(generation: u64) -> Self {
        if generation.is_multiple_of(2) {
            Self::B
        } else {
            Self::A
        }
    }

    /// The one that rests.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// What a store keeps of a password: enough to recognise it, useless to log in with.
///
/// Postgres: a SCRAM-SHA-256 verifier with its salt, made once per password and kept in the Secret, so
/// that it can be applied again byte for byte (C6). Redis: the lower-case hex of its SHA-256.
#[derive(Clone, Debug)]
pub struct Verifier(pub SecretString);

/// A login as the store shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginState {
    /// There is none.
    Absent,
    /// One of this name exists that is not ours; who owns it, as far as it says.
    Foreign(String),
    /// Ours.
    Ours {
        /// Generation of its password; Redis, which keeps none, says 1 for A and 2 for B.
        generation: u64,
        /// [`fingerprint`] of the verifier that it was given.
        fingerprint: String,
        /// Attributes and grants are as wanted.
        is_in_shape: bool,
        /// Open sessions under it.
        sessions: u64,
    },
}

/// The shared part as the store shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedState {
    /// It lacks something, or differs.
    Drifted,
    /// As wanted.
    InShape,
    /// Something of a needed name is not ours: what, and who owns it.
    Foreign(String),
}

/// All that a store shows of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Owner role, database, schema.
    pub shared: SharedState,
    /// Login A, login B.
    pub logins: [LoginState; 2],
}

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
#[derive(Debug, thiserror::Error)]
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
    /// The server knows a newer password than the one it was asked to set (C5).
    #[error("{server}: {login} has generation {found} already, newer than {ours}")]
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
        matches!(self, Self::Unreachable { .. } | Self::Refused { .. })
    }
}

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
    fn generations_take_turns_at_the_two_logins() {
        let slots: Vec<_> = (1..=4).map(Slot::of_generation).collect();
        assert_eq!(slots, [Slot::A, Slot::B, Slot::A, Slot::B]);
        assert_eq!(Slot::A.other().other(), Slot::A);
    }

    #[test]
    fn a_fingerprint_tells_verifiers_apart_and_is_short() {
        assert_eq!(fingerprint("abc"), "ba7816bf8f01cfea");
        assert_ne!(fingerprint("abc"), fingerprint("abd"));
    }
}
