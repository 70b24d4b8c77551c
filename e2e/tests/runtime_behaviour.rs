//! The library on a real API server, in processes of its own and in pods: its
//! lease store, elections and their ends, drains, settings, and bad input.
//!
//! All scenarios run together, each on Leases of its own; every test waits for
//! one of them. What needs a fault proxy or client-go's faults is tested in
//! `faults_client_go`, also a pause beyond the lease.
#![allow(clippy::panic)]

#[path = "runtime_behaviour/client_go.rs"]
mod client_go;
#[path = "runtime_behaviour/conformance.rs"]
mod conformance;
#[path = "runtime_behaviour/credentials.rs"]
mod credentials;
#[path = "runtime_behaviour/drain.rs"]
mod drain;
#[path = "runtime_behaviour/edits.rs"]
mod edits;
#[path = "runtime_behaviour/ground.rs"]
mod ground;
#[path = "runtime_behaviour/handover.rs"]
mod handover;
#[path = "runtime_behaviour/hang.rs"]
mod hang;
#[path = "runtime_behaviour/malformed.rs"]
mod malformed;
#[path = "runtime_behaviour/observer.rs"]
mod observer;
#[path = "runtime_behaviour/pods.rs"]
mod pods;
#[path = "runtime_behaviour/reclaim.rs"]
mod reclaim;
#[path = "runtime_behaviour/requests.rs"]
mod requests;
#[path = "runtime_behaviour/revisions.rs"]
mod revisions;
#[path = "runtime_behaviour/rights.rs"]
mod rights;
#[path = "runtime_behaviour/run.rs"]
mod run;
#[path = "runtime_behaviour/settings.rs"]
mod settings;
#[path = "runtime_behaviour/start.rs"]
mod start;
#[path = "runtime_behaviour/upgrade.rs"]
mod upgrade;

/// More scenarios at once would starve the processes of two cores, and so their leases.
const AT_ONCE: usize = 14;

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
    drain::thirty_seconds_of_work_in_a_terminated_pod_end_before_the_lease_is_released,
    credentials::a_leader_whose_token_expires_says_so_and_leads_no_longer,
    hang::a_leader_whose_work_blocks_its_thread_is_replaced_within_the_bound,
    requests::followers_add_no_requests_but_their_watch,
    upgrade::differently_named_services_of_one_cluster_id_never_overlap,
    reclaim::a_container_restarted_in_place_reclaims_at_once_with_a_new_term,
    rights::a_namespace_that_is_gone_is_said_and_its_return_is_used,
    credentials::a_leader_whose_account_is_deleted_says_so_and_leads_no_longer,
    rights::missing_rights_are_named_and_used_once_given_back,
    handover::a_killed_leader_is_replaced_when_its_lease_has_lapsed,
    drain::a_drain_that_overruns_is_not_released,
    edits::an_edit_from_outside_ends_the_term_at_once,
    hang::a_leader_whose_work_waits_for_ever_is_replaced_within_the_bound,
    malformed::malformed_leases_never_stop_the_election,
    malformed::a_lease_made_malformed_under_its_leader_ends_the_term_and_is_claimed_again,
    client_go::a_lease_made_by_client_go_is_taken_over_and_then_watched_by_label,
    drain::work_in_flight_ends_before_the_lease_is_released,
    handover::a_terminated_leader_hands_over_at_once,
    handover::a_leader_that_says_it_is_unhealthy_steps_down_for_another,
    edits::labels_removed_from_outside_come_back_and_end_nothing,
    reclaim::a_restart_without_proof_waits_for_the_lease_to_lapse,
    observer::an_observer_that_may_only_read_sees_every_change_in_order,
    settings::changed_settings_are_in_force_without_a_restart,
    settings::values_fixed_in_code_stay_and_are_published,
    settings::garbage_settings_are_said_and_the_old_ones_stay,
    requests::two_leases_of_one_process_share_one_watch,
    credentials::wrong_credentials_and_servers_are_said_and_end_no_process,
    conformance::the_kubernetes_store_conforms,
    start::in_a_pod_without_a_readable_token_nothing_starts,
    start::garbage_in_every_variable_is_listed_at_once,
    start::a_kubeconfig_that_is_missing_or_unusable_is_named,
    start::ids_that_are_no_dns_labels_are_refused,
    start::several_processes_with_leases_in_memory_are_refused,
}
