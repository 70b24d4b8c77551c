//! The first table, epochs, and answers that do not come.

use super::*;

#[test]
fn the_first_effect_is_a_list() {
    let mut planner = Planner::new(stage::config(1, 8), BTreeMap::new(), Instant::ZERO);
    let effects = planner.step(Input::Timer, Instant::ZERO);
    assert_eq!(effects, [Effect::List]);
    assert_eq!(planner.step(Input::Timer, Instant::ZERO), []);
}

#[test]
fn the_first_table_of_a_first_term_comes_as_soon_as_joins_are_quiet() {
    let mut stage = Stage::new(stage::config(1, 8));
    stage.write("a", 1, |_| {});
    stage.tell(Input::Timer);
    stage.pass(secs(1));
    stage.join("b");
    stage.pass(Duration::from_millis(1900));
    assert_eq!(stage.publishes(), 0);
    stage.pass(Duration::from_millis(100));
    assert_eq!(
        stage.shares(),
        [("a#1".into(), 4), ("b#1".into(), 4)].into()
    );
    let table = stage.table();
    assert_eq!(table.epoch, epoch(101), "the revision of the list");
    assert_eq!(
        table.rebalance.reason.as_ref(),
        "first table; joined: a#1 b#1"
    );
    assert!(table.prev_all.is_empty() && table.parts.iter().all(|part| part.prev.is_empty()));
}

#[test]
fn members_that_come_one_by_one_delay_the_first_table_by_ten_seconds_at_most() {
    let mut stage = Stage::new(stage::config(1, 8));
    stage.tell(Input::Timer);
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        stage.join(name);
        stage.pass(Duration::from_millis(1500));
    }
    assert_eq!(stage.publishes(), 1);
    assert_eq!(stage.shares().len(), 7);
}

#[test]
fn a_later_term_that_finds_no_table_waits_a_full_duration() {
    let mut stage = Stage::new(stage::config(2, 8));
    stage.write("a", 1, |_| {});
    stage.tell(Input::Timer);
    assert!(stage.planner.concerns().contains(&Concern::TableMissing));
    stage.pass(Duration::from_millis(14_900));
    assert_eq!(stage.publishes(), 0);
    stage.pass(secs(1));
    assert_eq!(stage.shares(), [("a#1".into(), 8)].into());
    assert_eq!(stage.table().prev_all, [0], "H7");
    assert!(stage.planner.concerns().is_empty());
}

#[test]
fn a_first_term_waits_as_well_if_somebody_has_seen_a_table() {
    let mut stage = Stage::new(stage::config(1, 8));
    stage.write("a", 1, |record| record.acked = Some(epoch(7)));
    stage.tell(Input::Timer);
    stage.pass(Duration::from_millis(14_900));
    assert_eq!(stage.publishes(), 0);
    stage.pass(secs(1));
    assert_eq!(stage.publishes(), 1);
}

#[test]
fn a_settled_planner_writes_nothing() {
    let mut stage = Stage::settled(16, &["a", "b", "c"], Rules::ALL);
    let before = stage.writes.len();
    stage.pass(secs(3600));
    assert_eq!(stage.writes.len(), before, "quiet-when-settled");
}

#[test]
fn a_new_planner_finds_a_settled_table_and_writes_nothing() {
    let mut stage = Stage::settled(16, &["a", "b", "c"], Rules::ALL);
    let before = stage.writes.len();
    stage.planner = Planner::new(stage::config(2, 16), BTreeMap::new(), stage.now);
    stage.tell(Input::Timer);
    stage.pass(secs(600));
    assert_eq!(stage.writes.len(), before);
    assert_eq!(stage.planner.members().len(), 3);
}

#[test]
fn epochs_are_the_revisions_that_publishes_replace_and_stay_while_the_owner_stays() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    let first = stage.table();
    let replaced = stage.assignment.as_ref().unwrap().revision;
    stage.join("c");
    stage.pass(secs(2));
    let second = stage.table();
    assert_eq!(second.epoch, replaced, "H2");
    let mut moved = 0;
    for (partition, part) in second.entries() {
        if second.owner(partition) == first.owner(partition) {
            assert_eq!(part.epoch, first.epoch);
        } else {
            assert_eq!(part.epoch, second.epoch);
            moved += 1;
        }
    }
    assert_eq!(
        (moved, second.rebalance.moves, second.rebalance.least),
        (2, 2, 2)
    );
}

#[test]
fn a_publish_without_an_answer_is_looked_up_before_the_next() {
    for stored in [true, false] {
        let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
        stage.by_hand = true;
        stage.join("c");
        stage.pass(secs(2));
        let Some(Effect::Publish(write)) = stage.open.pop() else {
            panic!("no publish")
        };
        if stored {
            stage.store(None, &write);
        }
        let (attempt, outcome) = (write.attempt, WriteOutcome::Unknown);
        stage.tell(Input::WriteDone { attempt, outcome });
        assert!(stage.open.is_empty(), "after a delay");
        stage.by_hand = false;
        stage.pass(secs(2));
        assert_eq!(stage.shares().len(), 3);
        let expected = if stored { 2 } else { 3 };
        assert_eq!(stage.publishes(), expected, "stored: {stored}");
    }
}

#[test]
fn a_publish_that_meets_a_newer_table_goes_on_from_that() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    stage.by_hand = true;
    stage.join("c");
    stage.pass(secs(2));
    let Some(Effect::Publish(write)) = stage.open.pop() else {
        panic!("no publish")
    };
    // The late publish of a former leader comes first: everything is a's.
    let mut other = (*stage.table()).clone();
    other.parts.iter_mut().for_each(|part| part.owner = Some(0));
    other.epoch = stage.assignment.as_ref().unwrap().revision;
    stage.revision += 1;
    let lease = stage.assignment.as_mut().unwrap();
    lease.revision = epoch(stage.revision);
    lease.record.contents = Contents::Table(Arc::new(other));
    let answer = stage.store(None, &write);
    stage.by_hand = false;
    stage.tell(answer);
    stage.pass(secs(2));
    assert_eq!(stage.shares().len(), 3);
}

#[test]
fn a_failed_list_is_repeated_with_growing_delays() {
    let mut stage = Stage::new(stage::config(1, 8));
    stage.by_hand = true;
    stage.tell(Input::Timer);
    for delay in [500, 1000, 2000] {
        assert_eq!(stage.open, [Effect::List]);
        stage.open.clear();
        stage.tell(Input::ListFailed { retry_after: None });
        let told = stage.notices.pop();
        let Some(Notice::RetryIn(wait)) = told else {
            panic!("{told:?}")
        };
        let delay = Duration::from_millis(delay);
        assert!(wait <= delay && wait >= delay * 3 / 4, "{wait:?}");
        stage.pass(wait);
    }
}

#[test]
fn an_epoch_written_by_hand_is_exceeded() {
    let mut stage = Stage::settled(8, &["a"], Rules::ALL);
    let mut forged = (*stage.table()).clone();
    forged.epoch = epoch(9_000_000);
    stage.revision += 1;
    let lease = stage.assignment.as_mut().unwrap();
    lease.revision = epoch(stage.revision);
    lease.record.contents = Contents::Table(Arc::new(forged));
    let lease = lease.clone();
    stage.tell(Input::Assignment(Some(lease)));
    stage.join("b");
    stage.pass(secs(3));
    assert_eq!(
        stage.table().epoch,
        epoch(9_000_001),
        "members know the higher one"
    );
    stage.join("c");
    stage.pass(secs(3));
    assert_eq!(stage.table().epoch, epoch(9_000_002));
}
