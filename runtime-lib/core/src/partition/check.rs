//! The judge of plans: it knows what a plan must be, not how one is made.
//!
//! Property tests, the simulation and chaos runs ask for the violations. The checker shares types
//! with the assignor, and no code.

pub mod history;
mod level;
#[cfg(test)]
mod tests;

use core::fmt;
use std::collections::BTreeSet;

use super::assign::{Impossible, Plan, Request, Wish};
use super::layout::Partition;
use level::{Bound, Fair};

/// Something that a plan must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It speaks of another number of partitions.
    Length {
        /// In the plan.
        found: usize,
        /// In the request.
        expected: usize,
    },
    /// A partition without an owner, although there are candidates.
    Unowned(Partition),
    /// An owner that is no candidate.
    NoSuchMember {
        /// Which.
        partition: Partition,
        /// The index that nobody has.
        member: usize,
    },
    /// A wish was passed over, and not reported as impossible.
    Unheard(Wish),
    /// A member received a partition although it takes none.
    NotTaking {
        /// Which.
        partition: Partition,
        /// The receiver.
        member: usize,
    },
    /// A partition was taken from an owner that keeps what it has.
    Taken(Partition),
    /// A member has less or more than its fair share, rounded down or up.
    Unfair {
        /// Who.
        member: usize,
        /// What it has.
        count: usize,
        /// Its share, rounded down.
        from: usize,
        /// Its share, rounded up.
        to: usize,
    },
    /// More partitions moved than needed, or fewer than is possible: then the shares are wrong.
    Moves {
        /// How many owners change.
        found: usize,
        /// The least of all plans that are as fair.
        least: usize,
    },
    /// The plan counts wrongly.
    Told {
        /// Its `moves` and `least`.
        told: (u16, u16),
        /// What they are.
        found: (usize, usize),
    },
}

/// All violations of a plan for that request.
///
/// Wishes that the plan reports as impossible are believed to be: that they are is for unit tests.
pub fn check_plan(request: &Request<'_>, plan: &Plan) -> Vec<Violation> {
    let count = request.previous.len();
    if plan.owners.len() != count {
        return vec![Violation::Length {
            found: plan.owners.len(),
            expected: count,
        }];
    }
    let mut violations = owners(request, plan);
    if !violations.is_empty() {
        return violations; // nothing else could be counted
    }
    let judge = Judge::new(request, plan);
    violations.extend(judge.wishes());
    violations.extend(judge.receivers());
    violations.extend(judge.taken());
    violations.extend(judge.balance());
    violations.extend(judge.moves());
    violations
}

fn owners(request: &Request<'_>, plan: &Plan) -> Vec<Violation> {
    let members = request.members.len();
    let wrong = |(partition, owner): (usize, &Option<usize>)| match *owner {
        Some(member) if member >= members => Some(Violation::NoSuchMember {
            partition: name(partition),
            member,
        }),
        None if members > 0 => Some(Violation::Unowned(name(partition))),
        _ => None,
    };
    plan.owners.iter().enumerate().filter_map(wrong).collect()
}

struct Judge<'a> {
    request: &'a Request<'a>,
    plan: &'a Plan,
    /// Wishes that were not reported as impossible.
    heard: Vec<Wish>,
    takes: Vec<bool>,
    /// Of each partition where it may not be.
    banned: Vec<BTreeSet<usize>>,
    /// Of each partition the owner before, if it is a candidate.
    before: Vec<Option<usize>>,
    /// Of each partition the member that must have it.
    fixed: Vec<Option<usize>>,
}

