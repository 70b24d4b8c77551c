//! What a watch or a list asks for: all Leases of some cluster ids, all members of one, or one
//! Lease by its name.

use std::fmt::Write;

use leasehold_crds::keys;

use crate::key::LeaseKey;

/// Above this many ids the selector would outgrow a URL, and names its kinds only (H10).
const IDS_MAX: usize = 100;

/// A set of Leases that a watch follows. Cluster ids are given by the keys of their leaders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Selection {
    /// The leader, assignment and settings Leases of these cluster ids, by label.
    Shared(Vec<LeaseKey>),
    /// All member Leases of this cluster id, by label.
    Members(LeaseKey),
    /// One Lease by its name: a member's, or one that carries no labels yet (a client-go peer made
    /// it, E4).
    Name(LeaseKey),
}

impl Selection {
    /// The selection as query parameters.
    pub(super) fn query(&self) -> String {
        match self {
            Self::Shared(ids) => {
                let kinds = [
                    keys::LEASE_LEADER,
                    keys::LEASE_ASSIGNMENT,
                    keys::LEASE_SETTINGS,
                ];
                let ids = (ids.len() <= IDS_MAX).then_some(ids.as_slice());
                by_labels(ids.unwrap_or_default(), &kinds)
            }
            Self::Members(id) => by_labels(std::slice::from_ref(id), &[keys::LEASE_MEMBER]),
            Self::Name(key) => {
                let name = key.lease_name();
                format!(
                    "fieldSelector={}",
                    escaped(&format!("metadata.name={name}"))
                )
            }
        }
    }

    /// Is the Lease of `key` one of them? Labels can be edited by anybody, so names decide.
    pub(super) fn includes(&self, key: &LeaseKey) -> bool {
        match self {
            Self::Shared(_) => key.member_name().is_none(),
            Self::Members(id) => key.member_name().is_some() && *id == key.leader(),
            Self::Name(name) => name == key,
        }
    }

    /// A Lease without labels: followed by name only until it has them, or is gone.
    pub(super) fn is_makeshift(&self) -> bool {
        matches!(self, Self::Name(key) if key.member_name().is_none())
    }
}

/// The assignment and all members of a cluster id, as query parameters.
pub(super) fn parts_of(key: &LeaseKey) -> String {
    let kinds = [keys::LEASE_ASSIGNMENT, keys::LEASE_MEMBER];
    by_labels(std::slice::from_ref(key), &kinds)
}

/// Of no ids: of all.
fn by_labels(ids: &[LeaseKey], kinds: &[&str]) -> String {
    let mut selector = format!("{} in ({})", keys::LABEL_LEASE, kinds.join(","));
    if !ids.is_empty() {
        let ids: Vec<&str> = ids.iter().map(LeaseKey::cluster_id).collect();
        let ids = ids.join(",");
        selector = format!("{} in ({ids}),{selector}", keys::LABEL_CLUSTER_ID);
    }
    format!("labelSelector={}", escaped(&selector))
}

/// Percent-encoding for a query value; every key is plain ASCII.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys_of(count: usize) -> Vec<LeaseKey> {
        (0..count)
            .map(|n| LeaseKey::new(format!("k{n}")).unwrap())
            .collect()
    }

    #[test]
    fn one_selector_serves_all_keys_of_a_process() {
        assert_eq!(
            Selection::Shared(keys_of(2)).query(),
            "labelSelector=leasehold.dev%2Fcluster-id%20in%20%28k0%2Ck1%29%2C\
             leasehold.dev%2Flease%20in%20%28leader%2Cassignment%2Csettings%29"
        );
    }

    #[test]
    fn above_a_hundred_keys_the_selector_names_only_the_kinds() {
        assert!(
            Selection::Shared(keys_of(100))
                .query()
                .contains("cluster-id")
        );
        assert!(
            !Selection::Shared(keys_of(101))
                .query()
                .contains("cluster-id")
        );
    }

    #[test]
    fn members_are_selected_by_their_kind_and_lists_add_the_assignment() {
        let key = LeaseKey::new("orders").unwrap();
        let of_id = "labelSelector=leasehold.dev%2Fcluster-id%20in%20%28orders%29%2C";
        assert_eq!(
            Selection::Members(key.clone()).query(),
            format!("{of_id}leasehold.dev%2Flease%20in%20%28member%29")
        );
        assert_eq!(
            parts_of(&key),
            format!("{of_id}leasehold.dev%2Flease%20in%20%28assignment%2Cmember%29")
        );
    }

    #[test]
    fn names_decide_what_belongs_to_a_selection() {
        let orders = LeaseKey::new("orders").unwrap();
        let member = orders.member("a").unwrap();
        let other = LeaseKey::new("billing").unwrap().member("a").unwrap();
        let members = Selection::Members(orders.clone());
        assert!(members.includes(&member));
        assert!(!members.includes(&other) && !members.includes(&orders.assignment()));
        let shared = Selection::Shared(vec![orders.clone()]);
        assert!(shared.includes(&orders.assignment()) && !shared.includes(&member));
        assert!(Selection::Name(member.clone()).includes(&member));
        assert!(!Selection::Name(member).includes(&other));
    }

    #[test]
    fn a_lease_without_labels_is_selected_by_name() {
        let key = LeaseKey::new("orders").unwrap();
        assert_eq!(
            Selection::Name(key).query(),
            "fieldSelector=metadata.name%3Dorders.leader"
        );
    }
}
