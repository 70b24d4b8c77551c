//! What people asked for, as far as it is possible.

use std::collections::{BTreeMap, BTreeSet};

use super::{Impossible, Request, Why, Wish};

/// The wishes that count.
pub(super) struct Wishes {
    pins: BTreeMap<usize, usize>,
    bans: BTreeMap<usize, BTreeSet<usize>>,
    takes: Vec<bool>,
    impossible: Vec<Impossible>,
}

impl Wishes {
    /// Sorts out what cannot be met.
    pub(super) fn read(request: &Request<'_>) -> Self {
        let mut wishes = Self {
            pins: BTreeMap::new(),
            bans: BTreeMap::new(),
            takes: request.members.iter().map(|member| member.takes).collect(),
            impossible: Vec::new(),
        };
        if !request.members.is_empty() && !wishes.takes.contains(&true) {
            wishes.takes.fill(true);
            wishes.impossible.push(Impossible::NobodyTakes);
        }
        // Pins first, whatever the order: an exclusion cannot undo one.
        for wish in request.wishes {
            if let Wish::Pin { partition, member } = *wish {
                wishes.pin(request, *wish, partition.index(), member);
            }
        }
        for wish in request.wishes {
            if let Wish::Exclude { partition, member } = *wish {
                wishes.ban(request, *wish, partition.index(), member);
            }
        }
        wishes.leave_somebody(request);
        wishes
    }

    fn pin(&mut self, request: &Request<'_>, wish: Wish, partition: usize, member: usize) {
        let Some(takes) = self.known(request, wish, partition, member) else {
            return;
        };
        match self.pins.get(&partition) {
            Some(pinned) if *pinned == member => {}
            Some(_) => self.refuse(wish, Why::Pinned),
            None if !takes && request.previous[partition] != Some(member) => {
                self.refuse(wish, Why::NotTaking);
            }
            None => {
                self.pins.insert(partition, member);
            }
        }
    }

    fn ban(&mut self, request: &Request<'_>, wish: Wish, partition: usize, member: usize) {
        if self.known(request, wish, partition, member).is_none() {
            return;
        }
        match self.pins.get(&partition) {
            Some(pinned) if *pinned == member => self.refuse(wish, Why::Pinned),
            Some(_) => {}
            None => {
                self.bans.entry(partition).or_default().insert(member);
            }
        }
    }

    /// Whether the member takes partitions, if both exist.
    fn known(
        &mut self,
        request: &Request<'_>,
        wish: Wish,
        partition: usize,
        member: usize,
    ) -> Option<bool> {
        let takes = self.takes.get(member).copied();
        if partition >= request.previous.len() {
            self.refuse(wish, Why::NoSuchPartition);
            return None;
        }
        if takes.is_none() {
            self.refuse(wish, Why::NoSuchMember);
        }
        takes
    }

    fn refuse(&mut self, wish: Wish, why: Why) {
        self.impossible.push(Impossible::Wish { wish, why });
    }

    /// A partition that nobody may receive stays where it is, or loses its exclusions.
    fn leave_somebody(&mut self, request: &Request<'_>) {
        let nowhere = |bans: &BTreeSet<usize>| {
            let mut takers = self.takes.iter().enumerate().filter(|(_, takes)| **takes);
            takers.all(|(member, _)| bans.contains(&member))
        };
        let stuck: Vec<usize> = self
            .bans
            .iter()
            .filter(|(_, bans)| nowhere(bans))
            .map(|(partition, _)| *partition)
            .collect();
        for partition in stuck {
            let bans = self.bans.remove(&partition).unwrap_or_default();
            let owner = present(request, partition);
            if let Some(owner) = owner.filter(|owner| !bans.contains(owner)) {
                self.pins.insert(partition, owner);
                continue;
            }
            for wish in request.wishes {
                if matches!(wish, Wish::Exclude { partition: p, .. } if p.index() == partition)
                    && !self.is_refused(*wish)
                {
                    self.refuse(*wish, Why::NobodyLeft);
                }
            }
        }
    }

    fn is_refused(&self, wish: Wish) -> bool {
        self.impossible
            .iter()
            .any(|found| matches!(found, Impossible::Wish { wish: other, .. } if *other == wish))
    }

    /// Where the partition must be.
    pub(super) fn pinned(&self, partition: usize) -> Option<usize> {
        self.pins.get(&partition).copied()
    }

    /// All pins: partition and member.
    pub(super) fn pins(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.pins
            .iter()
            .map(|(partition, member)| (*partition, *member))
    }

    /// Is any partition not allowed somewhere?
    pub(super) fn exclude(&self) -> bool {
        !self.bans.is_empty()
    }

    /// Members at which the partition may not be.
    pub(super) fn bans(&self, partition: usize) -> Option<&BTreeSet<usize>> {
        self.bans.get(&partition)
    }

    /// May it be at that member at all?
    pub(super) fn allow(&self, partition: usize, member: usize) -> bool {
        self.bans(partition)
            .is_none_or(|bans| !bans.contains(&member))
    }

    /// May this member receive partitions?
    pub(super) fn takes(&self, member: usize) -> bool {
        self.takes.get(member).is_some_and(|takes| *takes)
    }

    pub(super) fn into_impossible(self) -> Vec<Impossible> {
        self.impossible
    }
}

/// The present owner, if it is a candidate.
pub(super) fn present(request: &Request<'_>, partition: usize) -> Option<usize> {
    request.previous[partition].filter(|member| *member < request.members.len())
}
