//! A lost or unreadable table (H7), and epochs after it (H2).

use super::*;
use crate::partition::Layout;

/// Two members run a table that is then deleted.
fn deleted(rules: Rules) -> Stage {
    let mut stage = Stage::settled(4, &["a", "b"], rules);
    stage.pass(secs(20));
    stage.revision += 1;
    stage.assignment = None;
    stage
}

#[test]
fn a_lost_table_is_rebuilt_from_what_the_members_say_and_everybody_acknowledges() {
    let mut stage = deleted(Rules::ALL);
    let before = (stage.planner.table().cloned().unwrap(), stage.revision);
    stage.tell(Input::Assignment(None));
    let table = stage.table();
    for (partition, part) in table.entries() {
        assert_eq!(table.owner(partition), before.0.owner(partition));
        assert_eq!(part.epoch, epoch(before.1), "H2: the revision of the list");
        assert_eq!(stage.waits(partition), ["a#1", "b#1"], "H7");
    }
    assert_eq!(table.layout, before.0.layout);
    stage.acknowledge_all();
    stage.join("c");
    stage.pass(secs(3));
    assert!(stage.table().prev_all.is_empty(), "all were seen released");
}

#[test]
fn whoever_has_not_acknowledged_the_rebuilt_table_stays_a_predecessor_of_all() {
    let mut stage = deleted(Rules::ALL);
    stage.tell(Input::Assignment(None));
    stage.acknowledge("b");
    stage.join("c");
    stage.pass(secs(3));
    let table = stage.table();
    let all: Vec<String> = table
        .prev_all
        .iter()
        .map(|i| table.members[usize::from(*i)].to_string())
        .collect();
    assert_eq!(all, ["a#1"]);
}

/// The table was cut anew; then nobody who has seen it is left, and it is deleted.
fn lost_with_all_who_saw_it() -> (Stage, Layout) {
    let mut stage = Stage::settled(4, &["a", "b"], Rules::ALL);
    let hash = HashId::CsHash1;
    stage.tell(Input::Wanted(Wanted { count: 6, hash }));
    stage.acknowledge_all();
    let layout = stage.table().layout;
    assert_eq!((layout.generation(), layout.count()), (2, 6));
    stage.by_hand = true;
    stage.releases("a");
    stage.releases("b");
    stage.open.clear();
    stage.by_hand = false;
    stage.revision += 1;
    stage.assignment = None;
    stage.planner = Planner::new(stage::config(2, 6), BTreeMap::new(), stage.now);
    (stage, layout)
}

#[test]
fn a_table_that_only_empty_leases_know_of_is_rebuilt_in_its_layout() {
    let (mut stage, layout) = lost_with_all_who_saw_it();
    stage.write("c", 1, |_| {});
    stage.tell(Input::Timer);
    stage.pass(secs(16));
    assert_eq!(stage.table().layout, layout);
}

#[test]
fn after_a_layout_of_another_hash_comes_the_next_generation() {
    let (mut stage, _) = lost_with_all_who_saw_it();
    let hash = HashId::K8sRange1;
    stage.write("c", 1, |record| record.hash = hash);
    stage.tell(Input::Timer);
    stage.pass(secs(16));
    let rebuilt = stage.table().layout;
    assert_eq!(
        (rebuilt.generation(), rebuilt.hash(), rebuilt.count()),
        (3, hash, 6)
    );
}

#[test]
fn a_member_that_still_runs_the_layout_before_keeps_what_overlaps_it() {
    let (mut stage, layout) = lost_with_all_who_saw_it();
    let before = Layout::new(1, HashId::CsHash1, 4).unwrap();
    stage.write("c", 1, |record| {
        record.layout = Some(before);
        record.acked = Some(epoch(101));
        record.owned = [p(0), p(1)].into_iter().collect();
    });
    stage.write("d", 1, |_| {});
    stage.tell(Input::Timer);
    stage.pass(secs(16));
    assert_eq!(stage.table().layout, layout);
    let its: Vec<Partition> = [0, 1, 2].map(p).to_vec();
    assert_eq!(stage.share("c#1"), its);
    assert_eq!(stage.waits(p(5)), ["c#1", "d#1"], "H7");
}

