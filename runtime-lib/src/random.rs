//! Numbers that differ between processes: identities, first attempts, jitter. Never a decision.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A fresh number. The keys of the standard hasher come from the system's random source.
pub(crate) fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn numbers_differ() {
        let numbers: BTreeSet<u64> = (0..1000).map(|_| super::number()).collect();
        assert_eq!(numbers.len(), 1000);
    }
}
