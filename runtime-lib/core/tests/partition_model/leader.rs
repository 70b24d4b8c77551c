//! A leader of a small world: its planner, and what is under way between it and the store.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::election::{Write, WriteOutcome};
use leasehold_core::id::{Identity, Term};
use leasehold_core::lease::LeaseTiming;
use leasehold_core::partition::planner::{Config, Pace, Planner, Wanted};
use leasehold_core::partition::{HashId, Listing};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    pub(crate) planner: Planner,
    /// The answer to its list: when it was sent, and what it shows.
    pub(crate) list: Option<(Instant, Listing)>,
    pub(crate) publish: Option<Flight>,
    /// By the numbers of the members.
    pub(crate) fences: BTreeMap<usize, Flight>,
    /// The members whose Leases have changed, and it has not heard of it.
    pub(crate) unseen: BTreeSet<usize>,
    /// The same of the assignment.
    pub(crate) table_unseen: bool,
    /// The member of which its watch shows nothing any more.
    pub(crate) deaf_to: Option<usize>,
}

/// Where a write is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flight {
    Sent(Write),
    /// The store has decided; the answer is under way.
    Answered(u64, WriteOutcome),
}

impl Leader {
    pub(crate) fn new(number: u32, count: u16, rules: Rules, now: Instant) -> Self {
        let identity = Identity::new(format!("leader-{number}"));
        let config = Config {
            me: "leader".into(),
            identity: identity.unwrap_or_else(|error| unreachable!("{error}")),
            leader_term: Term::new(number),
            timing: timing(),
            first_attempt: u64::from(number) << 32,
            wanted: wanted(count),
            pace: Pace {
                // Nothing waits for more of the same.
                join_quiet: Duration::ZERO,
                join_max: Duration::ZERO,
                stabilization: Duration::ZERO,
                hold: Duration::ZERO,
                flap_losses: usize::MAX,
                ..Pace::default()
            },
            rules,
        };
        Self {
            planner: Planner::new(config, BTreeMap::new(), now),
            list: None,
            publish: None,
            fences: BTreeMap::new(),
            unseen: BTreeSet::new(),
            table_unseen: false,
            deaf_to: None,
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.planner.next_deadline().is_some_and(|at| at <= now)
    }

    /// Members of which it can hear something.
    pub(crate) fn news(&self) -> impl Iterator<Item = usize> + '_ {
        let unseen = self.unseen.iter().copied();
        unseen.filter(|pod| Some(*pod) != self.deaf_to)
    }

    /// Time passes only at a price while something is under way to it or from it.
    pub(crate) fn is_busy(&self) -> bool {
        let requests = self.list.is_some() || self.publish.is_some() || !self.fences.is_empty();
        requests || self.table_unseen || self.news().next().is_some()
    }
}

pub(crate) fn wanted(count: u16) -> Wanted {
    let hash = HashId::CsHash1;
    Wanted { count, hash }
}

/// A lease of 3 s, 2.8 s of which are trusted.
pub(crate) fn timing() -> LeaseTiming {
    let millis = Duration::from_millis;
    let timing = LeaseTiming::new(millis(3000), millis(1000), millis(700), millis(100));
    timing.unwrap_or_else(|error| unreachable!("{error}"))
}
