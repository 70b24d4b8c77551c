//! The draft of a plan: who keeps what, who sheds what, and where the homeless go.

mod chain;

use std::collections::BTreeMap;

use super::quota::{self, Bounds, Claim, Share};
use super::wishes::{Wishes, present};
use super::{Candidate, Request};
use crate::partition::hash::{fmix64, fnv1a};

/// One of the constants that make an affinity of its own for what is no partition.
const OF_MEMBER: u64 = 0x9fb2_1c65_1e98_df25;
/// 2⁶⁴ divided by the golden ratio: spreads the numbers of partitions over all bits.
const OF_PARTITION: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a member's name adds to its affinities.
fn trait_of(member: &Candidate<'_>) -> u64 {
    fmix64(fnv1a(member.name.as_bytes()))
}

/// What a partition's number adds to its affinities.
fn trait_of_partition(partition: usize) -> u64 {
    (partition as u64)
        .wrapping_add(1)
        .wrapping_mul(OF_PARTITION)
}

/// The affinity of a partition and a member: the rendezvous order.
fn affinity(partition: u64, member: u64) -> u64 {
    fmix64(partition ^ member)
}

/// A plan in the making.
pub(super) struct Draft<'a> {
    request: &'a Request<'a>,
    wishes: &'a Wishes,
    /// Members in the order of their names, which decides where affinities are equal.
    order: Vec<usize>,
    /// Of each member what its name adds to affinities.
    traits: Vec<u64>,
    owners: Vec<Option<usize>>,
    /// Of each member how many partitions are at it in this draft.
    held: Vec<usize>,
    shares: Vec<Share>,
    quotas: Vec<usize>,
}

