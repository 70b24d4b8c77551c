//! How the keys of a cluster id are cut into partitions.

use core::fmt;

use crate::fence::KeyRange;

/// Most partitions of a layout; the table then still fits an annotation with room.
pub const PARTITIONS_MAX: u16 = 4096;

/// The number of a partition within its layout, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u16);

impl Partition {
    /// The partition with this number; whether a layout has it, [`Layout::contains`] says.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The number as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// How a key becomes a number of 64 bits. Part of the public format: it never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum HashId {
    /// `cs-hash/1`: fmix64 of the FNV-1a 64 of the UTF-8 bytes. For keys that people make.
    #[default]
    CsHash1,
    /// `k8s-range/1`: the FNV-1a 64 itself, as the API server's sharded watch uses it for UIDs.
    K8sRange1,
}

impl HashId {
    /// The name in settings and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CsHash1 => "cs-hash/1",
            Self::K8sRange1 => "k8s-range/1",
        }
    }

    /// The hash of that name; `None` if this version does not know it.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::CsHash1, Self::K8sRange1]
            .into_iter()
            .find(|hash| hash.as_str() == name)
    }
}

impl fmt::Display for HashId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One way to cut the keys: partition `i` of `count` has the hashes from ⌈i·2⁶⁴/count⌉ on.
///
/// A changed count is a new generation; numbers of partitions mean something only within theirs (H8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    generation: u32,
    hash: HashId,
    count: u16,
}

/// A layout that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("partitions: found {found}, allowed are 1 to {PARTITIONS_MAX}")]
pub struct InvalidLayout {
    /// What was given.
    pub found: i64,
}

impl Layout {
    /// A layout of 1 to [`PARTITIONS_MAX`] partitions.
    pub fn new(generation: u32, hash: HashId, count: u16) -> Result<Self, InvalidLayout> {
        if count == 0 || count > PARTITIONS_MAX {
            return Err(InvalidLayout {
                found: count.into(),
            });
        }
        Ok(Self {
            generation,
            hash,
            count,
        })
    }

    /// The next generation, with another count.
    pub fn resized(self, count: u16) -> Result<Self, InvalidLayout> {
        Self::new(self.generation.saturating_add(1), self.hash, count)
    }

    /// The generation: grows with every change of the count.
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// The hash.
    pub const fn hash(self) -> HashId {
        self.hash
    }

    /// How many partitions there are.
    pub const fn count(self) -> u16 {
        self.count
    }

    /// All partitions, in order.
    pub fn partitions(self) -> impl DoubleEndedIterator<Item = Partition> + Clone {
        (0..self.count).map(Partition)
    }

    /// Is it one of this layout?
    pub const fn contains(self, partition: Partition) -> bool {
        partition.0 < self.count
    }

    /// The partition of a hash: ⌊h · count / 2⁶⁴⌋.
    pub fn partition_of(self, hash: u64) -> Partition {
        let scaled = (u128::from(hash) * u128::from(self.count)) >> 64;
        // Below `count`, since h < 2⁶⁴.
        Partition(u16::try_from(scaled).unwrap_or(u16::MAX))
    }

    /// The hashes of a partition; of a number that the layout does not have, those up to the end
    /// (there is no such guard).
    pub fn range(self, partition: Partition) -> KeyRange {
        let count = u128::from(self.count);
        let edge = |number: u128| (number << 64).div_ceil(count);
        let number = u128::from(partition.0);
        let hash = |edge: u128| u64::try_from(edge).unwrap_or(u64::MAX);
        KeyRange::between(hash(edge(number)), hash(edge(number + 1) - 1))
    }

    /// The partitions of `other` that share a hash with `partition` of this layout (H8). They are
    /// neighbours: at most ⌈other.count / count⌉ + 1.
    pub fn overlapping(
        self,
        partition: Partition,
        other: Self,
    ) -> impl DoubleEndedIterator<Item = Partition> + Clone {
        let range = self.range(partition);
        let of = |hash| other.partition_of(hash).0;
        (of(range.first())..=of(range.last())).map(Partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(count: u16) -> Layout {
        Layout::new(1, HashId::CsHash1, count).unwrap()
    }

    #[test]
    fn a_layout_has_one_to_4096_partitions() {
        for bad in [0, 4097, u16::MAX] {
            let message = Layout::new(1, HashId::CsHash1, bad)
                .unwrap_err()
                .to_string();
            assert_eq!(
                message,
                format!("partitions: found {bad}, allowed are 1 to 4096")
            );
        }
        assert_eq!(layout(4096).partitions().count(), 4096);
    }

    #[test]
    fn ranges_are_adjacent_cover_everything_and_agree_with_the_partition_of_a_hash() {
        for count in [1, 2, 3, 7, 64, 96, 1000, 4095, 4096] {
            let layout = layout(count);
            let mut next = Some(0);
            for partition in layout.partitions() {
                let range = layout.range(partition);
                assert_eq!(Some(range.first()), next, "{count}");
                let ends = [range.first(), range.last()].map(|hash| layout.partition_of(hash));
                assert_eq!(ends, [partition, partition]);
                next = range.next();
            }
            assert_eq!(next, None, "{count}");
        }
    }

    #[test]
    fn a_doubled_count_splits_each_partition_in_two() {
        let (old, new) = (layout(64), layout(128));
        for child in new.partitions() {
            let parents: Vec<_> = new.overlapping(child, old).collect();
            assert_eq!(parents, [Partition::new(child.number() / 2)]);
        }
    }

    #[test]
    fn overlap_is_mutual_and_covers_every_parent() {
        let (old, new) = (layout(96), layout(48 + 7));
        for child in new.partitions() {
            for parent in new.overlapping(child, old) {
                assert!(old.overlapping(parent, new).any(|back| back == child));
            }
        }
        let mut parents: Vec<_> = new
            .partitions()
            .flat_map(|child| new.overlapping(child, old))
            .collect();
        parents.dedup();
        assert_eq!(parents.len(), 96);
    }

    #[test]
    fn hashes_are_known_by_their_names() {
        for hash in [HashId::CsHash1, HashId::K8sRange1] {
            assert_eq!(HashId::from_name(hash.as_str()), Some(hash));
        }
        assert_eq!(HashId::from_name("cs-hash/2"), None);
    }
}