/// Its create was under way when another leader rebuilt the table, and that one was deleted as well.
#[test]
fn a_late_create_of_a_former_leader_is_taken_for_an_older_copy() {
    let mut stage = deleted(Rules::ALL);
    stage.by_hand = true;
    stage.tell(Input::Assignment(None));
    let list = stage.list();
    stage.open.clear();
    stage.tell(list);
    let Some(Effect::Publish(late)) = stage.open.pop() else {
        panic!("it rebuilds the table");
    };
    stage.by_hand = false;
    stage.planner = Planner::new(stage::config(2, 4), BTreeMap::new(), stage.now);
    stage.tell(Input::Timer);
    stage.pass(secs(16));
    let rebuilt = stage.table();
    let refused = stage.store(None, &late);
    let conflict = matches!(
        refused,
        Input::WriteDone {
            outcome: WriteOutcome::Conflict,
            ..
        }
    );
    assert!(conflict, "H2: there is a table");
    stage.revision += 1;
    stage.assignment = None;
    stage.store(None, &late);
    assert!(stage.table().epoch < rebuilt.epoch, "now there was none");
    stage.tell(Input::Assignment(stage.assignment.clone()));
    assert!(stage.table().epoch > rebuilt.epoch);
    assert_eq!(stage.waits(p(0)), ["a#1", "b#1"], "H7");
}

#[test]
fn a_new_leader_rebuilds_after_a_full_duration() {
    let mut stage = deleted(Rules::ALL);
    stage.planner = Planner::new(stage::config(2, 4), BTreeMap::new(), stage.now);
    stage.tell(Input::Timer);
    stage.pass(Duration::from_millis(14_900));
    assert!(stage.assignment.is_none());
    stage.pass(Duration::from_millis(100));
    assert_eq!(stage.shares().len(), 2);
}

#[test]
fn a_lease_that_vanished_with_the_table_is_waited_for() {
    let mut stage = deleted(Rules::ALL);
    stage.deleted("a");
    assert!(
        stage.assignment.is_none(),
        "its member may still run something"
    );
    stage.pass(secs(14));
    assert!(stage.assignment.is_none());
    stage.pass(secs(1));
    assert_eq!(stage.shares(), [("b#1".into(), 4)].into());
}

/// N9: a bitmap older than the last acknowledgement gives the partition back to its former owner.
#[test]
fn the_newer_acknowledgement_wins_a_contested_bit_and_the_other_is_waited_for() {
    let (stage, contested) = contested(Rules::ALL);
    assert_eq!(stage.table().owner(contested).unwrap().to_string(), "b#1");
    assert_eq!(stage.waits(contested), ["a#1", "b#1"]);
}

#[cfg(feature = "controls")]
#[test]
fn without_h7_nobody_is_waited_for_after_a_lost_table() {
    let (stage, contested) = contested(Rules::ALL.without(Rule::H7PrevAll));
    assert!(stage.waits(contested).is_empty());
}

fn contested(rules: Rules) -> (Stage, Partition) {
    let mut stage = deleted(rules);
    let contested = stage
        .planner
        .table()
        .unwrap()
        .layout
        .partitions()
        .next()
        .unwrap();
    let newest = stage.planner.table().unwrap().epoch;
    stage.say("a", 1, |record| record.owned.insert(contested));
    stage.say("b", 1, |record| {
        record.owned.insert(contested);
        record.acked = Some(epoch(newest.number() + 1));
    });
    stage.tell(Input::Assignment(None));
    (stage, contested)
}

/// N10: a counter repeats an epoch after a fence and a loss.
#[test]
fn the_epoch_after_a_loss_is_higher_than_any_before() {
    let (highest, rebuilt) = fenced_and_lost(Rules::ALL);
    assert!(rebuilt > highest);
}

#[cfg(feature = "controls")]
#[test]
fn without_h2_a_counter_repeats_an_epoch() {
    let (highest, rebuilt) = fenced_and_lost(Rules::ALL.without(Rule::H2EpochIsRevision));
    assert!(rebuilt <= highest, "{rebuilt} after {highest}");
}

/// a alone has seen the newest table when it is fenced and the table is lost.
fn fenced_and_lost(rules: Rules) -> (Revision, Revision) {
    let mut stage = Stage::settled(4, &["a", "b"], rules);
    stage.pass(secs(20));
    let known = stage.table();
    stage.join("c");
    stage.pass(secs(2));
    stage.acknowledge("a");
    let highest = stage.table().epoch;
    assert!(highest > known.epoch);
    // a is emptied, and c goes without having seen anything.
    stage.assignment = None;
    stage.revision += 1;
    stage.by_hand = true;
    stage.releases("a");
    stage.releases("c");
    stage.open.clear();
    stage.by_hand = false;
    stage.planner = Planner::new(
        Config {
            rules,
            ..stage::config(2, 4)
        },
        BTreeMap::new(),
        stage.now,
    );
    stage.tell(Input::Timer);
    stage.pass(secs(16));
    (highest, stage.table().epoch)
}

