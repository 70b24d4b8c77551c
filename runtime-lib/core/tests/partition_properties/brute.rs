//! Every assignment there is, for members of one weight: the fairest, and of those the one that
//! moves least.

use leasehold_core::partition::assign::Impossible;
use leasehold_core::partition::{Plan, Request, Wish};

/// How good an assignment can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Best {
    pub(crate) unfairness: usize,
    pub(crate) moves: usize,
}

/// Sum of the squares of what everyone has: least when all have the same, one more or less.
pub(crate) fn unfairness(owners: &[Option<usize>], members: usize) -> usize {
    let count = |member| {
        owners
            .iter()
            .filter(|owner| **owner == Some(member))
            .count()
    };
    (0..members).map(|member| count(member).pow(2)).sum()
}

/// The best of all assignments that heed the wishes which the plan did not call impossible.
pub(crate) fn best(request: &Request<'_>, plan: &Plan) -> Option<Best> {
    let (partitions, members) = (request.previous.len(), request.members.len());
    if members == 0 {
        return None;
    }
    let refused = |wish: &Wish| {
        plan.impossible
            .iter()
            .any(|it| matches!(it, Impossible::Wish { wish: other, .. } if other == wish))
    };
    let wishes: Vec<Wish> = request
        .wishes
        .iter()
        .filter(|w| !refused(w))
        .copied()
        .collect();
    let nobody_takes = !request.members.iter().any(|member| member.takes);
    let before: Vec<_> = request
        .previous
        .iter()
        .map(|owner| owner.filter(|member| *member < members))
        .collect();
    let wished = |partition: usize, owner: usize| {
        wishes.iter().all(|wish| match *wish {
            Wish::Pin {
                partition: p,
                member,
            } => p.index() != partition || member == owner,
            Wish::Exclude {
                partition: p,
                member,
            } => p.index() != partition || member != owner,
        })
    };
    let allowed = |partition: usize, owner: usize| {
        let stays = before[partition] == Some(owner);
        let takes = request.members[owner].takes || nobody_takes;
        let may_stay = before[partition].is_some_and(|before| wished(partition, before));
        let kept = request.only_orphans
            || before[partition].is_some_and(|before| request.members[before].keeps);
        wished(partition, owner) && (stays || takes) && (stays || !kept || !may_stay)
    };
    let mut best: Option<Best> = None;
    let mut owners = vec![0; partitions];
    let all = (0..partitions).fold(1, |all, _| all * members);
    for number in 0..all {
        let mut rest = number;
        for owner in &mut owners {
            *owner = rest % members;
            rest /= members;
        }
        if !owners
            .iter()
            .enumerate()
            .all(|(partition, owner)| allowed(partition, *owner))
        {
            continue;
        }
        let owned: Vec<_> = owners.iter().copied().map(Some).collect();
        let found = Best {
            unfairness: unfairness(&owned, members),
            moves: owned
                .iter()
                .zip(&before)
                .filter(|(now, then)| now != then)
                .count(),
        };
        best = Some(best.map_or(found, |best| best.min(found)));
    }
    best
}
