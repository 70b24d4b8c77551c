//! Tables for plan and status.

mod collect;
mod partitions;
mod stores;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::Time};
use leasehold_crds::{
    ClusterId, ClusterServiceStatus, LeadershipTerm, LeaseSpec, Settings, condition, keys,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    observe::{Blind, LeaderFacts},
    plan::{SettingsStep, history_after, plan},
    status::{patch, status},
    *,
};
use crate::belief::{
    Ending, Heard, LeaseReading, LeaseState, Sighting, partitions::PartitionFacts,
};

const UID: &str = "0f3c11aa-77d2";

fn service(name: &str, age: i64, spec: &Value) -> ClusterService {
    serde_json::from_value(json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "ClusterService",
        "metadata": {
            "name": name, "namespace": "demo", "uid": format!("uid-{name}"), "generation": 3,
            "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", 30 - age),
        },
        "spec": spec,
    }))
    .unwrap()
}

fn elected() -> Value {
    json!({"clusterScope": "cluster", "leaderStrategy": "leader-elected", "clusterId": "billing"})
}

fn facts(service: ClusterService) -> Facts {
    Facts {
        service,
        cluster_id: ClusterId::new("billing").unwrap(),
        first_seen: Instant::now(),
        peers: Vec::new(),
        leader: LeaderFacts {
            state: LeaseState::Absent,
            reading: None,
            log: Vec::new(),
            unlabelled: None,
        },
        settings: SettingsFacts::Absent,
        partitions: PartitionFacts::default(),
        stuck_after: Duration::from_mins(1),
        blind: None,
        reports: BTreeMap::new(),
    }
}

fn sighting(term: i64, holder: &str, heard: Heard) -> Sighting {
    Sighting {
        uid: UID.into(),
        term,
        holder: holder.into(),
        since: None,
        from: None,
        ending: Ending::Unknown,
        released: None,
        heard,
        at: Instant::now() + Duration::from_mins(1),
    }
}

fn past(term: i64, holder: &str) -> LeadershipTerm {
    LeadershipTerm {
        lease_uid: UID.into(),
        term,
        holder: holder.into(),
        pod: holder.into(),
        ..LeadershipTerm::default()
    }
}

/// Facts with this history and this log.
fn after(history: Option<Vec<LeadershipTerm>>, log: Vec<Sighting>) -> Facts {
    let mut facts = facts(service("billing", 1, &elected()));
    facts.service.status = Some(ClusterServiceStatus {
        history,
        ..ClusterServiceStatus::default()
    });
    facts.leader.log = log;
    facts
}

fn announced(facts: &Facts) -> Vec<(i64, Option<(i64, i64)>)> {
    plan(facts)
        .announcements
        .iter()
        .map(|it| (it.entry.term, it.gap))
        .collect()
}

fn held(holder: &str, term: i32, annotations: &Value) -> Facts {
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "billing.leader", "uid": UID, "resourceVersion": "7", "annotations": annotations},
        "spec": {
            "holderIdentity": holder, "leaseTransitions": term, "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-02T03:04:05.678901Z",
        },
    }))
    .unwrap();
    let mut facts = facts(service("billing", 1, &elected()));
    facts.leader.state = LeaseState::Held;
    facts.leader.reading = Some(LeaseReading::of_lease(&lease));
    facts
}

fn said(facts: &Facts, problem: Option<&Error>) -> ClusterServiceStatus {
    status(
        facts,
        &plan(facts),
        Vec::new(),
        problem,
        jiff::Timestamp::UNIX_EPOCH,
    )
}

/// Status, reason and message of a condition.
fn cond(status: &ClusterServiceStatus, type_: &str) -> (String, String, String) {
    let found = status
        .conditions
        .iter()
        .find(|it| it.type_ == type_)
        .unwrap();
    (
        found.status.clone(),
        found.reason.clone(),
        found.message.clone(),
    )
}

