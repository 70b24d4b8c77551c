//! The slice of all keys that belongs to some partitions, and the text by which the API server cuts it.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::handoff::Slot;
use super::hash::shard_ranges;
use super::layout::{HashId, Layout, Partition};

/// A selector has at most so many ranges: it travels in the request line, where some proxies take
/// no more than 8 KiB.
const RANGES_MAX: usize = 64;

/// The first hash, and the one past the last (up to 2⁶⁴).
type Range = (u128, u128);

/// The keys of some partitions, as ranges of their hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shard {
    /// In order and apart. All hashes of one cluster id are of one kind, but for the moment in which
    /// a table is replaced by one of somebody else's.
    ranges: BTreeMap<HashId, Vec<Range>>,
}

/// The layout's hash is none that the API server computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "hash of a shard selector: found {found}, allowed is {}",
    HashId::K8sRange1
)]
pub struct NoSelector {
    /// The layout's hash.
    pub found: HashId,
}

impl Shard {
    /// The keys of these partitions, each in its own layout: while the number of partitions changes
    /// a process may run some of both (H8).
    pub fn of(slots: impl IntoIterator<Item = Slot>) -> Self {
        let mut layouts: BTreeMap<Layout, Vec<Partition>> = BTreeMap::new();
        for slot in slots {
            layouts.entry(slot.layout).or_default().push(slot.partition);
        }
        let mut ranges: BTreeMap<HashId, Vec<Range>> = BTreeMap::new();
        for (layout, partitions) in layouts {
            let of_hash = ranges.entry(layout.hash()).or_default();
            of_hash.extend(shard_ranges(layout, partitions));
        }
        for of_hash in ranges.values_mut() {
            of_hash.sort_unstable();
            *of_hash = joined(of_hash, |_, _| false);
        }
        Self { ranges }
    }

    /// No key belongs to it.
    pub fn is_empty(&self) -> bool {
        self.ranges.values().all(Vec::is_empty)
    }

    /// Whether this key belongs to it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.ranges.iter().any(|(hash, ranges)| {
            let hash = u128::from(hash.of(key));
            let after = ranges.partition_point(|(first, _)| *first <= hash);
            let range = after.checked_sub(1).and_then(|at| ranges.get(at));
            range.is_some_and(|(_, end)| hash < *end)
        })
    }

    /// The `shardSelector` of a sharded list or watch, by the UIDs of objects. `None` if nothing
    /// belongs to it: no selector selects nothing, and without one everything comes.
    ///
    /// It has at most 64 ranges: a shard in more pieces is selected with the smallest gaps between
    /// them filled, so that a little more comes. What comes is filtered by [`Shard::contains`].
    pub fn selector(&self) -> Result<Option<String>, NoSelector> {
        let mut foreign = self.ranges.keys().filter(|it| **it != HashId::K8sRange1);
        if let Some(found) = foreign.next() {
            return Err(NoSelector { found: *found });
        }
        let ranges = self.ranges.get(&HashId::K8sRange1);
        let ranges = ranges.filter(|ranges| !ranges.is_empty());
        Ok(ranges.map(|ranges| Selector(&few(ranges, RANGES_MAX)).to_string()))
    }

    /// Whether a list whose `metadata.shardInfo.selector` is `echo` has this shard alone in it. A
    /// server that does not know the parameter echoes nothing and sends everything.
    pub fn is_echoed_by(&self, echo: Option<&str>) -> bool {
        // The server writes the selector anew, with spaces of its own.
        let pressed = |text: &str| text.split_whitespace().collect::<String>();
        match (self.selector(), echo) {
            (Ok(Some(own)), Some(echo)) => pressed(&own) == pressed(echo),
            _ => false,
        }
    }
}

/// Ranges in order, each joined with the one before it if they touch, or if `fills` the gap.
fn joined(ranges: &[Range], mut fills: impl FnMut(u128, u128) -> bool) -> Vec<Range> {
    let mut joined: Vec<Range> = Vec::new();
    for (first, end) in ranges {
        match joined.last_mut() {
            Some(last) if *first <= last.1 || fills(last.1, *first) => last.1 = last.1.max(*end),
            _ => joined.push((*first, *end)),
        }
    }
    joined
}

/// At most `max` ranges with everything of `ranges` in them: the smallest gaps are filled.
fn few(ranges: &[Range], max: usize) -> Vec<Range> {
    let Some(surplus) = ranges.len().checked_sub(max).filter(|it| *it > 0) else {
        return ranges.to_vec();
    };
    let pairs = ranges.iter().zip(ranges.iter().skip(1));
    let mut gaps: Vec<Range> = pairs
        .map(|((_, end), (next, _))| (next.saturating_sub(*end), *next))
        .collect();
    gaps.sort_unstable();
    gaps.truncate(surplus);
    joined(ranges, |end, next| {
        gaps.contains(&(next.saturating_sub(end), next))
    })
}

struct Selector<'a>(&'a [Range]);

