//! When a lease is vacant.

use super::*;
use crate::id::{LeaseUid, Revision};
use crate::lease::record::{AttemptStamp, LeaseRecord, ReleaseStamp};

const OWN: Duration = Duration::from_secs(15);

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn state(revision: u64, record: LeaseRecord) -> Versioned {
    Versioned {
        uid: LeaseUid::new("u"),
        revision: Revision::new(revision).unwrap(),
        record,
    }
}

fn held(duration: u64) -> LeaseRecord {
    LeaseRecord {
        holder: Some("other".into()),
        duration: Some(Duration::from_secs(duration)),
        term: Term::new(3),
        attempt: AttemptStamp::parse("other#3#1"),
        ..LeaseRecord::default()
    }
}

fn emptied(released: bool) -> LeaseRecord {
    let released = released.then(|| ReleaseStamp::parse("other#3").unwrap());
    LeaseRecord {
        holder: None,
        released,
        ..held(1)
    }
}

fn from(seen: &Observation) -> Instant {
    seen.vacancy(OWN).unwrap().from
}

#[test]
fn nothing_is_vacant_before_anything_was_seen() {
    assert_eq!(Observation::new(Rules::ALL).vacancy(OWN), None);
}

#[test]
fn the_wait_is_the_longer_of_published_and_own_since_receipt() {
    let mut seen = Observation::new(Rules::ALL);
    seen.note(Some(&state(1, held(60))), at(100));
    assert_eq!(from(&seen), at(160));
    seen.note(Some(&state(2, held(5))), at(110));
    assert_eq!(from(&seen), at(125));
}

#[test]
fn the_same_revision_seen_again_does_not_move_the_wait() {
    let mut seen = Observation::new(Rules::ALL);
    assert!(seen.note(Some(&state(1, held(15))), at(100)));
    assert!(!seen.note(Some(&state(1, held(15))), at(109)));
    assert_eq!(from(&seen), at(115));
    seen.restart_wait(at(112));
    assert_eq!(from(&seen), at(127));
}

#[test]
fn a_released_lease_is_vacant_at_once_and_one_emptied_by_others_only_after_the_wait() {
    let mut seen = Observation::new(Rules::ALL);
    seen.note(Some(&state(1, held(15))), at(100));
    seen.note(Some(&state(2, emptied(false))), at(101));
    assert_eq!(
        seen.vacancy(OWN),
        Some(Vacancy {
            from: at(115),
            why: Vacant::Emptied
        })
    );
    seen.note(Some(&state(3, emptied(true))), at(102));
    assert_eq!(
        seen.vacancy(OWN),
        Some(Vacancy {
            from: at(102),
            why: Vacant::Released
        })
    );
}

#[test]
fn edits_of_an_emptied_lease_do_not_prolong_the_wait_of_a_late_candidate() {
    let mut seen = Observation::new(Rules::ALL);
    seen.note(Some(&state(1, emptied(false))), at(100));
    seen.note(Some(&state(2, emptied(false))), at(110));
    assert_eq!(from(&seen), at(115));
}

#[test]
fn a_deleted_lease_is_waited_for_if_it_was_seen_held() {
    let mut seen = Observation::new(Rules::ALL);
    seen.note(Some(&state(1, held(15))), at(100));
    seen.note(None, at(101));
    assert_eq!(
        seen.vacancy(OWN),
        Some(Vacancy {
            from: at(115),
            why: Vacant::Emptied
        })
    );
    let mut fresh = Observation::new(Rules::ALL);
    fresh.note(None, at(101));
    assert_eq!(
        fresh.vacancy(OWN),
        Some(Vacancy {
            from: at(101),
            why: Vacant::Absent
        })
    );
}

#[test]
fn the_highest_term_survives_a_deletion() {
    let mut seen = Observation::new(Rules::ALL);
    seen.note(Some(&state(1, held(15))), at(100));
    seen.note(None, at(101));
    assert_eq!(seen.term_max(), Term::new(3));
}

#[test]
fn a_record_without_duration_is_waited_for_with_the_own_one() {
    let mut seen = Observation::new(Rules::ALL);
    let nulls = LeaseRecord {
        duration: None,
        ..held(1)
    };
    seen.note(Some(&state(1, nulls)), at(100));
    assert_eq!(from(&seen), at(115));
}

#[test]
fn a_lease_made_anew_without_holder_is_waited_for_if_the_one_before_was_seen_held() {
    let mut seen = Observation::new(Rules::ALL);
    seen.note(Some(&state(1, held(15))), at(100));
    seen.note(None, at(101));
    let anew = Versioned {
        uid: LeaseUid::new("another life"),
        ..state(3, LeaseRecord::default())
    };
    seen.note(Some(&anew), at(101));
    assert_eq!(from(&seen), at(115));
}

#[test]
fn a_lease_that_was_replaced_without_its_stamps_is_waited_for() {
    let mut seen = Observation::new(Rules::ALL);
    seen.note(Some(&state(1, held(15))), at(100));
    let bare = LeaseRecord {
        term: held(15).term,
        ..LeaseRecord::default()
    };
    seen.note(Some(&state(2, bare)), at(101));
    seen.note(Some(&state(3, LeaseRecord::default())), at(102));
    assert_eq!(from(&seen), at(115));
}

#[test]
fn a_record_made_anew_does_not_hide_the_holder_from_before_the_deletion() {
    let mut seen = Observation::new(Rules::ALL);
    seen.note(Some(&state(1, held(30))), at(100));
    assert_eq!(seen.former_life(OWN), None);
    seen.note(None, at(101));
    let anew = Versioned {
        uid: LeaseUid::new("another life"),
        ..state(3, held(15))
    };
    seen.note(Some(&anew), at(102));
    assert_eq!(seen.former_life(OWN), Some(at(130)));
}