impl<'a> Draft<'a> {
    /// Everyone keeps what may stay, pins are done, and quotas are set.
    pub(super) fn new(request: &'a Request<'a>, wishes: &'a Wishes) -> Self {
        let members = request.members;
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|member| members[*member].name);
        let owners: Vec<_> = (0..request.previous.len())
            .map(|partition| {
                let stays = |member: &usize| wishes.allow(partition, *member);
                let pinned = wishes.pinned(partition);
                pinned.or_else(|| present(request, partition).filter(stays))
            })
            .collect();
        let mut held = vec![0; members.len()];
        for owner in owners.iter().flatten() {
            held[*owner] += 1;
        }
        let mut draft = Self {
            request,
            wishes,
            order,
            traits: members.iter().map(trait_of).collect(),
            owners,
            held,
            shares: Vec::new(),
            quotas: Vec::new(),
        };
        draft.shares = quota::shares(draft.count(), &draft.bounds());
        draft.quotas = quota::quotas(draft.count(), &draft.shares, &draft.claims());
        draft
    }

    fn count(&self) -> usize {
        self.owners.len()
    }

    fn bounds(&self) -> Vec<Bounds> {
        let mut pins = vec![0; self.held.len()];
        for (_, member) in self.wishes.pins() {
            pins[member] += 1;
        }
        let members = self.request.members.iter().enumerate();
        members
            .map(|(i, member)| Bounds {
                weight: member.weight.max(1),
                least: if self.keeps(i) { self.held[i] } else { pins[i] },
                most: if self.wishes.takes(i) {
                    self.count()
                } else {
                    self.held[i]
                },
            })
            .collect()
    }

    /// Must it keep whatever it holds?
    fn keeps(&self, member: usize) -> bool {
        self.request.only_orphans || self.request.members[member].keeps
    }

    fn claims(&self) -> Vec<Claim> {
        let mut preferred = self.held.clone();
        for (partition, target) in self.request.prefer.iter().enumerate().take(self.count()) {
            if let Some(target) = target.filter(|target| *target < preferred.len())
                && self.owners[partition].is_none()
            {
                preferred[target] += 1;
            }
        }
        let mut zones = BTreeMap::new();
        let members = self.request.members;
        for zone in members.iter().map(|member| member.zone) {
            let next = zones.len();
            zones.entry(zone).or_insert(next);
        }
        (0..members.len())
            .map(|i| Claim {
                holds: self.held[i] > self.shares[i].floor,
                preferred: preferred[i] > self.shares[i].floor,
                zone: zones[&members[i].zone],
                weight: members[i].weight.max(1),
                affinity: affinity(OF_MEMBER, self.traits[i]),
            })
            .collect()
    }

    /// The least number of moves of any plan with these shares; to be asked first.
    pub(super) fn least(&self) -> usize {
        if self.held.is_empty() {
            return 0;
        }
        let previous = self.owners.iter().zip(self.request.previous);
        let forced = previous.filter(|(stays, previous)| stays.is_none() || stays != previous);
        forced.count() + quota::least_shed(self.count(), &self.shares, &self.held)
    }

    /// Takes from those above their quota what has the least affinity to them.
    pub(super) fn shed(&mut self) {
        let mut above: BTreeMap<usize, Vec<usize>> = (0..self.held.len())
            .filter(|member| self.held[*member] > self.quotas[*member])
            .map(|member| (member, Vec::new()))
            .collect();
        if above.is_empty() {
            return;
        }
        for (partition, owner) in self.owners.iter().enumerate() {
            if let Some(list) = owner.and_then(|owner| above.get_mut(&owner))
                && self.wishes.pinned(partition).is_none()
            {
                list.push(partition);
            }
        }
        for (member, mut partitions) in above {
            // One with exclusions finds a place less easily.
            partitions.sort_by_key(|partition| {
                let score = affinity(trait_of_partition(*partition), self.traits[member]);
                (self.wishes.bans(*partition).is_some(), score)
            });
            let excess = self.held[member] - self.quotas[member];
            for partition in partitions.into_iter().take(excess) {
                self.owners[partition] = None;
                self.held[member] -= 1;
            }
        }
    }

    /// Gives every homeless partition a home.
    pub(super) fn place(&mut self) {
        let homeless: Vec<usize> = (0..self.count())
            .filter(|partition| self.owners[*partition].is_none())
            .collect();
        let mut rest = Vec::new();
        for partition in homeless {
            match self.preferred(partition) {
                Some(member) => self.give(partition, member),
                None => rest.push(partition),
            }
        }
        // Those that may not go everywhere choose first; both halves stay in order.
        rest.sort_by_key(|partition| self.wishes.bans(*partition).is_none());
        let has_room = |member: &usize| self.room(*member) > 0;
        let mut open: Vec<(usize, u64)> = self
            .order
            .iter()
            .filter(|member| has_room(member))
            .map(|member| (*member, self.traits[*member]))
            .collect();
        let mut everything_fits = true;
        for partition in rest {
            let best = self.best(partition, &open);
            if let Some(member) = best {
                self.give(partition, member);
            } else {
                everything_fits &= self.make_room(partition);
            }
            if best.is_none_or(|member| self.room(member) == 0) {
                open.retain(|(member, _)| self.room(*member) > 0);
            }
        }
        if !everything_fits {
            self.even_out();
        }
    }

    fn room(&self, member: usize) -> usize {
        self.quotas[member].saturating_sub(self.held[member])
    }

    fn give(&mut self, partition: usize, member: usize) {
        self.owners[partition] = Some(member);
        self.held[member] += 1;
    }

    fn preferred(&self, partition: usize) -> Option<usize> {
        let target = (*self.request.prefer.get(partition)?)?;
        let fits = target < self.held.len()
            && self.room(target) > 0
            && self.wishes.allow(partition, target);
        fits.then_some(target)
    }

    /// The one of highest affinity; among equals the first.
    fn best(&self, partition: usize, open: &[(usize, u64)]) -> Option<usize> {
        let own = trait_of_partition(partition);
        let mut best: Option<(u64, usize)> = None;
        let bans = self.wishes.bans(partition);
        for (member, of_member) in open {
            let score = affinity(own, *of_member);
            if best.is_none_or(|(highest, _)| score > highest)
                && bans.is_none_or(|bans| !bans.contains(member))
            {
                best = Some((score, *member));
            }
        }
        best.map(|(_, member)| member)
    }

    pub(super) fn into_owners(self) -> Vec<Option<usize>> {
        self.owners
    }
}
