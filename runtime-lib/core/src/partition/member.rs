//! A member, and what its Lease says: which partitions run there, and what it has understood.

use core::fmt;
use std::sync::Arc;

use super::layout::{HashId, Layout, Partition};
use crate::id::{Revision, Term};
use crate::lease::{Contents, Versioned};

/// One life of one process in the table: a name (the pod's) and an incarnation.
///
/// The incarnation is the term of the member Lease `<cluster-id>.member.<name>` (H1), so that a
/// restarted pod is another member than the one before it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The pod's name, or the node id outside of pods.
    pub name: Arc<str>,
    /// Term of the member Lease.
    pub incarnation: Term,
}

impl Member {
    /// That life of the process of that name.
    pub fn new(name: impl Into<Arc<str>>, incarnation: Term) -> Self {
        Self {
            name: name.into(),
            incarnation,
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.incarnation)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a member says of itself, beside the record of its Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberRecord {
    /// The layout that `owned` and `acked` speak about; `None` before it has seen a table.
    pub layout: Option<Layout>,
    /// The newest publish that it has understood: everything taken from it by then drains or is
    /// released, and nothing will be started from an older table (H3).
    pub acked: Option<Revision>,
    /// What runs or drains here. After a change of the layout a bit stays set while anything that
    /// overlaps it still runs (H8).
    pub owned: Bitmap,
    /// It wants to leave: give its partitions to others.
    pub draining: bool,
    /// The hash its code is built for; members of different hashes do not mix.
    pub hash: HashId,
    /// Revision of the workload (the ReplicaSet's hash); members of one revision are alike.
    pub revision: Option<Arc<str>>,
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// Its share relative to others, at least 1.
    pub weight: u32,
}

impl Default for MemberRecord {
    fn default() -> Self {
        Self {
            layout: None,
            acked: None,
            owned: Bitmap::default(),
            draining: false,
            hash: HashId::default(),
            revision: None,
            zone: None,
            weight: 1,
        }
    }
}

/// The newest state of a member Lease, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberState {
    /// Its incarnation.
    pub incarnation: Term,
    /// Somebody holds it; an empty one has been released or fenced (H5).
    pub held: bool,
    /// What it says; `None` if that is missing or cannot be read.
    pub record: Option<Arc<MemberRecord>>,
}

impl MemberState {
    /// Reads the state out of a member Lease.
    pub fn of(lease: &Versioned) -> Self {
        Self {
            incarnation: lease.record.term,
            held: lease.record.holder.is_some(),
            record: match &lease.record.contents {
                Contents::Member(record) => Some(Arc::clone(record)),
                _ => None,
            },
        }
    }

    /// H3: does this Lease show that `incarnation` no longer runs `partition` of `layout`, and never
    /// will by a table up to `epoch`?
    ///
    /// A missing Lease shows nothing (H6), so this is asked of a Lease only.
    pub fn has_released(
        &self,
        incarnation: Term,
        layout: Layout,
        partition: Partition,
        epoch: Revision,
    ) -> bool {
        if self.incarnation != incarnation {
            return self.incarnation > incarnation;
        }
        if !self.held {
            return true;
        }
        self.record.as_ref().is_some_and(|record| {
            record.layout.is_some_and(|own| own == layout)
                && record.acked.is_some_and(|acked| acked >= epoch)
                && !record.owned.contains(partition)
        })
    }
}

/// A set of partitions.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The set from its bytes: bit `i` is bit `i % 8`, counted from the lowest, of byte `i / 8`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut words: Vec<u64> = bytes
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            })
            .collect();
        trim(&mut words);
        Self { words }
    }

    /// Its bytes, without zero bytes at the end.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes
    }

    /// Adds a partition.
    pub fn insert(&mut self, partition: Partition) {
        let (word, bit) = (partition.index() / 64, partition.index() % 64);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << bit;
    }

    /// Removes a partition.
    pub fn remove(&mut self, partition: Partition) {
        let (word, bit) = (partition.index() / 64, partition.index() % 64);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !(1 << bit);
        }
        trim(&mut self.words);
    }

    /// Is it in the set?
    pub fn contains(&self, partition: Partition) -> bool {
        let word = self.words.get(partition.index() / 64);
        word.is_some_and(|word| word >> (partition.index() % 64) & 1 == 1)
    }

    /// How many are in the set.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Is nothing in the set?
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The partitions, in order.
    pub fn iter(&self) -> impl Iterator<Item = Partition> + '_ {
        let numbers = 0..u16::try_from(self.words.len() * 64).unwrap_or(u16::MAX);
        numbers.map(Partition::new).filter(|p| self.contains(*p))
    }
}

