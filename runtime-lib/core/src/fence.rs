//! `token-travels`: what a guarded store decides.
//!
//! A store keeps the highest token it was shown and refuses every lower one. This holds when a
//! process is paused between its own check and its write, which no lease can prevent.
//! A [`Fence`] is for what one leader guards, [`RangeFences`] for what partitions do.

mod range;
mod ranges;

use core::fmt;

use crate::id::FencingToken;

pub use range::{InvalidRange, KeyRange};
pub use ranges::RangeFences;

/// What a guard shows to a store: the hashes that it speaks for, and its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// All hashes for a leader, those of its partition for an owner.
    pub range: KeyRange,
    /// Under what it acts.
    pub token: FencingToken,
}

impl Claim {
    /// The claim of a token to a range.
    pub const fn new(range: KeyRange, token: FencingToken) -> Self {
        Self { range, token }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} for the hashes {}", self.token, self.range)
    }
}

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

/// A write was refused: its token was not shown before. An owner raises its fence before its first
/// read (H9); a store that took this write would not keep its predecessor out of what it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {shown} was not raised: the store has seen {}", seen(*raised))]
pub struct NotRaised {
    /// The token that came with the write.
    pub shown: FencingToken,
    /// The lowest token that some of its hashes were raised to; `None` if one was never raised.
    pub raised: Option<FencingToken>,
}

fn seen(raised: Option<FencingToken>) -> String {
    raised.map_or_else(|| "none".to_owned(), |token| token.to_string())
}

/// Why a store of many partitions takes no write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Somebody later has raised the fence.
    #[error(transparent)]
    Stale(#[from] Stale),
    /// Nobody has raised the fence so far.
    #[error(transparent)]
    NotRaised(#[from] NotRaised),
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
