//! The way from lines to a judgement: each break of a guarantee is found, and
//! what is no break is not reported.

use super::{Demands, judge};
use crate::history::{Event, Fault, Line};
use crate::ledger::Entry;
use leasehold_core::election::check::Violation;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

fn demands() -> Demands {
    Demands {
        trusted: Duration::from_secs(5),
        vacancy_max: Duration::from_secs(10),
        recovery_max: Duration::from_secs(10),
        changes_min: 1,
    }
}

fn line(second: u64, event: Event, identity: &str, token: &str) -> Line {
    Line {
        t: second * SECOND,
        event,
        identity: identity.to_owned(),
        service: "orders".to_owned(),
        token: Some(token.to_owned()),
        ..Line::default()
    }
}

fn held(second: u64, identity: &str, token: &str, remaining: u64) -> Line {
    Line {
        remaining: Some(remaining * SECOND),
        pid: Some(identity.len().try_into().unwrap()),
        ..line(second, Event::Held, identity, token)
    }
}

/// `a` leads from 1 to 20, then `bb` from 22 on.
fn handover() -> Vec<Line> {
    vec![
        line(1, Event::Gained, "a", "0.1"),
        held(15, "a", "0.1", 5),
        line(20, Event::Lost, "a", "0.1"),
        line(22, Event::Gained, "bb", "0.5"),
        held(25, "bb", "0.5", 5),
    ]
}

fn violations(lines: &[Line], ledger: &[Entry]) -> Vec<Violation> {
    judge(lines, ledger, "orders", &demands())
        .unwrap()
        .report
        .violations
}

fn sorted(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by_key(|line| line.t);
    lines
}

#[test]
fn a_handover_without_overlap_is_good() {
    let judgement = judge(&handover(), &[], "orders", &demands()).unwrap();
    assert!(judgement.is_good(), "{judgement}");
    assert_eq!((judgement.tenures, judgement.report.changes), (2, 1));
}

#[test]
fn a_guard_that_has_not_run_out_overlaps_with_its_successor() {
    let mut lines = handover();
    lines[1].remaining = Some(9 * SECOND);
    // The paused process says only later that it lost.
    lines[2].t = 30 * SECOND;
    let found = violations(&sorted(lines), &[]);
    assert!(
        matches!(found[..], [Violation::TwoGuards { .. }]),
        "{found:?}"
    );
}

#[test]
fn the_guard_of_a_killed_process_ended_with_it() {
    let mut lines = handover();
    lines[1].remaining = Some(9 * SECOND);
    lines[2] = Line {
        pid: Some(1),
        fault: Some(Fault::Kill),
        identity: "chaos".to_owned(),
        ..line(19, Event::Fault, "chaos", "0.1")
    };
    assert_eq!(violations(&lines, &[]), []);
}

#[test]
fn an_overlap_after_an_edit_is_reported_and_no_violation() {
    let mut lines = handover();
    lines[1].remaining = Some(9 * SECOND);
    lines[2].t = 23 * SECOND;
    lines.push(Line {
        fault: Some(Fault::Edit),
        service: "orders".to_owned(),
        ..line(21, Event::Fault, "chaos", "0.1")
    });
    let judgement = judge(&sorted(lines), &[], "orders", &demands()).unwrap();
    assert!(judgement.is_good(), "{judgement}");
    assert_eq!(
        judgement.report.overlap_after_edit_max,
        Duration::from_secs(1)
    );
}

#[test]
fn a_long_vacancy_is_excused_only_by_an_outage() {
    let mut lines = handover();
    for line in &mut lines[3..] {
        line.t += 20 * SECOND;
    }
    let found = violations(&lines, &[]);
    assert!(
        matches!(found[..], [Violation::NoLeader { .. }]),
        "{found:?}"
    );

    let outage = |second, event| Line {
        fault: Some(Fault::Outage),
        reason: "etcd paused".to_owned(),
        ..line(second, event, "chaos", "0.1")
    };
    lines.extend([outage(21, Event::Fault), outage(36, Event::FaultEnded)]);
    assert_eq!(violations(&sorted(lines), &[]), []);
}

#[test]
fn a_write_out_of_token_order_is_found_in_the_store() {
    let entry = |t, token: &str| Entry {
        token: token.to_owned(),
        writer: "x".to_owned(),
        t,
        value: Some(1),
    };
    let found = violations(
        &handover(),
        &[entry(1, "0.1"), entry(2, "0.5"), entry(3, "0.1")],
    );
    assert!(
        matches!(found[..], [Violation::WriteOutOfOrder { .. }]),
        "{found:?}"
    );
}

#[test]
fn a_write_that_the_store_lost_is_found() {
    let mut lines = handover();
    lines.push(line(26, Event::Write, "bb", "0.5"));
    let judgement = judge(&lines, &[], "orders", &demands()).unwrap();
    assert!(!judgement.is_good());
    assert!(
        judgement.to_string().contains("told that 1 writes"),
        "{judgement}"
    );
}

#[test]
fn a_run_without_changes_or_without_guards_fails() {
    let found = violations(&handover()[..2], &[]);
    assert!(
        matches!(found[..], [Violation::NothingHappened { .. }]),
        "{found:?}"
    );
    assert!(!judge(&[], &[], "orders", &demands()).unwrap().is_good());
}

#[test]
fn another_services_lines_are_not_judged() {
    let mut lines = handover();
    lines.push(Line {
        service: "bills".to_owned(),
        ..held(16, "other", "0.9", 5)
    });
    assert_eq!(violations(&sorted(lines), &[]), []);
}