/// Equal sets have equal words.
fn trim(words: &mut Vec<u64>) {
    while words.last() == Some(&0) {
        words.pop();
    }
}

impl FromIterator<Partition> for Bitmap {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> Self {
        let mut set = Self::new();
        for partition in partitions {
            set.insert(partition);
        }
        set
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(number: u16) -> Partition {
        Partition::new(number)
    }

    fn epoch(number: u64) -> Revision {
        Revision::new(number).unwrap()
    }

    #[test]
    fn a_bitmap_reads_back_its_bytes() {
        let set: Bitmap = [0, 7, 8, 63, 64, 4095].into_iter().map(p).collect();
        assert_eq!(set.len(), 6);
        assert_eq!(set.to_bytes().len(), 512);
        assert_eq!(Bitmap::from_bytes(&set.to_bytes()), set);
        assert_eq!(set.to_bytes()[..2], [0b1000_0001, 1]);
        assert_eq!(
            set.iter().map(Partition::number).collect::<Vec<_>>(),
            [0, 7, 8, 63, 64, 4095]
        );
    }

    #[test]
    fn an_emptied_bitmap_equals_one_that_was_never_filled() {
        let mut set: Bitmap = [p(200)].into_iter().collect();
        set.remove(p(200));
        set.remove(p(4000));
        assert_eq!(set, Bitmap::new());
        assert!(set.is_empty() && set.to_bytes().is_empty());
        assert_eq!(Bitmap::from_bytes(&[0, 0, 0]), Bitmap::new());
    }

    fn shown(incarnation: u32, held: bool, acked: Option<u64>, owned: &[u16]) -> MemberState {
        let record = MemberRecord {
            layout: Some(layout()),
            acked: acked.map(epoch),
            owned: owned.iter().copied().map(p).collect(),
            ..MemberRecord::default()
        };
        MemberState {
            incarnation: Term::new(incarnation),
            held,
            record: Some(Arc::new(record)),
        }
    }

    fn layout() -> Layout {
        Layout::new(3, HashId::CsHash1, 8).unwrap()
    }

    fn released(state: &MemberState) -> bool {
        state.has_released(Term::new(2), layout(), p(5), epoch(40))
    }

    #[test]
    fn a_clear_bit_alone_is_no_release() {
        assert!(!released(&shown(2, true, None, &[])));
        assert!(
            !released(&shown(2, true, Some(39), &[])),
            "it may start p5 by an older table"
        );
        assert!(released(&shown(2, true, Some(40), &[])));
        assert!(
            !released(&shown(2, true, Some(41), &[5])),
            "it still drains"
        );
    }

    #[test]
    fn a_later_incarnation_and_an_empty_lease_are_releases() {
        assert!(released(&shown(3, true, None, &[5])));
        assert!(released(&shown(2, false, None, &[5])));
        assert!(
            !released(&shown(1, false, Some(99), &[])),
            "an earlier life says nothing"
        );
    }

    #[test]
    fn an_acknowledgement_counts_in_its_own_layout_only() {
        let mut state = shown(2, true, Some(40), &[]);
        let older = Layout::new(2, HashId::CsHash1, 8).unwrap();
        state.record = state.record.map(|record| {
            Arc::new(MemberRecord {
                layout: Some(older),
                ..(*record).clone()
            })
        });
        assert!(!released(&state));
        state.record = None;
        assert!(!released(&state), "an unreadable record shows nothing");
    }
}
