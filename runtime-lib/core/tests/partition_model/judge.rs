//! What must never be, and what has been. It looks at halves of the keys, since a layout has one
//! partition or two.

use leasehold_core::id::Revision;
use leasehold_core::partition::Slot;

const HALVES: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Judge {
    pub(crate) broken: Option<&'static str>,
    /// The highest token under which anything ran, and who ran it.
    last: [Option<(Revision, usize)>; HALVES],
    /// Which lives of which members owned something.
    owned: Vec<(usize, u32)>,
    pub(crate) handed_over: bool,
    pub(crate) cut_anew: bool,
    newest_table: Option<Revision>,
    pub(crate) late_table: bool,
}

impl Judge {
    /// A work starts.
    pub(crate) fn started(&mut self, (pod, life): (usize, u32), slot: Slot, epoch: Revision) {
        for half in halves(slot) {
            if let Some((highest, owner)) = self.last[half] {
                if epoch <= highest {
                    self.broken = Some("a token did not grow");
                }
                self.handed_over |= owner != pod;
            }
            self.last[half] = Some((epoch, pod));
        }
        if !self.owned.contains(&(pod, life)) {
            self.owned.push((pod, life));
            self.owned.sort_unstable();
        }
        self.cut_anew |= slot.layout.generation() > 1;
    }

    /// A table was stored.
    pub(crate) fn published(&mut self, epoch: Revision) {
        self.late_table |= Some(epoch) < self.newest_table;
        self.newest_table = self.newest_table.max(Some(epoch));
    }

    /// Everything that may act at this moment.
    pub(crate) fn look(&mut self, acting: impl Iterator<Item = Slot>) {
        let mut owners = [0; HALVES];
        for half in acting.flat_map(halves) {
            owners[half] += 1;
        }
        if owners.iter().any(|owners| *owners > 1) {
            self.broken = Some("a key has two owners");
        }
    }

    pub(crate) fn owned_in_two_lives(&self) -> bool {
        let mut pairs = self.owned.windows(2);
        pairs.any(|pair| pair[0].0 == pair[1].0)
    }
}

fn halves(slot: Slot) -> impl Iterator<Item = usize> {
    (0..HALVES).filter(move |half| {
        let first = (*half as u64) << 63;
        slot.layout.partition_of(first) == slot.partition
            || slot.layout.partition_of(first | u64::MAX >> 1) == slot.partition
    })
}

#[test]
fn a_whole_covers_both_halves_and_a_half_one() {
    use leasehold_core::partition::{HashId, Layout, Partition};
    let slot = |count, number| Slot {
        layout: Layout::new(1, HashId::CsHash1, count).expect("a layout"),
        partition: Partition::new(number),
    };
    assert!(halves(slot(1, 0)).eq(0..2));
    assert!(halves(slot(2, 0)).eq(0..1) && halves(slot(2, 1)).eq(1..2));
}
