//! Who lives, who is fenced, who is missing (H1, H4–H6, H10).

use super::*;

/// The instant at which `a` falls silent, a moment before.
fn almost_silent(rules: Rules) -> Stage {
    let mut stage = Stage::settled(8, &["a", "b"], rules);
    stage.say("a", 1, |_| {});
    stage.dies("a");
    stage.pass(Duration::from_millis(14_900));
    stage
}

#[test]
fn a_silent_member_is_fenced_and_only_then_loses_its_share() {
    let mut stage = almost_silent(Rules::ALL);
    let mine = stage.share("a#1");
    assert_eq!((mine.len(), stage.fences()), (4, 0));
    stage.by_hand = true;
    stage.pass(Duration::from_millis(100));
    let Some(Effect::Fence { name, write }) = stage.open.pop() else {
        panic!("no fence")
    };
    assert_eq!((&*name, write.record.holder.as_ref()), ("a", None));
    assert_eq!(write.record.term, Term::new(1), "the incarnation stays");
    assert!(!write.record.is_released(), "E5: not to be taken at once");
    assert!(
        matches!(write.record.contents, Contents::Member(_)),
        "what it says stays"
    );
    stage.pass(secs(5));
    assert_eq!(stage.share("a#1"), mine, "H5: not before the answer");
    let answer = stage.store(Some(name), &write);
    stage.by_hand = false;
    stage.tell(answer);
    stage.answer();
    assert_eq!(stage.shares(), [("b#1".into(), 8)].into());
    assert!(
        stage.waits(mine[0]).is_empty(),
        "empty at that incarnation is released"
    );
    assert_eq!(stage.table().rebalance.reason.as_ref(), "lost: a#1");
}

#[cfg(feature = "controls")]
#[test]
fn without_h5_the_share_of_a_silent_member_moves_while_it_may_run() {
    let mut stage = almost_silent(Rules::ALL.without(Rule::H5FenceFirst));
    stage.pass(Duration::from_millis(100));
    assert_eq!((stage.fences(), stage.shares().len()), (0, 1));
    assert!(
        stage.members["a"].record.holder.is_some(),
        "it may still renew"
    );
}

#[test]
fn a_fence_that_meets_a_renewal_lets_the_member_live() {
    let mut stage = almost_silent(Rules::ALL);
    stage.write("a", 1, |_| {}); // the watch is dead: nothing is shown
    stage.pass(secs(1));
    assert_eq!(stage.fences(), 1);
    assert_eq!(stage.shares().len(), 2);
    assert!(stage.members["a"].record.holder.is_some());
    assert!(
        stage
            .planner
            .members()
            .iter()
            .all(|view| view.phase == MemberPhase::Ready)
    );
}

#[test]
fn a_fence_without_an_answer_moves_nothing_before_a_list_shows_it() {
    for stored in [true, false] {
        let mut stage = almost_silent(Rules::ALL);
        stage.by_hand = true;
        stage.pass(Duration::from_millis(100));
        let Some(Effect::Fence { name, write }) = stage.open.pop() else {
            panic!("no fence")
        };
        if stored {
            stage.store(Some(name), &write);
        }
        let (attempt, outcome) = (write.attempt, WriteOutcome::Unknown);
        stage.tell(Input::WriteDone { attempt, outcome });
        assert_eq!(stage.shares().len(), 2);
        stage.by_hand = false;
        stage.pass(secs(2));
        assert_eq!(stage.shares(), [("b#1".into(), 8)].into());
        assert_eq!(stage.fences(), if stored { 1 } else { 2 });
    }
}

#[test]
fn a_longer_published_duration_is_waited_for() {
    let mut stage = almost_silent(Rules::ALL);
    stage.alive.insert("a".into());
    stage.revision += 1;
    let revision = epoch(stage.revision);
    let lease = stage.members.get_mut("a").unwrap();
    lease.revision = revision;
    lease.record.duration = Some(secs(60));
    stage.show("a");
    stage.dies("a");
    stage.pass(secs(59));
    assert_eq!(stage.fences(), 0);
    stage.pass(secs(1));
    assert_eq!(stage.fences(), 1);
}

#[test]
fn what_this_process_followed_before_it_led_counts() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    stage.say("a", 1, |_| {});
    stage.dies("a");
    let seen = Sighting {
        uid: stage.members["a"].uid.clone(),
        revision: stage.members["a"].revision,
        since: stage.now,
    };
    stage.pass(secs(10));
    for (sighting, fenced) in [(Some(seen.clone()), true), (None, false)] {
        let before = stage.fences();
        let seen = sighting
            .map(|sighting| ("a".into(), sighting))
            .into_iter()
            .collect();
        stage.planner = Planner::new(stage::config(2, 8), seen, stage.now);
        let kept = stage.members.clone();
        stage.tell(Input::Timer);
        stage.pass(secs(6));
        assert_eq!(stage.fences() > before, fenced, "H10");
        stage.members = kept;
        stage.now = stage.now.after(secs(0));
    }
}

