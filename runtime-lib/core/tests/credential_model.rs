//! Every crash, every edit and every late write in a small world of one Secret and one server.
//!
//! [`story`] tells create, rotate, rotate, delete, with crashes and hands after every effect; then
//! `stateright` visits all orders in which two operators can act, one of which may sleep in front of
//! any write. From every state one operator, left alone, must come to the one good end.
//! `MODEL_DEPTH=2 cargo test -p leasehold-core --test credential_model -- --nocapture` adds a
//! rotation to the second part.

#[path = "credential_model/hand.rs"]
mod hand;
#[path = "credential_model/interleaved.rs"]
mod interleaved;
#[path = "credential_model/operator.rs"]
mod operator;
#[path = "credential_model/secret.rs"]
mod secret;
#[path = "credential_model/server.rs"]
mod server;
#[path = "credential_model/story.rs"]
mod story;
#[path = "credential_model/world.rs"]
mod world;

use hand::Hand;
use operator::Order;
use server::Guard;
use story::{Disturbance, Told, tell};
use world::World;

const STORES: [(&str, Guard); 2] = [("postgres", Guard::POSTGRES), ("redis", Guard::REDIS)];

/// Every crash point of a story, and every pair of them.
fn crashes(guard: Guard, order: Order) -> Vec<(Vec<usize>, Told)> {
    let quiet = tell(guard, order, None, &Disturbance::default());
    let last = quiet.effects;
    let mut told = vec![(Vec::new(), quiet)];
    for first in 1..=last {
        for second in first..=last + 3 {
            let crashes = vec![first, second];
            let with = Disturbance {
                crashes: crashes.clone(),
                ..Disturbance::default()
            };
            told.push((crashes, tell(guard, order, None, &with)));
        }
    }
    told
}

/// What must be the same after every crash: all but versions and the numbers of passwords.
fn end(world: &World) -> String {
    let secret = world.secret.as_ref();
    let current = secret.and_then(|secret| secret.current);
    let current = current.map(|kept| (kept.slot, kept.generation));
    let logins = world
        .store
        .logins
        .map(|login| login.map(|login| login.generation));
    format!(
        "{current:?} {:?} {logins:?}",
        secret.map(|secret| secret.trigger)
    )
}

#[test]
fn a_crash_after_any_effect_leads_to_the_same_end_and_no_login_is_refused() {
    for (store, guard) in STORES {
        let runs = crashes(guard, Order::Staged);
        let expected = end(&runs[0].1.world);
        assert_eq!(runs[0].1.world.judge.turns, 3, "{store}");
        for (crashes, told) in &runs {
            assert_eq!(told.wrong, None, "{store}, crashes after {crashes:?}");
            assert_eq!(
                end(&told.world),
                expected,
                "{store}, crashes after {crashes:?}"
            );
            assert_eq!((told.refused, told.nowhere), (0, 0), "{store}, {crashes:?}");
        }
        let effects = runs[0].1.effects;
        println!(
            "{store}: {effects} effects, {} runs, all end as {expected}",
            runs.len()
        );
        assert!(effects > 20 && runs.len() > 200, "too little happened");
    }
}

/// The positive controls of C2: both other orders break what the first test finds kept.
#[test]
fn both_other_orders_are_found() {
    for (store, guard) in STORES {
        let count = |order| {
            let runs = crashes(guard, order);
            let single = runs
                .iter()
                .filter(|(crashes, _)| crashes.first() == crashes.last());
            single.fold((0, 0), |(refused, nowhere), (_, told)| {
                (refused + told.refused, nowhere + told.nowhere)
            })
        };
        let (current_first, server_first) = (count(Order::CurrentFirst), count(Order::ServerFirst));
        println!(
            "{store}: (refused, nowhere) of current first {current_first:?}, server first {server_first:?}"
        );
        // The figures of decision 0009.
        assert_eq!(current_first, (80, 0), "current first");
        assert_eq!(server_first.1, 277, "server first");
        assert_eq!(count(Order::Staged), (0, 0));
    }
}

#[test]
fn a_grace_that_is_ignored_is_found() {
    let told = tell(
        Guard::POSTGRES,
        Order::Staged,
        Some(0),
        &Disturbance::default(),
    );
    let wrong = told.wrong.unwrap_or_default();
    assert!(wrong.contains("before its grace"), "{wrong}");
}

#[test]
fn a_held_session_keeps_the_former_login_until_the_longest_grace() {
    let held = Disturbance {
        holds: true,
        ..Disturbance::default()
    };
    for (store, guard) in STORES {
        let quiet = tell(guard, Order::Staged, None, &Disturbance::default());
        let told = tell(guard, Order::Staged, None, &held);
        assert_eq!(told.wrong, None, "{store}");
        // Two rotations end a login each, after three ticks instead of one.
        assert_eq!(
            told.world.now,
            quiet.world.now + 2 * 2 * world::TICK,
            "{store}"
        );
    }
}

#[test]
fn a_login_that_is_ended_while_it_is_used_is_found() {
    let held = Disturbance {
        holds: true,
        ..Disturbance::default()
    };
    // The policy says that the longest grace is the shortest one.
    let told = tell(Guard::POSTGRES, Order::Staged, Some(world::TICK), &held);
    let wrong = told.wrong.unwrap_or_default();
    assert!(wrong.contains("while a session used it"), "{wrong}");
}

/// One hand after every effect, then two; each with and without a crash in the same instant.
#[test]
fn whatever_is_edited_dropped_or_deleted_by_hand_is_repaired() {
    for (store, guard) in STORES {
        let last = tell(guard, Order::Staged, None, &Disturbance::default()).effects;
        let (mut runs, mut interfered) = (0, 0);
        let mut check = |hands: Vec<(usize, Hand)>, crashes: Vec<usize>| {
            let with = Disturbance {
                crashes,
                hands,
                ..Disturbance::default()
            };
            let told = tell(guard, Order::Staged, None, &with);
            assert_eq!(told.wrong, None, "{store}: {with:?}");
            runs += 1;
            interfered += told.interfered;
        };
        for at in 1..=last {
            for hand in Hand::ALL {
                check(vec![(at, hand)], vec![]);
                check(vec![(at, hand)], vec![at]);
                for later in [0, 1, 2, 3, 5] {
                    for second in Hand::ALL {
                        check(vec![(at, hand), (at + later, second)], vec![at]);
                    }
                }
            }
        }
        println!("{store}: {runs} runs, {interfered} times something was changed by hand");
        assert!(interfered > 5_000, "too little happened");
    }
}
