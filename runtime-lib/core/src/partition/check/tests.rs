//! Each violation is found where it is, and a good plan has none.

use super::*;
use crate::partition::assign::{Candidate, assign};

const MEMBERS: [Candidate<'static>; 3] = [
    Candidate::new("a"),
    Candidate::new("b"),
    Candidate::new("c"),
];

/// Four partitions at a, two at b, one orphan; c is new.
const BEFORE: [Option<usize>; 7] = [Some(0), Some(0), Some(0), Some(0), Some(1), Some(1), None];

fn request() -> Request<'static> {
    Request {
        previous: &BEFORE,
        members: &MEMBERS,
        ..Request::default()
    }
}

/// A plan for these owners that counts honestly; two moves are needed.
fn plan(owners: [usize; 7]) -> Plan {
    let moves = owners
        .iter()
        .zip(BEFORE)
        .filter(|(now, before)| Some(**now) != *before);
    Plan {
        moves: u16::try_from(moves.count()).unwrap(),
        least: 2,
        owners: owners.map(Some).to_vec(),
        impossible: Vec::new(),
    }
}

fn p(number: u16) -> Partition {
    Partition::new(number)
}

#[test]
fn a_plan_that_does_what_is_needed_has_no_violation() {
    assert_eq!(check_plan(&request(), &plan([0, 0, 0, 2, 1, 1, 2])), []);
    assert_eq!(check_plan(&request(), &assign(&request())), []);
}

#[test]
fn a_partition_without_an_owner_is_found_and_one_of_nobody() {
    let mut bad = plan([0, 0, 0, 2, 1, 1, 2]);
    bad.owners[6] = None;
    assert_eq!(check_plan(&request(), &bad), [Violation::Unowned(p(6))]);
    bad.owners[6] = Some(3);
    let expected = Violation::NoSuchMember {
        partition: p(6),
        member: 3,
    };
    assert_eq!(check_plan(&request(), &bad), [expected]);
    bad.owners.pop();
    let expected = Violation::Length {
        found: 6,
        expected: 7,
    };
    assert_eq!(check_plan(&request(), &bad), [expected]);
}

#[test]
fn an_unfair_share_is_found() {
    let found = check_plan(&request(), &plan([0, 0, 0, 0, 1, 1, 2]));
    let unfair = |member, count| Violation::Unfair {
        member,
        count,
        from: 2,
        to: 3,
    };
    assert_eq!(
        found,
        [
            unfair(0, 4),
            unfair(2, 1),
            Violation::Moves { found: 1, least: 2 },
        ]
    );
}

#[test]
fn a_needless_move_is_found() {
    // c gets two, which is fair; but a had the right to three.
    let found = check_plan(&request(), &plan([0, 0, 2, 2, 1, 1, 1]));
    assert_eq!(found, [Violation::Moves { found: 3, least: 2 }]);
}

#[test]
fn a_plan_that_counts_wrongly_is_found() {
    let bad = Plan {
        moves: 1,
        ..plan([0, 0, 0, 2, 1, 1, 2])
    };
    let expected = Violation::Told {
        told: (1, 2),
        found: (2, 2),
    };
    assert_eq!(check_plan(&request(), &bad), [expected]);
}

#[test]
fn a_receiver_that_takes_nothing_is_found() {
    let mut members = MEMBERS;
    members[1].takes = false;
    let request = Request {
        members: &members,
        ..request()
    };
    let found = check_plan(&request, &plan([0, 0, 0, 2, 1, 1, 1]));
    let expected = Violation::NotTaking {
        partition: p(6),
        member: 1,
    };
    assert!(found.contains(&expected), "{found:?}");
}

#[test]
fn a_wish_without_an_answer_is_found() {
    let wishes = [
        Wish::Pin {
            partition: p(0),
            member: 2,
        },
        Wish::Exclude {
            partition: p(5),
            member: 1,
        },
    ];
    let request = Request {
        wishes: &wishes,
        ..request()
    };
    let found = check_plan(&request, &plan([0, 0, 0, 2, 1, 1, 2]));
    assert!(
        wishes
            .iter()
            .all(|wish| found.contains(&Violation::Unheard(*wish))),
        "{found:?}"
    );
    let plan = assign(&request);
    assert_eq!(check_plan(&request, &plan), []);
}

#[test]
fn levels_respect_what_members_must_and_may_have() {
    let bound = |weight, least, most| Bound {
        weight,
        least,
        most,
    };
    let shares = |count, bounds: &[Bound]| -> Vec<(usize, usize)> {
        let fair = level::fair(count, bounds);
        fair.iter().map(|fair| (fair.down, fair.up)).collect()
    };
    assert_eq!(
        shares(10, &[bound(1, 0, 10), bound(3, 0, 10)]),
        [(2, 3), (7, 8)]
    );
    assert_eq!(
        shares(
            10,
            &[
                bound(1, 0, 1),
                bound(1, 2, 9),
                bound(1, 5, 9),
                bound(1, 0, 9)
            ]
        ),
        [(1, 1), (2, 2), (5, 5), (2, 2)]
    );
    assert_eq!(
        shares(0, &[bound(1, 0, 0), bound(2, 0, 0)]),
        [(0, 0), (0, 0)]
    );
    assert_eq!(shares(3, &[]), []);
}
