//! Fences within one process.

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::fence::{Claim, RangeFences};

use super::{FenceError, checked};
use crate::leadership::Fence;

/// Fences in memory, for tests and for a laptop: they are gone with the process.
///
/// Clones share their fences.
#[derive(Clone, Debug)]
pub struct MemoryFences {
    service: Arc<str>,
    fences: Arc<Mutex<RangeFences>>,
}

impl MemoryFences {
    /// Fences of a service that were never raised.
    pub fn new(service: &str) -> Result<Self, FenceError> {
        Ok(Self {
            service: checked(service)?,
            fences: Arc::default(),
        })
    }

    /// Runs `write` if the claim may write; no fence is raised meanwhile. It must not use these
    /// fences itself.
    pub fn write<T>(&self, claim: Claim, write: impl FnOnce() -> T) -> Result<T, FenceError> {
        // One critical section: a raise returns after the writes that it did not refuse.
        let fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = fences.check(claim);
        checked.map_err(|refused| FenceError::refused(&self.service, claim, refused))?;
        Ok(write())
    }

    fn raise_now(&self, claim: Claim) -> Result<(), FenceError> {
        let mut fences = self.fences.lock().unwrap_or_else(PoisonError::into_inner);
        let raised = fences.raise(claim);
        raised.map_err(|stale| FenceError::refused(&self.service, claim, stale.into()))
    }
}

impl Fence for MemoryFences {
    type Error = FenceError;

    fn raise(&self, claim: Claim) -> impl Future<Output = Result<(), FenceError>> + Send {
        ready(self.raise_now(claim))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::fence::KeyRange;

    fn claim(from: u64, until: u64, token: &str) -> Claim {
        let range = KeyRange::new(from << 32, u128::from(until) << 32).unwrap();
        Claim::new(range, token.parse().unwrap())
    }

    #[tokio::test]
    async fn a_write_under_a_claim_that_was_overtaken_is_not_run() {
        let fences = MemoryFences::new("orders").unwrap();
        let (parent, child) = (claim(0, 20, "0.5"), claim(10, 30, "0.9"));
        fences.raise(parent).await.unwrap();
        assert_eq!(fences.write(parent, || 7).unwrap(), 7);
        fences.raise(child).await.unwrap();
        let refused = fences.write(parent, || unreachable!()).unwrap_err();
        let message = "fences of orders: token 0.5 for the hashes \
                       0000000000000000..0000001400000000 is stale: 0.9 was raised since";
        assert_eq!(refused.to_string(), message);
        assert!(fences.raise(parent).await.is_err());
        fences.write(child, || ()).unwrap();
    }

    #[test]
    fn a_write_without_a_raise_is_not_run() {
        let fences = MemoryFences::new("orders").unwrap();
        let refused = fences
            .write(claim(1, 2, "0.5"), || unreachable!())
            .unwrap_err();
        let message = "fences of orders: token 0.5 for the hashes \
                       0000000100000000..0000000200000000 was not raised before the write; \
                       so far: nothing";
        assert_eq!(refused.to_string(), message);
    }

    #[test]
    fn the_fences_of_no_service_are_refused() {
        let refused = MemoryFences::new("{a}").unwrap_err().to_string();
        assert!(
            refused.starts_with("service: found \"{a}\", allowed"),
            "{refused}"
        );
    }
}
