//! What the next table grows from: the present table, that table cut anew (H8), or what the
//! members say after it was lost (H7).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::Revision;
use crate::partition::{HashId, Layout, Member, MemberRecord, Partition, Table};
use crate::rules::{Rule, Rules};

use super::homes;
use super::interface::Wanted;
use super::membership::Membership;

/// Owners and those they wait for, by the indices of `people`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Base {
    pub(super) layout: Layout,
    /// Everyone that is named below.
    pub(super) people: Vec<Member>,
    /// How many partitions each of them owns.
    pub(super) owned: Vec<usize>,
    pub(super) entries: Vec<Entry>,
    /// Counts as a predecessor in every partition.
    pub(super) all: Vec<usize>,
    pub(super) queued: Option<u16>,
    pub(super) origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Entry {
    pub(super) owner: Option<usize>,
    /// Since which publish; `None`: the next one, whoever owns it.
    pub(super) epoch: Option<Revision>,
    /// The predecessors that were not seen released when it was made.
    pub(super) waits: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// The present table.
    Table,
    /// The present table, cut anew.
    Resized,
    /// There has never been a table.
    First,
    /// The table was lost.
    Lost,
}

impl Base {
    pub(super) fn of(table: &Table) -> Self {
        let indices = |some: &[u16]| some.iter().map(|index| usize::from(*index)).collect();
        let entries = table.parts.iter().map(|part| Entry {
            owner: part.owner.map(usize::from),
            epoch: Some(part.epoch),
            waits: indices(&part.prev),
        });
        Self {
            layout: table.layout,
            people: table.members.clone(),
            owned: Vec::new(),
            entries: entries.collect(),
            all: indices(&table.prev_all),
            queued: table.queued,
            origin: Origin::Table,
        }
        .counted()
    }

    /// H8: each child goes to an owner of a part of it, who owns most first; every owner of an
    /// overlapping parent is a predecessor. Only when no handoff runs, so that the parents' own
    /// predecessors are released.
    pub(super) fn resized(&self, layout: Layout, rules: Rules) -> Self {
        let mut homes = Vec::new();
        let entry = |child: Partition| {
            let range = layout.range(child);
            let mut shares: BTreeMap<usize, u128> = BTreeMap::new();
            let mut waits = Vec::new();
            for parent in layout.overlapping(child, self.layout) {
                let Some(old) = self.entries.get(parent.index()) else {
                    continue;
                };
                let parts = self.layout.range(parent);
                let from = u128::from(parts.first().max(range.first()));
                let common = parts.until().min(range.until()).saturating_sub(from);
                if let Some(owner) = old.owner {
                    *shares.entry(owner).or_default() += common;
                }
                waits.extend(old.owner);
            }
            waits.sort_unstable();
            waits.dedup();
            if !rules.has(Rule::H8ParentsReleased) {
                waits.clear();
            }
            let mut owners: Vec<(usize, u128)> = shares.into_iter().collect();
            owners.sort_by_key(|(index, share)| (core::cmp::Reverse(*share), *index));
            homes.push(owners.into_iter().map(|(owner, _)| owner).collect());
            Entry {
                owner: None,
                epoch: None,
                waits,
            }
        };
        let mut entries: Vec<Entry> = layout.partitions().map(entry).collect();
        for (entry, owner) in entries.iter_mut().zip(homes::chosen(&homes)) {
            entry.owner = owner;
        }
        Self {
            layout,
            people: self.people.clone(),
            owned: Vec::new(),
            entries,
            all: Vec::new(),
            queued: None,
            origin: Origin::Resized,
        }
        .counted()
    }

