//! The next table: owners by the assignor, epochs, and who must be released first (H2–H4, H7, H8).

use std::collections::BTreeMap;

use crate::id::Revision;
use crate::partition::assign::{Candidate, Request, assign};
use crate::partition::{Member, Part, Partition, Rebalance, Table};
use crate::rules::{Rule, Rules};

use super::base::{Base, Entry, Origin};
use super::cast::Person;
use super::membership::Standing;
use super::pace::{Decision, Role};
use super::reason;

/// Owners for the next table; members are indices of the cast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft<'a> {
    base: &'a Base,
    people: &'a [Person],
    decision: &'a Decision,
    rules: Rules,
    owners: Vec<Option<usize>>,
    moves: u16,
    least: u16,
}

impl<'a> Draft<'a> {
    /// Decides on owners.
    pub(super) fn new(
        base: &'a Base,
        people: &'a [Person],
        decision: &'a Decision,
        rules: Rules,
    ) -> Self {
        let mut draft = Self {
            base,
            people,
            decision,
            rules,
            owners: Vec::new(),
            moves: 0,
            least: 0,
        };
        draft.assign();
        draft
    }

    fn assign(&mut self) {
        let heirs: BTreeMap<usize, usize> = self.decision.heirs.iter().copied().collect();
        // A share that is handed over whole counts as its heir's already.
        let heir = |owner: usize| heirs.get(&owner).copied().unwrap_or(owner);
        let candidates: Vec<usize> = (0..self.people.len())
            .filter(|index| match self.decision.roles[*index] {
                Role::Sits { .. } => true,
                Role::Keeps => self.people[*index].owns > 0,
                Role::Gives | Role::StandsBy => false,
            })
            .collect();
        let seat_of: BTreeMap<usize, usize> = candidates
            .iter()
            .enumerate()
            .map(|(seat, person)| (*person, seat))
            .collect();
        let keeps = |owner: usize| self.decision.roles[owner] == Role::Keeps;
        let seated = self.decision.seats().next().is_some();
        if !seated {
            let owners = self.base.entries.iter();
            let owners = owners.map(|entry| entry.owner.filter(|owner| keeps(*owner)));
            self.owners = owners.collect();
            self.count(0);
            return;
        }
        let previous: Vec<Option<usize>> = self
            .base
            .entries
            .iter()
            .map(|entry| seat_of.get(&heir(entry.owner?)).copied())
            .collect();
        let members: Vec<Candidate<'_>> = candidates
            .iter()
            .map(|index| {
                let person = &self.people[*index];
                Candidate {
                    name: &person.member.name,
                    weight: person.weight,
                    zone: person.zone.as_deref(),
                    takes: self.decision.roles[*index] == Role::Sits { takes: true },
                    // Of whom we know too little nothing is taken.
                    keeps: keeps(*index),
                }
            })
            .collect();
        let preferred = &self.decision.preferred;
        let prefer: Vec<Option<usize>> = match preferred.len() {
            0 => Vec::new(),
            count => (0..previous.len())
                .map(|partition| seat_of.get(&preferred[partition % count]).copied())
                .collect(),
        };
        let plan = assign(&Request {
            previous: &previous,
            members: &members,
            wishes: &[],
            prefer: &prefer,
            only_orphans: self.decision.only_orphans,
        });
        let person = |seat: &Option<usize>| candidates.get((*seat)?).copied();
        self.owners = plan.owners.iter().map(person).collect();
        self.count(plan.least);
    }

    /// For people a move is a change of the name: a restarted member gets its own back.
    fn count(&mut self, least: u16) {
        let name = |owner: usize| &self.people[owner].member.name;
        let handed = self.owners_and_entries().filter(|(_, entry)| {
            let mut heirs = self.decision.heirs.iter();
            let heir = heirs.find(|(giver, _)| Some(*giver) == entry.owner);
            heir.is_some_and(|(giver, heir)| name(*giver) != name(*heir))
        });
        let moved = self
            .owners_and_entries()
            .filter(|(owner, entry)| owner.map(name) != entry.owner.map(name));
        let (moves, handed) = (number(moved.count()), number(handed.count()));
        self.moves = moves;
        self.least = least.saturating_add(handed).min(moves);
    }

    fn owners_and_entries(&self) -> impl Iterator<Item = (Option<usize>, &Entry)> {
        self.owners.iter().copied().zip(&self.base.entries)
    }

    /// Does it say anything that the present table does not?
    pub(super) fn is_news(&self, queued: Option<u16>) -> bool {
        let made_anew = match self.base.origin {
            Origin::Table => false,
            Origin::Resized => true,
            // A table that gives nothing to anybody can wait for somebody.
            Origin::First | Origin::Lost => self.owners.iter().any(Option::is_some),
        };
        // That nobody owns something is no news as long as somebody stands by for it.
        let stands_by = |(person, role): (&Person, &Role)| person.ready && *role == Role::StandsBy;
        let mut cast = self.people.iter().zip(&self.decision.roles);
        let expected = cast.any(stands_by);
        let mut owners = self.owners_and_entries();
        made_anew
            || queued != self.base.queued
            || owners.any(|(owner, entry)| owner != entry.owner && (owner.is_some() || !expected))
    }

