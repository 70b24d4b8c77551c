//! Checks of published tables: each is sound, later than the one before, and moved no more than it
//! had to. The lower bound is worked out here and shares nothing with the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_core::election::Write;
use leasehold_core::lease::{Contents, Versioned};
use leasehold_core::partition::{Member, MemberState, Table};

use crate::judge::Check;
use crate::scenario::Spoil;
use crate::world::World;

/// Changes a table on its way to the store.
pub fn spoil(spoil: Spoil, write: &mut Write) {
    let Contents::Table(table) = &write.record.contents else {
        return;
    };
    let mut table = (**table).clone();
    match spoil {
        Spoil::MoreMoves => {
            let (first, last) = (table.parts[0].owner, table.parts.len() - 1);
            table.parts[0].owner = table.parts[last].owner;
            table.parts[last].owner = first;
        }
        Spoil::Lopsided => {
            let first = table.parts[0].owner;
            let other = table.parts.iter_mut().find(|part| part.owner != first);
            if let Some(part) = other {
                part.owner = first;
            }
        }
    }
    write.record.contents = Contents::Table(Arc::new(table));
}

/// How many partitions each member owns.
fn counts(table: &Table) -> BTreeMap<Member, usize> {
    let mut counts = BTreeMap::new();
    for (partition, _) in table.entries() {
        if let Some(owner) = table.owner(partition) {
            *counts.entry(owner.clone()).or_default() += 1;
        }
    }
    counts
}

/// The largest difference between the numbers that two of these members own.
pub fn spread(table: &Table, members: &BTreeSet<Member>) -> usize {
    let counts = counts(table);
    let owned = members
        .iter()
        .map(|member| counts.get(member).copied().unwrap_or_default());
    let owned: Vec<usize> = owned.collect();
    let (least, most) = (owned.iter().min(), owned.iter().max());
    most.copied().unwrap_or_default() - least.copied().unwrap_or_default()
}

impl World {
    /// A publish was stored over `before`.
    pub fn check_publish(&mut self, p: usize, before: Option<&Versioned>, state: &Versioned) {
        self.stats.count("publish");
        let Contents::Table(table) = &state.record.contents else {
            return self.found(Check::BadTable, "a publish without a table".to_owned());
        };
        let table = Arc::clone(table);
        if let Some(problem) = table.problem() {
            self.found(Check::BadTable, problem);
        }
        let newest = self.judge.newest;
        self.judge.newest = newest.max(Some(table.epoch));
        if newest >= Some(table.epoch) {
            if before.is_none() {
                // A late creation, after a later table was deleted by hand: members know better.
                return self.stats.count("older table made over a deleted one");
            }
            let detail = format!("epoch {} after {newest:?}", table.epoch);
            self.found(Check::BadTable, detail);
        }
        let published = &mut self.judge.published;
        published.push(state.record.contents.clone());
        if published.len() > 4 {
            published.remove(0);
        }
        self.ambush(p, &table);
        let based_on = before.map(|before| before.revision);
        if based_on.is_some_and(|revision| table.epoch != revision) {
            let detail = format!("epoch {} of a publish over {based_on:?}", table.epoch);
            self.found(Check::BadTable, detail);
        }
        let moves = table.rebalance.moves;
        self.stats.count_many("moves", u64::from(moves));
        let Some(Contents::Table(old)) = before.map(|before| &before.record.contents) else {
            return self.stats.count("table made anew");
        };
        if Some(old.epoch) != newest {
            return self.stats.count("table made anew"); // over one that was put back
        }
        if old.layout != table.layout {
            return self.stats.count("layout changed");
        }
        self.check_moves(old, &table);
    }

    fn check_moves(&mut self, old: &Table, new: &Table) {
        let changed = |(before, after): (&Member, Option<&Member>)| after != Some(before);
        let pairs = old
            .entries()
            .filter_map(|(partition, _)| Some((old.owner(partition)?, new.owner(partition))));
        let moved = pairs.filter(|pair| changed(*pair)).count();
        let (before, after) = (counts(old), counts(new));
        let candidates: BTreeSet<Member> = after
            .keys()
            .chain(before.keys().filter(|member| self.is_good(member)))
            .cloned()
            .collect();
        // With these numbers for each member, at least so many had to go.
        let had_to = |after: &BTreeMap<Member, usize>| {
            let leave = before.iter().map(|(member, owned)| {
                let stay = if candidates.contains(member) {
                    after.get(member).copied().unwrap_or_default()
                } else {
                    0
                };
                owned.saturating_sub(stay)
            });
            leave.sum::<usize>()
        };
        let least = had_to(&after);
        let detail = || {
            let reason = &new.rebalance.reason;
            format!("{moved} of {before:?} to {after:?}, {least} had to: {reason:?}")
        };
        if moved > least {
            let detail = detail();
            return self.found(Check::TooManyMoves, detail);
        }
        self.stats.count_many("moves had to", least as u64);
        if !self.is_plain() {
            return;
        }
        // Members of one revision that stay: any balanced table would do.
        let balanced = balanced(&before, &candidates, new.parts.len());
        if moved > had_to(&balanced) {
            let detail = format!("{}, {} for any balanced table", detail(), had_to(&balanced));
            self.found(Check::TooManyMoves, detail);
        }
        let said = new.rebalance.moves;
        if said != new.rebalance.least {
            let least = new.rebalance.least;
            self.found(
                Check::TooManyMoves,
                format!("{said} moves, {least} by its own count"),
            );
        }
    }

    /// By its Lease it lives and stays.
    fn is_good(&self, member: &Member) -> bool {
        let lease = self.store.members().get(&member.name);
        lease.map(MemberState::of).is_some_and(|state| {
            let drains = state.record.is_none_or(|record| record.draining);
            state.held && state.incarnation == member.incarnation && !drains
        })
    }

    /// Nobody leaves, nobody is of another revision, nobody flaps.
    fn is_plain(&self) -> bool {
        let records = self
            .store
            .members()
            .values()
            .filter(|lease| lease.record.holder.is_some());
        let mut revisions = BTreeSet::new();
        for lease in records {
            let Contents::Member(record) = &lease.record.contents else {
                return false;
            };
            if record.draining {
                return false;
            }
            revisions.insert(record.revision.clone());
        }
        revisions.len() == 1 && self.mix.faults.is_empty()
    }
}

/// The numbers of the balanced table that keeps the most.
fn balanced(
    before: &BTreeMap<Member, usize>,
    candidates: &BTreeSet<Member>,
    partitions: usize,
) -> BTreeMap<Member, usize> {
    let floor = partitions / candidates.len().max(1);
    let mut extra = partitions - floor * candidates.len();
    let owned = |member: &Member| before.get(member).copied().unwrap_or_default();
    let mut order: Vec<&Member> = candidates.iter().collect();
    order.sort_by_key(|member| std::cmp::Reverse(owned(member)));
    let quota = order.into_iter().map(|member| {
        let more = usize::from(extra > 0 && owned(member) > floor);
        extra -= more;
        (member.clone(), floor + more)
    });
    quota.collect()
}