#[test]
fn a_term_after_the_history_is_announced_once() {
    let facts = after(
        Some(vec![past(6, "a")]),
        vec![
            sighting(6, "a", Heard::ByList),
            sighting(7, "b", Heard::ByWatch),
        ],
    );
    assert_eq!(announced(&facts), [(7, None)]);
    let told = after(Some(vec![past(7, "b"), past(6, "a")]), facts.leader.log);
    assert_eq!(announced(&told), []);
}

#[test]
fn without_a_history_what_was_there_is_taken_over_silently() {
    let facts = after(None, vec![sighting(6, "a", Heard::ByList)]);
    assert_eq!(announced(&facts), []);
    assert_eq!(plan(&facts).history, [past(6, "a")]);
    // The service came after this change was seen.
    let mut early = sighting(7, "b", Heard::ByWatch);
    early.at = facts.first_seen - Duration::from_secs(1);
    let facts = after(None, vec![sighting(6, "a", Heard::ByList), early]);
    assert_eq!(announced(&facts), []);
    assert_eq!(plan(&facts).history[0].term, 7);
}

#[test]
fn a_change_seen_live_is_announced_even_before_the_first_status() {
    let facts = after(
        None,
        vec![
            sighting(6, "a", Heard::ByList),
            sighting(7, "b", Heard::ByWatch),
        ],
    );
    assert_eq!(announced(&facts), [(7, None)]);
    assert_eq!(plan(&facts).history[0].term, 6);
}

#[test]
fn an_empty_history_means_that_everything_is_news() {
    let facts = after(Some(Vec::new()), vec![sighting(0, "a", Heard::ByList)]);
    assert_eq!(announced(&facts), [(0, None)]);
    assert_eq!(plan(&facts).announcements[0].from, None);
}

#[test]
fn terms_between_are_one_gap_and_counted() {
    let facts = after(
        Some(vec![past(5, "a")]),
        vec![sighting(8, "b", Heard::ByList)],
    );
    assert_eq!(announced(&facts), [(8, Some((6, 7)))]);
    let plan = plan(&facts);
    assert_eq!(plan.announcements[0].entry.missed, 2);
    assert_eq!(
        plan.announcements[0].from, None,
        "who led in between is not known"
    );
}

#[test]
fn a_standby_that_saw_them_announces_each_term_after_a_failover() {
    let log = (5..9)
        .map(|term| sighting(term, "x", Heard::ByWatch))
        .collect();
    let facts = after(Some(vec![past(6, "a"), past(5, "b")]), log);
    assert_eq!(announced(&facts), [(7, None), (8, None)]);
}

#[test]
fn a_list_older_than_the_history_is_no_news() {
    let facts = after(
        Some(vec![past(7, "b"), past(4, "a")]),
        vec![sighting(6, "a", Heard::ByList)],
    );
    assert_eq!(announced(&facts), []);
}

#[test]
fn a_recreated_lease_may_repeat_terms_and_is_announced_again() {
    let mut again = sighting(6, "b", Heard::ByWatch);
    again.uid = "another".into();
    let facts = after(
        Some(vec![past(6, "a")]),
        vec![sighting(6, "a", Heard::ByList), again],
    );
    assert_eq!(announced(&facts), [(6, None)]);
}

#[test]
fn a_release_that_the_lease_tells_of_is_known_even_after_a_restart() {
    let mut seen = sighting(7, "b", Heard::ByList);
    seen.released = Some(("a".into(), 6));
    let plan = plan(&after(Some(vec![past(6, "a")]), vec![seen]));
    let announcement = &plan.announcements[0];
    assert_eq!(
        announcement.entry.previous_ended.as_deref(),
        Some("released")
    );
    assert_eq!(announcement.from.as_deref(), Some("a"));
}

