//! Another number of partitions (H8).

use super::*;
use crate::partition::planner::Wanted;

fn wanted(count: u16) -> Input {
    let hash = HashId::CsHash1;
    Input::Wanted(Wanted { count, hash })
}

fn resized(rules: Rules, from: u16, to: u16) -> Stage {
    let mut stage = Stage::settled(from, &["a", "b", "c"], rules);
    stage.tell(wanted(to));
    stage
}

#[test]
fn a_child_waits_for_the_owners_of_all_its_parents() {
    for (from, to) in [(8, 12), (12, 8), (6, 12), (12, 5), (3, 1)] {
        let mut stage = Stage::settled(from, &["a", "b", "c"], Rules::ALL);
        let before = stage.table();
        stage.tell(wanted(to));
        let table = stage.table();
        assert_eq!((table.layout.count(), table.layout.generation()), (to, 2));
        for (child, part) in table.entries() {
            assert_eq!(part.epoch, table.epoch);
            let mut parents: Vec<&Member> = table
                .layout
                .overlapping(child, before.layout)
                .filter_map(|parent| before.owner(parent))
                .filter(|owner| Some(*owner) != table.owner(child))
                .collect();
            parents.sort();
            parents.dedup();
            let waits: Vec<&Member> = table.waits_for(child).collect();
            assert_eq!(waits, parents, "{from} to {to}, {child}");
        }
    }
}

#[cfg(feature = "controls")]
#[test]
fn without_h8_children_wait_for_nobody() {
    let stage = resized(Rules::ALL.without(Rule::H8ParentsReleased), 8, 12);
    let table = stage.table();
    assert!(
        table
            .layout
            .partitions()
            .all(|child| stage.waits(child).is_empty())
    );
}

#[test]
fn doubling_moves_only_what_balance_asks_for() {
    let stage = resized(Rules::ALL, 8, 16);
    let table = stage.table();
    assert_eq!(table.rebalance.moves, table.rebalance.least);
    assert!(table.rebalance.moves <= 1, "{}", table.rebalance.moves);
    assert_eq!(table.rebalance.reason.as_ref(), "16 partitions");
}

#[test]
fn a_second_change_waits_until_no_handoff_runs_and_says_so() {
    let mut stage = resized(Rules::ALL, 8, 12);
    stage.tell(wanted(16));
    let table = stage.table();
    assert_eq!((table.layout.count(), table.queued), (12, Some(16)));
    let count = 16;
    assert!(
        stage
            .planner
            .concerns()
            .contains(&Concern::Queued { count })
    );
    let before = stage.publishes();
    stage.pass(secs(60));
    assert_eq!(stage.publishes(), before, "said once");
    stage.acknowledge("a");
    stage.acknowledge("b");
    assert_eq!(stage.table().layout.count(), 12);
    stage.acknowledge("c");
    let table = stage.table();
    assert_eq!(
        (
            table.layout.count(),
            table.queued,
            table.layout.generation()
        ),
        (16, None, 3)
    );
    assert!(stage.planner.concerns().is_empty());
}

#[test]
fn a_queued_change_that_is_taken_back_is_no_longer_announced() {
    let mut stage = resized(Rules::ALL, 8, 12);
    stage.tell(wanted(16));
    stage.tell(wanted(12));
    assert_eq!(stage.table().queued, None);
    stage.acknowledge_all();
    let before = stage.publishes();
    stage.pass(secs(60));
    assert_eq!(
        (stage.publishes(), stage.table().layout.count()),
        (before, 12)
    );
}

#[test]
fn a_change_waits_for_a_member_of_which_too_little_is_known() {
    let mut stage = Stage::settled(8, &["a", "b", "c"], Rules::ALL);
    stage.deleted("a");
    stage.tell(wanted(12));
    assert_eq!(stage.table().layout.count(), 8);
    stage.pass(secs(15));
    stage.acknowledge("b");
    stage.acknowledge("c");
    stage.pass(secs(1));
    assert_eq!(stage.table().layout.count(), 12);
}

#[test]
fn a_number_of_partitions_that_cannot_be_changes_nothing() {
    for count in [0, 4097] {
        let stage = resized(Rules::ALL, 8, count);
        assert_eq!(stage.table().layout.count(), 8);
        assert!(
            stage
                .planner
                .concerns()
                .contains(&Concern::WantedCount { count })
        );
    }
}

#[test]
fn another_hash_is_refused() {
    let mut stage = Stage::settled(8, &["a"], Rules::ALL);
    let (count, hash) = (8, HashId::K8sRange1);
    stage.tell(Input::Wanted(Wanted { count, hash }));
    stage.pass(secs(60));
    assert_eq!(stage.table().layout.hash(), HashId::CsHash1);
    assert!(
        stage
            .planner
            .concerns()
            .contains(&Concern::WantedHash { hash })
    );
}

#[test]
fn the_first_table_has_the_hash_of_most_members() {
    let mut stage = Stage::new(stage::config(1, 8));
    for name in ["a", "b", "c"] {
        let hash = if name == "a" {
            HashId::CsHash1
        } else {
            HashId::K8sRange1
        };
        stage.write(name, 1, |record| record.hash = hash);
    }
    stage.tell(Input::Timer);
    stage.pass(secs(3));
    assert_eq!(stage.table().layout.hash(), HashId::K8sRange1);
    assert_eq!(
        stage.shares(),
        [("b#1".into(), 4), ("c#1".into(), 4)].into()
    );
}