impl<'a> Judge<'a> {
    fn new(request: &'a Request<'a>, plan: &'a Plan) -> Self {
        let members = request.members.len();
        let reported = |wish: &&Wish| {
            plan.impossible
                .iter()
                .any(|it| matches!(it, Impossible::Wish { wish: other, .. } if other == *wish))
        };
        let heard: Vec<Wish> = request
            .wishes
            .iter()
            .filter(|wish| !reported(wish))
            .copied()
            .collect();
        let any = request.members.iter().any(|member| member.takes);
        let takes: Vec<bool> = request.members.iter().map(|m| m.takes || !any).collect();
        let before: Vec<_> = request
            .previous
            .iter()
            .map(|owner| owner.filter(|member| *member < members))
            .collect();
        let mut banned = vec![BTreeSet::new(); before.len()];
        let mut fixed = vec![None; before.len()];
        for wish in &heard {
            match *wish {
                Wish::Pin { partition, member } if partition.index() < fixed.len() => {
                    fixed[partition.index()] = Some(member);
                }
                Wish::Exclude { partition, member } if partition.index() < banned.len() => {
                    banned[partition.index()].insert(member);
                }
                _ => {}
            }
        }
        for partition in 0..before.len() {
            if fixed[partition].is_some() {
                banned[partition].clear();
            }
            // Whoever takes may not have it: then its owner, who takes nothing, cannot pass it on.
            let open = (0..members).any(|m| takes[m] && !banned[partition].contains(&m));
            if !open && members > 0 {
                fixed[partition] = before[partition];
            }
        }
        Self {
            request,
            plan,
            heard,
            takes,
            banned,
            before,
            fixed,
        }
    }

    fn wishes(&self) -> Vec<Violation> {
        let obeyed = |wish: &Wish| match *wish {
            Wish::Pin { partition, member } => {
                self.plan.owners.get(partition.index()) == Some(&Some(member))
            }
            Wish::Exclude { partition, member } => {
                let owner = self.plan.owners.get(partition.index());
                member < self.takes.len() && owner.is_some_and(|owner| *owner != Some(member))
            }
        };
        let unheard = self.heard.iter().filter(|wish| !obeyed(wish));
        unheard.map(|wish| Violation::Unheard(*wish)).collect()
    }

    fn receivers(&self) -> Vec<Violation> {
        let moved = self.moved();
        let wrong = moved.filter(|(_, owner)| !self.takes[*owner]);
        wrong
            .map(|(partition, member)| Violation::NotTaking {
                partition: name(partition),
                member,
            })
            .collect()
    }

    fn keeps(&self, member: usize) -> bool {
        self.request.only_orphans || self.request.members[member].keeps
    }

    fn taken(&self) -> Vec<Violation> {
        let stays = self.stays().zip(&self.plan.owners).enumerate();
        let taken = stays.filter(|(_, (stays, now))| {
            stays.is_some_and(|member| self.keeps(member)) && stays != *now
        });
        taken
            .map(|(partition, _)| Violation::Taken(name(partition)))
            .collect()
    }

    /// Partitions whose owner is another one now, with the new owner.
    fn moved(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let owners = self.plan.owners.iter().zip(&self.before).enumerate();
        owners.filter_map(|(partition, (now, before))| {
            now.filter(|_| now != before).map(|now| (partition, now))
        })
    }

    /// Where each partition is if nothing moves that need not.
    fn stays(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        (0..self.before.len()).map(|partition| {
            let may = |member: &usize| !self.banned[partition].contains(member);
            self.fixed[partition].or_else(|| self.before[partition].filter(may))
        })
    }

    fn held(&self) -> Vec<usize> {
        tally(self.stays(), self.takes.len())
    }

    fn fair(&self) -> Vec<Fair> {
        let held = self.held();
        let fixed = tally(self.fixed.iter().copied(), held.len());
        let count = self.before.len();
        let bounds: Vec<Bound> = (0..held.len())
            .map(|member| Bound {
                weight: self.request.members[member].weight.max(1),
                least: if self.keeps(member) {
                    held[member]
                } else {
                    fixed[member]
                },
                most: if self.takes[member] {
                    count
                } else {
                    held[member]
                },
            })
            .collect();
        level::fair(count, &bounds)
    }

    fn has_bans(&self) -> bool {
        self.banned.iter().any(|banned| !banned.is_empty())
    }