#[test]
fn a_sighting_of_another_revision_counts_for_nothing() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    let seen = Sighting {
        uid: stage.members["a"].uid.clone(),
        revision: epoch(1),
        since: stage.now,
    };
    stage.say("a", 1, |_| {});
    stage.dies("a");
    stage.pass(secs(10));
    stage.planner = Planner::new(stage::config(2, 8), [("a".into(), seen)].into(), stage.now);
    stage.tell(Input::Timer);
    stage.pass(secs(14));
    assert_eq!(stage.fences(), 0);
}

#[test]
fn a_member_that_empties_its_lease_loses_its_share_at_once() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    let mine = stage.share("a#1");
    stage.releases("a");
    assert_eq!(stage.shares(), [("b#1".into(), 8)].into());
    assert!(stage.waits(mine[0]).is_empty());
    assert_eq!(stage.fences(), 0);
}

#[test]
fn a_restarted_member_gets_its_own_share_back_under_a_new_epoch() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    let mine = stage.share("a#1");
    let before = stage.table().epoch;
    stage.say("a", 2, |_| {});
    assert_eq!(stage.share("a#2"), mine, "at once");
    assert!(stage.table().part(mine[0]).unwrap().epoch > before);
    assert!(
        stage.waits(mine[0]).is_empty(),
        "H1: the earlier life is over"
    );
    assert_eq!(stage.table().rebalance.moves, 0, "nothing moves for people");
}

/// N4: a restarted pod runs under the dead one's epoch.
#[cfg(feature = "controls")]
#[test]
fn without_h1_a_restarted_member_keeps_the_epoch_of_the_dead_one() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL.without(Rule::H1Incarnation));
    let mine = stage.share("a#1");
    stage.say("a", 2, |_| {});
    stage.pass(secs(60));
    assert_eq!(stage.share("a#1"), mine);
}

/// N8: the next life of a fenced member is not the fenced one.
#[test]
fn the_next_life_of_a_fenced_member_is_a_predecessor_again() {
    let mut stage = almost_silent(Rules::ALL);
    stage.pass(secs(1));
    assert_eq!((stage.fences(), stage.shares().len()), (1, 1));
    stage.say("a", 2, |_| {});
    stage.pass(secs(3));
    let mine = stage.share("a#2");
    assert_eq!(mine.len(), 4);
    stage.say("a", 2, |record| record.draining = true);
    assert_eq!(stage.shares(), [("b#1".into(), 8)].into());
    assert_eq!(stage.waits(mine[0]), ["a#2"]);
}

#[test]
fn a_missing_lease_releases_nothing_before_its_members_trust_has_run_out() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    let mine = stage.share("a#1");
    stage.deleted("a");
    stage.pass(Duration::from_millis(14_900));
    assert_eq!(stage.share("a#1"), mine, "H6");
    let member = Member::new("a", Term::new(1));
    assert!(
        stage
            .planner
            .concerns()
            .contains(&Concern::LeaseMissing(member))
    );
    stage.pass(Duration::from_millis(100));
    assert_eq!(stage.shares(), [("b#1".into(), 8)].into());
    assert!(stage.waits(mine[0]).is_empty());
}

/// N5, N6: a missing Lease taken for a release.
#[cfg(feature = "controls")]
#[test]
fn without_h6_a_missing_lease_is_taken_for_a_release() {
    let rules = Rules::ALL.without(Rule::H6MissingIsNoRelease);
    let mut stage = Stage::settled(8, &["a", "b"], rules);
    stage.deleted("a");
    assert_eq!(stage.shares(), [("b#1".into(), 8)].into());
}

#[test]
fn a_new_leader_counts_a_missing_lease_from_its_first_list() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    stage.deleted("a");
    stage.pass(secs(10));
    stage.planner = Planner::new(stage::config(2, 8), BTreeMap::new(), stage.now);
    stage.tell(Input::Timer);
    stage.pass(secs(14));
    assert_eq!(stage.shares().len(), 2);
    stage.pass(secs(1));
    assert_eq!(stage.shares().len(), 1);
}

/// The watch of the table can be faster than that of the members.
#[test]
fn a_life_that_a_late_table_names_before_its_lease_is_seen_is_waited_for() {
    for (name, shown) in [("a", true), ("z", false)] {
        let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
        stage.pass(secs(60));
        let mut late = (*stage.table()).clone();
        late.members.push(Member::new(name, Term::new(9)));
        late.parts[0].owner = Some(2);
        late.epoch = stage.assignment.as_ref().unwrap().revision;
        stage.revision += 1;
        let lease = stage.assignment.as_mut().unwrap();
        lease.revision = epoch(stage.revision);
        lease.record.contents = Contents::Table(Arc::new(late));
        let lease = lease.clone();
        stage.tell(Input::Assignment(Some(lease)));
        let owner = format!("{name}#9");
        assert_eq!(stage.share(&owner), [p(0)], "seen before: {shown}");
        stage.pass(secs(14));
        assert_eq!(stage.share(&owner), [p(0)]);
        stage.pass(secs(1));
        assert_eq!(stage.share(&owner), [], "H6");
    }
}

