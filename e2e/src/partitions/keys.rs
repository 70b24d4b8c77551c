//! Keys and the hashes of a partition, as `docs/wire-format.md` defines them.
//! Written apart from the library, so that the checker does not believe what it
//! judges.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A partition of one layout.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Slot {
    /// The generation of the layout.
    pub generation: u32,
    /// How many partitions it has.
    pub count: u16,
    /// The number of this one.
    pub partition: u16,
}

impl Slot {
    /// Its hashes: the first one, and the one past the last (up to 2⁶⁴).
    pub fn range(self) -> (u128, u128) {
        let count = u128::from(self.count.max(1));
        let edge = |number: u128| (number << 64).div_ceil(count);
        let number = u128::from(self.partition);
        (edge(number), edge(number + 1))
    }

    /// Whether a hash is one of them.
    pub fn holds(self, hash: u64) -> bool {
        let (from, until) = self.range();
        (from..until).contains(&u128::from(hash))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            generation,
            count,
            partition,
        } = self;
        write!(f, "partition {partition} of {count} (layout {generation})")
    }
}

/// `cs-hash/1`.
pub fn hash(key: &str) -> u64 {
    let fnv = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

/// The keys of a run: always the same, whatever the layout.
pub fn all(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("order-{number}"))
}

/// Those of them that belong to a slot.
pub fn of(slot: Slot, count: usize) -> Vec<String> {
    all(count).filter(|key| slot.holds(hash(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Slot, hash, of};

    #[test]
    fn keys_hash_as_the_published_vectors_say() {
        let vectors = [
            ("", 0xefd0_1f60_ba99_2926_u64),
            ("a", 0x82a2_a958_a9be_ce5b),
            ("order-1", 0x491b_422e_3af0_d9a5),
            ("default/web-0", 0xd03b_50f9_4f5d_0a7e),
            ("日本", 0x1230_c550_89fe_4e43),
        ];
        for (key, hashed) in vectors {
            assert_eq!(hash(key), hashed, "{key}");
        }
    }

    #[test]
    fn every_key_belongs_to_exactly_one_slot_of_a_layout() {
        let slots = (0..48).map(|partition| Slot {
            generation: 1,
            count: 48,
            partition,
        });
        let found: usize = slots.map(|slot| of(slot, 500).len()).sum();
        assert_eq!(found, 500);
    }
}
