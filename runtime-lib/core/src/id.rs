//! The names and numbers of the protocol. Each counter is a type of its own: they are never mixed.

use core::fmt;

/// Longest identity, in bytes: two object names and the random part fit with room.
pub const IDENTITY_BYTES_MAX: usize = 1024;

/// Ends the identity of a process without the proof that it is alone in its pod (E8).
const STRANGER: char = '~';

/// A value that breaks the rule of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// An identity that no record can carry.
    #[error(
        "identity: found {found:?}, allowed are 1 to {IDENTITY_BYTES_MAX} bytes without '#', spaces or control characters"
    )]
    Identity {
        /// What was given, cut to 64 characters.
        found: String,
    },
    /// A revision outside the range that fits a signed 64-bit column (E7).
    #[error("revision: found {found}, allowed are 1 to {}", i64::MAX)]
    Revision {
        /// What was given.
        found: u64,
    },
}

/// The unique name of one process lifetime; it is never used again (E8).
///
/// In a pod `<pod>_<pod-uid>_<8 hex>`, with `~` behind it for a stranger (E8); elsewhere
/// `<node id>__<8 hex>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(String);

impl Identity {
    /// Checks and wraps an identity.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
        let text = text.into();
        let allowed = |c: char| c != '#' && !c.is_whitespace() && !c.is_control();
        if text.is_empty() || text.len() > IDENTITY_BYTES_MAX || !text.chars().all(allowed) {
            return Err(InvalidId::Identity {
                found: text.chars().take(64).collect(),
            });
        }
        Ok(Self(text))
    }

    /// The identity of a process in a pod.
    pub fn of_pod(pod: &str, pod_uid: &str, process: u32) -> Result<Self, InvalidId> {
        Self::new(format!("{pod}_{pod_uid}_{process:08x}"))
    }

    /// The identity of a process outside a pod.
    pub fn of_node(node_id: &str, process: u32) -> Result<Self, InvalidId> {
        Self::new(format!("{node_id}__{process:08x}"))
    }

    /// The same process as a stranger in its pod (E8): it lacks the proof that the pod's former
    /// process has ended, and with it the right that its own record be reclaimed at once.
    #[must_use]
    pub fn as_stranger(&self) -> Self {
        if pod_uid(&self.0).is_none() || is_stranger(&self.0) {
            return self.clone();
        }
        Self(format!("{}{STRANGER}", self.0))
    }

    /// The text as it stands in `holderIdentity`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The pod's name in a holder text of our form; `None` outside a pod and for foreign holders.
pub fn pod_name(holder: &str) -> Option<&str> {
    parts(holder).map(|(pod, _)| pod)
}

/// The pod's uid in a holder text of our form.
pub fn pod_uid(holder: &str) -> Option<&str> {
    parts(holder).map(|(_, uid)| uid)
}

/// A process that held the lease without the proof that it was alone in its pod (E8).
pub fn is_stranger(holder: &str) -> bool {
    holder.ends_with(STRANGER)
}

