//! Who takes part in the next table, and who waits.
//!
//! - Joins are taken together: `join_quiet` after the last, `join_max` after the first. Somebody who
//!   leaves is acted upon at once, and whoever stands by then takes part.
//! - In a rollout (two revisions live side by side, or a member leaves) newcomers stand by, nothing
//!   moves for the sake of balance, and each leaver's share goes whole to one newcomer of the newest
//!   revision. A leaver without a newcomer keeps its share for a while, and goes on working.
//! - A member that was lost often keeps what it has, and receives nothing for a while.
//! - Silent members, members whose Lease is missing, and members that cannot be read keep exactly
//!   what they have until it is known how it stands with them (H5, H6).

pub(super) mod damping;
pub(super) mod rollout;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::partition::Member;
use crate::time::Instant;

use super::cast::Person;
use super::interface::{Concern, Pace};
use super::membership::Standing;
use damping::Damping;
use rollout::Rollout;

/// What was decided before, and since when things wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pacing {
    pace: Pace,
    /// The members that a plan has considered; only others wait to be taken together.
    served: BTreeSet<Member>,
    rollout: Rollout,
    damping: Damping,
    /// When this should be looked at again.
    wake: Vec<Instant>,
}

/// What a person is in the next table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Its share is for others.
    Gives,
    /// It keeps exactly what it has.
    Keeps,
    /// It has a share, and may receive more if it `takes`.
    Sits { takes: bool },
    /// It is not considered.
    StandsBy,
}

/// Who is what in the next table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Decision {
    /// Of each person.
    pub(super) roles: Vec<Role>,
    /// Whose whole share goes to whom.
    pub(super) heirs: Vec<(usize, usize)>,
    /// Nothing is taken from anyone for the sake of balance.
    pub(super) only_orphans: bool,
    /// Where homeless partitions should go if there is room.
    pub(super) preferred: Vec<usize>,
    pub(super) concerns: Vec<Concern>,
}

