//! client-go beside ours on real Leases: the faults that client-go was measured
//! to have, replayed through a fault proxy with ours in both roles, half-open
//! links, refusals, malformed Leases, and handovers in both directions.
//!
//! All scenarios run together, each on Leases of its own; every test waits for
//! one of them. The table is printed whether tests pass or not.
//! `LEASEHOLD_FAULTS=long` runs them with leases of 15 s.
#![allow(clippy::panic)]

#[path = "faults_client_go/black_hole.rs"]
mod black_hole;
#[path = "faults_client_go/ground.rs"]
mod ground;
#[path = "faults_client_go/half_open.rs"]
mod half_open;
#[path = "faults_client_go/interop.rs"]
mod interop;
#[path = "faults_client_go/late_release.rs"]
mod late_release;
#[path = "faults_client_go/malformed.rs"]
mod malformed;
#[path = "faults_client_go/outage.rs"]
mod outage;
#[path = "faults_client_go/pause.rs"]
mod pause;
#[path = "faults_client_go/refusals.rs"]
mod refusals;
#[path = "faults_client_go/release.rs"]
mod release;
#[path = "faults_client_go/run.rs"]
mod run;
#[path = "faults_client_go/table.rs"]
mod table;
#[path = "faults_client_go/unseen_term.rs"]
mod unseen_term;

/// One test for each scenario: a sentence, and what it waits for.
macro_rules! each_holds {
    ($($sentence:ident => $scenario:literal),* $(,)?) => {
        $(#[test]
        fn $sentence() {
            run::outcome($scenario);
        })*
    };
}

each_holds! {
    client_go_and_ours_hand_over_without_overlap => "interop::handed_over_in_both_directions",
    a_release_of_ours_delivered_late_leaves_the_successor_alone => "late_release::by_ours",
    a_lease_wiped_by_client_go_ends_our_term_and_is_not_taken_early => "late_release::to_ours",
    a_black_holed_leader_of_ours_ends_before_its_successor_starts => "black_hole::by_ours",
    a_black_holed_client_go_leader_is_replaced_for_good => "black_hole::to_ours",
    a_follower_half_open_at_the_crash_takes_over_within_the_bound => "half_open::follower_at_the_crash",
    a_follower_half_open_before_the_crash_has_dialled_anew => "half_open::follower_long_before_the_crash",
    a_half_open_leader_dials_anew_and_keeps_its_term => "half_open::leader",
    a_leader_that_slept_through_a_term_begins_a_new_one => "unseen_term::by_ours",
    tokens_grow_across_a_term_that_client_go_never_noticed => "unseen_term::to_ours",
    the_lease_is_released_after_the_work_in_flight => "release::by_ours",
    a_lease_released_by_client_go_is_claimed => "release::to_ours",
    a_woken_leader_fails_its_check_and_its_work_is_not_polled => "pause::by_ours",
    a_late_write_of_a_woken_leader_is_refused_by_its_token => "pause::late_write_is_refused",
    without_the_fence_the_checker_finds_the_late_write => "pause::late_write_without_a_fence",
    a_woken_client_go_leader_takes_nothing_from_ours => "pause::to_ours",
    in_an_outage_trust_ends_by_the_clock => "outage::by_ours",
    after_an_outage_somebody_leads => "outage::to_ours",
    a_leader_rides_out_refusals_within_its_term => "refusals::a_leader_survives_refusals",
    a_leader_rides_out_lost_answers_within_its_term => "refusals::a_leader_survives_lost_answers",
    candidates_live_through_malformed_leases => "malformed::candidates_survive_malformed_leases",
}
