//! A range of hashes: what a fence guards, whatever the layout that cut it.

use core::fmt;

/// The hashes from one up to another, at least one of them.
///
/// Ranges of different layouts can be compared, which their partitions' numbers cannot; so fences
/// belong to ranges (H9). All ranges in one store are of one hash ([`HashId`]).
///
/// [`HashId`]: crate::partition::HashId
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    first: u64,
    last: u64,
}

/// A range that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "range of hashes: found {from:016x}..{until:016x}, allowed is from below until, up to 10000000000000000"
)]
pub struct InvalidRange {
    /// The first hash that was given.
    pub from: u64,
    /// The given one past the last.
    pub until: u128,
}

impl KeyRange {
    /// All hashes: what a leader guards.
    pub const ALL: Self = Self {
        first: 0,
        last: u64::MAX,
    };

    /// The hashes from `from` up to and without `until`, which is 2⁶⁴ for a range to the end.
    pub fn new(from: u64, until: u128) -> Result<Self, InvalidRange> {
        let invalid = InvalidRange { from, until };
        if until <= u128::from(from) {
            return Err(invalid);
        }
        let last = u64::try_from(until - 1).map_err(|_| invalid)?;
        Ok(Self { first: from, last })
    }

    /// The range between two hashes, both of them in it. Their order does not matter.
    pub fn between(one: u64, other: u64) -> Self {
        Self {
            first: one.min(other),
            last: one.max(other),
        }
    }

    /// The first hash.
    pub const fn first(self) -> u64 {
        self.first
    }

    /// The last hash.
    pub const fn last(self) -> u64 {
        self.last
    }

    /// One past the last hash, up to 2⁶⁴.
    pub const fn until(self) -> u128 {
        self.last as u128 + 1
    }

    /// The hash behind the last one; `None` for a range to the end.
    pub const fn next(self) -> Option<u64> {
        self.last.checked_add(1)
    }

    /// Is this hash in it?
    pub const fn contains(self, hash: u64) -> bool {
        self.first <= hash && hash <= self.last
    }

    /// Is every hash of `other` in it?
    pub const fn covers(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// Do they share a hash?
    pub const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// As Rust writes ranges, in hexadecimal: `4000000000000000..8000000000000000`.
impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}..{:016x}", self.first, self.until())
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One past the largest hash.
    const END: u128 = 1 << 64;

    fn range(from: u64, until: u128) -> KeyRange {
        KeyRange::new(from, until).unwrap()
    }

    #[test]
    fn ranges_overlap_if_they_share_a_hash() {
        let (low, middle, high) = (range(0, 10), range(5, 15), range(10, 20));
        assert!(low.overlaps(middle) && middle.overlaps(low) && middle.overlaps(high));
        assert!(!low.overlaps(high) && !high.overlaps(low));
        assert!(low.contains(9) && !low.contains(10) && high.contains(10));
        assert!(KeyRange::ALL.covers(middle) && !low.covers(middle) && low.covers(low));
    }

    #[test]
    fn a_range_has_a_hash_and_ends_with_the_last_one() {
        assert_eq!(range(0, END), KeyRange::ALL);
        assert_eq!(KeyRange::between(20, 3), range(3, 21));
        assert_eq!((KeyRange::ALL.until(), KeyRange::ALL.next()), (END, None));
        assert_eq!((range(3, 7).until(), range(3, 7).next()), (7, Some(7)));
        let refused = KeyRange::new(7, 7).unwrap_err().to_string();
        let found = "found 0000000000000007..0000000000000007, allowed is from below until";
        assert!(refused.contains(found), "{refused}");
        assert!(KeyRange::new(7, 6).is_err() && KeyRange::new(0, END + 1).is_err());
    }

    #[test]
    fn a_range_is_written_in_hexadecimal() {
        let quarter = range(1 << 62, 1 << 63);
        assert_eq!(quarter.to_string(), "4000000000000000..8000000000000000");
        let all = "0000000000000000..10000000000000000";
        assert_eq!(KeyRange::ALL.to_string(), all);
    }
}
