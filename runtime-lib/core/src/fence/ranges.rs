//! One fence for each hash, kept as ranges: layouts cut the hashes differently, and a raise of a
//! child must reach the parents of every former layout, without a list of them (H9).

use std::collections::BTreeMap;

use super::{Claim, NotRaised, Refused, Stale};
use crate::id::FencingToken;

/// The highest token that was shown for each hash: what a store of many partitions decides.
///
/// Tokens that were shown for other hashes say nothing. So partitions of one layout never disturb
/// each other, and a partition that was cut anew shuts out whoever owned a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeFences {
    /// From each edge up to the next; the first edge is 0.
    highest: BTreeMap<u64, Option<FencingToken>>,
}

impl Default for RangeFences {
    fn default() -> Self {
        Self {
            highest: BTreeMap::from([(0, None)]),
        }
    }
}

impl RangeFences {
    /// Raises the fence of every hash of the range, or of none if a higher token was shown for one
    /// of them. To raise it again changes nothing.
    pub fn raise(&mut self, claim: Claim) -> Result<(), Stale> {
        let Claim { range, token } = claim;
        self.admit_all(claim)?;
        let behind = range.next().map(|edge| (edge, self.at(edge)));
        let inside = self.highest.range(range.first()..=range.last());
        let inside: Vec<u64> = inside.map(|(edge, _)| *edge).collect();
        for edge in inside {
            self.highest.remove(&edge);
        }
        self.highest.insert(range.first(), Some(token));
        if let Some((edge, highest)) = behind {
            self.highest.entry(edge).or_insert(highest);
        }
        Ok(())
    }

    /// Whether a write under the claim may be taken: it was raised, and nothing that overlaps it
    /// was raised above it.
    pub fn check(&self, claim: Claim) -> Result<(), Refused> {
        self.admit_all(claim)?;
        let lowest = self.over(claim).min().flatten();
        if lowest == Some(claim.token) {
            Ok(())
        } else {
            Err(Refused::NotRaised(NotRaised {
                shown: claim.token,
                raised: lowest,
            }))
        }
    }

    /// Whether a write to one hash may be taken, for a store that knows the hash of each write and
    /// trusts that its owner has raised the fence before.
    pub fn admit(&self, hash: u64, token: FencingToken) -> Result<(), Stale> {
        not_above(self.at(hash), token)
    }

    fn admit_all(&self, claim: Claim) -> Result<(), Stale> {
        not_above(self.over(claim).max().flatten(), claim.token)
    }

    /// What was shown, for each part of the claim's range.
    fn over(&self, claim: Claim) -> impl Iterator<Item = Option<FencingToken>> {
        let (first, last) = (claim.range.first(), claim.range.last());
        let inside = self.highest.range(first..=last).map(|(_, token)| *token);
        inside.chain([self.at(first)])
    }

    fn at(&self, hash: u64) -> Option<FencingToken> {
        let (_, highest) = self.highest.range(..=hash).next_back()?;
        *highest
    }
}

fn not_above(highest: Option<FencingToken>, shown: FencingToken) -> Result<(), Stale> {
    match highest {
        Some(highest) if highest > shown => Err(Stale { shown, highest }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::KeyRange;

    fn token(revision: u64) -> FencingToken {
        format!("0.{revision}").parse().unwrap()
    }

    fn claim(from: u64, until: u128, revision: u64) -> Claim {
        let range = KeyRange::new(from, until).unwrap();
        Claim::new(range, token(revision))
    }

    #[test]
    fn a_raise_reaches_its_range_and_nothing_else() {
        let mut fences = RangeFences::default();
        fences.raise(claim(10, 20, 5)).unwrap();
        fences.raise(claim(20, 30, 3)).unwrap();
        fences.raise(claim(15, 25, 7)).unwrap();
        let admits = |hash, number| fences.admit(hash, token(number)).is_ok();
        assert!(admits(9, 1) && admits(30, 1));
        assert!(admits(14, 5) && !admits(14, 4));
        assert!(admits(15, 7) && !admits(15, 6) && !admits(24, 6));
        assert!(admits(25, 3) && !admits(25, 2));
    }

    #[test]
    fn a_raise_below_any_fence_of_its_range_changes_nothing() {
        let mut fences = RangeFences::default();
        fences.raise(claim(10, 20, 5)).unwrap();
        let before = fences.clone();
        assert!(fences.raise(claim(0, 11, 4)).is_err());
        assert_eq!(fences, before);
        fences.raise(Claim::new(KeyRange::ALL, token(5))).unwrap();
        assert!(fences.admit(u64::MAX, token(4)).is_err());
    }

    #[test]
    fn a_write_is_refused_until_its_claim_was_raised() {
        let mut fences = RangeFences::default();
        let refused = fences.check(claim(10, 20, 5)).unwrap_err();
        let message = "token 0.5 was not raised: the store has seen none";
        assert_eq!(refused.to_string(), message);
        fences.raise(claim(10, 20, 5)).unwrap();
        assert_eq!(fences.check(claim(10, 20, 5)), Ok(()));
        let wider = fences.check(claim(9, 20, 5));
        assert!(matches!(wider, Err(Refused::NotRaised(_))), "{wider:?}");
        let later = fences.check(claim(10, 20, 6)).unwrap_err();
        let message = "token 0.6 was not raised: the store has seen 0.5";
        assert_eq!(later.to_string(), message);
        fences.raise(claim(19, 30, 6)).unwrap();
        let stale = fences.check(claim(10, 20, 5));
        assert!(matches!(stale, Err(Refused::Stale(_))), "{stale:?}");
    }
}
