//! Chains of partitions that step aside, each to the next member, where exclusions leave no other way.

use core::cmp::Reverse;
use std::collections::VecDeque;

use super::Draft;

/// How a member was reached.
#[derive(Clone, Copy)]
struct Step {
    /// What would move to it; nothing to the one that the chain begins with.
    partition: Option<usize>,
    /// Who would pass it on; nobody has a homeless one.
    from: Option<usize>,
}

/// The members that a chain can reach.
struct Search {
    steps: Vec<Option<Step>>,
    /// Who takes partitions and was not reached yet, by name.
    unreached: Vec<usize>,
    queue: VecDeque<usize>,
}

impl Draft<'_> {
    /// Nobody with room may have this partition: others step aside in the shortest chain that ends at
    /// somebody with room. Without such a chain it goes beyond a quota, where that weighs least, and
    /// the answer is false.
    pub(super) fn make_room(&mut self, partition: usize) -> bool {
        let mut search = self.search();
        self.reach(&mut search, partition, None);
        let end = self.walk(&mut search, |member| self.room(member) > 0);
        let fits = end.is_some_and(|member| self.room(member) > 0);
        self.step_aside(&search, end);
        fits
    }

    /// Exclusions broke the quotas: passes partitions on from those that have most for their weight,
    /// until no chain leads to a member that would still have less. It ends, because with each chain
    /// the loads, largest first, become smaller as a word in the lexicon does.
    pub(super) fn even_out(&mut self) {
        let mut members = self.order.clone();
        let mut improved = true;
        while improved {
            improved = false;
            members.sort_by(|a, b| {
                let load = |member: usize, other: usize| self.held(member) * self.weight(other);
                load(*b, *a).cmp(&load(*a, *b))
            });
            for member in &members {
                while self.pass_on(*member) {
                    improved = true;
                }
            }
        }
    }

    fn pass_on(&mut self, member: usize) -> bool {
        let mut search = self.search();
        search.steps[member] = Some(Step {
            partition: None,
            from: None,
        });
        search.unreached.retain(|other| *other != member);
        search.queue.push_back(member);
        let end = self.walk(&mut search, |_| false);
        let better = end.is_some_and(|end| {
            let (now, then) = (self.held(member), self.held(end) + 1);
            then * self.weight(member) < now * self.weight(end)
        });
        if better {
            self.step_aside(&search, end);
        }
        better
    }

    fn search(&self) -> Search {
        Search {
            steps: vec![None; self.held.len()],
            unreached: (self.order.iter().copied())
                .filter(|member| self.wishes.takes(*member))
                .collect(),
            queue: VecDeque::new(),
        }
    }

    /// The first member that is `good`, or else the one that would have least for its weight.
    fn walk(&self, search: &mut Search, good: impl Fn(usize) -> bool) -> Option<usize> {
        let yielding = self.yielding();
        let mut end = None;
        while let Some(member) = search.queue.pop_front() {
            if good(member) {
                return Some(member);
            }
            let less = |end: usize| {
                let (here, there) = (self.held(member) + 1, self.held(end) + 1);
                here * self.weight(end) < there * self.weight(member)
            };
            if end.is_none_or(less) {
                end = Some(member);
            }
            for partition in &yielding[member] {
                self.reach(search, *partition, Some(member));
            }
        }
        end
    }

    /// Adds whoever could take that partition and was not reached before.
    fn reach(&self, search: &mut Search, partition: usize, from: Option<usize>) {
        let Search {
            steps,
            unreached,
            queue,
        } = search;
        unreached.retain(|member| {
            let fits = self.wishes.allow(partition, *member);
            if fits {
                steps[*member] = Some(Step {
                    partition: Some(partition),
                    from,
                });
                queue.push_back(*member);
            }
            !fits
        });
    }

    /// Moves everything along the chain to its end.
    fn step_aside(&mut self, search: &Search, mut end: Option<usize>) {
        while let Some(member) = end {
            let step = search.steps[member];
            if let Some(partition) = step.and_then(|step| step.partition) {
                self.give(partition, member);
            }
            end = step.and_then(|step| step.from);
            if let Some(from) = end {
                self.held[from] -= 1;
            }
        }
    }

    /// Of each member what it could pass on: first what has moved already.
    fn yielding(&self) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.held.len()];
        for (partition, owner) in self.owners.iter().enumerate() {
            if let Some(owner) = owner {
                let moved = self.request.previous[partition] != Some(*owner);
                let free = self.wishes.pinned(partition).is_none();
                if free && (moved || !self.keeps(*owner)) {
                    lists[*owner].push((Reverse(moved), partition));
                }
            }
        }
        let in_order = |mut list: Vec<(Reverse<bool>, usize)>| {
            list.sort_unstable();
            list.into_iter().map(|(_, partition)| partition).collect()
        };
        lists.into_iter().map(in_order).collect()
    }

    fn held(&self, member: usize) -> u128 {
        self.held[member] as u128
    }

    fn weight(&self, member: usize) -> u128 {
        u128::from(self.request.members[member].weight.max(1))
    }
}
