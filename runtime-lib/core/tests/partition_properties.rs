//! What holds for every plan: it is total, balanced, deterministic and moves as little as possible.
//!
//! Three judges that share nothing with the assignor: the checker, a search of all assignments
//! ([`brute`]) where there are few, and the cheapest flow ([`flow`]) where there are more.

#[path = "partition_properties/brute.rs"]
mod brute;
#[path = "partition_properties/churn.rs"]
mod churn;
#[path = "partition_properties/flow.rs"]
mod flow;
#[path = "partition_properties/rollout.rs"]
mod rollout;
#[path = "partition_properties/situation.rs"]
mod situation;

use leasehold_core::partition::{Plan, Violation, assign, check_plan};
use proptest::prelude::*;
use proptest::test_runner::Config;

use churn::{Change, Churn};
use rollout::roll_out;
use situation::{Situation, situations};

/// That many cases, or another share of them: `PROPTEST_CASES` is 256 unless it is set.
fn cases(cases: u32) -> Config {
    Config {
        cases: cases * Config::default().cases / 256,
        failure_persistence: None, // a failing case is printed in full
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    /// Nonsense included: no members, more members than partitions, weights 0 and huge, one name
    /// twice, owners and wishes that do not exist.
    #[test]
    fn every_request_has_a_plan_that_the_checker_accepts(situation in situations(24, 6)) {
        let request = situation.request();
        let plan = assign(&request);
        prop_assert_eq!(check_plan(&request, &plan), []);
        prop_assert_eq!(assign(&request), plan, "the same request has another plan");
    }

    /// With exclusions balance is exact, and moves are not.
    #[test]
    fn no_assignment_of_all_is_fairer_or_moves_less(situation in situations(5, 3)) {
        let situation = situation.of_equal_weights();
        let request = situation.request();
        let plan = assign(&request);
        if let Some(best) = brute::best(&request, &plan) {
            prop_assert_eq!(brute::unfairness(&plan.owners, request.members.len()), best.unfairness);
            if situation.has_exclusions() {
                prop_assert!(usize::from(plan.moves) >= best.moves);
            } else {
                prop_assert_eq!(usize::from(plan.moves), best.moves);
                prop_assert_eq!(usize::from(plan.least), best.moves);
            }
        }
    }

    #[test]
    fn no_flow_through_fair_shares_is_cheaper(situation in situations(24, 8)) {
        let situation = situation.without_wishes();
        let request = situation.request();
        let plan = assign(&request);
        let weights: Vec<u32> = request.members.iter().map(|member| member.weight.max(1)).collect();
        if let Some(moves) = flow::least_moves(request.previous, &weights) {
            prop_assert_eq!(usize::from(plan.moves), moves);
            prop_assert_eq!(usize::from(plan.least), moves);
        }
    }

    /// The plan speaks of names: in which order the members come changes nothing.
    #[test]
    fn the_order_of_the_members_changes_nothing(situation in situations(24, 6), by in 0_usize..6) {
        let situation = situation.of_different_names();
        let turned = situation.turned(by);
        let names = |situation: &Situation| {
            let plan = assign(&situation.request());
            let name = |owner: &Option<usize>| owner.map(|member| situation.name(member));
            plan.owners.iter().map(name).collect::<Vec<_>>()
        };
        prop_assert_eq!(names(&situation), names(&turned));
    }

    #[test]
    fn a_plan_that_was_carried_out_is_the_next_one_too(situation in situations(24, 6)) {
        let situation = situation.without_wishes();
        let first = assign(&situation.request());
        let settled = Situation { previous: first.owners.clone(), ..situation };
        let second = assign(&settled.request());
        prop_assert_eq!(&second.owners, &first.owners);
        prop_assert_eq!((second.moves, second.least), (0, 0));
    }
}

/// The one who moves least among those who keep everyone within one of everyone else.
fn ours(churn: &Churn) -> Plan {
    assign(&churn.request())
}

/// The members alone decide: rendezvous hashing with the same bounds, but no history.
fn memoryless(churn: &Churn) -> Plan {
    let request = churn.request();
    let unknown = vec![None; request.previous.len()];
    let plan = assign(&leasehold_core::partition::Request {
        previous: &unknown,
        ..request
    });
    churn.counted(plan.owners)
}

/// Partition `i` is at member `i mod n`, by name.
fn modulo(churn: &Churn) -> Plan {
    let request = churn.request();
    let members = request.members.len();
    let owners = (0..request.previous.len()).map(|partition| Some(partition % members));
    churn.counted(owners.collect())
}

/// Runs random changes of the members and returns how many there were, and all violations.
fn run(changes: usize, plan: fn(&Churn) -> Plan) -> (usize, Vec<Violation>) {
    let mut violations = Vec::new();
    let mut done = 0;
    for (seed, (partitions, members)) in [(10, 3), (64, 12), (100, 30), (1000, 30), (5, 9)]
        .into_iter()
        .enumerate()
    {
        let mut churn = Churn::new(seed as u64, partitions, members);
        for _ in 0..changes / 5 {
            let change = churn.change();
            let plan = plan(&churn);
            violations.extend(check_plan(&churn.request(), &plan));
            done += usize::from(change != Change::Nothing);
            churn.carry_out(plan);
        }
    }
    (done, violations)
}

#[test]
fn two_thousand_changes_of_the_members_move_exactly_what_they_must() {
    let (done, violations) = run(2_000, ours);
    assert_eq!(violations, []);
    assert!(done > 1_000, "only {done} changes");
}

/// Positive controls: what others do is found.
#[test]
fn assignors_without_a_memory_move_too_much() {
    for plan in [memoryless, modulo] {
        let (_, violations) = run(500, plan);
        let moves =
            |it: &&Violation| matches!(it, Violation::Moves { found, least } if found > least);
        let count = violations.iter().filter(moves).count();
        assert!(count > 100, "found in {count} of 500 changes only");
        let unfair = |it: &Violation| matches!(it, Violation::Unfair { .. });
        assert!(!violations.iter().any(unfair), "their balance is perfect");
    }
}

/// Through the planner: newcomers stand by, and take the shares of those that leave whole.
#[test]
fn a_rollout_of_all_pods_moves_every_partition_once() {
    let old: Vec<String> = (0..12).map(|n| format!("old-{n}")).collect();
    let new: Vec<String> = (0..12).map(|n| format!("new-{n}")).collect();
    let (moves, shares) = roll_out(64, &old, &new);
    assert_eq!(moves, 64);
    assert!(shares.keys().all(|name| name.starts_with("new")));
    assert!(
        shares.values().all(|share| (5..=6).contains(share)),
        "{shares:?}"
    );
}
