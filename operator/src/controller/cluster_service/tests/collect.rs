//! Which member Leases are collected, and when a pass looks again.

use super::{
    super::plan::Stale,
    partitions::{blocker, change, partitioned, table, world},
    *,
};
use crate::belief::partitions::Life;

#[test]
fn a_member_lease_is_collected_when_empty_and_unnamed_or_unchanged_for_three_durations() {
    let collected = |life, is_named, unchanged_for: u64| {
        let mut facts = world(table(64, 0));
        let gone = &mut facts.partitions.members[1];
        (gone.life, gone.is_named) = (life, is_named);
        gone.unchanged_for = Duration::from_secs(unchanged_for);
        plan(&facts).stale
    };
    let stale = Stale {
        pod: "b".into(),
        uid: "uid-b".into(),
        revision: "7".into(),
    };
    for (life, is_named, after) in [
        (Life::Empty, false, 15),
        (Life::Empty, true, 45),
        (Life::Silent, false, 45),
        (Life::Silent, true, 45),
    ] {
        assert_eq!(
            collected(life, is_named, after - 1),
            [],
            "{life:?} {is_named}"
        );
        assert_eq!(
            collected(life, is_named, after),
            std::slice::from_ref(&stale),
            "{life:?} {is_named}"
        );
    }
    assert_eq!(collected(Life::Renewed, false, 100_000), []);
}

#[test]
fn nothing_is_collected_while_paused_or_blind_or_by_the_younger_of_two() {
    let world = || {
        let mut facts = world(table(64, 0));
        let gone = &mut facts.partitions.members[1];
        (gone.life, gone.unchanged_for) = (Life::Silent, Duration::from_mins(10));
        facts
    };
    assert_eq!(plan(&world()).stale.len(), 1, "the control");
    let mut paused = world();
    paused.service.spec.paused = true;
    assert_eq!(plan(&paused).stale, []);
    let mut blind = world();
    blind.blind = Some(Blind {
        reason: "LeasesUnseen",
        message: String::new(),
    });
    assert_eq!(plan(&blind).stale, []);
    let mut younger = world();
    younger.peers = vec![service("older", 9, &partitioned())];
    assert_eq!(plan(&younger).stale, []);
    // A longer declared duration keeps a Lease that claims a short one.
    let mut longer = world();
    longer.service.spec.lease.duration_seconds = 3600;
    assert_eq!(plan(&longer).stale, []);
}

#[test]
fn a_pass_looks_again_when_something_falls_due_and_not_while_settled() {
    let deadline = |facts: &Facts| super::super::plan::next_deadline(facts);
    let mut facts = world(table(64, 0));
    assert_eq!(deadline(&facts), None);
    change(&mut facts, |table| {
        table.blockers = vec![blocker("a", 20, None)];
    });
    assert_eq!(deadline(&facts), Some(Duration::from_secs(40)));
    change(&mut facts, |table| {
        table.blockers = vec![blocker("a", 61, None)];
    });
    assert_eq!(deadline(&facts), None, "it was said");
    let gone = &mut facts.partitions.members[1];
    (gone.life, gone.unchanged_for) = (Life::Silent, Duration::from_secs(15));
    assert_eq!(deadline(&facts), Some(Duration::from_secs(30)));
}
