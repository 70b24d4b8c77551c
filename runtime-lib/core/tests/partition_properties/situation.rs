//! Random requests, sensible and not.

use leasehold_core::partition::{Candidate, Partition, Request, Wish};
use proptest::prelude::*;

/// A request that owns what it speaks of.
#[derive(Clone, Debug)]
pub(crate) struct Situation {
    pub(crate) previous: Vec<Option<usize>>,
    pub(crate) members: Vec<Candidate<'static>>,
    pub(crate) wishes: Vec<Wish>,
    pub(crate) prefer: Vec<Option<usize>>,
    pub(crate) only_orphans: bool,
}

const NAMES: [&str; 10] = [
    "pod-a", "pod-b", "pod-c", "pod-d", "pod-e", "pod-f", "pod-g", "pod-h", "", "web-0",
];

impl Situation {
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            previous: &self.previous,
            members: &self.members,
            wishes: &self.wishes,
            prefer: &self.prefer,
            only_orphans: self.only_orphans,
        }
    }

    pub(crate) fn name(&self, member: usize) -> &'static str {
        self.members[member].name
    }

    pub(crate) fn has_exclusions(&self) -> bool {
        let exclusion = |wish: &Wish| matches!(wish, Wish::Exclude { .. });
        self.wishes.iter().any(exclusion)
    }

    pub(crate) fn of_equal_weights(mut self) -> Self {
        for member in &mut self.members {
            member.weight = 1;
        }
        self
    }

    /// Nothing but owners, weights and preferences.
    pub(crate) fn without_wishes(mut self) -> Self {
        self.wishes.clear();
        self.only_orphans = false;
        for member in &mut self.members {
            member.takes = true;
            member.keeps = false;
        }
        self
    }

    pub(crate) fn of_different_names(mut self) -> Self {
        for (member, name) in self.members.iter_mut().zip(NAMES) {
            member.name = name;
        }
        self
    }

    /// The same with the members in another order.
    pub(crate) fn turned(&self, by: usize) -> Self {
        let count = self.members.len();
        let mut turned = self.clone();
        if count == 0 {
            return turned;
        }
        let by = by % count;
        turned.members.rotate_left(by);
        // Indices that nobody has are left alone.
        let place = |member: usize| {
            if member < count {
                (member + count - by) % count
            } else {
                member
            }
        };
        for owner in turned
            .previous
            .iter_mut()
            .chain(&mut turned.prefer)
            .flatten()
        {
            *owner = place(*owner);
        }
        for wish in &mut turned.wishes {
            let (Wish::Pin { member, .. } | Wish::Exclude { member, .. }) = wish;
            *member = place(*member);
        }
        turned
    }
}

fn candidates(most: usize) -> impl Strategy<Value = Vec<Candidate<'static>>> {
    let weight = prop_oneof![6 => Just(1), 2 => 2_u32..6, 1 => Just(0), 1 => Just(u32::MAX)];
    let zone = prop_oneof![
        Just(None),
        Just(Some("x")),
        Just(Some("y")),
        Just(Some("z"))
    ];
    let takes = proptest::bool::weighted(0.85);
    let keeps = proptest::bool::weighted(0.1);
    let one = (0..NAMES.len(), weight, zone, takes, keeps).prop_map(
        |(name, weight, zone, takes, keeps)| Candidate {
            name: NAMES[name],
            weight,
            zone,
            takes,
            keeps,
        },
    );
    proptest::collection::vec(one, 0..=most)
}

fn wishes(partitions: usize) -> impl Strategy<Value = Vec<Wish>> {
    let one = (proptest::bool::ANY, 0..partitions + 2, 0_usize..8).prop_map(
        |(pin, partition, member)| {
            let partition = Partition::new(u16::try_from(partition).unwrap_or(u16::MAX));
            if pin {
                Wish::Pin { partition, member }
            } else {
                Wish::Exclude { partition, member }
            }
        },
    );
    prop_oneof![
        2 => Just(Vec::new()),
        1 => proptest::collection::vec(one.clone(), 1..4),
        1 => proptest::collection::vec(one, 4..20),
    ]
}

/// Requests of up to so many partitions and members. Owners cluster at few members as often as they
/// are spread, so that something has to move.
pub(crate) fn situations(partitions: usize, members: usize) -> impl Strategy<Value = Situation> {
    let owner = prop_oneof![
        3 => Just(None),
        5 => (0..members + 2).prop_map(Some),
        5 => Just(Some(0)),
    ];
    let prefer = prop_oneof![2 => Just(None), 1 => (0..members + 2).prop_map(Some)];
    (
        proptest::collection::vec(owner, 0..=partitions),
        candidates(members),
        wishes(partitions),
        proptest::collection::vec(prefer, 0..=partitions),
        proptest::bool::weighted(0.2),
    )
        .prop_map(
            |(previous, members, wishes, prefer, only_orphans)| Situation {
                previous,
                members,
                wishes,
                prefer,
                only_orphans,
            },
        )
}
