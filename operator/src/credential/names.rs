//! Names on a server (C4): pure functions of who the service is, so that a crash leaves nothing unknown.
//!
//! The hash covers the installation, so that two Kubernetes clusters can share a server. Everything
//! readable in a name is cut; the hash alone tells services apart. 63 bytes are the limit of Postgres,
//! which would cut longer names by itself, and so make one role of two.

use sha2::{Digest as _, Sha256};

use crate::backend::{Slot, hex};

/// Longest name of a role or database of Postgres, in bytes.
pub const LENGTH_MAX: usize = 63;
/// What every name of ours on a server begins with.
pub const PREFIX: &str = "lh_";
const NAMESPACE_MAX: usize = 16;
const NAME_MAX: usize = 28;

/// Who a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Id of this installation: the uid of its kube-system namespace, unless it was given.
    pub installation: String,
    /// Its namespace.
    pub namespace: String,
    /// The uid of that namespace: a new namespace of the same name is somebody else (C7).
    pub namespace_uid: String,
    /// Its cluster id: the shared part is named after it.
    pub cluster_id: String,
    /// metadata.name: the logins are named after it.
    pub service: String,
}

impl Names {
    /// Owner role, and database unless the resource names one.
    pub fn owner(&self) -> String {
        self.named("owner", &self.cluster_id, "o")
    }

    /// A login, or a user of Redis.
    pub fn login(&self, slot: Slot) -> String {
        self.named("login", &self.service, slot.suffix())
    }

    /// Prefix of the keys and channels of Redis.
    pub fn key_prefix(&self) -> String {
        format!("{}:{}:", self.namespace, self.cluster_id)
    }

    /// What the owner role and its database say about whose they are.
    pub fn shared_mark(&self) -> String {
        format!(
            "leasehold installation={} namespace-uid={} namespace={} cluster-id={}",
            self.installation, self.namespace_uid, self.namespace, self.cluster_id
        )
    }

    /// What a login says about whose it is; its generation and fingerprint follow.
    pub fn login_mark(&self) -> String {
        format!("{} service={}", self.shared_mark(), self.service)
    }

    fn named(&self, kind: &str, name: &str, suffix: &str) -> String {
        let mut hash = Sha256::new();
        for part in [kind, &self.installation, &self.namespace, name] {
            hash.update((part.len() as u64).to_be_bytes()); // no two lists of parts hash alike
            hash.update(part.as_bytes());
        }
        let digest = hex(&hash.finalize()[..5]);
        let namespace = cut(&self.namespace, NAMESPACE_MAX);
        let name = cut(name, NAME_MAX);
        format!("{PREFIX}{namespace}_{name}_{digest}_{suffix}")
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(namespace: &str, service: &str) -> Names {
        Names {
            installation: "8a5f".to_owned(),
            namespace: namespace.to_owned(),
            namespace_uid: "u-1".to_owned(),
            cluster_id: service.to_owned(),
            service: service.to_owned(),
        }
    }

    #[test]
    fn the_longest_names_fit_and_stay_apart() {
        let long = "x".repeat(63);
        let (one, two) = (
            names(&long, &format!("{long}a")),
            names(&long, &format!("{long}b")),
        );
        for slot in Slot::ALL {
            assert!(one.login(slot).len() <= LENGTH_MAX, "{}", one.login(slot));
            assert_ne!(one.login(slot), two.login(slot));
        }
        assert!(one.owner().len() <= LENGTH_MAX);
    }

    #[test]
    fn parts_do_not_flow_into_each_other() {
        assert_ne!(names("a_b", "c").owner(), names("a", "b_c").owner());
        assert_ne!(
            names("a", "b").login(Slot::A),
            names("a", "b").login(Slot::B)
        );
        let elsewhere = Names {
            installation: "77".to_owned(),
            ..names("a", "b")
        };
        assert_ne!(names("a", "b").owner(), elsewhere.owner());
    }

    #[test]
    fn a_cut_name_ends_between_two_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }
}
