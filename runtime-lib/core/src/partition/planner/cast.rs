//! Everyone who matters for the next table: those the present one names, and those who live.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::Revision;
use crate::partition::{HashId, Layout, Member, MemberState, Partition};
use crate::rules::{Rule, Rules};
use crate::time::Instant;

use super::base::Base;
use super::membership::{Membership, Standing};

/// One life of a member, as the planner sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) member: Member,
    pub(super) standing: Standing,
    /// Partitions that are its own by the present table.
    pub(super) owns: usize,
    /// It may own partitions: it lives, and what it says can be read and fits.
    pub(super) ready: bool,
    /// Since when this life is known.
    pub(super) since: Instant,
    /// When it first said that it leaves.
    pub(super) draining: Option<Instant>,
    pub(super) weight: u32,
    pub(super) zone: Option<Arc<str>>,
    pub(super) revision: Option<Arc<str>>,
    /// What its Lease shows.
    state: Option<MemberState>,
}

impl Person {
    /// Nothing of it runs, nor ever will.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.standing, Standing::Over | Standing::Lapsed)
    }

    /// H3, or by time.
    pub(super) fn has_released(
        &self,
        layout: Layout,
        partition: Partition,
        epoch: Revision,
        rules: Rules,
    ) -> bool {
        let by_lease = || {
            let mut state = self.state.clone()?;
            if !rules.has(Rule::H1Incarnation) {
                state.incarnation = self.member.incarnation; // only the name counts
            }
            Some(state.has_released(self.member.incarnation, layout, partition, epoch))
        };
        self.is_over() || by_lease().unwrap_or(false)
    }

    /// Its Lease shows that it runs, or still drains, this partition, and knows of this epoch.
    pub(super) fn shows(&self, layout: Layout, partition: Partition, epoch: Revision) -> bool {
        let state = self.state.as_ref();
        let state = state.filter(|state| state.incarnation == self.member.incarnation);
        let record = state.and_then(|state| state.record.as_ref());
        record.is_some_and(|record| {
            record.layout == Some(layout)
                && record.acked.is_some_and(|acked| acked >= epoch)
                && record.owned.contains(partition)
        })
    }
}

/// First those that `base` names, under their indices there; then the living that it does not name.
pub(super) fn cast(base: &Base, members: &Membership, rules: Rules, now: Instant) -> Vec<Person> {
    let mut living: BTreeMap<Member, _> = members
        .living(now)
        .map(|living| (living.member.clone(), living))
        .collect();
    let hash = base.layout.hash();
    let mut people = Vec::with_capacity(base.people.len() + living.len());
    for (index, member) in base.people.iter().enumerate() {
        let mut alive = living.remove(member);
        if alive.is_none() && !rules.has(Rule::H1Incarnation) {
            // The rule switched off: whoever has the name is the member.
            let other = living.keys().find(|other| other.name == member.name);
            alive = other.cloned().and_then(|other| living.remove(&other));
        }
        people.push(Person {
            owns: base.owned[index],
            ..person(member.clone(), alive, hash, members, now)
        });
    }
    for (member, alive) in living {
        people.push(person(member, Some(alive), hash, members, now));
    }
    people
}

fn person(
    member: Member,
    living: Option<super::membership::Living<'_>>,
    hash: HashId,
    members: &Membership,
    now: Instant,
) -> Person {
    let record = living
        .as_ref()
        .and_then(|living| living.record.clone().ok());
    let standing = members.standing(&member, now);
    Person {
        standing,
        owns: 0,
        ready: standing == Standing::Lives && record.is_some_and(|record| record.hash == hash),
        since: living.as_ref().map_or(now, |living| living.since),
        draining: living.and_then(|living| living.draining),
        weight: record.map_or(1, |record| record.weight),
        zone: record.and_then(|record| record.zone.clone()),
        revision: record.and_then(|record| record.revision.clone()),
        state: members.state(&member.name),
        member,
    }
}
