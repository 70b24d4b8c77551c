//! Members that come, go and are replaced at random, one plan after the other.

use leasehold_core::partition::{Candidate, Plan, Request};

/// What happened to the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Joined,
    Left,
    Replaced,
    Nothing,
}

/// A group of members over time, by name.
pub(crate) struct Churn {
    random: u64,
    /// How many members it tends to.
    about: usize,
    members: Vec<Candidate<'static>>,
    owners: Vec<Option<usize>>,
    born: usize,
}

impl Churn {
    pub(crate) fn new(seed: u64, partitions: usize, members: usize) -> Self {
        let mut churn = Self {
            random: seed,
            about: members,
            members: Vec::new(),
            owners: vec![None; partitions],
            born: 0,
        };
        for _ in 0..members {
            churn.join();
        }
        churn
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            previous: &self.owners,
            members: &self.members,
            ..Request::default()
        }
    }

    /// A plan with these owners that counts honestly.
    pub(crate) fn counted(&self, owners: Vec<Option<usize>>) -> Plan {
        let moved = owners
            .iter()
            .zip(&self.owners)
            .filter(|(now, then)| now != then);
        Plan {
            moves: u16::try_from(moved.count()).unwrap_or(u16::MAX),
            owners,
            ..Plan::default()
        }
    }

    pub(crate) fn carry_out(&mut self, plan: Plan) {
        self.owners = plan.owners;
    }

    /// One more, one less, or one instead of another.
    pub(crate) fn change(&mut self) -> Change {
        let few = self.members.len() * 2 <= self.about || self.members.len() == 1;
        let many = self.members.len() >= self.about * 2;
        match self.below(5) {
            0 | 1 if !many => {
                self.join();
                Change::Joined
            }
            2 | 3 if !few => {
                self.leave();
                Change::Left
            }
            4 => {
                self.leave();
                self.join();
                Change::Replaced
            }
            _ => Change::Nothing,
        }
    }

    fn join(&mut self) {
        self.born += 1;
        let name = format!("pod-{}", self.born).leak();
        let place = self.below(self.members.len() + 1);
        self.members.insert(place, Candidate::new(name));
        for owner in self.owners.iter_mut().flatten() {
            *owner += usize::from(*owner >= place);
        }
    }

    fn leave(&mut self) {
        let place = self.below(self.members.len());
        self.members.remove(place);
        for owner in &mut self.owners {
            *owner = owner.filter(|owner| *owner != place);
            if let Some(owner) = owner {
                *owner -= usize::from(*owner > place);
            }
        }
    }

    /// splitmix64.
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % bound as u64).unwrap_or_default()
    }
}
