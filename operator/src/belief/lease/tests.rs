//! One Lease's story, revision by revision.

use k8s_openapi::api::coordination::v1::Lease;
use leasehold_crds::keys;
use serde_json::{Value, json};

use super::*;

struct Story {
    belief: LeaseBelief,
    now: Instant,
    revision: u64,
}

impl Story {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            belief: LeaseBelief::new(now),
            now,
            revision: 0,
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// The next revision; true if it calls for a reconcile.
    fn hears(&mut self, heard: Heard, holder: &str, term: i32, annotations: &Value) -> bool {
        self.revision += 1;
        let lease: Lease = serde_json::from_value(json!({
            "metadata": {
                "name": "billing.leader", "uid": "0f3c11aa-1", "annotations": annotations,
                "resourceVersion": self.revision.to_string(),
            },
            "spec": {"holderIdentity": holder, "leaseTransitions": term, "leaseDurationSeconds": 15},
        }))
        .unwrap();
        self.belief
            .note(Some(LeaseReading::of_lease(&lease)), heard, self.now)
    }

    fn sees(&mut self, holder: &str, term: i32) -> bool {
        self.hears(Heard::ByWatch, holder, term, &json!({}))
    }

    fn last(&self) -> (i64, &str, Ending) {
        let sighting = self.belief.log().back().unwrap();
        (sighting.term, sighting.holder.as_str(), sighting.ending)
    }
}

#[test]
fn renewals_call_for_no_reconcile() {
    let mut story = Story::new();
    assert!(story.sees("a", 0));
    for _ in 0..100 {
        story.pass(5);
        assert!(!story.sees("a", 0));
        assert!(!story.belief.suspect(story.now));
    }
    assert_eq!(story.belief.log().len(), 1);
    assert_eq!(story.belief.state(), LeaseState::Held);
}

#[test]
fn every_term_is_kept_in_order_however_fast_they_come() {
    let mut story = Story::new();
    for term in 0..10 {
        story.sees(&format!("holder-{term}"), term);
    }
    let terms: Vec<i64> = story.belief.log().iter().map(|it| it.term).collect();
    assert_eq!(terms, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_release_by_the_holder_is_told_from_an_edit() {
    let mut story = Story::new();
    story.hears(
        Heard::ByWatch,
        "a",
        1,
        &json!({keys::ANNOTATION_ATTEMPT: "a#1#1"}),
    );
    assert!(story.hears(
        Heard::ByWatch,
        "",
        1,
        &json!({keys::ANNOTATION_ATTEMPT: "a#1#2", keys::ANNOTATION_RELEASED: "a#1"}),
    ));
    assert_eq!(story.belief.state(), LeaseState::Vacant(Ending::Released));
    story.sees("b", 2);
    assert_eq!(story.last(), (2, "b", Ending::Released));

    story.hears(
        Heard::ByWatch,
        "b",
        3,
        &json!({keys::ANNOTATION_ATTEMPT: "b#3#1"}),
    );
    story.hears(
        Heard::ByWatch,
        "",
        3,
        &json!({keys::ANNOTATION_ATTEMPT: "b#3#1"}),
    );
    assert_eq!(story.belief.state(), LeaseState::Vacant(Ending::Emptied));
    story.sees("c", 4);
    assert_eq!(story.last(), (4, "c", Ending::Emptied));
    assert_eq!(
        story.belief.log().back().unwrap().from.as_deref(),
        Some("b")
    );
}

#[test]
fn a_silent_holder_is_suspected_once_and_expired_only_after_a_read_confirmed_it() {
    let mut story = Story::new();
    story.sees("a", 0);
    story.pass(14);
    assert!(!story.belief.suspect(story.now));
    story.pass(1);
    assert!(story.belief.suspect(story.now));
    assert!(!story.belief.suspect(story.now));
    assert_eq!(story.belief.state(), LeaseState::Held);
    story.belief.confirm_lapse();
    assert_eq!(story.belief.state(), LeaseState::Expired);
    story.sees("b", 1);
    assert_eq!(story.last(), (1, "b", Ending::Expired));
    assert_eq!(story.belief.state(), LeaseState::Held);
}

#[test]
fn a_read_that_shows_news_lifts_the_suspicion() {
    let mut story = Story::new();
    story.sees("a", 0);
    story.pass(20);
    assert!(story.belief.suspect(story.now));
    assert!(story.hears(Heard::ByList, "a", 0, &json!({})));
    story.belief.confirm_lapse();
    assert_eq!(story.belief.state(), LeaseState::Held);
}

#[test]
fn a_holder_written_over_a_fresh_one_is_not_called_expired() {
    let mut story = Story::new();
    story.sees("a", 0);
    story.pass(3);
    story.sees("forged", 1);
    assert_eq!(story.last(), (1, "forged", Ending::Overwritten));
    story.pass(14); // a candidate may have heard a little earlier than we did
    story.sees("b", 2);
    assert_eq!(story.last(), (2, "b", Ending::Expired));
}

#[test]
fn what_a_list_cannot_know_stays_unknown() {
    let mut story = Story::new();
    story.hears(Heard::ByList, "a", 4, &json!({}));
    assert_eq!(story.last(), (4, "a", Ending::Unknown));
    story.pass(2);
    story.hears(Heard::ByList, "b", 6, &json!({}));
    assert_eq!(story.last(), (6, "b", Ending::Unknown));
}

#[test]
fn the_same_pod_with_a_new_process_is_a_restart() {
    let mut story = Story::new();
    story.sees("billing-0_0f3c_00000001", 1);
    story.pass(1);
    story.sees("billing-0_0f3c_00000002", 2);
    assert_eq!(story.last().2, Ending::Restarted);
}

#[test]
fn a_deleted_lease_ends_its_leadership() {
    let mut story = Story::new();
    story.sees("a", 3);
    assert!(story.belief.note(None, Heard::ByWatch, story.now));
    assert!(!story.belief.note(None, Heard::ByWatch, story.now));
    assert_eq!(story.belief.state(), LeaseState::Absent);
    story.sees("b", 4);
    assert_eq!(story.last(), (4, "b", Ending::Deleted));
}

#[test]
fn a_malformed_lease_is_a_state_and_no_leadership() {
    let mut story = Story::new();
    story.sees("a", 1);
    assert!(story.sees("a", -7));
    assert!(matches!(story.belief.state(), LeaseState::Malformed(_)));
    assert_eq!(story.belief.log().len(), 1);
    assert!(story.sees("a", 1));
    assert_eq!(story.belief.state(), LeaseState::Held);
    assert_eq!(
        story.belief.log().len(),
        1,
        "the same term is no change of leadership"
    );
}

#[test]
fn only_what_the_leader_says_about_settings_calls_for_a_reconcile() {
    let mut story = Story::new();
    story.sees("a", 1);
    assert!(!story.hears(Heard::ByWatch, "a", 1, &json!({"other": "x"})));
    assert!(story.hears(
        Heard::ByWatch,
        "a",
        1,
        &json!({keys::ANNOTATION_SETTINGS_GENERATION: "2"})
    ));
    assert!(story.hears(
        Heard::ByWatch,
        "a",
        1,
        &json!({keys::ANNOTATION_FIXED: "{}"})
    ));
}
