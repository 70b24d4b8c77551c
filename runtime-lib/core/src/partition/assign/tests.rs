//! Single decisions of the assignor; what holds for all of them is in `tests/partition_properties.rs`.

use super::*;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn members(count: usize) -> Vec<Candidate<'static>> {
    NAMES[..count].iter().copied().map(Candidate::new).collect()
}

fn counts(owners: &[Option<usize>], members: usize) -> Vec<usize> {
    let of = |member| {
        owners
            .iter()
            .filter(|owner| **owner == Some(member))
            .count()
    };
    (0..members).map(of).collect()
}

fn pin(partition: u16, member: usize) -> Wish {
    Wish::Pin {
        partition: Partition::new(partition),
        member,
    }
}

fn exclude(partition: u16, member: usize) -> Wish {
    Wish::Exclude {
        partition: Partition::new(partition),
        member,
    }
}

/// A settled assignment.
fn settled(count: usize, members: &[Candidate<'_>]) -> Vec<Option<usize>> {
    let plan = assign(&Request {
        previous: &vec![None; count],
        members,
        ..Request::default()
    });
    assert_eq!(
        (usize::from(plan.moves), usize::from(plan.least)),
        (count, count)
    );
    plan.owners
}

#[test]
fn without_a_candidate_nobody_owns_anything() {
    let plan = assign(&Request {
        previous: &[None, Some(0), Some(7)],
        wishes: &[pin(0, 0)],
        ..Request::default()
    });
    assert_eq!(plan.owners, [None; 3]);
    assert_eq!((plan.moves, plan.least), (0, 0));
    assert_eq!(
        plan.impossible,
        [Impossible::Wish {
            wish: pin(0, 0),
            why: Why::NoSuchMember
        }]
    );
}

#[test]
fn without_a_history_everyone_gets_the_same_number_one_more_or_less() {
    let mut counts = counts(&settled(10, &members(3)), 3);
    counts.sort_unstable();
    assert_eq!(counts, [3, 3, 4]);
}

#[test]
fn a_settled_assignment_stays_as_it_is() {
    let members = members(3);
    let previous = settled(10, &members);
    let plan = assign(&Request {
        previous: &previous,
        members: &members,
        ..Request::default()
    });
    assert_eq!((plan.owners, plan.moves), (previous, 0));
}

#[test]
fn a_newcomer_gets_its_share_and_nothing_else_moves() {
    let members = members(4);
    let previous = settled(12, &members[..3]);
    let plan = assign(&Request {
        previous: &previous,
        members: &members,
        ..Request::default()
    });
    assert_eq!(counts(&plan.owners, 4), [3; 4]);
    assert_eq!((plan.moves, plan.least), (3, 3));
    let moved = plan
        .owners
        .iter()
        .zip(&previous)
        .filter(|(new, old)| new != old);
    assert!(moved.into_iter().all(|(new, _)| *new == Some(3)));
}

#[test]
fn counts_follow_the_weights() {
    let mut members = members(3);
    for (member, weight) in members.iter_mut().zip([1, 2, 5]) {
        member.weight = weight;
    }
    assert_eq!(counts(&settled(80, &members), 3), [10, 20, 50]);
}

#[test]
fn the_share_that_is_one_larger_stays_with_those_that_hold_it() {
    // Eleven partitions, 6 and 5; c joins and 4, 4 and 3 are wanted: c has the least, so that
    // no more than three move.
    let members = members(3);
    let previous: Vec<_> = (0..11).map(|p| Some(usize::from(p >= 6))).collect();
    let plan = assign(&Request {
        previous: &previous,
        members: &members,
        ..Request::default()
    });
    assert_eq!(counts(&plan.owners, 3), [4, 4, 3]);
    assert_eq!((plan.moves, plan.least), (3, 3));
}

#[test]
fn one_that_takes_nothing_keeps_up_to_its_share() {
    let mut members = members(3);
    members[0].takes = false;
    let damped = |previous: &[Option<usize>]| {
        let plan = assign(&Request {
            previous,
            members: &members,
            ..Request::default()
        });
        counts(&plan.owners, 3)
    };
    let owners = |counts: [usize; 4]| -> Vec<Option<usize>> {
        let owner = |(member, count)| std::iter::repeat_n((member < 3).then_some(member), count);
        counts.into_iter().enumerate().flat_map(owner).collect()
    };
    assert_eq!(
        damped(&owners([1, 4, 4, 3])),
        [1, 6, 5],
        "the orphans are not for it"
    );
    assert_eq!(damped(&owners([0, 6, 6, 0])), [0, 6, 6]);
    assert_eq!(
        damped(&owners([12, 0, 0, 0])),
        [4, 4, 4],
        "it shares as everyone"
    );
}

#[test]
fn if_nobody_takes_everyone_does() {
    let mut members = members(2);
    for member in &mut members {
        member.takes = false;
    }
    let plan = assign(&Request {
        previous: &[None; 4],
        members: &members,
        ..Request::default()
    });
    assert_eq!(counts(&plan.owners, 2), [2, 2]);
    assert_eq!(plan.impossible, [Impossible::NobodyTakes]);
}

#[test]
fn orphans_alone_move_when_nothing_may_be_taken() {
    let members = members(3);
    let previous: Vec<_> = (0..12)
        .map(|p| (p < 10).then_some(usize::from(p >= 8)))
        .collect();
    let plan = assign(&Request {
        previous: &previous,
        members: &members,
        only_orphans: true,
        ..Request::default()
    });
    assert_eq!(counts(&plan.owners, 3), [8, 2, 2]);
    assert_eq!((plan.moves, plan.least), (2, 2));
}

#[test]
fn nothing_is_taken_from_one_that_keeps_what_it_has() {
    let mut members = members(3);
    members[0].keeps = true;
    let previous: Vec<_> = (0..12).map(|p| Some(usize::from(p >= 8))).collect();
    let plan = assign(&Request {
        previous: &previous,
        members: &members,
        ..Request::default()
    });
    assert_eq!(counts(&plan.owners, 3), [8, 2, 2]);
    assert_eq!((plan.moves, plan.least), (2, 2));
}

#[test]
fn an_orphan_goes_where_it_is_preferred_and_its_target_is_rounded_up_first() {
    let members = members(4);
    // c leaves with 4 of 13; d is its replacement.
    let previous = [0, 0, 0, 0, 0, 1, 1, 1, 1]
        .map(Some)
        .into_iter()
        .chain([None; 4]);
    let previous: Vec<_> = previous.collect();
    let prefer: Vec<_> = (0..13).map(|p| (p >= 9).then_some(3)).collect();
    let three = [members[0], members[1], members[3]];
    let prefer_third: Vec<_> = prefer.iter().map(|to| to.map(|_| 2)).collect();
    let plan = assign(&Request {
        previous: &previous,
        members: &three,
        prefer: &prefer_third,
        ..Request::default()
    });
    assert_eq!(plan.owners[9..], [Some(2); 4]);
    assert_eq!((plan.moves, plan.least), (4, 4));
}

#[test]
fn a_pin_is_obeyed_beyond_the_fair_share() {
    let members = members(3);
    let wishes: Vec<_> = (0..6).map(|partition| pin(partition, 1)).collect();
    let plan = assign(&Request {
        previous: &settled(10, &members),
        members: &members,
        wishes: &wishes,
        ..Request::default()
    });
    assert_eq!(plan.owners[..6], [Some(1); 6]);
    assert_eq!(counts(&plan.owners, 3), [2, 6, 2]);
    assert_eq!(plan.moves, plan.least);
    assert_eq!(plan.impossible, []);
}

#[test]
fn an_excluded_partition_moves_and_balance_stays() {
    let members = members(3);
    let previous = settled(9, &members);
    let first = previous[0].unwrap();
    let plan = assign(&Request {
        previous: &previous,
        members: &members,
        wishes: &[exclude(0, first)],
        ..Request::default()
    });
    assert_ne!(plan.owners[0], Some(first));
    assert_eq!(counts(&plan.owners, 3), [3; 3]);
}

#[test]
fn others_step_aside_for_a_partition_that_may_be_at_one_member_only() {
    let members = members(3);
    let previous: Vec<_> = [0, 0, 1, 1, 2]
        .map(Some)
        .into_iter()
        .chain([None])
        .collect();
    // The orphan may be at a only, which is full; c has room, but a's may not go there; b's may.
    let wishes = [exclude(5, 1), exclude(5, 2), exclude(0, 2), exclude(1, 2)];
    let plan = assign(&Request {
        previous: &previous,
        members: &members,
        wishes: &wishes,
        ..Request::default()
    });
    assert_eq!(plan.owners[5], Some(0));
    assert_eq!(counts(&plan.owners, 3), [2, 2, 2]);
    assert_eq!(
        (plan.moves, plan.least),
        (3, 1),
        "a chain of two makes room"
    );
}

#[test]
fn where_exclusions_break_the_shares_the_loads_are_evened_out() {
    // a takes nothing and could keep its two; but then b has two, and c, which may have neither of
    // the orphans, nothing.
    let mut members = members(3);
    members[0].takes = false;
    let plan = assign(&Request {
        previous: &[Some(0), Some(0), None, None],
        members: &members,
        wishes: &[exclude(3, 2), exclude(2, 2), exclude(0, 1)],
        ..Request::default()
    });
    assert_eq!(counts(&plan.owners, 3), [1, 2, 1]);
}

#[test]
fn nobody_steps_aside_when_only_orphans_may_move() {
    let members = members(3);
    let plan = assign(&Request {
        previous: &[None, Some(0), Some(1)],
        members: &members,
        wishes: &[exclude(0, 2)],
        only_orphans: true,
        ..Request::default()
    });
    assert_eq!(plan.owners[1..], [Some(0), Some(1)]);
    assert_eq!(plan.moves, 1);
}

#[test]
fn exclusions_go_before_balance() {
    let members = members(2);
    let wishes: Vec<_> = (0..4).map(|partition| exclude(partition, 0)).collect();
    let plan = assign(&Request {
        previous: &[None; 4],
        members: &members,
        wishes: &wishes,
        ..Request::default()
    });
    assert_eq!(plan.owners, [Some(1); 4]);
}

#[test]
fn impossible_wishes_are_passed_over_with_the_reason() {
    let mut members = members(3);
    members[2].takes = false;
    let wishes = [
        pin(9, 0),
        pin(0, 3),
        pin(1, 0),
        pin(1, 1),
        exclude(1, 0),
        pin(2, 2),
        exclude(3, 0),
        exclude(3, 1),
    ];
    let plan = assign(&Request {
        previous: &[None; 4],
        members: &members,
        wishes: &wishes,
        ..Request::default()
    });
    let refused = |wish, why| Impossible::Wish { wish, why };
    assert_eq!(
        plan.impossible,
        [
            refused(pin(9, 0), Why::NoSuchPartition),
            refused(pin(0, 3), Why::NoSuchMember),
            refused(pin(1, 1), Why::Pinned),
            refused(pin(2, 2), Why::NotTaking),
            refused(exclude(1, 0), Why::Pinned),
            refused(exclude(3, 0), Why::NobodyLeft),
            refused(exclude(3, 1), Why::NobodyLeft),
        ]
    );
    assert_eq!(plan.owners[1], Some(0));
    assert!(plan.owners.iter().all(Option::is_some));
}

#[test]
fn a_partition_that_nobody_else_may_have_stays_at_one_that_takes_nothing() {
    let mut members = members(2);
    members[0].takes = false;
    let plan = assign(&Request {
        previous: &[Some(0), Some(0), Some(0), Some(0)],
        members: &members,
        wishes: &[exclude(1, 1)],
        ..Request::default()
    });
    assert_eq!(plan.owners[1], Some(0));
    assert_eq!(counts(&plan.owners, 2), [2, 2]);
    assert_eq!(plan.impossible, []);
}

#[test]
fn one_partition_more_goes_to_the_zone_with_the_lightest_load() {
    let mut members = members(6);
    for (member, zone) in members.iter_mut().zip(["x", "x", "x", "x", "y", "y"]) {
        member.zone = Some(zone);
    }
    // 9 among 6: three get two. A fair part of them is in the small zone.
    let counts = counts(&settled(9, &members), 6);
    assert_eq!(counts[..4].iter().sum::<usize>(), 6, "{counts:?}");
    assert_eq!(counts[4..].iter().sum::<usize>(), 3, "{counts:?}");
}
