//! A store whose rows are read, changed and written back by the works, guarded by their tokens (H9).

use std::collections::BTreeMap;

use leasehold_core::fence::{Claim, Fence, RangeFences};
use leasehold_core::id::FencingToken;
use leasehold_core::partition::{Partition, Slot};

use crate::clock::{MS, Nanos, SEC};
use crate::judge::Check;
use crate::pod::{Delivery, Phase, Turn};
use crate::prng::Prng;
use crate::world::{Event, World};

/// The rows: a value for each of a few keys, and the fences of their hashes.
pub struct Rows {
    values: Vec<(u64, u64)>,
    fences: RangeFences,
    /// What a store without ranges keeps, by the count of the layout and the number of the partition.
    of_numbers: BTreeMap<(u16, Partition), Fence>,
}

/// A request to the store. It comes from a work whose guard was valid when it was sent.
#[derive(Clone, Copy, Debug)]
pub struct GuardedCall {
    pod: usize,
    slot: Slot,
    work: u64,
    token: FencingToken,
    /// Index of the row.
    row: usize,
    turn: Turn,
}

impl Rows {
    pub fn new(random: &mut Prng) -> Self {
        Self {
            values: (0..6).map(|_| (random.next(), 0)).collect(),
            fences: RangeFences::default(),
            of_numbers: BTreeMap::new(),
        }
    }
}

impl World {
    /// The first turn of a work; one without a row does nothing here.
    pub fn first_turn(&mut self, p: usize, slot: Slot, work: u64) {
        let rows = self.rows.values.iter();
        let mut rows = rows.map(|(hash, _)| slot.layout.partition_of(*hash));
        if rows.any(|partition| partition == slot.partition) {
            let turn = if self.knobs.raises {
                Turn::Raise
            } else {
                Turn::Read
            };
            let at = self.now + self.random.below(20 * MS);
            self.send(at, p, Delivery::Turn { slot, work, turn });
        }
    }

    /// The work's turn: it compares its guard with the clock, then sends its request.
    pub fn take_turn(&mut self, p: usize, slot: Slot, number: u64, turn: Turn) {
        let guarded = self.pods[p].guarded(self.now);
        let work = self.pods[p].works.get(&slot);
        let Some(work) = work.filter(|work| work.number == number && work.phase != Phase::Lost)
        else {
            return;
        };
        if !guarded {
            return;
        }
        let token = FencingToken::new(0, work.epoch);
        let next = match turn {
            Turn::Raised(true) => Turn::Read,
            Turn::Raised(false) => {
                self.stats.count("raise refused");
                return;
            }
            other => other,
        };
        let rows = self.rows.values.iter().enumerate();
        let mine = rows.filter(|(_, (hash, _))| slot.layout.partition_of(*hash) == slot.partition);
        let mine: Vec<usize> = mine.map(|(row, _)| row).collect();
        let row = match next {
            Turn::Write { row, .. } => row,
            _ => self.random.pick(&mine),
        };
        let at = self.now + self.way();
        self.schedule(
            at,
            Event::Guarded(GuardedCall {
                pod: p,
                slot,
                work: number,
                token,
                row,
                turn: next,
            }),
        );
    }

    /// The way to the store: what is past its check may take long.
    fn way(&mut self) -> Nanos {
        match self.random.below(20) {
            0 if self.faults_on => self.random.between(SEC, 30 * SEC),
            1 => self.random.below(SEC),
            _ => self.random.below(20 * MS),
        }
    }

    pub fn guarded_call(&mut self, call: GuardedCall) {
        let GuardedCall {
            pod,
            slot,
            work,
            token,
            row,
            turn,
        } = call;
        self.say(15, row as u64, || {
            format!("guarded store: {turn:?} of row {row} by p{pod} in {slot:?} under {token}")
        });
        let (takes, next) = match turn {
            Turn::Raise | Turn::Raised(_) => (MS, Turn::Raised(self.raise(slot, token))),
            Turn::Read => {
                let thinks = self.random.between(10 * MS, 3 * SEC);
                let seen = self.rows.values[row].1;
                (thinks, Turn::Write { row, seen })
            }
            Turn::Write { seen, .. } => {
                if !self.admits_write(slot, token) {
                    self.stats.count("stale write refused");
                    return;
                }
                self.stats.count("guarded write");
                let stored = self.rows.values[row].1;
                if stored != seen {
                    let detail =
                        format!("p{pod} of {slot:?} under {token}: read {seen}, found {stored}");
                    self.found(Check::StaleWrite, detail);
                }
                self.rows.values[row].1 = self.number();
                (self.random.between(2 * SEC, 10 * SEC), Turn::Read)
            }
        };
        let turn = next;
        self.send(self.now + takes, pod, Delivery::Turn { slot, work, turn });
    }

    /// Shows the token for all hashes of the slot: a last write from any former layout may still be
    /// on its way, also when nothing has run in the layouts since.
    fn raise(&mut self, slot: Slot, token: FencingToken) -> bool {
        if self.knobs.fences_ranges {
            self.rows.fences.raise(claim(slot, token)).is_ok()
        } else {
            self.raise_number(slot, token)
        }
    }

    fn admits_write(&mut self, slot: Slot, token: FencingToken) -> bool {
        match (self.knobs.fences_ranges, self.knobs.raises) {
            (true, true) => self.rows.fences.check(claim(slot, token)).is_ok(),
            // Whoever does not raise shows its token with its first write.
            (true, false) => self.raise(slot, token),
            (false, _) => self.raise_number(slot, token),
        }
    }

    fn raise_number(&mut self, slot: Slot, token: FencingToken) -> bool {
        let number = (slot.layout.count(), slot.partition);
        let fence = self.rows.of_numbers.entry(number).or_default();
        fence.admit(token).is_ok()
    }
}

fn claim(slot: Slot, token: FencingToken) -> Claim {
    Claim::new(slot.layout.range(slot.partition), token)
}