#[test]
fn garbage_in_place_of_a_table_is_replaced_after_a_full_duration() {
    let mut stage = unreadable(false);
    stage.pass(Duration::from_millis(14_900));
    assert!(stage.planner.table().is_none());
    let based_on = stage.assignment.as_ref().unwrap().revision;
    stage.pass(Duration::from_millis(100));
    assert_eq!(stage.table().epoch, based_on);
    assert_eq!(stage.shares().len(), 2);
    assert!(!stage.table().prev_all.is_empty());
}

#[test]
fn what_a_later_version_wrote_is_never_touched() {
    let mut stage = unreadable(true);
    let before = stage.writes.len();
    stage.pass(secs(600));
    assert_eq!(stage.writes.len(), before);
    let newer = |concern: &Concern| matches!(concern, Concern::TableNewer { .. });
    assert!(stage.planner.concerns().iter().any(newer));
}

/// A new leader finds a table that it cannot read.
fn unreadable(newer: bool) -> Stage {
    let mut stage = Stage::settled(4, &["a", "b"], Rules::ALL);
    stage.revision += 1;
    let lease = stage.assignment.as_mut().unwrap();
    lease.revision = epoch(stage.revision);
    let reason = "version: found 2, allowed is 1".into();
    lease.record.contents = Contents::Unreadable { newer, reason };
    stage.planner = Planner::new(stage::config(2, 4), BTreeMap::new(), stage.now);
    stage.tell(Input::Timer);
    stage
}

/// Two members settle on a table, a third takes a share, and an older copy of the table is put back.
fn put_back() -> (Stage, Arc<Table>) {
    let mut stage = Stage::settled(4, &["a", "b"], Rules::ALL);
    let older = stage.assignment.clone().unwrap().record;
    stage.pass(secs(20));
    stage.join("c");
    stage.pass(secs(3));
    let newest = stage.table();
    stage.revision += 1;
    let lease = stage.assignment.as_mut().unwrap();
    lease.revision = epoch(stage.revision);
    lease.record = older;
    (stage, newest)
}

#[test]
fn an_older_copy_of_the_table_is_taken_for_lost_by_whoever_saw_the_newer_one() {
    let (mut stage, newest) = put_back();
    stage.tell(Input::Assignment(stage.assignment.clone()));
    let rebuilt = stage.table();
    assert!(rebuilt.epoch > newest.epoch);
    assert_eq!(stage.waits(p(0)), ["a#1", "b#1", "c#1"], "H7");
}

#[test]
fn an_older_copy_of_the_table_is_known_by_what_members_have_understood() {
    let (mut stage, newest) = put_back();
    stage.say("a", 1, |record| record.acked = Some(newest.epoch));
    stage.planner = Planner::new(stage::config(2, 4), BTreeMap::new(), stage.now);
    stage.tell(Input::Timer);
    stage.pass(Duration::from_millis(14_900));
    assert!(
        stage.table().epoch < newest.epoch,
        "not before a full duration"
    );
    stage.pass(Duration::from_millis(100));
    assert!(stage.table().epoch > newest.epoch);
    assert_eq!(stage.waits(p(0)), ["a#1", "b#1", "c#1"], "H7");
}

#[test]
fn an_older_copy_that_the_watch_shows_before_the_first_list_is_known_by_the_list() {
    let (mut stage, newest) = put_back();
    stage.say("a", 1, |record| record.acked = Some(newest.epoch));
    stage.planner = Planner::new(stage::config(2, 4), BTreeMap::new(), stage.now);
    stage.by_hand = true;
    stage.tell(Input::Timer);
    let list = stage.list();
    stage.pass(Duration::from_millis(1));
    stage.tell(Input::Assignment(stage.assignment.clone()));
    stage.tell(list);
    assert_eq!(stage.planner.table(), None);
}

#[test]
fn a_table_that_contradicts_itself_is_taken_for_garbage() {
    let mut stage = Stage::settled(4, &["a", "b"], Rules::ALL);
    let mut table = (*stage.table()).clone();
    table.parts.pop();
    stage.revision += 1;
    let lease = stage.assignment.as_mut().unwrap();
    lease.revision = epoch(stage.revision);
    lease.record.contents = Contents::Table(Arc::new(table));
    let lease = lease.clone();
    stage.tell(Input::Assignment(Some(lease)));
    let reason = "entries: found 3, allowed are 4".into();
    assert!(
        stage
            .planner
            .concerns()
            .contains(&Concern::TableUnreadable { reason })
    );
    stage.pass(secs(15));
    assert_eq!(stage.table().parts.len(), 4);
}
