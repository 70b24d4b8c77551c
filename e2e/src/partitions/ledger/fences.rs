//! One fence for each hash, kept as ranges: layouts cut the hashes differently,
//! and a raise of a child must reach all of its parents (H9).

use std::collections::BTreeMap;

use leasehold_core::fence::Stale;
use leasehold_core::id::FencingToken;

/// The highest token shown, from each hash up to the next key.
#[derive(Debug)]
pub(super) struct Fences(BTreeMap<u128, Option<FencingToken>>);

impl Default for Fences {
    fn default() -> Self {
        Self(BTreeMap::from([(0, None)]))
    }
}

impl Fences {
    /// Raises all hashes of a range, or none if a higher token was shown for one.
    pub(super) fn raise(
        &mut self,
        (from, until): (u128, u128),
        token: FencingToken,
    ) -> Result<(), Stale> {
        let first = self.at(from);
        let inside = self.0.range(from..until).filter_map(|(_, fence)| *fence);
        if let Some(highest) = inside.chain(first).max()
            && highest > token
        {
            let shown = token;
            return Err(Stale { shown, highest });
        }
        let after = self.at(until);
        let inside: Vec<u128> = self.0.range(from..until).map(|(edge, _)| *edge).collect();
        for edge in inside {
            self.0.remove(&edge);
        }
        self.0.insert(from, Some(token));
        if until < 1 << 64 {
            self.0.entry(until).or_insert(after);
        }
        Ok(())
    }

    /// Whether a write to this hash may still be taken.
    pub(super) fn admit(&self, hash: u64, token: FencingToken) -> Result<(), Stale> {
        match self.at(hash.into()) {
            Some(highest) if highest > token => Err(Stale {
                shown: token,
                highest,
            }),
            _ => Ok(()),
        }
    }

    fn at(&self, hash: u128) -> Option<FencingToken> {
        let (_, fence) = self.0.range(..=hash).next_back()?;
        *fence
    }
}

#[cfg(test)]
mod tests {
    use super::Fences;
    use leasehold_core::id::FencingToken;

    fn token(revision: u64) -> FencingToken {
        format!("0.{revision}").parse().unwrap()
    }

    #[test]
    fn a_raise_reaches_its_range_and_nothing_else() {
        let mut fences = Fences::default();
        fences.raise((10, 20), token(5)).unwrap();
        fences.raise((20, 30), token(3)).unwrap();
        fences.raise((15, 25), token(7)).unwrap();
        let admits = |hash, number| fences.admit(hash, token(number)).is_ok();
        assert!(admits(9, 1) && admits(30, 1));
        assert!(admits(14, 5) && !admits(14, 4));
        assert!(admits(15, 7) && !admits(15, 6) && !admits(24, 6));
        assert!(admits(25, 3) && !admits(25, 2));
    }

    #[test]
    fn a_raise_below_any_fence_of_its_range_changes_nothing() {
        let mut fences = Fences::default();
        fences.raise((10, 20), token(5)).unwrap();
        assert!(fences.raise((0, 11), token(4)).is_err());
        assert!(fences.admit(3, token(1)).is_ok());
        fences.raise((0, 1 << 64), token(5)).unwrap();
        assert!(fences.admit(u64::MAX, token(4)).is_err());
    }
}