impl fmt::Display for Selector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, end)) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(" || ")?;
            }
            // 18 characters with `0x`; 2⁶⁴ has one digit more.
            f.write_str("shardRange(object.metadata.uid,")?;
            write!(f, "'{first:#018x}','{end:#018x}'")?;
            f.write_char(')')?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(hash: HashId, count: u16) -> Layout {
        Layout::new(1, hash, count).unwrap()
    }

    fn shard(layout: Layout, numbers: impl IntoIterator<Item = u16>) -> Shard {
        Shard::of(numbers.into_iter().map(|number| Slot {
            layout,
            partition: Partition::new(number),
        }))
    }

    #[test]
    fn a_selector_names_the_ranges_as_the_api_server_reads_them() {
        let layout = layout(HashId::K8sRange1, 4);
        let two = shard(layout, [0, 3]);
        assert_eq!(
            two.selector().unwrap().unwrap(),
            "shardRange(object.metadata.uid,'0x0000000000000000','0x4000000000000000') || \
             shardRange(object.metadata.uid,'0xc000000000000000','0x10000000000000000')"
        );
        assert_eq!(
            shard(layout, 0..4).selector().unwrap().unwrap(),
            "shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')"
        );
        let none = shard(layout, []);
        assert!(none.is_empty() && !two.is_empty());
        assert_eq!(none.selector(), Ok(None));
        assert!(!none.contains(b"x"));
    }

    #[test]
    fn a_hash_that_the_api_server_does_not_know_has_no_selector_but_cuts_all_the_same() {
        let shard = shard(layout(HashId::CsHash1, 4), [0]);
        let error = shard.selector().unwrap_err();
        assert_eq!(
            error.to_string(),
            "hash of a shard selector: found cs-hash/1, allowed is k8s-range/1"
        );
        assert!(!shard.is_echoed_by(None));
        let mine = (0..400_u32).filter(|key| shard.contains(&key.to_le_bytes()));
        assert!((50..150).contains(&mine.count()));
    }

    #[test]
    fn the_echo_is_known_again_however_the_server_spaces_it() {
        let shard = shard(layout(HashId::K8sRange1, 4), [0, 2]);
        let own = shard.selector().unwrap().unwrap();
        assert!(shard.is_echoed_by(Some(&own)));
        assert!(shard.is_echoed_by(Some(&own.replace(',', ", "))));
        let half = own.split(" || ").next();
        assert!(!shard.is_echoed_by(half));
        assert!(!shard.is_echoed_by(Some("")));
        assert!(!shard.is_echoed_by(None), "it knows no sharding");
    }

    #[test]
    fn a_shard_has_exactly_the_keys_of_its_partitions() {
        for hash in [HashId::CsHash1, HashId::K8sRange1] {
            let layout = layout(hash, 96);
            let mine = |number: u16| number % 5 < 2;
            let shard = shard(layout, (0..96).filter(|number| mine(*number)));
            for number in 0..10_000_u32 {
                let key = number.to_le_bytes();
                let owned = mine(layout.partition_for_key(&key).number());
                assert_eq!(shard.contains(&key), owned, "{number}");
            }
        }
    }

    #[test]
    fn parents_that_still_run_belong_to_it_beside_the_children() {
        let slot = |generation, count, number| Slot {
            layout: Layout::new(generation, HashId::K8sRange1, count).unwrap(),
            partition: Partition::new(number),
        };
        // The first quarter, the sixth that begins within it, and the last sixth.
        let shard = Shard::of([slot(1, 4, 0), slot(2, 6, 1), slot(2, 6, 5)]);
        assert_eq!(
            shard.selector().unwrap().unwrap(),
            "shardRange(object.metadata.uid,'0x0000000000000000','0x5555555555555556') || \
             shardRange(object.metadata.uid,'0xd555555555555556','0x10000000000000000')"
        );
    }

    #[test]
    fn a_shard_in_many_pieces_is_selected_whole_with_few_ranges() {
        let layout = layout(HashId::K8sRange1, 4096);
        // Gaps of one partition and of seven: the former are filled first.
        let mine = |number: u16| matches!(number % 40, 0 | 2 | 4 | 12 | 20 | 28);
        let shard = shard(layout, (0..4096).filter(|number| mine(*number)));
        let text = shard.selector().unwrap().unwrap();
        assert_eq!(text.split(" || ").count(), RANGES_MAX);
        assert!(text.len() < 6 * 1024, "{}", text.len());
        let ranges = &shard.ranges[&HashId::K8sRange1];
        let few = few(ranges, RANGES_MAX);
        for (first, end) in ranges {
            let within = |(from, until): &Range| from <= first && end <= until;
            assert!(few.iter().any(within), "{first:x} is not selected");
        }
        let wide = super::few(ranges, 410);
        let filled = |range: &Range| (range.1 - range.0) >> 52;
        assert!(
            wide.iter().all(|range| matches!(filled(range), 1 | 5)),
            "{wide:?}"
        );
    }
}