    /// The table that is published under `epoch`.
    pub(super) fn table(&self, epoch: Revision, queued: Option<u16>) -> Table {
        let layout = self.base.layout;
        let mut rows = Vec::with_capacity(self.owners.len());
        for ((owner, entry), partition) in self.owners_and_entries().zip(layout.partitions()) {
            rows.push(self.row(partition, owner, entry, epoch));
        }
        let all = self.all();
        let mut used: Vec<usize> = all.clone();
        for (owner, _, waits) in &rows {
            used.extend(owner.iter().chain(waits));
        }
        used.sort_by(|a, b| self.people[*a].member.cmp(&self.people[*b].member));
        used.dedup();
        let number_of: BTreeMap<usize, u16> = used
            .iter()
            .enumerate()
            .map(|(number, person)| (*person, self::number(number)))
            .collect();
        let numbers = |people: &[usize]| {
            let mut numbers: Vec<u16> = people
                .iter()
                .filter_map(|person| number_of.get(person).copied())
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        };
        let parts = rows.iter().map(|(owner, since, waits)| Part {
            owner: owner.and_then(|owner| number_of.get(&owner).copied()),
            epoch: *since,
            prev: numbers(waits),
        });
        Table {
            layout,
            epoch,
            parts: parts.collect(),
            prev_all: numbers(&all),
            members: used.iter().map(|person| self.member(*person)).collect(),
            rebalance: Rebalance {
                reason: reason::text(self.base, self.people, self.decision, queued).into(),
                moves: self.moves,
                least: self.least,
            },
            queued,
        }
    }

    fn member(&self, person: usize) -> Member {
        self.people[person].member.clone()
    }

    /// Owner, epoch and predecessors of a partition.
    fn row(
        &self,
        partition: Partition,
        owner: Option<usize>,
        entry: &Entry,
        epoch: Revision,
    ) -> (Option<usize>, Revision, Vec<usize>) {
        let kept = entry.epoch.filter(|_| owner == entry.owner);
        let mut waits: Vec<usize> = Vec::new();
        if kept.is_some() || entry.epoch.is_none() || self.rules.has(Rule::H4PrevCarries) {
            // H4: whoever was not seen released stays a predecessor.
            let unreleased = |index: &usize| match entry.epoch {
                Some(since) => !self.has_released(*index, partition, since),
                None => !self.people[*index].is_over(),
            };
            waits.extend(entry.waits.iter().copied().filter(unreleased));
        }
        if kept.is_none() {
            let former = entry.owner.filter(|_| entry.epoch.is_some());
            waits.extend(former.filter(|former| !self.people[*former].is_over()));
        }
        // Its own works it minds itself.
        waits.retain(|index| Some(*index) != owner);
        (owner, kept.unwrap_or(epoch), waits)
    }

    /// H7: whoever was not seen released, of the partitions of others, since the rebuilt table.
    fn all(&self) -> Vec<usize> {
        let pending = |index: &usize| {
            let mut entries = self.base.layout.partitions().zip(&self.base.entries);
            entries.any(|(partition, entry)| match entry.epoch {
                Some(since) => {
                    entry.owner != Some(*index) && !self.has_released(*index, partition, since)
                }
                None => !self.people[*index].is_over(),
            })
        };
        self.base.all.iter().copied().filter(pending).collect()
    }

    fn has_released(&self, person: usize, partition: Partition, epoch: Revision) -> bool {
        self.people[person].has_released(self.base.layout, partition, epoch, self.rules)
    }
}

/// H6: an owner waits for somebody of whom only the planner knows that it is over.
pub(super) fn frees_somebody(base: &Base, people: &[Person]) -> bool {
    if people
        .iter()
        .all(|person| person.standing != Standing::Lapsed)
    {
        return false;
    }
    let lapsed = |index: &usize| people[*index].standing == Standing::Lapsed;
    let all = base.all.iter().any(lapsed);
    let mut entries = base.layout.partitions().zip(&base.entries);
    entries.any(|(partition, entry)| {
        let (Some(owner), Some(epoch)) = (entry.owner, entry.epoch) else {
            return false;
        };
        let waits = all || entry.waits.iter().any(lapsed);
        waits && !people[owner].shows(base.layout, partition, epoch)
    })
}

/// H8: is somebody still awaited by the owner of a partition?
pub(super) fn has_handoffs(base: &Base, people: &[Person], rules: Rules) -> bool {
    let mut entries = base.layout.partitions().zip(&base.entries);
    entries.any(|(partition, entry)| {
        let Some(epoch) = entry.epoch else {
            return true;
        };
        let mut waits = entry.waits.iter().chain(&base.all);
        waits.any(|index| {
            Some(*index) != entry.owner
                && !people[*index].has_released(base.layout, partition, epoch, rules)
        })
    })
}

fn number(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
