//! The lease key: names one Lease of a cluster id within a namespace.

use std::fmt;
use std::sync::Arc;

/// Longest cluster id: one DNS label.
const LENGTH_MAX: usize = 63;
/// Longest name of a Lease: one DNS subdomain.
const LEASE_NAME_MAX: usize = 253;

/// A checked cluster id, and which of its Leases is meant. Shown as the cluster id.
///
/// The cluster id becomes the first label of a Lease's name, so it is a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    cluster_id: Arc<str>,
    kind: LeaseKind,
}

/// Which Lease of a cluster id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseKind {
    /// `<cluster-id>.leader`: who leads.
    Leader,
    /// `<cluster-id>.assignment`: the table of the partitions (H2).
    Assignment,
    /// `<cluster-id>.member.<name>`: what one member runs (H1).
    Member(Arc<str>),
}

/// A text that names no Lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// No cluster id. What it was meant for, the caller knows.
    #[error(
        "found {found:?}, allowed is a DNS label: 1 to {LENGTH_MAX} characters of a-z, 0-9 and '-', \
         with a letter or digit first and last"
    )]
    ClusterId {
        /// What was given, cut to 80 characters.
        found: String,
    },
    /// No member's name.
    #[error(
        "member name: found {found:?}, allowed is a DNS subdomain: labels of a-z, 0-9 and '-', with \
         a letter or digit first and last, joined by single dots"
    )]
    Member {
        /// What was given, cut to 80 characters.
        found: String,
    },
    /// A member's name that is too long beside its cluster id.
    #[error(
        "member name: found {length} characters ({found:?}), allowed are {allowed} for the cluster \
         id {cluster_id:?}, since <cluster-id>.member.<name> has at most {LEASE_NAME_MAX}"
    )]
    MemberTooLong {
        /// What was given, cut to 80 characters.
        found: String,
        /// How long it is.
        length: usize,
        /// How long it may be.
        allowed: usize,
        /// The cluster id.
        cluster_id: Arc<str>,
    },
}

impl LeaseKey {
    /// Checks and wraps a cluster id: the key of its leader Lease.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        if text.len() > LENGTH_MAX || !is_label(&text) {
            return Err(InvalidKey::ClusterId {
                found: shortened(&text),
            });
        }
        Ok(Self {
            cluster_id: text.into(),
            kind: LeaseKind::Leader,
        })
    }

    /// The leader Lease of the same cluster id.
    #[must_use]
    #[cfg_attr(not(feature = "kubernetes"), allow(dead_code))] // only there leaders stand for ids
    pub fn leader(&self) -> Self {
        self.of_kind(LeaseKind::Leader)
    }

    /// The assignment Lease of the same cluster id.
    #[must_use]
    pub fn assignment(&self) -> Self {
        self.of_kind(LeaseKind::Assignment)
    }

    /// The Lease of a member of the same cluster id: a pod's name, or a node id.
    pub fn member(&self, name: &str) -> Result<Self, InvalidKey> {
        if !name.split('.').all(is_label) {
            return Err(InvalidKey::Member {
                found: shortened(name),
            });
        }
        let key = self.of_kind(LeaseKind::Member(name.into()));
        let before = key.lease_name().len() - name.len();
        if before + name.len() > LEASE_NAME_MAX {
            return Err(InvalidKey::MemberTooLong {
                found: shortened(name),
                length: name.len(),
                allowed: LEASE_NAME_MAX - before,
                cluster_id: Arc::clone(&self.cluster_id),
            });
        }
        Ok(key)
    }

    /// The key of a Lease's name; `None` if it is no name of ours, or of a settings Lease.
    #[cfg_attr(not(feature = "kubernetes"), allow(dead_code))] // only there Leases have names
    pub(crate) fn of_lease_name(name: &str) -> Option<Self> {
        let (id, kind) = name.split_once('.')?;
        let key = Self::new(id).ok()?;
        match kind.split_once('.') {
            Some((MEMBER, member)) => key.member(member).ok(),
            None if kind == LEADER => Some(key),
            None if kind == ASSIGNMENT => Some(key.assignment()),
            _ => None,
        }
    }

    fn of_kind(&self, kind: LeaseKind) -> Self {
        Self {
            cluster_id: Arc::clone(&self.cluster_id),
            kind,
        }
    }

    /// The cluster id.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Which Lease of the cluster id it is.
    #[cfg_attr(not(feature = "kubernetes"), allow(dead_code))] // only there Leases have labels
    pub fn kind(&self) -> &LeaseKind {
        &self.kind
    }

    /// The member whose Lease it is.
    pub fn member_name(&self) -> Option<&Arc<str>> {
        match &self.kind {
            LeaseKind::Member(name) => Some(name),
            LeaseKind::Leader | LeaseKind::Assignment => None,
        }
    }

    /// The name of the Lease.
    pub fn lease_name(&self) -> String {
        let (id, kind) = (&self.cluster_id, self.kind.as_str());
        match &self.kind {
            LeaseKind::Leader | LeaseKind::Assignment => format!("{id}.{kind}"),
            LeaseKind::Member(name) => format!("{id}.{kind}.{name}"),
        }
    }
}

