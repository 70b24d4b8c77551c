//! The judge finds what it should, and nothing else.

use super::*;
use crate::id::Revision;

const BOUNDS: Bounds = Bounds {
    vacancy_max: Duration::from_secs(17),
    changes_min: 1,
};

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn token(revision: u64) -> FencingToken {
    FencingToken::new(0, Revision::new(revision).unwrap())
}

fn tenure(identity: &str, revision: u64, from: u64, until: u64) -> Tenure {
    Tenure {
        identity: identity.into(),
        token: token(revision),
        from: at(from),
        until: at(until),
    }
}

fn history(tenures: &[Tenure]) -> History {
    History {
        tenures: tenures.to_vec(),
        ..History::default()
    }
}

fn violations(history: &History) -> Vec<String> {
    history
        .check(BOUNDS)
        .violations
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn one_leader_after_the_other_is_fine() {
    let good = history(&[tenure("a", 1, 0, 20), tenure("b", 5, 20, 40)]);
    assert_eq!(violations(&good), [""; 0]);
}

#[test]
fn overlapping_guards_are_found_also_behind_a_short_tenure() {
    let bad = history(&[
        tenure("a", 1, 0, 30),
        tenure("b", 5, 10, 12),
        tenure("c", 9, 20, 40),
    ]);
    let found = violations(&bad);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].starts_with("two guards valid at once for 10s from 20.000s: a under 0.1"));
}

#[test]
fn an_overlap_after_an_edit_is_reported_but_no_violation() {
    let mut edited = history(&[tenure("a", 1, 0, 30), tenure("b", 5, 22, 40)]);
    edited.edited = vec![Span {
        from: at(21),
        until: at(33),
    }];
    let report = edited.check(BOUNDS);
    assert_eq!(report.violations, []);
    assert_eq!(report.overlap_after_edit_max, Duration::from_secs(8));
}

#[test]
fn repeated_and_shrinking_tokens_are_found() {
    let bad = history(&[
        tenure("a", 5, 0, 10),
        tenure("b", 5, 10, 20),
        tenure("c", 4, 20, 30),
    ]);
    assert_eq!(
        violations(&bad),
        [
            "token 0.5 was given twice: to a and to b",
            "token 0.4 of c at 20.000s is lower than 0.5, given before"
        ]
    );
}

#[test]
fn an_accepted_write_out_of_token_order_is_found_and_a_refused_one_is_counted() {
    let mut bad = history(&[tenure("a", 1, 0, 10), tenure("b", 5, 10, 20)]);
    bad.writes = [(11, 5, true), (12, 1, false), (13, 1, true)]
        .map(|(seconds, revision, accepted)| GuardedWrite {
            at: at(seconds),
            token: token(revision),
            accepted,
        })
        .to_vec();
    let report = bad.check(BOUNDS);
    assert_eq!(report.refused, 1);
    assert!(matches!(
        report.violations[..],
        [Violation::WriteOutOfOrder { .. }]
    ));
}

#[test]
fn a_vacancy_longer_than_the_bound_is_found_unless_excused() {
    let mut slow = history(&[tenure("a", 1, 0, 10), tenure("b", 5, 40, 50)]);
    slow.run = Some(Span {
        from: at(0),
        until: at(50),
    });
    assert_eq!(
        violations(&slow),
        ["no leader for 30s from 10.000s, allowed are 17s"]
    );
    slow.excused = vec![Span {
        from: at(15),
        until: at(30),
    }];
    assert_eq!(violations(&slow), [""; 0]);
}

#[test]
fn nobody_leading_until_the_end_of_the_run_is_found() {
    let mut dead = history(&[tenure("a", 1, 0, 10), tenure("b", 2, 10, 20)]);
    dead.run = Some(Span {
        from: at(0),
        until: at(60),
    });
    assert_eq!(
        violations(&dead),
        ["no leader for 40s from 20.000s, allowed are 17s"]
    );
}

#[test]
fn a_run_without_a_leadership_change_fails() {
    assert_eq!(
        violations(&history(&[tenure("a", 1, 0, 10)])),
        ["only 0 leadership changes, at least 1 are needed to say anything"]
    );
}

fn span(from: u64, until: u64) -> Span {
    Span {
        from: at(from),
        until: at(until),
    }
}

#[test]
fn an_overlap_that_an_edit_does_not_cover_is_found() {
    let mut edited = history(&[tenure("a", 1, 0, 30), tenure("b", 5, 22, 40)]);
    for (from, until) in [(21, 25), (23, 40), (40, 50)] {
        edited.edited = vec![span(from, until)];
        assert_eq!(
            violations(&edited).len(),
            1,
            "edited from {from} to {until}"
        );
    }
    edited.edited = vec![span(22, 30)];
    assert_eq!(violations(&edited), [""; 0]);
}

#[test]
fn excuses_divide_a_vacancy_and_its_longest_part_counts() {
    let mut slow = history(&[tenure("a", 1, 0, 10), tenure("b", 5, 60, 70)]);
    slow.run = Some(span(0, 70));
    slow.excused = vec![
        span(40, 45),
        span(1, 5),
        span(15, 25),
        span(20, 22),
        span(90, 95),
    ];
    let report = slow.check(BOUNDS);
    assert_eq!(report.violations, []);
    assert_eq!(report.vacancies, [Duration::from_secs(50)]);
    slow.excused = vec![span(44, 45), span(15, 25)];
    assert_eq!(
        violations(&slow),
        ["no leader for 19s from 10.000s, allowed are 17s"]
    );
}

#[test]
fn nobody_leading_since_the_start_of_the_run_is_found_and_reported() {
    let mut late = history(&[tenure("a", 1, 20, 30), tenure("b", 2, 30, 60)]);
    late.run = Some(span(0, 60));
    let report = late.check(BOUNDS);
    assert_eq!((report.changes, report.vacancies.len()), (1, 1));
    assert!(matches!(
        report.violations[..],
        [Violation::NoLeader { .. }]
    ));
}

#[test]
fn a_vacancy_as_long_as_the_bound_is_allowed() {
    let edge = history(&[tenure("a", 1, 0, 10), tenure("b", 2, 27, 30)]);
    assert_eq!(violations(&edge), [""; 0]);
    assert_eq!(edge.check(BOUNDS).vacancies, [Duration::from_secs(17)]);
}

#[test]
fn a_token_lower_than_the_highest_before_it_is_found_later_too() {
    let bad = history(&[
        tenure("a", 5, 0, 10),
        tenure("b", 4, 10, 20),
        tenure("c", 5, 20, 30),
    ]);
    let found = violations(&bad);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("given twice: to a and to c"));
}

#[test]
fn an_overlap_with_a_tenure_that_outlasted_the_first_one_is_found() {
    let bad = history(&[
        tenure("a", 1, 0, 10),
        tenure("b", 5, 10, 40),
        tenure("c", 9, 30, 50),
    ]);
    let found = violations(&bad);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("two guards valid at once for 10s from 30.000s: b under 0.5"));
}

#[test]
fn accepted_writes_under_the_same_and_growing_tokens_are_fine() {
    let mut good = history(&[tenure("a", 1, 0, 10), tenure("b", 5, 10, 20)]);
    good.writes = [(1, 1), (2, 1), (11, 5), (12, 5)]
        .map(|(seconds, revision)| GuardedWrite {
            at: at(seconds),
            token: token(revision),
            accepted: true,
        })
        .to_vec();
    assert_eq!(violations(&good), [""; 0]);
}