#[test]
fn a_lease_that_only_lost_its_labels_is_not_missing() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    stage.tell(Input::MemberGone { name: "a".into() });
    stage.pass(secs(60));
    assert_eq!(stage.shares().len(), 2, "E4: the list showed it");
}

#[test]
fn a_lease_made_anew_with_an_earlier_incarnation_proves_nothing() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    stage.say("a", 7, |_| {});
    stage.acknowledge("a");
    stage.members.remove("a");
    stage.say("a", 3, |_| {});
    stage.pass(secs(14));
    assert_eq!(stage.share("a#7").len(), 4);
    stage.pass(secs(2));
    assert_eq!(stage.share("a#7").len(), 0);
    assert_eq!(stage.share("a#3").len(), 4);
}

#[test]
fn an_owner_that_waits_for_a_member_whose_lease_vanished_gets_a_word() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    let mine = stage.share("a#1");
    stage.say("a", 1, |record| record.draining = true);
    assert_eq!(stage.waits(mine[0]), ["a#1"]);
    stage.acknowledge("b"); // it runs its own; for the rest it waits
    let waiting: Bitmap = stage
        .share("b#1")
        .into_iter()
        .filter(|p| !mine.contains(p))
        .collect();
    stage.say("b", 1, |record| record.owned = waiting);
    let since = stage.table().part(mine[0]).unwrap().epoch;
    stage.deleted("a");
    stage.pass(secs(14));
    assert_eq!(stage.waits(mine[0]), ["a#1"]);
    stage.pass(secs(1));
    assert!(stage.waits(mine[0]).is_empty(), "only the leader can know");
    assert_eq!(
        stage.table().part(mine[0]).unwrap().epoch,
        since,
        "the owner stays"
    );
}

#[test]
fn a_member_that_cannot_be_read_keeps_what_it_has_and_receives_nothing() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    let mine = stage.share("a#1");
    stage.dies("a");
    for _ in 0..20 {
        stage.revision += 1;
        let revision = epoch(stage.revision);
        let lease = stage.members.get_mut("a").unwrap();
        lease.revision = revision;
        let (newer, reason) = (true, "version: found 2, allowed is 1".into());
        lease.record.contents = Contents::Unreadable { newer, reason };
        stage.show("a");
        stage.pass(secs(4));
    }
    assert_eq!(stage.share("a#1"), mine);
    stage.releases("b");
    stage.pass(secs(3));
    assert_eq!(stage.share("a#1"), mine);
    assert_eq!(stage.shares()["nobody"], 4);
    let unreadable = |concern: &Concern| matches!(concern, Concern::MemberUnreadable { .. });
    assert!(stage.planner.concerns().iter().any(unreadable));
}

#[test]
fn a_member_of_another_hash_receives_nothing() {
    let mut stage = Stage::settled(8, &["a", "b"], Rules::ALL);
    stage.say("c", 1, |record| record.hash = HashId::K8sRange1);
    stage.pass(secs(60));
    assert_eq!(stage.shares().len(), 2);
    let (name, hash) = ("c".into(), HashId::K8sRange1);
    assert!(
        stage
            .planner
            .concerns()
            .contains(&Concern::HashDiffers { name, hash })
    );
}

#[test]
fn nobody_owns_anything_when_nobody_lives() {
    let mut stage = Stage::settled(8, &["a"], Rules::ALL);
    stage.releases("a");
    assert_eq!(stage.shares(), [("nobody".into(), 8)].into());
    stage.pass(secs(60));
    let before = stage.publishes();
    stage.join("b");
    stage.pass(secs(3));
    assert_eq!((stage.shares().len(), stage.publishes()), (1, before + 1));
    assert_eq!(stage.share("b#1").len(), 8);
}

/// N2: A → B → C before A acknowledged: C would start while A runs.
#[test]
fn a_predecessor_that_was_not_seen_released_is_carried_on() {
    let (mut stage, moved) = twice_moved(Rules::ALL);
    assert_eq!(stage.waits(moved), ["a#1", "b#1"], "H4");
    // Seen released in the next publish, it is dropped.
    stage.acknowledge("a");
    stage.acknowledge("b");
    stage.releases("c");
    assert_eq!(stage.waits(moved), [""; 0]);
}

#[cfg(feature = "controls")]
#[test]
fn without_h4_the_first_owner_is_forgotten() {
    let (stage, moved) = twice_moved(Rules::ALL.without(Rule::H4PrevCarries));
    assert_eq!(stage.waits(moved), ["b#1"]);
}

/// A partition that went from a to b, and to c before a said anything.
fn twice_moved(rules: Rules) -> (Stage, Partition) {
    let mut stage = Stage::settled(2, &["a", "b"], rules);
    let moved = stage.share("a#1")[0];
    stage.say("a", 1, |record| record.draining = true);
    assert_eq!(stage.waits(moved), ["a#1"]);
    stage.join("c");
    stage.pass(secs(3));
    if stage.share("c#1") != [moved] {
        stage.say("b", 1, |record| record.draining = true);
    }
    assert!(stage.share("c#1").contains(&moved));
    (stage, moved)
}