#[test]
fn a_pass_repeated_after_a_crash_wants_the_same() {
    let facts = after(
        Some(vec![past(5, "a")]),
        vec![
            sighting(8, "b", Heard::ByList),
            sighting(9, "c", Heard::ByWatch),
        ],
    );
    let whole = plan(&facts);
    let told: Vec<_> = whole
        .announcements
        .iter()
        .map(|it| it.entry.clone())
        .collect();
    for written in 0..=told.len() {
        // The history says `written` of them; the rest must come out as if nothing had happened.
        let history = history_after(&whole.history, told[..written].iter().cloned());
        let again = plan(&after(Some(history.clone()), facts.leader.log.clone()));
        assert_eq!(again.announcements[..], whole.announcements[written..]);
        let rest = again.announcements.iter().map(|it| it.entry.clone());
        assert_eq!(
            history_after(&history, rest),
            history_after(&whole.history, told.clone())
        );
    }
}

#[test]
fn history_keeps_the_last_ten_newest_first() {
    let history = history_after(&[], (0..25).map(|term| past(term, "a")));
    let terms: Vec<i64> = history.iter().map(|it| it.term).collect();
    assert_eq!(terms, (15..25).rev().collect::<Vec<_>>());
}

fn settings(generation: i64) -> Settings {
    Settings {
        version: Settings::VERSION,
        generation,
        strategy: "leader-elected".into(),
        partitions: None,
        hash: None,
        lease: LeaseSpec::default().into(),
        drain_timeout_seconds: None,
    }
}

fn ours(settings: Option<Settings>, owner: &str, is_labelled: bool) -> SettingsFacts {
    SettingsFacts::Ours {
        settings,
        owners: BTreeSet::from([owner.to_owned()]),
        is_labelled,
    }
}

#[test]
fn settings_are_written_only_when_they_differ() {
    let step = |found: SettingsFacts| {
        let mut facts = facts(service("billing", 1, &elected()));
        facts.settings = found;
        plan(&facts).settings
    };
    let is_write = |step: SettingsStep| matches!(step, SettingsStep::Write { .. });
    assert_eq!(
        step(ours(Some(settings(3)), "uid-billing", true)),
        SettingsStep::Keep
    );
    assert_eq!(
        step(SettingsFacts::Foreign("is held by x".into())),
        SettingsStep::Keep
    );
    assert!(is_write(step(SettingsFacts::Absent)));
    assert!(
        is_write(step(ours(Some(settings(2)), "uid-billing", true))),
        "older generation"
    );
    assert!(
        is_write(step(ours(None, "uid-billing", true))),
        "unreadable"
    );
    assert!(
        is_write(step(ours(Some(settings(3)), "uid-billing", false))),
        "labels lost"
    );
    assert!(
        is_write(step(ours(Some(settings(3)), "somebody", true))),
        "owner missing"
    );
}

#[test]
fn a_paused_service_writes_no_settings_and_a_node_scoped_one_removes_them() {
    let mut spec = elected();
    spec["paused"] = json!(true);
    let paused = facts(service("billing", 1, &spec));
    assert_eq!(plan(&paused).settings, SettingsStep::Keep);
    assert_eq!(cond(&said(&paused, None), condition::PAUSED).0, "True");
    let mut node = facts(service("billing", 1, &json!({"clusterId": "billing"})));
    assert_eq!(plan(&node).settings, SettingsStep::Keep);
    node.settings = ours(Some(settings(2)), "uid-billing", true);
    assert_eq!(plan(&node).settings, SettingsStep::Delete);
}

#[test]
fn of_two_services_with_one_id_the_older_decides_and_a_differing_younger_one_stalls() {
    let older = service("older", 9, &elected());
    let mut spec = elected();
    spec["lease"] = json!({"durationSeconds": 30});
    let mut facts = facts(service("younger", 1, &spec));
    facts.peers = vec![older.clone()];
    let status = said(&facts, None);
    assert_eq!(plan(&facts).settings, SettingsStep::Keep);
    let (stalled, reason, message) = cond(&status, condition::STALLED);
    assert_eq!(
        (stalled.as_str(), reason.as_str()),
        ("True", "ClusterIdConflict")
    );
    assert!(
        message.contains("older")
            && message.contains("lease.durationSeconds is 30 here and 15 there"),
        "{message}"
    );
    assert_eq!(cond(&status, condition::READY).0, "False");
    // Seen from the older one all is well.
    let mut other = self::facts(older);
    other.peers = vec![facts.service];
    assert!(plan(&other).conflict.is_none());
    assert!(
        matches!(plan(&other).settings, SettingsStep::Write { owners, .. } if owners.len() == 1)
    );
}

