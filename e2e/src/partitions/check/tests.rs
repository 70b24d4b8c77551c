//! Each break of a guarantee is found, and what is no break is not reported.

use std::time::Duration;

use super::{Demands, Run, Span, Violation};
use crate::history::{Event, Fault, Line};
use crate::partitions::keys::{self, Slot};
use crate::partitions::ledger::Entry;
use crate::partitions::tables::Table;

const SECOND: u64 = 1_000_000_000;

fn demands() -> Demands {
    Demands {
        trusted: Duration::from_secs(5),
        unowned_max: Duration::from_secs(8),
        recovery_max: Duration::from_secs(10),
        tables_min: 1,
    }
}

fn slot(count: u16, partition: u16) -> Slot {
    Slot {
        generation: count.into(),
        count,
        partition,
    }
}

fn line(second: u64, event: Event, identity: &str, slot: Slot, token: &str) -> Line {
    Line {
        t: second * SECOND,
        event,
        identity: identity.to_owned(),
        slot: Some(slot),
        token: Some(token.to_owned()),
        remaining: (event == Event::Gained || event == Event::Held).then_some(60 * SECOND),
        pid: Some(identity.len().try_into().unwrap()),
        ..Line::default()
    }
}

/// `a` owns the only partition from 1 to 20, then `bb` owns its two children.
fn handover() -> Vec<Line> {
    vec![
        line(1, Event::Gained, "a", slot(1, 0), "0.1"),
        line(20, Event::Drained, "a", slot(1, 0), "0.1"),
        line(22, Event::Gained, "bb", slot(2, 0), "0.5"),
        line(23, Event::Gained, "bb", slot(2, 1), "0.5"),
        line(25, Event::Held, "bb", slot(2, 0), "0.5"),
    ]
}

fn entry(token: &str, writer: &str, slot: Slot, set: Option<(&str, u64)>) -> Entry {
    Entry {
        t: 1,
        slot,
        token: token.to_owned(),
        writer: writer.to_owned(),
        set: set.map(|(key, value)| (key.to_owned(), value)),
    }
}

fn table(epoch: u64) -> Table {
    Table {
        epoch,
        ..Table::default()
    }
}

fn violations(mut lines: Vec<Line>, entries: &[Entry], tables: &[Table]) -> Vec<Violation> {
    lines.sort_by_key(|line| line.t);
    let mut run = Run::default();
    run.lines(&lines).unwrap();
    if !entries.is_empty() {
        run.entries("ledger", entries.to_vec());
    }
    run.judge(tables, &demands()).unwrap().violations
}

fn judged(lines: Vec<Line>) -> Vec<Violation> {
    let write = entry("0.5", "bb", slot(1, 0), Some(("order-1", 1)));
    violations(lines, &[write], &[table(1)])
}

#[test]
fn a_parent_that_ended_before_its_children_began_is_good() {
    assert_eq!(judged(handover()), []);
    let mut run = Run::default();
    run.lines(&handover()).unwrap();
    assert_eq!(run.unowned_max(Span::ALWAYS), Duration::from_secs(3));
    let late = Span {
        from: 22 * SECOND,
        until: 30 * SECOND,
    };
    assert_eq!(run.unowned_max(late), Duration::from_secs(1));
}

#[test]
fn a_child_beside_its_parent_is_two_owners() {
    let mut lines = handover();
    lines[1].t = 24 * SECOND;
    let found = judged(lines);
    assert!(
        matches!(
            found[..],
            [Violation::TwoOwners { .. }, Violation::TwoOwners { .. }]
        ),
        "{found:?}"
    );
}

#[test]
fn the_guard_of_a_paused_process_holds_until_it_runs_out() {
    let mut lines = handover();
    lines[1].t = 30 * SECOND;
    lines[0].remaining = Some(20 * SECOND);
    assert_eq!(judged(lines.clone()), []);
    lines[0].remaining = Some(22 * SECOND);
    assert!(matches!(judged(lines)[..], [Violation::TwoOwners { .. }]));
}

#[test]
fn the_guards_of_a_killed_process_ended_with_it() {
    let mut lines = handover();
    lines[1] = Line {
        pid: Some(1),
        fault: Some(Fault::Kill),
        slot: None,
        ..line(19, Event::Fault, "chaos", slot(1, 0), "0.1")
    };
    assert_eq!(judged(lines), []);
}

#[test]
fn the_guards_of_a_killed_pod_ended_with_it() {
    const POD: &str = "web-1_0a_00000001";
    let mut lines = handover();
    for line in &mut lines[..2] {
        line.identity = POD.to_owned();
    }
    lines[1] = Line {
        t: 19 * SECOND,
        event: Event::Fault,
        pod: Some("web-1".to_owned()),
        fault: Some(Fault::Kill),
        ..Line::default()
    };
    assert_eq!(judged(lines.clone()), []);
    lines[1].pod = Some("web-11".to_owned());
    assert!(!judged(lines).is_empty());
}

#[test]
fn a_long_time_without_an_owner_is_excused_only_by_an_outage() {
    let mut lines = handover();
    for line in &mut lines[2..] {
        line.t += 20 * SECOND;
    }
    let found = judged(lines.clone());
    assert!(
        found
            .iter()
            .all(|one| matches!(one, Violation::Unowned { .. }))
    );
    assert_eq!(found.len(), 2, "{found:?}");
    let outage = |second, event| Line {
        t: second * SECOND,
        event,
        fault: Some(Fault::Outage),
        reason: "etcd paused".to_owned(),
        ..Line::default()
    };
    lines.extend([outage(21, Event::Fault), outage(36, Event::FaultEnded)]);
    assert_eq!(judged(lines), []);
}

