//! From keys to partitions, and from partitions to ranges of hashes.
//!
//! Both hashes are part of the public format: ten lines in any language, and the vectors in the
//! tests below are what another implementation is held to.

use super::layout::{HashId, Layout, Partition};

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a with 64 bits.
pub(super) fn fnv1a(key: &[u8]) -> u64 {
    let mut hash = FNV_OFFSET;
    for byte in key {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    }
    hash
}

/// How many keys are hashed in step. Each byte of a key waits for the one before it, for about four
/// cycles; four keys together keep the multiplier busy.
const LANES: usize = 4;

/// FNV-1a of several keys at once.
fn fnv1a_each(keys: [&[u8]; LANES]) -> [u64; LANES] {
    let shared = keys.iter().map(|key| key.len()).min().unwrap_or(0);
    let heads = keys.map(|key| &key[..shared]);
    let mut hashes = [FNV_OFFSET; LANES];
    for at in 0..shared {
        for (hash, key) in hashes.iter_mut().zip(heads) {
            *hash = (*hash ^ u64::from(key[at])).wrapping_mul(FNV_PRIME);
        }
    }
    for (hash, key) in hashes.iter_mut().zip(keys) {
        for byte in &key[shared..] {
            *hash = (*hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }
    hashes
}

/// The finalizer of MurmurHash3: every bit of the input reaches every bit of the result. Without it
/// keys that differ in their last letters only fall into few ranges.
pub(super) const fn fmix64(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

impl HashId {
    /// The hash of a key: of its bytes as they are, of any length, empty too.
    pub fn of(self, key: &[u8]) -> u64 {
        self.finish(fnv1a(key))
    }

    const fn finish(self, hash: u64) -> u64 {
        match self {
            Self::CsHash1 => fmix64(hash),
            Self::K8sRange1 => hash,
        }
    }
}

impl Layout {
    /// The partition of a key.
    pub fn partition_for_key(self, key: &[u8]) -> Partition {
        self.partition_of(self.hash().of(key))
    }

    /// The partitions of many keys, in their order: faster than one after the other.
    pub fn partitions_for_keys<K: AsRef<[u8]>>(self, keys: &[K]) -> Vec<Partition> {
        let (groups, rest) = keys.as_chunks::<LANES>();
        let mut partitions = Vec::with_capacity(keys.len());
        for [a, b, c, d] in groups {
            let hashes = fnv1a_each([a.as_ref(), b.as_ref(), c.as_ref(), d.as_ref()]);
            let of = |hash| self.partition_of(self.hash().finish(hash));
            partitions.extend(hashes.map(of));
        }
        partitions.extend(rest.iter().map(|key| self.partition_for_key(key.as_ref())));
        partitions
    }
}

/// The hashes of these partitions as few ranges in order: the first hash of each, and the one past
/// its last (up to 2⁶⁴). Partitions that `layout` does not have are passed over.
pub fn shard_ranges(
    layout: Layout,
    partitions: impl IntoIterator<Item = Partition>,
) -> Vec<(u128, u128)> {
    let mut partitions: Vec<_> = partitions
        .into_iter()
        .filter(|partition| layout.contains(*partition))
        .collect();
    partitions.sort_unstable();
    let mut ranges: Vec<(u128, u128)> = Vec::new();
    for range in partitions.into_iter().map(|p| layout.range(p)) {
        let (first, end) = (range.first().into(), range.until());
        match ranges.last_mut() {
            // The same partition again, or the next one.
            Some(last) if first <= last.1 => last.1 = last.1.max(end),
            _ => ranges.push((first, end)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(hash: HashId, count: u16) -> Layout {
        Layout::new(1, hash, count).unwrap()
    }

    fn numbers(numbers: impl IntoIterator<Item = u16>) -> impl Iterator<Item = Partition> {
        numbers.into_iter().map(Partition::new)
    }

    /// Key, `k8s-range/1`, `cs-hash/1`, and the partitions of the latter for 10, 16, 100 and 1000.
    const VECTORS: [(&str, u64, u64, [u16; 4]); 6] = [
        (
            "",
            0xcbf2_9ce4_8422_2325,
            0xefd0_1f60_ba99_2926,
            [9, 14, 93, 936],
        ),
        (
            "a",
            0xaf63_dc4c_8601_ec8c,
            0x82a2_a958_a9be_ce5b,
            [5, 8, 51, 510],
        ),
        (
            "order-1",
            0xdee4_809f_34be_e86d,
            0x491b_422e_3af0_d9a5,
            [2, 4, 28, 285],
        ),
        (
            "default/web-0",
            0x2019_a4a4_401b_52d6,
            0xd03b_50f9_4f5d_0a7e,
            [8, 13, 81, 813],
        ),
        (
            "日本",
            0x121d_7e35_a6d3_ce91,
            0x1230_c550_89fe_4e43,
            [0, 1, 7, 71],
        ),
        (
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            0x70ed_2686_c31e_ff00,
            0x26b4_4eab_69a9_073d,
            [1, 2, 15, 151],
        ),
    ];

    #[test]
    fn keys_have_the_published_hashes_and_partitions() {
        for (key, fnv, mixed, partitions) in VECTORS {
            let key = key.as_bytes();
            assert_eq!(HashId::K8sRange1.of(key), fnv, "{key:?}");
            assert_eq!(HashId::CsHash1.of(key), mixed, "{key:?}");
            let found = [10, 16, 100, 1000].map(|count| {
                layout(HashId::CsHash1, count)
                    .partition_for_key(key)
                    .number()
            });
            assert_eq!(found, partitions, "{key:?}");
        }
    }

    #[test]
    fn a_key_of_bytes_that_are_no_text_and_one_of_a_megabyte_have_a_partition() {
        assert_eq!(
            HashId::K8sRange1.of(&[0xff, 0x00, 0x80]),
            0xf920_891b_e415_651e
        );
        let long = vec![b'x'; 1 << 20];
        assert_eq!(HashId::K8sRange1.of(&long), 0x7f69_900c_c962_2325);
        assert_eq!(HashId::CsHash1.of(&long), 0x617d_03bf_922e_fe7f);
        let partition = layout(HashId::CsHash1, 1000).partition_for_key(&long);
        assert_eq!(partition.number(), 380);
    }

    #[test]
    fn many_keys_have_the_same_partitions_as_one_after_the_other() {
        let keys: Vec<String> = (0..103_usize).map(|n| "äb-7".repeat(n * 7 % 11)).collect();
        for hash in [HashId::CsHash1, HashId::K8sRange1] {
            let layout = layout(hash, 4096);
            let single: Vec<_> = keys
                .iter()
                .map(|key| layout.partition_for_key(key.as_bytes()))
                .collect();
            assert_eq!(layout.partitions_for_keys(&keys), single);
        }
    }

    #[test]
    fn keys_that_people_make_are_spread_and_without_the_finalizer_they_are_not() {
        let empty = |hash| {
            let layout = layout(hash, 16);
            let mut found = [false; 16];
            for team in 1..=200 {
                let key = format!("team-{team}");
                found[layout.partition_for_key(key.as_bytes()).index()] = true;
            }
            found.iter().filter(|used| !**used).count()
        };
        assert_eq!(empty(HashId::CsHash1), 0);
        assert_eq!(empty(HashId::K8sRange1), 13, "the positive control");
    }

    #[test]
    fn neighbours_are_joined_whatever_their_order() {
        let layout = layout(HashId::K8sRange1, 4);
        let quarter = 1_u128 << 62;
        assert_eq!(
            shard_ranges(layout, numbers([3, 0, 1, 1, 9])),
            [(0, 2 * quarter), (3 * quarter, 4 * quarter)]
        );
        assert_eq!(shard_ranges(layout, []), []);
    }

    #[test]
    fn joined_ranges_have_exactly_the_hashes_of_their_partitions() {
        let layout = layout(HashId::K8sRange1, 96);
        let mine = |partition: Partition| partition.number() % 5 < 2;
        let ranges = shard_ranges(layout, layout.partitions().filter(|p| mine(*p)));
        assert_eq!(ranges.len(), 20);
        for number in 0..10_000_u32 {
            let hash = HashId::CsHash1.of(&number.to_le_bytes());
            let inside = ranges
                .iter()
                .any(|(first, end)| (*first..*end).contains(&u128::from(hash)));
            assert_eq!(inside, mine(layout.partition_of(hash)), "{hash:x}");
        }
    }
}
