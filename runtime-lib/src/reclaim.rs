//! E8: the proof that the former process of this pod has ended.
//!
//! A process of a pod holds an abstract Unix socket per lease. The kernel frees it when the process
//! has ended, and keeps it while the process is merely stopped; so whoever can bind it is alone.
//! The name is a hash, because plain names would not fit into 108 bytes.

use leasehold_core::id::{Identity, pod_uid};

use crate::key::LeaseKey;

/// True if no other process of this pod runs for `key`, so that its lease may be reclaimed at
/// once. The proof is then held for the life of this process; only the first caller gets it.
#[cfg(all(target_os = "linux", feature = "kubernetes"))]
pub(crate) fn may_reclaim(identity: &Identity, key: &LeaseKey) -> bool {
    use std::collections::BTreeMap;
    use std::os::unix::net::UnixDatagram;
    use std::sync::{Mutex, PoisonError};
    static HELD: Mutex<BTreeMap<String, UnixDatagram>> = Mutex::new(BTreeMap::new());
    let Some(uid) = pod_uid(identity.as_str()) else {
        return false;
    };
    let name = socket_name(uid, key);
    match bind(&name) {
        Ok(socket) => {
            HELD.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name, socket);
            true
        }
        Err(error) => {
            tracing::info!(cluster_id = %key, %error, "another process of this pod may be running: no lease is reclaimed at once");
            false
        }
    }
}

#[cfg(not(all(target_os = "linux", feature = "kubernetes")))]
pub(crate) fn may_reclaim(identity: &Identity, _key: &LeaseKey) -> bool {
    let _ = pod_uid(identity.as_str());
    false
}

#[cfg(all(target_os = "linux", feature = "kubernetes"))]
fn bind(name: &str) -> std::io::Result<std::os::unix::net::UnixDatagram> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// `leasehold/` and the first 32 hex digits of SHA-256(pod uid / lease name).
#[cfg(all(target_os = "linux", feature = "kubernetes"))]
fn socket_name(uid: &str, key: &LeaseKey) -> String {
    use sha2::Digest;
    use std::fmt::Write;
    let digest = sha2::Sha256::digest(format!("{uid}/{}", key.lease_name()));
    let mut name = "leasehold/".to_owned();
    for byte in digest.iter().take(16) {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(all(test, target_os = "linux", feature = "kubernetes"))]
mod tests {
    #![allow(clippy::unwrap_used)] // a test reports by panicking

    use super::*;

    fn pod(uid: &str, process: u32) -> Identity {
        Identity::of_pod("orders-1", uid, process).unwrap()
    }

    #[test]
    fn only_one_process_at_a_time_has_the_proof() {
        let uid = format!("{:016x}", crate::random::number());
        let key = LeaseKey::new("orders").unwrap();
        let other = bind(&socket_name(&uid, &key)).unwrap(); // as another process would
        assert!(!may_reclaim(&pod(&uid, 2), &key), "the other still runs");
        assert!(
            may_reclaim(&pod(&uid, 2), &LeaseKey::new("billing").unwrap()),
            "another lease"
        );
        drop(other);
        assert!(may_reclaim(&pod(&uid, 2), &key), "the other has ended");
        assert!(
            !may_reclaim(&pod(&uid, 3), &key),
            "held for the life of this process"
        );
    }

    #[test]
    fn outside_a_pod_there_is_no_proof() {
        let laptop = Identity::of_node("laptop", 1).unwrap();
        assert!(!may_reclaim(&laptop, &LeaseKey::new("orders").unwrap()));
    }

    #[test]
    fn the_longest_name_fits_into_a_socket_address() {
        let name = socket_name(&"u".repeat(300), &LeaseKey::new("x".repeat(63)).unwrap());
        assert_eq!(name.len(), "leasehold/".len() + 32);
    }
}
