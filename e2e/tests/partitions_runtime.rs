//! Partitions on a real API server: leaders that are lost or paused in the middle
//! of a change, tables deleted and overwritten by hand, members that share a name
//! or never acknowledge, clocks that run fast or slow, garbage, and what all of it
//! costs in requests.
//!
//! All scenarios run together, each with pods of its own; every test waits for
//! one of them.
#![allow(clippy::panic)]

#[path = "partitions_runtime/assignment.rs"]
mod assignment;
#[path = "partitions_runtime/clocks.rs"]
mod clocks;
#[path = "partitions_runtime/ground.rs"]
mod ground;
#[path = "partitions_runtime/leader.rs"]
mod leader;
#[path = "partitions_runtime/members.rs"]
mod members;
#[path = "partitions_runtime/requests.rs"]
mod requests;
#[path = "partitions_runtime/resize.rs"]
mod resize;
#[path = "runtime_behaviour/run.rs"]
mod run;

/// Each scenario has several pods: more at once would starve them, and so their leases.
const AT_ONCE: usize = 2;

/// One test for each scenario; the longest come first.
macro_rules! scenarios {
    ($($module:ident :: $sentence:ident),* $(,)?) => {
        $(#[test] fn $sentence() { run::outcome(stringify!($sentence)); })*

        const SCENARIOS: &[(&str, run::Scenario)] = &[$((stringify!($sentence), |ground| {
            Box::pin(async move { $module::$sentence(&ground).await })
        })),*];
    };
}

scenarios! {
    requests::settled_pods_only_renew_whatever_the_number_of_partitions,
    members::a_member_that_never_acknowledges_holds_up_only_its_own_partitions,
    leader::a_leader_paused_between_plan_and_publish_publishes_nothing_late,
    leader::a_leader_lost_in_the_middle_of_a_rebalance_is_replaced_and_it_ends,
    assignment::a_deleted_table_is_rebuilt_and_owners_go_on,
    assignment::a_table_overwritten_by_hand_is_replaced_and_owners_go_on,
    assignment::an_older_table_put_back_by_hand_is_replaced_under_a_larger_epoch,
    clocks::a_clock_one_percent_fast_leads_and_is_fenced_and_nothing_has_two_owners,
    clocks::a_clock_half_as_fast_is_found,
    members::two_pods_with_one_name_are_one_member_at_a_time,
    members::garbage_in_a_member_lease_is_written_over_and_ends_nothing,
    members::without_fences_the_checker_finds_the_paused_owner,
    resize::a_change_of_the_count_during_another_is_queued_and_comes_next,
}