    fn balance(&self) -> Vec<Violation> {
        let counts = tally(self.plan.owners.iter().copied(), self.takes.len());
        let fair = self.fair();
        let has_bans = self.has_bans();
        let wrong = |member: &usize| {
            let (count, fair) = (counts[*member], fair[*member]);
            if has_bans {
                // What is banned elsewhere may have to be here; but not if it could be elsewhere.
                count > fair.up && self.could_pass_on(*member, &counts)
            } else {
                count < fair.down || count > fair.up
            }
        };
        (0..counts.len())
            .filter(wrong)
            .map(|member| Violation::Unfair {
                member,
                count: counts[member],
                from: fair[member].down,
                to: fair[member].up,
            })
            .collect()
    }

    /// Could it give something to a member that has less than its share?
    fn could_pass_on(&self, member: usize, counts: &[usize]) -> bool {
        let fair = self.fair();
        let short = |other: usize| self.takes[other] && counts[other] < fair[other].down;
        let owned = |partition: &usize| {
            let stays = self.keeps(member) && self.before[*partition] == Some(member);
            self.plan.owners[*partition] == Some(member)
                && self.fixed[*partition].is_none()
                && !stays
        };
        (0..self.before.len()).filter(owned).any(|partition| {
            (0..counts.len()).any(|other| short(other) && !self.banned[partition].contains(&other))
        })
    }

    fn moves(&self) -> Vec<Violation> {
        if self.takes.is_empty() {
            return Vec::new();
        }
        let found = self.moved().count();
        let homeless = self
            .stays()
            .zip(&self.before)
            .filter(|(stays, before)| stays.is_none() || stays != *before);
        let (held, fair) = (self.held(), self.fair());
        let kept: usize = held.iter().zip(&fair).map(|(h, f)| *h.min(&f.down)).sum();
        let down: usize = fair.iter().map(|fair| fair.down).sum();
        // Each of the others may be kept where a share is rounded up for it.
        let useful = held
            .iter()
            .zip(&fair)
            .filter(|(h, f)| **h > f.down && f.up > f.down);
        let up = useful.count().min(self.before.len().saturating_sub(down));
        let least = homeless.count() + held.iter().sum::<usize>() - kept - up;

        let mut violations = Vec::new();
        let told = (usize::from(self.plan.moves), usize::from(self.plan.least));
        let honest = if self.has_bans() {
            // What is banned may have to stay where it is too much, or make others move.
            told.0 == found && told.1 <= found
        } else {
            if found != least {
                violations.push(Violation::Moves { found, least });
            }
            told == (found, least)
        };
        if !honest {
            let told = (self.plan.moves, self.plan.least);
            let found = (found, least);
            violations.push(Violation::Told { told, found });
        }
        violations
    }
}

fn tally(owners: impl Iterator<Item = Option<usize>>, members: usize) -> Vec<usize> {
    let mut counts = vec![0; members];
    for count in owners.flatten().filter(|owner| *owner < members) {
        counts[count] += 1;
    }
    counts
}

fn name(partition: usize) -> Partition {
    Partition::new(u16::try_from(partition).unwrap_or(u16::MAX))
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { found, expected } => {
                write!(f, "partitions: found {found}, expected {expected}")
            }
            Self::Unowned(partition) => write!(f, "partition {partition} has no owner"),
            Self::NoSuchMember { partition, member } => {
                write!(f, "partition {partition}: there is no member {member}")
            }
            Self::Unheard(wish) => write!(f, "passed over without a word: {wish:?}"),
            Self::NotTaking { partition, member } => {
                write!(f, "partition {partition}: member {member} takes none")
            }
            Self::Taken(partition) => {
                write!(f, "partition {partition} was taken from one that keeps it")
            }
            Self::Unfair {
                member,
                count,
                from,
                to,
            } => write!(
                f,
                "member {member} has {count}, its share is {from} to {to}"
            ),
            Self::Moves { found, least } => write!(f, "{found} moves, {least} would do"),
            Self::Told { told, found } => {
                write!(f, "told (moves, least) {told:?}, counted {found:?}")
            }
        }
    }
}