#[test]
fn an_overlap_after_an_edit_is_no_violation() {
    let mut lines = handover();
    lines[1].t = 24 * SECOND;
    lines.push(Line {
        t: 21 * SECOND,
        event: Event::Fault,
        fault: Some(Fault::Edit),
        ..Line::default()
    });
    assert_eq!(judged(lines), []);
}

#[test]
fn a_later_owner_with_a_lower_token_is_found() {
    let mut lines = handover();
    lines[0].token = Some("0.7".to_owned());
    lines[1].token = Some("0.7".to_owned());
    let found = judged(lines);
    assert!(
        found
            .iter()
            .all(|one| matches!(one, Violation::TokenShrank { .. }))
            && !found.is_empty(),
        "{found:?}"
    );
}

#[test]
fn a_write_below_a_raised_fence_is_found_in_the_ledger() {
    let key = "order-1";
    let children = (0..2).map(|partition| slot(2, partition));
    let child = children
        .into_iter()
        .find(|slot| slot.holds(keys::hash(key)));
    let child = child.unwrap();
    let entries = [
        entry("0.1", "a", slot(1, 0), None),
        entry("0.1", "a", slot(1, 0), Some((key, 1))),
        entry("0.5", "bb", child, None),
        entry("0.1", "a", slot(1, 0), Some((key, 2))),
    ];
    assert_eq!(violations(handover(), &entries[..3], &[table(1)]), []);
    let found = violations(handover(), &entries, &[table(1)]);
    assert!(
        matches!(found[..], [Violation::WriteOutOfOrder { .. }]),
        "{found:?}"
    );
}

#[test]
fn a_counter_that_was_written_over_is_found() {
    let entries = [
        entry("0.1", "a", slot(1, 0), Some(("k", 1))),
        entry("0.5", "bb", slot(1, 0), Some(("k", 1))),
    ];
    let found = violations(handover(), &entries, &[table(1)]);
    assert!(
        matches!(found[..], [Violation::UpdateLost { .. }]),
        "{found:?}"
    );
}

#[test]
fn a_value_that_is_written_twice_under_one_token_is_found_unless_its_writer_got_no_answer() {
    let entries = [
        entry("0.1", "a", slot(1, 0), Some(("k", 1))),
        entry("0.1", "a", slot(1, 0), Some(("k", 1))),
    ];
    let found = violations(handover(), &entries, &[table(1)]);
    assert!(
        matches!(found[..], [Violation::UpdateLost { .. }]),
        "{found:?}"
    );
    let mut lines = handover();
    lines.push(Line {
        store: "ledger".to_owned(),
        key: Some("k".to_owned()),
        value: Some(1),
        remaining: None,
        ..line(10, Event::Unavailable, "a", slot(1, 0), "0.1")
    });
    assert_eq!(violations(lines.clone(), &entries, &[table(1)]), []);
    // Of another store it says nothing.
    for line in &mut lines {
        line.store = "redis".to_owned();
    }
    assert_eq!(violations(lines, &entries, &[table(1)]).len(), 1);
}

#[test]
fn a_raise_that_is_written_down_late_lowers_nothing() {
    let entries = [
        entry("0.5", "bb", slot(1, 0), None),
        entry("0.1", "a", slot(1, 0), None),
        entry("0.1", "a", slot(1, 0), Some(("k", 1))),
    ];
    let found = violations(handover(), &entries, &[table(1)]);
    assert!(
        matches!(found[..], [Violation::WriteOutOfOrder { .. }]),
        "{found:?}"
    );
}

#[test]
fn each_store_is_judged_by_itself_and_none_may_be_silent() {
    let mut run = Run::default();
    let mut lines = handover();
    let told = Line {
        store: "redis".to_owned(),
        ..line(24, Event::Write, "bb", slot(2, 0), "0.5")
    };
    lines.insert(4, told);
    run.lines(&lines).unwrap();
    let write = entry("0.5", "bb", slot(2, 0), Some(("k", 1)));
    run.entries("ledger", vec![write.clone()]);
    let found = |run: &Run| run.judge(&[table(1)], &demands()).unwrap().violations;
    assert!(matches!(found(&run)[..], [Violation::Nothing(_)]));
    run.entries("redis", Vec::new());
    let silent = found(&run);
    assert!(
        matches!(
            silent[..],
            [Violation::WriteLost { .. }, Violation::Nothing(_)]
        ),
        "{silent:?}"
    );
    run.entries("redis", vec![write]);
    assert_eq!(found(&run), []);
}

#[test]
fn two_writers_under_one_token_are_found() {
    let entries = [
        entry("0.1", "a", slot(1, 0), Some(("k", 1))),
        entry("0.1", "bb", slot(1, 0), Some(("k", 2))),
    ];
    let found = violations(handover(), &entries, &[table(1)]);
    assert!(
        matches!(found[..], [Violation::OneTokenTwoWriters { .. }]),
        "{found:?}"
    );
}

#[test]
fn an_epoch_that_repeats_is_found() {
    let write = entry("0.5", "bb", slot(1, 0), Some(("k", 1)));
    let found = violations(handover(), &[write], &[table(4), table(4)]);
    assert!(matches!(found[..], [Violation::EpochRepeats { .. }]));
}

#[test]
fn a_run_in_which_nothing_happened_fails() {
    let found = violations(Vec::new(), &[], &[]);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|one| matches!(one, Violation::Nothing(_))));
}