impl Pacing {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            served: BTreeSet::new(),
            rollout: Rollout::default(),
            damping: Damping::default(),
            wake: Vec::new(),
        }
    }

    /// A life of that member ended unannounced.
    pub(super) fn lost(&mut self, name: &Arc<str>, now: Instant) {
        self.damping.lost(name, &self.pace, now);
    }

    /// When to look again.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> + '_ {
        self.wake.iter().copied()
    }

    /// A plan has considered these.
    pub(super) fn serve(&mut self, people: &[Person], decision: &Decision) {
        let sits = people.iter().zip(&decision.roles);
        let sits = sits.filter(|(_, role)| matches!(role, Role::Sits { .. }));
        self.served
            .extend(sits.map(|(person, _)| person.member.clone()));
    }

    /// Who is what in the next table. `orphans`: some partitions have no owner at all.
    pub(super) fn decide(&mut self, people: &[Person], orphans: bool, now: Instant) -> Decision {
        self.wake.clear();
        self.note(people, now);
        let mut made = Decision::default();
        self.sort_out(people, &mut made, now);
        let mut newcomers = self.newcomers(people, &made);
        self.find_heirs(people, &mut newcomers, &mut made);
        self.hold_leavers(people, &newcomers, &mut made, now);
        self.seat_newcomers(people, &newcomers, orphans, &mut made, now);
        self.fall_back(people, &mut made);
        made.only_orphans |= self.rollout.is_on();
        let newest = self.rollout.newest();
        if self.rollout.is_on() && newest.is_some() {
            made.concerns.push(Concern::Rollout);
            let preferred = |index: &usize| people[*index].revision == newest;
            made.preferred = made.seats().filter(preferred).collect();
        }
        made
    }

    fn note(&mut self, people: &[Person], now: Instant) {
        let lives = |person: &&Person| person.standing == Standing::Lives;
        let known: BTreeSet<&Member> = people
            .iter()
            .filter(lives)
            .map(|person| &person.member)
            .collect();
        self.served.retain(|member| known.contains(member));
        self.rollout.note(people, &self.pace, now);
        self.wake.extend(self.rollout.deadlines(&self.pace));
        self.damping.forget(&self.pace, now);
    }

    /// What follows for each alone.
    fn sort_out(&mut self, people: &[Person], made: &mut Decision, now: Instant) {
        for person in people {
            let flaps = self.damping.until(&person.member.name, now);
            if let (Some(until), true) = (flaps, person.ready) {
                self.wake.push(until);
                let name = Arc::clone(&person.member.name);
                made.concerns.push(Concern::Flaps { name });
            }
            made.roles.push(match person.standing {
                Standing::Over | Standing::Lapsed => Role::Gives,
                Standing::Silent => Role::Keeps,
                Standing::Missing => {
                    if person.owns > 0 {
                        let member = person.member.clone();
                        made.concerns.push(Concern::LeaseMissing(member));
                    }
                    Role::Keeps
                }
                Standing::Lives if person.draining.is_some() => Role::Gives,
                Standing::Lives if !person.ready => Role::Keeps,
                Standing::Lives if person.owns > 0 => Role::Sits {
                    takes: flaps.is_none(),
                },
                Standing::Lives => Role::StandsBy,
            });
            // Until it is known how it stands with them, nothing else moves for balance.
            let unsure = matches!(person.standing, Standing::Silent | Standing::Missing);
            made.only_orphans |= unsure && person.owns > 0;
        }
    }

    /// Those who could take something and have nothing, the newest revision first.
    fn newcomers(&self, people: &[Person], made: &Decision) -> Vec<usize> {
        let newest = self.rollout.newest();
        let mut found: Vec<usize> = (0..people.len())
            .filter(|index| made.roles[*index] == Role::StandsBy)
            .filter(|index| !self.damping.damps(&people[*index].member.name))
            .collect();
        found.sort_by_key(|index| people[*index].revision != newest);
        found
    }

    /// Shares that go whole to one newcomer.
    fn find_heirs(&self, people: &[Person], newcomers: &mut Vec<usize>, made: &mut Decision) {
        let gives = |index: &usize| made.roles[*index] == Role::Gives && people[*index].owns > 0;
        let mut givers: Vec<usize> = (0..people.len()).filter(gives).collect();
        let mut heirs = Vec::new();
        // The next life of the same name first: for a person nothing moves.
        givers.retain(|giver| {
            let same = |index: &usize| people[*index].member.name == people[*giver].member.name;
            let Some(at) = newcomers.iter().position(same) else {
                return true;
            };
            heirs.push((*giver, newcomers.remove(at)));
            false
        });
        if self.rollout.is_on() {
            let newest = self.rollout.newest();
            givers.sort_by_key(|index| (people[*index].draining, *index));
            for giver in givers {
                let is_newest = |index: &usize| people[*index].revision == newest;
                let Some(at) = newcomers.iter().position(is_newest) else {
                    break;
                };
                heirs.push((giver, newcomers.remove(at)));
            }
        }
        for (_, heir) in &heirs {
            made.roles[*heir] = Role::Sits { takes: true };
        }
        made.heirs = heirs;
    }

    /// A leaver without an heir keeps its share for a while: a newcomer may be starting.
    fn hold_leavers(
        &mut self,
        people: &[Person],
        newcomers: &[usize],
        made: &mut Decision,
        now: Instant,
    ) {
        let others = newcomers.is_empty() && made.seats().next().is_none();
        for (index, person) in people.iter().enumerate() {
            let leaves = person.standing == Standing::Lives && made.roles[index] == Role::Gives;
            let Some(since) = person.draining.filter(|_| leaves && person.owns > 0) else {
                continue;
            };
            if made.heirs.iter().any(|(giver, _)| *giver == index) {
                continue;
            }
            let until = since.after(self.pace.hold);
            let expected = person.revision.is_some() && now < until;
            if expected || others {
                made.roles[index] = Role::Keeps;
                self.wake.push(until);
                let member = person.member.clone();
                made.concerns.push(Concern::AwaitsNewcomer(member));
            }
        }
    }

    fn seat_newcomers(
        &mut self,
        people: &[Person],
        newcomers: &[usize],
        orphans: bool,
        made: &mut Decision,
        now: Instant,
    ) {
        let waits = |person: &&Person| !self.served.contains(&person.member);
        let joins = || {
            let waiting = newcomers.iter().map(|index| &people[*index]);
            waiting.filter(waits).map(|person| person.since)
        };
        let due = match (joins().min(), joins().max()) {
            (Some(first), Some(last)) => {
                let quiet = last.after(self.pace.join_quiet);
                Some(quiet.min(first.after(self.pace.join_max)))
            }
            _ => None,
        };
        let is_due = due.is_none_or(|due| now >= due);
        let homeless = orphans || made.has_homeless(people);
        let seated = made.seats().next().is_some();
        let seat = if self.rollout.is_on() {
            homeless && (seated || is_due)
        } else {
            is_due || (homeless && seated)
        };
        if seat {
            for index in newcomers {
                made.roles[*index] = Role::Sits { takes: true };
            }
        } else {
            self.wake.extend(due);
        }
    }

    /// Better somebody who flaps than nobody.
    fn fall_back(&self, people: &[Person], made: &mut Decision) {
        if made.seats().next().is_some() {
            return;
        }
        for (index, person) in people.iter().enumerate() {
            let flaps = self.damping.damps(&person.member.name);
            if flaps && person.ready && made.roles[index] == Role::StandsBy {
                made.roles[index] = Role::Sits { takes: true };
            }
        }
    }
}

impl Decision {
    /// Everyone with a share.
    pub(super) fn seats(&self) -> impl Iterator<Item = usize> + '_ {
        let sits = |index: &usize| matches!(self.roles[*index], Role::Sits { .. });
        (0..self.roles.len()).filter(sits)
    }

    /// Does somebody give a share that has no heir?
    fn has_homeless(&self, people: &[Person]) -> bool {
        let mut indices = 0..people.len();
        indices.any(|index| {
            let heir = self.heirs.iter().any(|(giver, _)| *giver == index);
            self.roles[index] == Role::Gives && people[index].owns > 0 && !heir
        })
    }
}