const LEADER: &str = "leader";
const ASSIGNMENT: &str = "assignment";
const MEMBER: &str = "member";

impl LeaseKind {
    /// The word for it in names and labels.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Leader => LEADER,
            Self::Assignment => ASSIGNMENT,
            Self::Member(_) => MEMBER,
        }
    }
}

fn is_label(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = text.starts_with('-') || text.ends_with('-');
    !text.is_empty() && !ends && text.bytes().all(allowed)
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cluster_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> LeaseKey {
        LeaseKey::new("orders").unwrap()
    }

    #[test]
    fn a_cluster_id_is_a_dns_label() {
        for good in ["a", "0", "orders-2", &"x".repeat(63)] {
            assert_eq!(LeaseKey::new(good).unwrap().cluster_id(), good);
        }
        for bad in ["", "a.b", "A", "a_b", "-a", "a-", "ä", &"x".repeat(64)] {
            let message = LeaseKey::new(bad).unwrap_err().to_string();
            assert!(message.contains("1 to 63 characters"), "{bad}: {message}");
        }
    }

    #[test]
    fn a_huge_text_is_quoted_in_part_only() {
        let huge = "é".repeat(10_000);
        assert!(LeaseKey::new(huge.as_str()).unwrap_err().to_string().len() < 400);
        assert!(orders().member(&huge).unwrap_err().to_string().len() < 400);
    }

    #[test]
    fn every_lease_of_a_cluster_id_has_a_name_that_reads_back() {
        for (key, name) in [
            (orders(), "orders.leader"),
            (orders().assignment(), "orders.assignment"),
            (orders().member("web-0").unwrap(), "orders.member.web-0"),
            (orders().member("node.a").unwrap(), "orders.member.node.a"),
        ] {
            assert_eq!(key.lease_name(), name);
            assert_eq!(key.to_string(), "orders");
            assert_eq!(LeaseKey::of_lease_name(name), Some(key));
        }
        for foreign in [
            "orders",
            "orders.settings",
            "orders.member",
            "orders.member.",
            "orders.member.A",
            "orders.leader.x",
            "orders.assignment.x",
            "Orders.leader",
            ".leader",
            "",
        ] {
            assert_eq!(LeaseKey::of_lease_name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_members_name_is_a_dns_subdomain_that_fits_a_leases_name() {
        for bad in ["", ".", "a.", ".a", "a..b", "A", "a_b", "a.-b", "ä"] {
            let message = orders().member(bad).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("member name: found {bad:?}, allowed is a DNS sub")),
                "{message}"
            );
        }
        let longest = "x".repeat(253 - "orders.member.".len());
        let key = orders().member(&longest).unwrap();
        assert_eq!(key.lease_name().len(), 253);
        let message = orders().member(&format!("{longest}x")).unwrap_err();
        let message = message.to_string();
        assert!(message.contains("found 240 characters"), "{message}");
        assert!(
            message.contains("allowed are 239 for the cluster id \"orders\""),
            "{message}"
        );
    }

    #[cfg(feature = "kubernetes")]
    #[test]
    fn the_words_are_those_of_the_labels() {
        use leasehold_crds::keys;
        let member = orders().member("a").unwrap();
        assert_eq!(orders().kind().as_str(), keys::LEASE_LEADER);
        assert_eq!(
            orders().assignment().kind().as_str(),
            keys::LEASE_ASSIGNMENT
        );
        assert_eq!(member.kind().as_str(), keys::LEASE_MEMBER);
    }
}
