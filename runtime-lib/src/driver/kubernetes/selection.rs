//! What a watch asks for: all Leases of some keys, or one Lease by its name.

use std::fmt::Write;

use leasehold_crds::keys;

use super::convert::lease_name;
use crate::key::LeaseKey;

/// Above this many keys the selector would outgrow a URL, and names its kinds only (H10).
const KEYS_MAX: usize = 100;

/// A set of Leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The leader and settings Leases of these keys, by label.
    Labels(Vec<LeaseKey>),
    /// One leader Lease that carries no labels yet (a client-go peer made it, E4).
    Name(LeaseKey),
}

impl Selection {
    /// The selection as query parameters.
    pub(super) fn query(&self) -> String {
        match self {
            Self::Labels(selected) => {
                let kinds = format!("{},{}", keys::LEASE_LEADER, keys::LEASE_SETTINGS);
                let mut selector = format!("{} in ({kinds})", keys::LABEL_LEASE);
                if selected.len() <= KEYS_MAX {
                    let ids: Vec<&str> = selected.iter().map(LeaseKey::as_str).collect();
                    let ids = ids.join(",");
                    selector = format!("{} in ({ids}),{selector}", keys::LABEL_CLUSTER_ID);
                }
                format!("labelSelector={}", escaped(&selector))
            }
            Self::Name(key) => {
                format!(
                    "fieldSelector={}",
                    escaped(&format!("metadata.name={}", lease_name(key)))
                )
            }
        }
    }
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
            Selection::Labels(keys_of(2)).query(),
            "labelSelector=leasehold.dev%2Fcluster-id%20in%20%28k0%2Ck1%29%2C\
             leasehold.dev%2Flease%20in%20%28leader%2Csettings%29"
        );
    }

    #[test]
    fn above_a_hundred_keys_the_selector_names_only_the_kinds() {
        assert!(
            Selection::Labels(keys_of(100))
                .query()
                .contains("cluster-id")
        );
        assert!(
            !Selection::Labels(keys_of(101))
                .query()
                .contains("cluster-id")
        );
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