    /// H7: from the bitmaps of those who live. The higher acknowledgement wins a contested bit, and
    /// everybody is a predecessor everywhere, since a bitmap may be older than the lost table.
    /// `None`: no layout can be made of what is wanted.
    pub(super) fn rebuilt(
        members: &Membership,
        wanted: Wanted,
        never: bool,
        rules: Rules,
    ) -> Option<Self> {
        let mut held: Vec<(Member, Option<&Arc<MemberRecord>>)> = members.held().collect();
        held.sort_by(|(a, _), (b, _)| a.cmp(b));
        let layout = newest_layout(members, &held, wanted)?;
        let entry = |partition: Partition| {
            let claims = held.iter().enumerate().filter_map(|(index, (_, record))| {
                let record = record.as_ref()?;
                let own = record.layout?;
                // H8: whoever runs a part of it by another layout.
                let mut runs = layout.overlapping(partition, own);
                let owns = runs.any(|partition| record.owned.contains(partition));
                owns.then_some((own == layout, record.acked, usize::MAX - index))
            });
            Entry {
                owner: claims.max().map(|(_, _, index)| usize::MAX - index),
                epoch: None,
                waits: Vec::new(),
            }
        };
        let all = if !never && rules.has(Rule::H7PrevAll) {
            (0..held.len()).collect()
        } else {
            Vec::new()
        };
        Some(
            Self {
                layout,
                owned: Vec::new(),
                entries: layout.partitions().map(entry).collect(),
                all,
                queued: None,
                origin: if never { Origin::First } else { Origin::Lost },
                people: held.into_iter().map(|(member, _)| member).collect(),
            }
            .counted(),
        )
    }

    /// Nobody owns anything.
    pub(super) fn empty(hash: HashId) -> Option<Self> {
        Some(Self {
            layout: Layout::new(1, hash, 1).ok()?,
            people: Vec::new(),
            owned: Vec::new(),
            entries: Vec::new(),
            all: Vec::new(),
            queued: None,
            origin: Origin::Table,
        })
    }

    fn counted(mut self) -> Self {
        let mut owned = vec![0; self.people.len()];
        for owner in self.entries.iter().filter_map(|entry| entry.owner) {
            if let Some(count) = owned.get_mut(owner) {
                *count += 1;
            }
        }
        self.owned = owned;
        self
    }

    /// Does a partition have no owner?
    pub(super) fn has_orphans(&self) -> bool {
        self.entries.iter().any(|entry| entry.owner.is_none())
    }
}

/// H8: generations only grow, also through a lost table. The last layout that any Lease knows of, or
/// the first one; after one of another hash, which nobody alive may be built for, the next.
fn newest_layout(
    members: &Membership,
    held: &[(Member, Option<&Arc<MemberRecord>>)],
    wanted: Wanted,
) -> Option<Layout> {
    let known = |record: &Arc<MemberRecord>| {
        let layout = record.layout?;
        Some((layout.generation(), record.acked, layout))
    };
    let running = held.iter().filter_map(|(_, record)| known((*record)?));
    let running = running.max().map(|(_, _, layout)| layout);
    let hash = running.map_or_else(|| majority(held, wanted), Layout::hash);
    let seen = members.records().filter_map(|record| known(record?));
    let newest = seen.max_by_key(|(generation, acked, layout)| {
        (*generation, layout.hash() == hash, *acked, *layout)
    });
    let count = running.map_or(wanted.count, Layout::count);
    match newest {
        Some((_, _, layout)) if layout.hash() == hash => Some(layout),
        Some((generation, ..)) => Layout::new(generation.saturating_add(1), hash, count).ok(),
        None => Layout::new(1, hash, count).ok(),
    }
}

/// The hash of most members, so that a leader of a minority is refused with it; the wanted one if
/// there is no majority.
fn majority(held: &[(Member, Option<&Arc<MemberRecord>>)], wanted: Wanted) -> HashId {
    let hashes: Vec<_> = held
        .iter()
        .filter_map(|(_, record)| record.as_ref().map(|record| record.hash))
        .collect();
    let count = |hash| hashes.iter().filter(|other| **other == hash).count();
    let most = hashes
        .iter()
        .copied()
        .find(|hash| count(*hash) * 2 > hashes.len());
    most.unwrap_or(wanted.hash)
}
