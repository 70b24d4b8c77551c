//! Which disturbance comes next: a deck of all of them, shuffled by the seed,
//! dealt to its end and shuffled again, so that none is left out for long.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::Component;

/// Which disturbances are dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// One outage of 8 s a deck: a minute shows every other kind.
    Short,
    /// API server and etcd paused 8 s and 20 s each.
    Long,
}

/// Something done to the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// SIGKILL to the leader; it is started again after the takeover.
    KillLeader,
    /// SIGKILL to a candidate, which is started again at once.
    KillCandidate(usize),
    /// SIGTERM to the leader: it drains, releases and ends.
    StopLeader,
    /// SIGSTOP to the leader for D + 10 s.
    PauseLeader,
    /// The API server is killed and started again.
    RestartApiserver,
    /// A component stands still for this long.
    Freeze(Component, Duration),
    /// `kubectl delete lease`.
    DeleteLease,
    /// `kubectl patch`: the holder is empty.
    EmptyHolder,
    /// `kubectl patch`: the holder is somebody who does not exist.
    ForgeHolder,
    /// The leader's RoleBinding goes and comes back.
    RevokeLeader,
    /// Everybody's RoleBinding goes and comes back.
    RevokeAll,
}

impl Disturbance {
    /// The kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::KillLeader => "leader killed",
            Self::KillCandidate(_) => "candidate killed",
            Self::StopLeader => "leader asked to stop",
            Self::PauseLeader => "leader paused beyond its lease",
            Self::RestartApiserver => "API server restarted",
            Self::Freeze(Component::Etcd, _) => "etcd paused",
            Self::Freeze(..) => "API server paused",
            Self::DeleteLease => "Lease deleted",
            Self::EmptyHolder => "holder emptied",
            Self::ForgeHolder => "holder forged",
            Self::RevokeLeader => "leader's rights taken away",
            Self::RevokeAll => "everybody's rights taken away",
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Freeze(_, time) => write!(f, "{} for {} s", self.kind(), time.as_secs()),
            _ => f.write_str(self.kind()),
        }
    }
}

/// The disturbances of one run, without end.
pub struct Deck {
    random: StdRng,
    length: Length,
    left: Vec<Disturbance>,
    dealt: BTreeMap<&'static str, usize>,
}

impl Deck {
    /// A deck shuffled by `seed`.
    pub fn new(seed: u64, length: Length) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            length,
            left: Vec::new(),
            dealt: BTreeMap::new(),
        }
    }

    /// Deals one.
    pub fn deal(&mut self) -> Disturbance {
        let disturbance = loop {
            if let Some(disturbance) = self.left.pop() {
                break disturbance;
            }
            self.left = self.cards();
            self.left.shuffle(&mut self.random);
        };
        *self.dealt.entry(disturbance.kind()).or_default() += 1;
        disturbance
    }

    /// How often each kind was dealt.
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        self.dealt
            .iter()
            .map(|(kind, count)| (*kind, *count))
            .collect()
    }

    fn cards(&mut self) -> Vec<Disturbance> {
        let mut cards = vec![
            Disturbance::KillLeader,
            Disturbance::KillCandidate(self.random.random_range(0..1000)),
            Disturbance::StopLeader,
            Disturbance::PauseLeader,
            Disturbance::RestartApiserver,
            Disturbance::DeleteLease,
            Disturbance::EmptyHolder,
            Disturbance::ForgeHolder,
            Disturbance::RevokeLeader,
        ];
        let components = [Component::Apiserver, Component::Etcd];
        match self.length {
            Length::Short => {
                let component = components[self.random.random_range(0..2)];
                cards.push(Disturbance::Freeze(component, Duration::from_secs(8)));
            }
            Length::Long => {
                cards.push(Disturbance::RevokeAll);
                for component in components {
                    for seconds in [8, 20] {
                        let time = Duration::from_secs(seconds);
                        cards.push(Disturbance::Freeze(component, time));
                    }
                }
            }
        }
        cards
    }
}

#[cfg(test)]
mod tests {
    use super::{Deck, Disturbance, Length};
    use std::collections::BTreeSet;

    fn dealt(seed: u64, length: Length, count: usize) -> Vec<Disturbance> {
        let mut deck = Deck::new(seed, length);
        (0..count).map(|_| deck.deal()).collect()
    }

    #[test]
    fn the_same_seed_deals_the_same_order_and_another_one_does_not() {
        let one = dealt(7, Length::Long, 50);
        assert_eq!(one, dealt(7, Length::Long, 50));
        assert_ne!(one, dealt(8, Length::Long, 50));
    }

    #[test]
    fn one_deck_holds_every_kind_of_disturbance() {
        for (length, cards, kinds) in [(Length::Short, 10, 10), (Length::Long, 14, 12)] {
            let found: BTreeSet<_> = dealt(3, length, cards)
                .iter()
                .map(Disturbance::kind)
                .collect();
            assert_eq!(found.len(), kinds, "{length:?}: {found:?}");
        }
    }
}
