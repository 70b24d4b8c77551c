//! The table, kept lean: two bytes a partition and what its handoffs wait for. A table of 4096
//! partitions would else cost a hundred times that, for every service and on every replica.

use std::collections::BTreeMap;

use leasehold_core::{
    id::Revision,
    partition::{Bitmap, Layout, Member, MemberState, Partition, Rebalance, Table},
};

/// In [`Summary::owners`]: nobody.
const NOBODY: u16 = u16::MAX;

/// What of a table status needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How the keys are cut.
    pub layout: Layout,
    /// Epoch of the newest publish.
    pub epoch: Revision,
    /// Everyone that the table names.
    pub members: Vec<Member>,
    /// What the newest publish did.
    pub rebalance: Rebalance,
    /// A count that waits for the end of this change.
    pub queued: Option<u16>,
    owners: Box<[u16]>,
    handoffs: Vec<Handoff>,
}

/// Partitions that got their owners together and wait for the same members.
#[derive(Clone, Debug, PartialEq)]
struct Handoff {
    epoch: Revision,
    waits: Vec<u16>,
    partitions: Vec<u16>,
}

/// How the partitions of a table fare, given the member Leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Their owner lives, and nobody keeps it from running them.
    pub owned: usize,
    /// Their owner lives and waits.
    pub moving: usize,
    /// They have no living owner.
    pub unowned: usize,
    /// How many each member of the table owns, in the table's order.
    pub shares: Vec<usize>,
    /// Whom owners wait for.
    pub blockers: Vec<Blocker>,
}

/// A member that has not released partitions of one handoff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// Who.
    pub member: Member,
    /// Epoch of those partitions.
    pub epoch: Revision,
    /// Which, in order.
    pub partitions: Vec<u16>,
}

/// A member Lease as the tally needs it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// What it says.
    pub state: &'a MemberState,
    /// Its holder did not fall silent.
    pub is_renewed: bool,
}

impl Summary {
    /// The lean form; the sentence says what makes it no table.
    pub fn of(table: &Table) -> Result<Self, String> {
        if let Some(problem) = table.problem() {
            return Err(problem);
        }
        let mut handoffs: BTreeMap<(Revision, Vec<u16>), Vec<u16>> = BTreeMap::new();
        for (partition, part) in table.entries() {
            let mut waits = part.prev.clone();
            waits.extend(&table.prev_all);
            waits.sort_unstable();
            waits.dedup();
            if part.owner.is_some() && !waits.is_empty() {
                let partitions = handoffs.entry((part.epoch, waits)).or_default();
                partitions.push(partition.number());
            }
        }
        let handoffs = handoffs
            .into_iter()
            .map(|((epoch, waits), partitions)| Handoff {
                epoch,
                waits,
                partitions,
            });
        Ok(Self {
            layout: table.layout,
            epoch: table.epoch,
            members: table.members.clone(),
            rebalance: table.rebalance.clone(),
            queued: table.queued,
            owners: table
                .parts
                .iter()
                .map(|part| part.owner.unwrap_or(NOBODY))
                .collect(),
            handoffs: handoffs.collect(),
        })
    }

    /// The table names a member of that name, in whatever life (H1).
    pub fn names(&self, name: &str) -> bool {
        self.members.iter().any(|member| &*member.name == name)
    }

    /// Who owns a partition.
    pub fn owner(&self, partition: u16) -> Option<&Member> {
        let index = self.owners.get(usize::from(partition))?;
        self.members.get(usize::from(*index))
    }

    /// Judges every partition by the member Leases.
    pub fn tally<'a>(&self, seen: impl Fn(&str) -> Option<Seen<'a>>) -> Tally {
        let mut tally = Tally {
            shares: vec![0; self.members.len()],
            ..Tally::default()
        };
        let mut blocked = Bitmap::new();
        let mut blocking: BTreeMap<(u16, Revision), Vec<u16>> = BTreeMap::new();
        for handoff in &self.handoffs {
            for index in &handoff.waits {
                let Some(member) = self.members.get(usize::from(*index)) else {
                    continue;
                };
                let state = seen(&member.name).map(|seen| seen.state);
                for number in &handoff.partitions {
                    if self.is_blocked(*number, handoff.epoch, member, state, &seen) {
                        blocked.insert(Partition::new(*number));
                        let partitions = blocking.entry((*index, handoff.epoch)).or_default();
                        partitions.push(*number);
                    }
                }
            }
        }
        for ((index, epoch), mut partitions) in blocking {
            partitions.sort_unstable();
            if let Some(member) = self.members.get(usize::from(index)) {
                tally.blockers.push(Blocker {
                    member: member.clone(),
                    epoch,
                    partitions,
                });
            }
        }
        let lives: Vec<bool> = self
            .members
            .iter()
            .map(|member| seen(&member.name).is_some_and(|seen| is_alive(member, &seen)))
            .collect();
        for (number, owner) in (0..).zip(&*self.owners) {
            let owner = usize::from(*owner);
            if let Some(share) = tally.shares.get_mut(owner) {
                *share += 1;
            }
            if !lives.get(owner).copied().unwrap_or(false) {
                tally.unowned += 1;
            } else if blocked.contains(Partition::new(number)) {
                tally.moving += 1;
            } else {
                tally.owned += 1;
            }
        }
        tally
    }

    /// Does the owner wait for `member`? A Lease that is there must show the release (H3). A missing one
    /// shows nothing (H6), so the owner's own Lease decides: it runs the partition or does not.
    fn is_blocked<'a>(
        &self,
        partition: u16,
        epoch: Revision,
        member: &Member,
        state: Option<&MemberState>,
        seen: impl Fn(&str) -> Option<Seen<'a>>,
    ) -> bool {
        let Some(owner) = self.owner(partition) else {
            return false;
        };
        // A process ended its earlier lives itself (H1).
        if owner.name == member.name && member.incarnation <= owner.incarnation {
            return false;
        }
        let partition = Partition::new(partition);
        if let Some(state) = state {
            return !state.has_released(member.incarnation, self.layout, partition, epoch);
        }
        let runs = |seen: Seen<'_>| {
            let record = seen.state.record.as_deref();
            record.is_some_and(|record| {
                record.layout == Some(self.layout)
                    && record.acked.is_some_and(|acked| acked >= epoch)
                    && record.owned.contains(partition)
            })
        };
        !seen(&owner.name).is_some_and(|seen| is_alive(owner, &seen) && runs(seen))
    }
}

/// This life goes on: held under this incarnation, and renewed.
fn is_alive(member: &Member, seen: &Seen<'_>) -> bool {
    seen.is_renewed && seen.state.held && seen.state.incarnation == member.incarnation
}

#[cfg(test)]
mod tests;
