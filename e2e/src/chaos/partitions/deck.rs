//! Which disturbance comes next: a deck shuffled by the seed, dealt to its end
//! and shuffled again.

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
    /// Those that are over soon: a minute shows every kind.
    Short,
    /// Outages of 8 s and 20 s, the leader paused, and several changes of each number.
    Long,
}

/// Something done to the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// SIGKILL to a pod's process, which starts again in place.
    KillPod(usize),
    /// SIGKILL to the process that plans.
    KillLeader,
    /// `kubectl delete pod`.
    DeletePod(usize),
    /// SIGSTOP to a pod beyond its lease.
    PausePod(usize),
    /// SIGSTOP to the pod that plans, beyond its lease.
    PauseLeader,
    /// `kubectl scale`.
    Scale(usize),
    /// `kubectl rollout restart`.
    Rollout,
    /// Another number of partitions.
    Resize(u16),
    /// The API server is killed and started again.
    RestartApiserver,
    /// A component stands still for this long.
    Freeze(Component, Duration),
    /// The Postgres that pods write to stands still for this long.
    FreezePostgres(Duration),
}

impl Disturbance {
    /// The kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::KillPod(_) => "pod killed",
            Self::KillLeader => "leading pod killed",
            Self::DeletePod(_) => "pod deleted",
            Self::PausePod(_) => "pod paused beyond its lease",
            Self::PauseLeader => "leading pod paused beyond its lease",
            Self::Scale(_) => "scaled",
            Self::Rollout => "rolled out",
            Self::Resize(_) => "number of partitions changed",
            Self::RestartApiserver => "API server restarted",
            Self::Freeze(Component::Etcd, _) => "etcd paused",
            Self::Freeze(..) => "API server paused",
            Self::FreezePostgres(_) => "Postgres paused",
        }
    }

    /// Whether its moves are held to the least number: a user wanted it, and the layout stays.
    pub fn is_planned(&self) -> bool {
        matches!(self, Self::DeletePod(_) | Self::Scale(_) | Self::Rollout)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Freeze(_, time) | Self::FreezePostgres(time) => {
                write!(f, "{} for {} s", self.kind(), time.as_secs())
            }
            Self::Scale(pods) => write!(f, "{} to {pods} pods", self.kind()),
            Self::Resize(count) => write!(f, "{} to {count}", self.kind()),
            _ => f.write_str(self.kind()),
        }
    }
}

/// The disturbances of one run, without end.
pub struct Deck {
    random: StdRng,
    length: Length,
    pods: usize,
    count: u16,
    left: Vec<Disturbance>,
    dealt: BTreeMap<&'static str, usize>,
}

impl Deck {
    /// A deck shuffled by `seed`, around so many pods and partitions.
    pub fn new(seed: u64, length: Length, pods: usize, count: u16) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            length,
            pods,
            count,
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
        let dealt = self.dealt.iter();
        dealt.map(|(kind, count)| (*kind, *count)).collect()
    }

    fn cards(&mut self) -> Vec<Disturbance> {
        let mut draw = || self.random.random_range(0..1000);
        let mut cards = vec![
            Disturbance::KillPod(draw()),
            Disturbance::KillLeader,
            Disturbance::DeletePod(draw()),
            Disturbance::PausePod(draw()),
            Disturbance::Rollout,
            Disturbance::FreezePostgres(Duration::from_secs(5)),
        ];
        let component = [Component::Apiserver, Component::Etcd][draw() % 2];
        let pods = self.random.random_range(self.pods / 2..=self.pods + 2);
        cards.push(Disturbance::Scale(pods));
        let count = self.random.random_range(self.count / 2..=self.count * 2);
        cards.push(Disturbance::Resize(count));
        match self.length {
            Length::Short => {
                cards.push(Disturbance::Freeze(component, Duration::from_secs(8)));
            }
            Length::Long => {
                cards.push(Disturbance::PauseLeader);
                cards.push(Disturbance::RestartApiserver);
                cards.push(Disturbance::Scale(self.pods));
                cards.push(Disturbance::Resize(self.count));
                for component in [Component::Apiserver, Component::Etcd] {
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
        let mut deck = Deck::new(seed, length, 8, 128);
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
        for (length, cards, kinds) in [(Length::Short, 9, 9), (Length::Long, 16, 12)] {
            let found: BTreeSet<_> = dealt(3, length, cards)
                .iter()
                .map(Disturbance::kind)
                .collect();
            assert_eq!(found.len(), kinds, "{length:?}: {found:?}");
        }
    }
}