fn parts(holder: &str) -> Option<(&str, &str)> {
    let holder = holder.strip_suffix(STRANGER).unwrap_or(holder);
    let mut parts = holder.split('_');
    let (pod, uid, process) = (parts.next()?, parts.next()?, parts.next()?);
    let is_process = process.len() == 8 && process.bytes().all(|b| b.is_ascii_hexdigit());
    (parts.next().is_none() && is_process && !pod.is_empty() && !uid.is_empty())
        .then_some((pod, uid))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a leadership, for people: `leaseTransitions`. Grows with every new term (E7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(u32);

impl Term {
    /// The largest term a Lease can carry (int32).
    pub const MAX: Self = Self(i32::MAX as u32);

    /// A term; larger numbers than a Lease can carry become [`Term::MAX`].
    pub fn new(number: u32) -> Self {
        Self(number.min(Self::MAX.0))
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The term after this one; stays at [`Term::MAX`], where only the token still grows.
    #[must_use]
    pub fn next(self) -> Self {
        Self::new(self.0.saturating_add(1))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The store's version of a record: compare-and-set uses it, tokens are made of it (E7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// A revision; zero and values above 2⁶³−1 are refused (E7).
    pub fn new(number: u64) -> Result<Self, InvalidId> {
        if number == 0 || i64::try_from(number).is_err() {
            return Err(InvalidId::Revision { found: number });
        }
        Ok(Self(number))
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// The store's name of one life of a record: a recreated record has another (E1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseUid(String);

impl LeaseUid {
    /// Wraps the store's uid.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the uid.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LeaseUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number that guarded writes carry: (era, revision of the acquiring write). It only grows
/// (`tokens-only-grow`).
///
/// The era is raised by people after a restore of the store or a change of driver (E7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    era: u32,
    revision: Revision,
}

impl FencingToken {
    /// The token of an acquisition.
    pub const fn new(era: u32, revision: Revision) -> Self {
        Self { era, revision }
    }

    /// The era.
    pub const fn era(self) -> u32 {
        self.era
    }

    /// The revision of the acquiring write.
    pub const fn revision(self) -> Revision {
        self.revision
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.era, self.revision)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for FencingToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let invalid = || InvalidToken {
            found: text.chars().take(64).collect(),
        };
        let (era, revision) = text.split_once('.').ok_or_else(invalid)?;
        let revision = revision.parse().ok().and_then(|n| Revision::new(n).ok());
        Ok(Self::new(
            era.parse().map_err(|_| invalid())?,
            revision.ok_or_else(invalid)?,
        ))
    }
}

/// A text that is no fencing token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fencing token: found {found:?}, allowed is <era>.<revision>, such as 0.1234")]
pub struct InvalidToken {
    /// What was given, cut to 64 characters.
    pub found: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_identity_names_its_pod_and_uid() {
        let identity = Identity::of_pod("orders-6d4-x7", "11-22", 0xab).unwrap();
        assert_eq!(identity.as_str(), "orders-6d4-x7_11-22_000000ab");
        assert_eq!(pod_name(identity.as_str()), Some("orders-6d4-x7"));
        assert_eq!(pod_uid(identity.as_str()), Some("11-22"));
    }

    #[test]
    fn a_stranger_still_names_its_pod() {
        let identity = Identity::of_pod("orders-0", "11-22", 0xab).unwrap();
        let stranger = identity.as_stranger();
        assert_eq!(stranger.as_str(), "orders-0_11-22_000000ab~");
        assert_eq!(stranger.as_stranger(), stranger);
        assert_eq!(pod_name(stranger.as_str()), Some("orders-0"));
        assert_eq!(pod_uid(stranger.as_str()), Some("11-22"));
        assert!(is_stranger(stranger.as_str()) && !is_stranger(identity.as_str()));
        let outside = Identity::of_node("laptop", 1).unwrap();
        assert_eq!(outside.as_stranger(), outside);
    }

    #[test]
    fn a_process_outside_a_pod_and_a_foreign_holder_name_no_pod() {
        assert_eq!(
            pod_uid(Identity::of_node("laptop", 1).unwrap().as_str()),
            None
        );
        for foreign in [
            "",
            "host_123",
            "a_b_c",
            "a_b_000000ab_d",
            "_u_000000ab",
            "ü_ß",
        ] {
            assert_eq!(pod_uid(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn identities_that_would_break_a_stamp_are_refused() {
        for bad in ["", "a#b", "a b", "a\nb", &"x".repeat(1025)] {
            let refused = Identity::new(bad).unwrap_err().to_string();
            assert!(refused.starts_with("identity: found"), "{refused}");
        }
    }

    #[test]
    fn revisions_outside_a_signed_column_are_refused() {
        assert!(Revision::new(0).is_err());
        let largest = Revision::new(i64::MAX as u64).unwrap();
        assert_eq!(largest.number(), i64::MAX as u64);
        assert!(Revision::new(i64::MAX as u64 + 1).is_err());
    }

    #[test]
    fn tokens_order_by_era_then_revision_and_read_back() {
        let token = |text: &str| text.parse::<FencingToken>().unwrap();
        assert!(token("0.9") < token("0.10") && token("0.10") < token("1.1"));
        assert_eq!(token("3.77").to_string(), "3.77");
        assert_eq!(
            (token("3.77").era(), token("3.77").revision().number()),
            (3, 77)
        );
        for bad in ["", "1", "1.", ".1", "1.0", "-1.2", "1.9223372036854775808"] {
            assert!(bad.parse::<FencingToken>().is_err(), "{bad}");
        }
    }

    #[test]
    fn terms_stay_at_the_largest_number_a_lease_can_carry() {
        assert_eq!(Term::MAX.next(), Term::MAX);
        assert_eq!(Term::new(1).next().number(), 2);
    }
}
