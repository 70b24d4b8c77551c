//! When changes are made: joins, leavers, rollouts, members that flap.

use super::*;

fn of(revision: &str) -> impl FnOnce(&mut MemberRecord) {
    let revision = revision.into();
    |record| record.revision = Some(revision)
}

/// Members of revision `old`, settled.
fn deployment(count: u16, names: &[&str]) -> Stage {
    let mut stage = Stage::new(stage::config(1, count));
    for name in names {
        stage.write(name, 1, of("old"));
    }
    stage.tell(Input::Timer);
    stage.pass(secs(3));
    stage.acknowledge_all();
    stage.pass(secs(15));
    assert!(stage.planner.concerns().is_empty());
    stage
}

#[test]
fn joins_are_taken_together() {
    let mut stage = Stage::settled(12, &["a"], Rules::ALL);
    let before = stage.publishes();
    stage.join("b");
    stage.pass(Duration::from_millis(1500));
    stage.join("c");
    stage.pass(Duration::from_millis(1900));
    assert_eq!(stage.publishes(), before);
    stage.pass(Duration::from_millis(100));
    assert_eq!((stage.publishes(), stage.shares().len()), (before + 1, 3));
    assert!(stage.shares().values().all(|share| *share == 4));
}

#[test]
fn a_leaver_is_acted_upon_at_once_and_takes_waiting_joins_along() {
    let mut stage = Stage::settled(12, &["a", "b", "c"], Rules::ALL);
    let before = stage.publishes();
    stage.join("d");
    let mine = stage.share("a#1");
    stage.say("a", 1, |record| record.draining = true);
    assert_eq!(
        (stage.publishes(), stage.share("d#1").len()),
        (before + 1, 4)
    );
    assert_eq!(stage.table().rebalance.moves, 4);
    assert_eq!(stage.waits(mine[0]), ["a#1"]);
    assert_eq!(
        stage.table().rebalance.reason.as_ref(),
        "leaving: a#1; joined: d#1"
    );
}

#[test]
fn nobody_is_told_that_nobody_owns_a_partition_for_which_somebody_stands_by() {
    let mut stage = Stage::settled(8, &["a"], Rules::ALL);
    let before = stage.publishes();
    stage.join("b");
    stage.releases("a");
    assert_eq!(stage.publishes(), before);
    stage.pass(secs(2));
    assert_eq!(
        (stage.publishes(), stage.share("b#1").len()),
        (before + 1, 8)
    );
}

#[test]
fn more_members_than_partitions_are_no_reason_to_publish() {
    let mut stage = Stage::settled(2, &["a", "b", "c"], Rules::ALL);
    let before = stage.publishes();
    stage.join("d");
    stage.pass(secs(60));
    assert_eq!(stage.publishes(), before);
    let owner = stage.table().owner(p(0)).unwrap().name.clone();
    stage.releases(&owner);
    assert_eq!(
        stage.shares().len(),
        2,
        "those that stand by take part at once"
    );
}

#[test]
fn in_a_rollout_newcomers_stand_by() {
    let mut stage = deployment(12, &["a", "b", "c"]);
    let before = stage.publishes();
    stage.say("x", 1, of("new"));
    stage.pass(secs(60));
    assert_eq!(stage.publishes(), before);
    assert!(stage.planner.concerns().contains(&Concern::Rollout));
}

#[test]
fn a_rollout_moves_every_partition_once() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut stage = deployment(64, &names);
    let mut moves = 0;
    for (old, new) in names.iter().zip(["u", "v", "w", "x", "y", "z"]) {
        stage.say(new, 1, of("new"));
        stage.pass(secs(4));
        let share = stage.share(&format!("{old}#1"));
        stage.say(old, 1, |record| record.draining = true);
        assert_eq!(stage.share(&format!("{new}#1")), share, "whole");
        assert_eq!(stage.waits(share[0]), [format!("{old}#1")]);
        moves += stage.table().rebalance.moves;
        assert_eq!(stage.table().rebalance.least, stage.table().rebalance.moves);
        stage.acknowledge_all();
        stage.releases(old);
        stage.pass(secs(1));
    }
    let before = stage.publishes();
    stage.pass(secs(60));
    assert_eq!((moves, stage.publishes()), (64, before));
    assert!(stage.planner.concerns().is_empty(), "it is over");
}

