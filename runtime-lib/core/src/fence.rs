//! `token-travels`: what a guarded store decides.
//!
//! A store keeps the highest token it was shown and refuses every lower one. This holds when a
//! process is paused between its own check and its write, which no lease can prevent.

use crate::id::FencingToken;

/// The highest token a store was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fence {
    highest: Option<FencingToken>,
}

/// A write was refused: it was decided under an older token than one the store has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stale token {shown}: the store has already seen {highest}")]
pub struct Stale {
    /// The token that came with the write.
    pub shown: FencingToken,
    /// The highest token the store knows.
    pub highest: FencingToken,
}

impl Fence {
    /// A fence that was last raised to `highest`, as read back from a store.
    pub const fn at(highest: Option<FencingToken>) -> Self {
        Self { highest }
    }

    /// The highest token shown so far.
    pub const fn highest(&self) -> Option<FencingToken> {
        self.highest
    }

    /// Admits `token` and remembers it, or refuses it if a higher one was shown before.
    ///
    /// Raising before the first read (H9) is the same call without a write behind it.
    pub fn admit(&mut self, token: FencingToken) -> Result<(), Stale> {
        match self.highest {
            Some(highest) if token < highest => Err(Stale {
                shown: token,
                highest,
            }),
            _ => {
                self.highest = Some(token);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Revision;

    fn token(era: u32, revision: u64) -> FencingToken {
        FencingToken::new(era, Revision::new(revision).unwrap())
    }

    #[test]
    fn a_lower_token_is_refused_and_the_same_token_may_write_again() {
        let mut fence = Fence::default();
        assert_eq!(fence.admit(token(0, 7)), Ok(()));
        assert_eq!(fence.admit(token(0, 7)), Ok(()));
        assert_eq!(fence.admit(token(0, 9)), Ok(()));
        assert_eq!(fence.highest(), Some(token(0, 9)));
        let refused = fence.admit(token(0, 7)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "stale token 0.7: the store has already seen 0.9"
        );
    }

    #[test]
    fn a_later_era_outranks_any_revision() {
        let mut fence = Fence::default();
        assert_eq!(fence.admit(token(1, 5)), Ok(()));
        assert!(fence.admit(token(0, 5_000_000)).is_err());
    }
}