#[test]
fn two_agreeing_services_share_leader_and_settings() {
    let older = service("older", 9, &elected());
    let mut facts = facts(service("younger", 1, &elected()));
    facts.peers = vec![older.clone()];
    assert_eq!(
        plan(&facts).settings,
        SettingsStep::Keep,
        "the older one writes them"
    );
    assert_eq!(cond(&said(&facts, None), condition::STALLED).0, "False");
    let mut other = self::facts(older);
    other.peers = vec![facts.service];
    assert!(
        matches!(plan(&other).settings, SettingsStep::Write { owners, .. } if owners.len() == 2)
    );
}

#[test]
fn a_held_lease_is_shown_with_pod_term_and_since() {
    let status = said(&held("billing-0_0a1b_00000001", 7, &json!({})), None);
    let leader = status.leader.clone().unwrap();
    assert_eq!((leader.pod.as_str(), leader.term), ("billing-0", 7));
    assert_eq!(leader.since.unwrap().0.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!(status.observed_generation, Some(3));
    for type_ in [condition::READY, condition::LEADER_ELECTED] {
        assert_eq!(cond(&status, type_).0, "True", "{type_}");
    }
    assert!(
        status
            .conditions
            .iter()
            .all(|it| it.observed_generation == Some(3))
    );
}

#[test]
fn without_a_leader_the_condition_says_why_and_what_to_do() {
    for (state, reason, advice) in [
        (LeaseState::Absent, "NoLease", "Start pods"),
        (
            LeaseState::Vacant(Ending::Released),
            "Released",
            "see whether the pods run",
        ),
        (
            LeaseState::Vacant(Ending::Emptied),
            "Emptied",
            "wait the lease duration",
        ),
        (LeaseState::Expired, "Expired", "see whether the pods run"),
        (
            LeaseState::Malformed("x is -1".into()),
            "LeaseMalformed",
            "x is -1",
        ),
    ] {
        let mut facts = held("billing-0_0a1b_00000001", 7, &json!({}));
        facts.leader.state = state;
        let status = said(&facts, None);
        let (value, found, message) = cond(&status, condition::LEADER_ELECTED);
        assert_eq!((value.as_str(), found.as_str()), ("False", reason));
        assert!(message.contains(advice), "{message}");
        assert_eq!(cond(&status, condition::READY).1, reason);
        assert_eq!(status.leader, None, "{reason}");
    }
}

#[test]
fn a_lease_without_our_labels_is_reported_and_not_shown_as_leader() {
    let mut facts = facts(service("billing", 1, &elected()));
    facts.leader.unlabelled = Some(Some("intruder".into()));
    let (value, reason, message) = cond(&said(&facts, None), condition::LEADER_ELECTED);
    assert_eq!((value.as_str(), reason.as_str()), ("False", "LeaseForeign"));
    assert!(
        message.contains("held by intruder")
            && message.contains("kubectl label lease billing.leader"),
        "{message}"
    );
}

#[test]
fn an_operator_that_cannot_see_says_so_and_keeps_the_last_leader() {
    let mut facts = held("billing-0_0a1b_00000001", 7, &json!({}));
    facts.service.status = Some(said(&facts, None));
    facts.blind = Some(Blind {
        reason: "PermissionDenied",
        message: "list leases is forbidden".into(),
    });
    let status = said(&facts, None);
    assert_eq!(cond(&status, condition::LEADER_ELECTED).0, "Unknown");
    assert_eq!(cond(&status, condition::READY).0, "Unknown");
    assert_eq!(status.leader.unwrap().pod, "billing-0");
}

#[test]
fn a_value_fixed_in_code_that_differs_names_both() {
    let fixed =
        json!({keys::ANNOTATION_FIXED: r#"{"lease":{"durationSeconds":6,"heartbeatSeconds":5}}"#});
    let (value, reason, message) = cond(
        &said(&held("a", 1, &fixed), None),
        condition::SETTINGS_MISMATCH,
    );
    assert_eq!((value.as_str(), reason.as_str()), ("True", "FixedInCode"));
    assert!(
        message.contains("lease.durationSeconds is 6 in code and 15 in the spec"),
        "{message}"
    );
    assert!(
        !message.contains("heartbeatSeconds"),
        "equal values are no mismatch: {message}"
    );
    let same = json!({keys::ANNOTATION_FIXED: r#"{"lease":{"durationSeconds":15}}"#});
    assert_eq!(
        cond(
            &said(&held("a", 1, &same), None),
            condition::SETTINGS_MISMATCH
        )
        .0,
        "False"
    );
    let garbage = json!({keys::ANNOTATION_FIXED: "six seconds"});
    assert_eq!(
        cond(
            &said(&held("a", 1, &garbage), None),
            condition::SETTINGS_MISMATCH
        )
        .0,
        "Unknown"
    );
}

#[test]
fn with_scope_node_nothing_is_elected_and_the_object_is_ready() {
    let status = said(&facts(service("billing", 1, &json!({}))), None);
    assert_eq!(cond(&status, condition::READY).0, "True");
    assert_eq!(cond(&status, condition::LEADER_ELECTED).1, "NodeScoped");
    assert_eq!(status.leader, None);
}

#[test]
fn a_problem_of_a_write_is_what_ready_says() {
    let error = Error::Forbidden {
        action: observe::GET_LEASE,
        namespace: "demo".into(),
    };
    let status = said(&held("a", 1, &json!({})), Some(&error));
    assert_eq!(cond(&status, condition::READY).1, "PermissionDenied");
    assert_eq!(cond(&status, condition::STALLED).0, "True");
    assert_eq!(
        cond(&status, condition::LEADER_ELECTED).0,
        "True",
        "who leads is known all the same"
    );
}

#[test]
fn the_same_facts_give_no_patch_and_a_wiped_status_is_rebuilt_the_same() {
    let mut facts = held("billing-0_0a1b_00000001", 7, &json!({}));
    let first = said(&facts, None);
    facts.service.status = Some(first.clone());
    let later = jiff::Timestamp::from_second(1_000_000).unwrap();
    let again = status(&facts, &plan(&facts), Vec::new(), None, later);
    assert_eq!(patch(Some(&first), &again), None);
    facts.service.status = None;
    let rebuilt = said(&facts, None);
    assert_eq!(rebuilt, first);
}

#[test]
fn a_transition_time_moves_only_with_its_status() {
    let mut facts = held("a_1_00000001", 7, &json!({}));
    facts.service.status = Some(said(&facts, None));
    facts.leader.state = LeaseState::Expired;
    let later = jiff::Timestamp::from_second(1_000_000).unwrap();
    let status = status(&facts, &plan(&facts), Vec::new(), None, later);
    let time = |type_: &str| {
        status
            .conditions
            .iter()
            .find(|it| it.type_ == type_)
            .unwrap()
            .last_transition_time
            .clone()
    };
    assert_eq!(time(condition::READY), Time(later));
    assert_eq!(time(condition::PAUSED), Time(jiff::Timestamp::UNIX_EPOCH));
}

#[test]
fn a_patch_holds_only_what_changed_and_removes_what_is_gone() {
    let facts = held("billing-0_0a1b_00000001", 7, &json!({}));
    let old = said(&facts, None);
    let mut new = old.clone();
    new.leader = None;
    assert_eq!(patch(Some(&old), &new).unwrap(), json!({"leader": null}));
    let mut new = old.clone();
    new.leader.as_mut().unwrap().term = 8;
    assert_eq!(
        patch(Some(&old), &new).unwrap(),
        json!({"leader": {"term": 8}})
    );
}
