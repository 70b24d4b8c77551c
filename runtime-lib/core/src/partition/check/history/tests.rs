//! Histories and what the judge says of them.

use super::*;
use crate::id::Revision;
use crate::partition::HashId;

fn at(seconds: u64) -> Instant {
    Instant::ZERO.after(Duration::from_secs(seconds))
}

/// `a 3/8 t5 0..10`, the work ending with the guard.
fn tenure(text: &str) -> Tenure {
    let mut words = text.split(' ');
    let mut next = || words.next().unwrap();
    let owner = next().to_owned();
    let (number, count) = next().split_once('/').unwrap();
    let token = next().strip_prefix('t').unwrap().parse().unwrap();
    let (from, until) = next().split_once("..").unwrap();
    let until = at(until.parse().unwrap());
    Tenure {
        owner,
        layout: layout(count.parse().unwrap()),
        partition: Partition::new(number.parse().unwrap()),
        token: FencingToken::new(0, Revision::new(token).unwrap()),
        from: at(from.parse().unwrap()),
        until,
        ended: until,
    }
}

fn layout(count: u16) -> Layout {
    Layout::new(count.into(), HashId::CsHash1, count).unwrap()
}

fn history(tenures: &[&str]) -> History {
    History {
        tenures: tenures.iter().map(|text| tenure(text)).collect(),
        ..History::default()
    }
}

const BOUNDS: Bounds = Bounds {
    unowned_max: Duration::from_secs(5),
    changes_min: 1,
};

fn violations(history: &History) -> Vec<String> {
    let report = history.check(BOUNDS);
    report.violations.iter().map(ToString::to_string).collect()
}

#[test]
fn a_handoff_one_after_the_other_is_good() {
    let good = history(&["a 1/2 t5 0..10", "b 1/2 t7 10..20", "c 0/2 t5 0..20"]);
    assert_eq!(violations(&good), [""; 0]);
    assert_eq!(good.check(BOUNDS).changes, 1);
}

#[test]
fn two_owners_of_one_partition_are_found() {
    let bad = history(&["a 1/2 t5 0..10", "b 1/2 t7 8..20"]);
    assert_eq!(
        violations(&bad),
        ["two owners for 2s from 8.000s: a with 1 of 2 under 0.5 and b with 1 of 2 under 0.7"]
    );
}

#[test]
fn an_owner_of_a_child_beside_one_of_a_parent_is_found_once() {
    let bad = history(&["a 0/2 t5 0..10", "b 2/6 t7 9..20", "b 3/6 t7 9..20"]);
    assert_eq!(
        violations(&bad),
        ["two owners for 1s from 9.000s: a with 0 of 2 under 0.5 and b with 2 of 6 under 0.7"]
    );
    let good = history(&["a 0/2 t5 0..10", "b 3/6 t7 9..20"]);
    assert_eq!(
        good.check(BOUNDS).violations.len(),
        1,
        "only that nothing happened"
    );
}

#[test]
fn a_token_that_does_not_grow_is_found_across_layouts_too() {
    for (first, second) in [
        ("a 0/2 t5 0..10", "b 0/2 t5 10..20"),
        ("a 0/2 t5 0..10", "b 1/5 t4 12..20"),
    ] {
        let found = violations(&history(&[first, second]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("the token did not grow"), "{found:?}");
    }
}

#[test]
fn a_release_before_the_work_ended_is_found() {
    let mut bad = history(&["a 1/2 t5 0..10", "b 1/2 t7 11..20"]);
    bad.tenures[0].ended = at(12);
    let release = |at| Release {
        owner: "a".into(),
        layout: layout(4),
        partition: Partition::new(3),
        at,
    };
    bad.releases = vec![release(at(11))];
    assert_eq!(
        violations(&bad),
        ["a released 3 at 11.000s, 1s before its work ended: a with 1 of 2 under 0.5"]
    );
    bad.releases = vec![release(at(12))];
    assert_eq!(violations(&bad), [""; 0]);
}

#[test]
fn hashes_without_an_owner_are_found_unless_excused() {
    let mut bad = history(&["a 0/2 t5 0..10", "b 0/2 t7 16..30", "c 1/2 t5 1..30"]);
    bad.run = Some(Span {
        from: at(0),
        until: at(30),
    });
    assert_eq!(
        violations(&bad),
        ["hashes from 0000000000000000 on were unowned for 6s from 10.000s, allowed are 5s"]
    );
    bad.excused = vec![Span {
        from: at(11),
        until: at(14),
    }];
    assert_eq!(violations(&bad), [""; 0]);
    assert_eq!(bad.check(BOUNDS).unowned_max, Duration::from_secs(6));
}

#[test]
fn hashes_that_nobody_ever_owned_are_found() {
    let mut bad = history(&["a 0/2 t5 0..10", "b 0/2 t7 10..30"]);
    bad.run = Some(Span {
        from: at(0),
        until: at(30),
    });
    let found = violations(&bad);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("hashes from 8000000000000000"),
        "{found:?}"
    );
}

#[test]
fn an_overlap_after_an_edit_is_reported_and_no_violation() {
    let mut edited = history(&["a 1/2 t5 0..10", "b 1/2 t7 8..20"]);
    edited.edited = vec![Span {
        from: at(7),
        until: at(11),
    }];
    let report = edited.check(BOUNDS);
    assert_eq!(report.violations, []);
    assert_eq!(report.overlap_after_edit_max, Duration::from_secs(2));
}

#[test]
fn a_run_in_which_nothing_happened_is_a_failure() {
    assert_eq!(
        violations(&history(&["a 1/2 t5 0..10"])),
        ["only 0 changes of an owner, at least 1 are needed to say anything"]
    );
}
