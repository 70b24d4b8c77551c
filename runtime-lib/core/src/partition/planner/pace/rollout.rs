//! Is a rollout under way, and which revision is the newest?
//!
//! Revisions have no order of their own: the newest is the one that this leader saw last. Of those
//! that it found on its first look, it is the one whose members own nothing yet, and none of which
//! leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::partition::Member;
use crate::partition::planner::cast::Person;
use crate::partition::planner::interface::Pace;
use crate::partition::planner::membership::Standing;
use crate::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Rollout {
    /// It is on, and made its last progress then.
    progress: Option<Instant>,
    /// Since when no sign of it is left.
    calm: Option<Instant>,
    /// It lasted too long without progress, and its signs are still there.
    spent: bool,
    /// When each revision was first seen.
    revisions: BTreeMap<Arc<str>, Instant>,
    leavers: BTreeSet<Member>,
    newest: Option<Arc<str>>,
}

impl Rollout {
    pub(crate) fn is_on(&self) -> bool {
        self.progress.is_some()
    }

    /// The newest revision that somebody who stays has.
    pub(crate) fn newest(&self) -> Option<Arc<str>> {
        self.newest.clone()
    }

    /// Looks at who lives.
    pub(crate) fn note(&mut self, people: &[Person], pace: &Pace, now: Instant) {
        let living = || {
            let people = people.iter();
            people.filter(|person| person.standing == Standing::Lives)
        };
        let mut progress = false;
        let mut shown = BTreeSet::new();
        let mut leavers = BTreeSet::new();
        for person in living() {
            let Some(revision) = &person.revision else {
                continue;
            };
            shown.insert(Arc::clone(revision));
            if !self.revisions.contains_key(revision) {
                self.revisions.insert(Arc::clone(revision), now);
                progress = true;
            }
            if person.draining.is_some() {
                leavers.insert(person.member.clone());
            }
        }
        progress |= leavers.iter().any(|leaver| !self.leavers.contains(leaver));
        self.leavers = leavers;
        self.revisions
            .retain(|revision, _| shown.contains(revision));
        self.newest = self.newest_of(people);
        let signs = shown.len() > 1 || !self.leavers.is_empty();
        self.judge(signs, progress, pace, now);
    }

    fn newest_of(&self, people: &[Person]) -> Option<Arc<str>> {
        let of = |revision: &Arc<str>| {
            let revision = revision.clone();
            let living = people
                .iter()
                .filter(|person| person.standing == Standing::Lives);
            living.filter(move |person| person.revision.as_ref() == Some(&revision))
        };
        let stays = |(revision, _): &(&Arc<str>, &Instant)| {
            of(revision).any(|person| person.draining.is_none())
        };
        let rank = |(revision, since): &(&Arc<str>, &Instant)| {
            let newcomers = of(revision).any(|person| person.owns == 0);
            let nobody_leaves = of(revision).all(|person| person.draining.is_none());
            (**since, newcomers, nobody_leaves, Arc::clone(revision))
        };
        let candidates = self.revisions.iter().filter(stays);
        candidates
            .max_by_key(rank)
            .map(|(name, _)| Arc::clone(name))
    }

    fn judge(&mut self, signs: bool, progress: bool, pace: &Pace, now: Instant) {
        if !signs {
            self.spent = false;
            let calm = *self.calm.get_or_insert(now);
            if now >= calm.after(pace.stabilization) {
                self.progress = None;
            }
            return;
        }
        self.calm = None;
        if progress {
            self.spent = false;
            self.progress = Some(now);
        } else if self.progress.is_none() && !self.spent {
            self.progress = Some(now);
        }
        let late = |since: Instant| now >= since.after(pace.rollout_max);
        if self.progress.is_some_and(late) {
            self.progress = None;
            self.spent = true;
        }
    }

    /// When it may be over.
    pub(crate) fn deadlines(&self, pace: &Pace) -> impl Iterator<Item = Instant> {
        let on = self.progress;
        let calm = self.calm.filter(|_| on.is_some());
        let late = on.map(|since| since.after(pace.rollout_max));
        [calm.map(|calm| calm.after(pace.stabilization)), late]
            .into_iter()
            .flatten()
    }
}
