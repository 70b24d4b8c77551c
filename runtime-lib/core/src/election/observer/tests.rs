//! What an onlooker reports.

use super::*;
use crate::id::Revision;
use crate::lease::{AttemptStamp, LeaseRecord, ReleaseStamp};

fn state(uid: &str, revision: u64, term: u32, holder: Option<&str>) -> Versioned {
    let stamp = format!("{}#{term}#1", holder.unwrap_or("a"));
    Versioned {
        uid: LeaseUid::new(uid),
        revision: Revision::new(revision).unwrap(),
        record: LeaseRecord {
            holder: holder.map(str::to_owned),
            term: Term::new(term),
            attempt: AttemptStamp::parse(&stamp),
            ..LeaseRecord::default()
        },
    }
}

fn released(mut state: Versioned) -> Versioned {
    let text = format!("a#{}", state.record.term);
    state.record.released = ReleaseStamp::parse(&text);
    state
}

fn gained(changes: &[Change]) -> (u32, Option<&str>, Ended, Option<Missed>) {
    match changes.last() {
        Some(Change::Gained {
            term,
            previous,
            ended,
            missed,
            ..
        }) => (term.number(), previous.as_deref(), *ended, *missed),
        other => panic!("no leader gained: {other:?}"),
    }
}

#[test]
fn renewals_are_no_changes() {
    let mut seen = Observer::new();
    assert_eq!(
        gained(&seen.note(Some(&state("u", 1, 1, Some("a"))))),
        (1, None, Ended::NotSeen, None)
    );
    assert_eq!(seen.note(Some(&state("u", 2, 1, Some("a")))), []);
}

#[test]
fn a_released_lease_says_who_left_and_who_came() {
    let mut seen = Observer::new();
    seen.note(Some(&state("u", 1, 1, Some("a"))));
    let left = seen.note(Some(&released(state("u", 2, 1, None))));
    assert_eq!(
        left,
        [Change::Vacated {
            term: Term::new(1),
            holder: "a".into(),
            ended: Ended::Released
        }]
    );
    let came = seen.note(Some(&state("u", 3, 2, Some("b"))));
    assert_eq!(gained(&came), (2, Some("a"), Ended::Released, None));
}

#[test]
fn a_holder_emptied_by_somebody_else_is_told_apart() {
    let mut seen = Observer::new();
    seen.note(Some(&state("u", 1, 1, Some("a"))));
    seen.note(Some(&state("u", 2, 1, None)));
    assert_eq!(
        gained(&seen.note(Some(&state("u", 3, 2, Some("b"))))).2,
        Ended::Emptied
    );
}

#[test]
fn terms_that_nobody_observed_are_named() {
    let mut seen = Observer::new();
    seen.note(Some(&state("u", 1, 5, Some("a"))));
    let (term, previous, ended, missed) = {
        let changes = seen.note(Some(&state("u", 9, 8, Some("b"))));
        let (term, previous, ended, missed) = gained(&changes);
        (term, previous.map(str::to_owned), ended, missed)
    };
    assert_eq!(
        (term, previous.as_deref(), ended),
        (8, Some("a"), Ended::TakenOver)
    );
    assert_eq!(
        missed,
        Some(Missed {
            from: Term::new(6),
            to: Term::new(7)
        })
    );
    assert_eq!(missed.unwrap().count(), 2);
}

#[test]
fn a_recreated_record_with_the_same_term_is_a_new_leadership() {
    let mut seen = Observer::new();
    seen.note(Some(&state("u", 1, 1, Some("a"))));
    let changes = seen.note(Some(&state("v", 5, 1, Some("b"))));
    assert_eq!(changes.len(), 2, "the deletion is told first: {changes:?}");
    assert_eq!(gained(&changes), (1, Some("a"), Ended::Deleted, None));
}

#[test]
fn the_same_pod_in_a_new_term_was_restarted() {
    let (before, after) = ("p_uid_00000001", "p_uid_00000002");
    let mut seen = Observer::new();
    seen.note(Some(&state("u", 1, 1, Some(before))));
    assert_eq!(
        gained(&seen.note(Some(&state("u", 2, 2, Some(after))))).2,
        Ended::Restarted
    );
}

#[test]
fn a_resumed_onlooker_announces_only_what_is_newer() {
    let mut seen = Observer::resume(LeaseUid::new("u"), Term::new(3), Some("a".into()));
    assert_eq!(seen.note(Some(&state("u", 7, 3, Some("a")))), []);
    assert_eq!(gained(&seen.note(Some(&state("u", 8, 4, Some("b"))))).0, 4);
}

#[test]
fn a_term_that_came_and_went_unseen_is_told_as_a_takeover() {
    let mut seen = Observer::new();
    seen.note(Some(&state("u", 1, 5, Some("a"))));
    let left = seen.note(Some(&released(state("u", 4, 6, None))));
    assert_eq!(
        left,
        [Change::Vacated {
            term: Term::new(5),
            holder: "a".into(),
            ended: Ended::TakenOver
        }]
    );
    let came = seen.note(Some(&state("u", 5, 7, Some("b"))));
    let missed = Missed {
        from: Term::new(6),
        to: Term::new(6),
    };
    assert_eq!(
        gained(&came),
        (7, Some("a"), Ended::TakenOver, Some(missed))
    );
}

#[test]
fn a_deletion_is_told_once() {
    let mut seen = Observer::new();
    assert_eq!(seen.note(None), []);
    seen.note(Some(&state("u", 1, 5, Some("a"))));
    assert!(matches!(
        seen.note(None)[..],
        [Change::Vacated {
            ended: Ended::Deleted,
            ..
        }]
    ));
    assert_eq!(seen.note(None), []);
    assert_eq!(
        gained(&seen.note(Some(&state("v", 3, 1, Some("b"))))),
        (1, Some("a"), Ended::Deleted, None)
    );
}

#[test]
fn an_empty_lease_without_a_past_says_nothing() {
    let mut seen = Observer::new();
    assert_eq!(seen.note(Some(&state("u", 1, 5, None))), []);
    assert_eq!(
        gained(&seen.note(Some(&state("u", 2, 6, Some("b"))))),
        (6, None, Ended::NotSeen, None)
    );
}

#[test]
fn another_holder_within_one_term_took_over() {
    let mut seen = Observer::new();
    seen.note(Some(&state("u", 1, 5, Some("p_uid_00000001"))));
    assert_eq!(
        gained(&seen.note(Some(&state("u", 2, 5, Some("q_uid2_00000001"))))),
        (5, Some("p_uid_00000001"), Ended::TakenOver, None)
    );
}

#[test]
fn the_same_holder_in_a_new_term_lost_and_regained_it() {
    let mut seen = Observer::new();
    seen.note(Some(&state("u", 1, 5, Some("a"))));
    let came = seen.note(Some(&state("u", 4, 7, Some("a"))));
    let (term, previous, ended, missed) = gained(&came);
    assert_eq!((term, previous, ended), (7, Some("a"), Ended::Restarted));
    assert_eq!(missed.map(Missed::count), Some(1));
}