#[test]
fn a_leaver_without_newcomer_keeps_its_share_for_a_while() {
    let mut stage = deployment(12, &["a", "b", "c"]);
    let share = stage.share("a#1");
    stage.say("a", 1, |record| record.draining = true);
    stage.pass(secs(5));
    assert_eq!(stage.share("a#1"), share);
    let member = Member::new("a", Term::new(1));
    assert!(
        stage
            .planner
            .concerns()
            .contains(&Concern::AwaitsNewcomer(member))
    );
    stage.say("x", 1, of("new"));
    assert_eq!(stage.share("x#1"), share, "at once");
}

#[test]
fn a_leaver_for_whom_nobody_comes_gives_its_share_to_the_others() {
    let mut stage = deployment(12, &["a", "b", "c"]);
    stage.say("a", 1, |record| record.draining = true);
    stage.pass(secs(10));
    assert_eq!(
        stage.shares(),
        [("b#1".into(), 6), ("c#1".into(), 6)].into()
    );
}

#[test]
fn the_last_one_keeps_its_share_until_it_is_gone() {
    let mut stage = deployment(12, &["a"]);
    stage.say("a", 1, |record| record.draining = true);
    stage.pass(secs(60));
    assert_eq!(stage.share("a#1").len(), 12);
    stage.releases("a");
    assert_eq!(stage.shares()["nobody"], 12);
}

#[test]
fn after_a_rollout_without_progress_newcomers_take_part() {
    let mut stage = deployment(12, &["a", "b", "c"]);
    stage.say("x", 1, of("new"));
    stage.pass(secs(299));
    assert_eq!(stage.shares().len(), 3);
    stage.pass(secs(2));
    assert_eq!(stage.shares().len(), 4);
    assert!(stage.planner.concerns().is_empty());
}

#[test]
fn a_scale_up_is_no_rollout() {
    let mut stage = deployment(12, &["a", "b", "c"]);
    stage.say("x", 1, of("old"));
    stage.pass(secs(2));
    assert_eq!(stage.shares().len(), 4);
}

#[test]
fn the_share_of_a_pod_that_crashes_in_a_rollout_goes_to_a_newcomer() {
    let mut stage = deployment(12, &["a", "b", "c"]);
    stage.say("x", 1, of("new"));
    stage.pass(secs(4));
    let share = stage.share("b#1");
    stage.dies("b");
    stage.pass(secs(20));
    assert_eq!(stage.share("x#1"), share);
    assert!(stage.waits(share[0]).is_empty());
}

#[test]
fn a_new_leader_in_a_rollout_knows_the_newcomers_by_their_empty_hands() {
    let mut stage = deployment(12, &["a", "b", "c"]);
    stage.say("x", 1, of("new"));
    stage.say("y", 1, of("new"));
    stage.pass(secs(4));
    stage.planner = Planner::new(stage::config(2, 12), BTreeMap::new(), stage.now);
    stage.tell(Input::Timer);
    let share = stage.share("a#1");
    stage.say("a", 1, |record| record.draining = true);
    assert_eq!(stage.share("x#1"), share);
}

#[test]
fn a_member_that_flaps_receives_nothing_for_a_growing_time() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    for life in 2..=4 {
        stage.say("a", life, |_| {});
        stage.acknowledge("a");
        stage.pass(secs(4));
    }
    assert_eq!(stage.shares(), [("b#1".into(), 8)].into());
    assert!(
        stage
            .planner
            .concerns()
            .contains(&Concern::Flaps { name: "a".into() })
    );
    stage.pass(secs(25));
    assert_eq!(stage.shares().len(), 1);
    stage.pass(secs(5));
    assert_eq!(stage.share("a#4").len(), 4, "after half a minute");
    stage.acknowledge_all();
    stage.say("a", 5, |_| {});
    stage.pass(secs(55));
    assert_eq!(stage.shares().len(), 1);
    stage.pass(secs(6));
    assert_eq!(stage.share("a#5").len(), 4, "after a minute");
}

#[test]
fn one_that_flaps_is_better_than_nobody() {
    let mut stage = Stage::settled(8, &["a"], Rules::ALL);
    for life in 2..=6 {
        stage.say("a", life, |_| {});
        stage.acknowledge("a");
    }
    assert_eq!(stage.share("a#6").len(), 8);
}
