//! What the planner believes, for status, logs and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::partition::{Member, Partition, Table};
use crate::time::Instant;

use super::cast::{self, Person};
use super::interface::{Concern, Effect, Notice};
use super::membership::Standing;
use super::{Base, Planner};

/// A member as the planner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Who.
    pub member: Member,
    /// How it is.
    pub phase: MemberPhase,
    /// How many partitions are its own by the present table.
    pub owns: usize,
}

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberPhase {
    /// It lives and may own partitions.
    Ready,
    /// It lives and leaves.
    Leaving,
    /// It lives, but what it says cannot be read, or is of another hash.
    Unfit,
    /// It fell silent and is being fenced (H5).
    Silent,
    /// Its Lease is missing (H6).
    Missing,
    /// It is over, and the table still names it.
    Over,
}

impl Planner {
    /// The newest table, if it can be read.
    pub fn table(&self) -> Option<&Arc<Table>> {
        self.assignment.table()
    }

    /// Everyone who lives or is named in the table, as of the last step.
    pub fn members(&self) -> Vec<MemberView> {
        let people = self.people(self.now);
        people
            .into_iter()
            .map(|person| MemberView {
                phase: phase(&person),
                owns: person.owns,
                member: person.member,
            })
            .collect()
    }

    /// Whom others wait for, and for which partitions: who is to blame for a stuck handoff.
    pub fn awaited(&self) -> BTreeMap<Member, Vec<Partition>> {
        let people = self.people(self.now);
        let mut awaited: BTreeMap<Member, Vec<Partition>> = BTreeMap::new();
        let Some(base) = &self.base else {
            return awaited;
        };
        for (partition, entry) in base.layout.partitions().zip(&base.entries) {
            let Some(epoch) = entry.epoch else { continue };
            let mut waits: Vec<usize> = entry.waits.iter().chain(&base.all).copied().collect();
            waits.sort_unstable();
            waits.dedup();
            for index in waits
                .into_iter()
                .filter(|index| Some(*index) != entry.owner)
            {
                let person = &people[index];
                let rules = self.config.rules;
                if !person.has_released(base.layout, partition, epoch, rules) {
                    let member = person.member.clone();
                    awaited.entry(member).or_default().push(partition);
                }
            }
        }
        awaited
    }

    /// What a person should know, as of the last step.
    pub fn concerns(&self) -> &BTreeSet<Concern> {
        &self.concerns
    }

    fn people(&self, now: Instant) -> Vec<Person> {
        let rules = self.config.rules;
        let nobody = Base::empty(self.config.wanted.hash);
        let base = self.base.as_deref().or(nobody.as_ref());
        base.map_or(Vec::new(), |base| {
            cast::cast(base, &self.members, rules, now)
        })
    }

    /// Who cannot take part, and why.
    pub(super) fn warn(&self, base: &Base, concerns: &mut BTreeSet<Concern>, now: Instant) {
        let hash = base.layout.hash();
        if self.config.wanted.hash != hash {
            let hash = self.config.wanted.hash;
            concerns.insert(Concern::WantedHash { hash });
        }
        for living in self.members.living(now) {
            let name = Arc::clone(&living.member.name);
            match living.record {
                Err(reason) => concerns.insert(Concern::MemberUnreadable { name, reason }),
                Ok(record) if record.hash != hash => {
                    let hash = record.hash;
                    concerns.insert(Concern::HashDiffers { name, hash })
                }
                Ok(_) => false,
            };
        }
    }

    /// Says what began and what ended.
    pub(super) fn tell(&mut self, concerns: BTreeSet<Concern>, out: &mut Vec<Effect>) {
        let began = concerns.difference(&self.concerns).cloned();
        let ended = self.concerns.difference(&concerns).cloned();
        let notices = began.map(Notice::Began).chain(ended.map(Notice::Ended));
        out.extend(notices.map(Effect::Notice));
        self.concerns = concerns;
    }
}

fn phase(person: &Person) -> MemberPhase {
    match person.standing {
        Standing::Lives if person.draining.is_some() => MemberPhase::Leaving,
        Standing::Lives if person.ready => MemberPhase::Ready,
        Standing::Lives => MemberPhase::Unfit,
        Standing::Silent => MemberPhase::Silent,
        Standing::Missing => MemberPhase::Missing,
        Standing::Over | Standing::Lapsed => MemberPhase::Over,
    }
}
