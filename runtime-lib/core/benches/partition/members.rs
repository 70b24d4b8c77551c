//! Members that come and go, and what everyone owns, by name.

use leasehold_core::partition::{Candidate, HashId, Request};

/// A group of members and what they own in our way.
pub(crate) struct Group {
    random: u64,
    about: usize,
    born: usize,
    pub(crate) names: Vec<String>,
    pub(crate) newest: String,
    /// Indices into `names`.
    pub(crate) owners: Vec<Option<usize>>,
    candidates: Vec<Candidate<'static>>,
}

impl Group {
    pub(crate) fn new(seed: u64, partitions: usize, members: usize) -> Self {
        let mut group = Self {
            random: seed,
            about: members,
            born: 0,
            names: Vec::new(),
            newest: String::new(),
            owners: vec![None; partitions],
            candidates: Vec::new(),
        };
        for _ in 0..members {
            group.join();
        }
        group
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            previous: &self.owners,
            members: &self.candidates,
            ..Request::default()
        }
    }

    pub(crate) fn unowned(&self) -> Vec<Option<String>> {
        vec![None; self.owners.len()]
    }

    pub(crate) fn by_name(&self, owners: &[Option<usize>]) -> Vec<Option<String>> {
        let name = |owner: &Option<usize>| owner.map(|member| self.names[member].clone());
        owners.iter().map(name).collect()
    }

    /// The largest number of partitions at one member, over the mean.
    pub(crate) fn imbalance(&self, owners: &[Option<String>]) -> f64 {
        let load = |name: &String| {
            owners
                .iter()
                .filter(|owner| owner.as_ref() == Some(name))
                .count()
        };
        let largest = self.names.iter().map(load).max().unwrap_or(0);
        largest as f64 * self.names.len() as f64 / owners.len() as f64
    }

    /// One more, one less, or one instead of another. Returns who left.
    pub(crate) fn change(&mut self) -> Vec<String> {
        let few = self.names.len() * 2 <= self.about || self.names.len() == 1;
        let many = self.names.len() >= self.about * 2;
        loop {
            match self.below(5) {
                0 | 1 if !many => {
                    self.join();
                    return Vec::new();
                }
                2 | 3 if !few => {
                    let place = self.below(self.names.len());
                    return vec![self.leave(place)];
                }
                4 => {
                    let place = self.below(self.names.len());
                    let gone = self.leave(place);
                    self.join();
                    return vec![gone];
                }
                _ => {}
            }
        }
    }

    pub(crate) fn join(&mut self) {
        self.born += 1;
        let suffix = HashId::CsHash1.of(&self.born.to_le_bytes()) >> 40;
        self.newest = format!("orders-7d9f6c5b48-{suffix:06x}");
        let place = self.below(self.names.len() + 1);
        self.names.insert(place, self.newest.clone());
        self.candidates
            .insert(place, Candidate::new(self.newest.clone().leak()));
        for owner in self.owners.iter_mut().flatten() {
            *owner += usize::from(*owner >= place);
        }
    }

    pub(crate) fn leave(&mut self, place: usize) -> String {
        self.candidates.remove(place);
        for owner in &mut self.owners {
            *owner = owner.filter(|owner| *owner != place);
            if let Some(owner) = owner {
                *owner -= usize::from(*owner > place);
            }
        }
        self.names.remove(place)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(1);
        let mixed = HashId::CsHash1.of(&self.random.to_le_bytes());
        usize::try_from(mixed % bound as u64).unwrap_or_default()
    }
}

/// The same without what those owned.
pub(crate) fn without(owners: &[Option<String>], gone: &[String]) -> Vec<Option<String>> {
    let stays = |owner: &String| !gone.contains(owner);
    owners
        .iter()
        .map(|owner| owner.clone().filter(stays))
        .collect()
}

/// How many have another owner.
pub(crate) fn changed(before: &[Option<String>], now: &[Option<String>]) -> u32 {
    let moved = before.iter().zip(now).filter(|(before, now)| before != now);
    u32::try_from(moved.count()).unwrap_or(u32::MAX)
}
