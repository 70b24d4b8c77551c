//! Free ports on the loopback interface.
//!
//! A port can be lost between choosing it here and binding it there, so
//! whoever uses one tries again with another. They are taken from below the
//! range the kernel gives to outgoing connections, so that a server that is
//! restarted finds its port free.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

const LOWEST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A port that nothing listens on and that this process never gave out before.
pub fn free_port() -> Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let start: u16 = rand_start();
    for step in 0..COUNT {
        let port = LOWEST + (start.wrapping_add(step)) % COUNT;
        if !given.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    Err(Error::new(format!(
        "no free port from {LOWEST} to {} on 127.0.0.1",
        LOWEST + COUNT - 1
    )))
}

/// Where to begin: two harnesses that start together should not meet.
fn rand_start() -> u16 {
    use std::hash::{BuildHasher as _, RandomState};
    let hash = RandomState::new().hash_one(std::process::id());
    (hash % u64::from(COUNT)).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::free_port;

    #[test]
    fn a_port_is_given_out_once() {
        let ports: Vec<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        let distinct: std::collections::BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!(distinct.len(), ports.len());
    }
}
