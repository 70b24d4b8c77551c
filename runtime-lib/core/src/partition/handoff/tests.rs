//! Tables of handoff: who may start what, and what is said about it.

use super::*;
use crate::partition::{Part, Rebalance};

fn p(number: u16) -> Partition {
    Partition::new(number)
}

fn epoch(number: u64) -> Revision {
    Revision::new(number).unwrap()
}

fn layout(count: u16) -> Layout {
    Layout::new(u32::from(count), HashId::CsHash1, count).unwrap()
}

/// A table of members `name#incarnation`; each part is `(owner, epoch, prev)`.
fn table(at: u64, members: &[(&str, u32)], parts: &[(usize, u64, &[u16])]) -> Input {
    Input::Table(Arc::new(Table {
        layout: layout(u16::try_from(parts.len()).unwrap()),
        epoch: epoch(at),
        members: members
            .iter()
            .map(|(name, incarnation)| Member::new(*name, Term::new(*incarnation)))
            .collect(),
        parts: parts
            .iter()
            .map(|(owner, at, prev)| Part {
                owner: u16::try_from(*owner).ok(),
                epoch: epoch(*at),
                prev: prev.to_vec(),
            })
            .collect(),
        prev_all: Vec::new(),
        rebalance: Rebalance::default(),
        queued: None,
    }))
}

fn member(name: &str) -> Handoff {
    Handoff::new(name, MemberRecord::default(), Rules::ALL)
}

fn begun(name: &str, incarnation: u32) -> Handoff {
    let mut handoff = member(name);
    handoff.step(Input::Begin(Term::new(incarnation)));
    handoff
}

fn slot(count: u16, number: u16) -> Slot {
    Slot {
        layout: layout(count),
        partition: p(number),
    }
}

fn starts(effects: &[Effect]) -> Vec<(u16, u64)> {
    let starts = effects.iter().filter_map(|effect| match effect {
        Effect::Start { slot, epoch } => Some((slot.partition.number(), epoch.number())),
        _ => None,
    });
    starts.collect()
}

fn drains(effects: &[Effect]) -> Vec<u16> {
    let drains = effects.iter().filter_map(|effect| match effect {
        Effect::Drain(slot) => Some(slot.partition.number()),
        _ => None,
    });
    drains.collect()
}

/// The record published at once, if one was.
fn urgent(effects: &[Effect]) -> Option<MemberRecord> {
    effects.iter().find_map(|effect| match effect {
        Effect::Publish {
            record,
            at_once: true,
        } => Some((**record).clone()),
        _ => None,
    })
}

fn shows(name: &str, incarnation: u32, layout: Layout, acked: u64, owned: &[u16]) -> Input {
    let record = MemberRecord {
        layout: Some(layout),
        acked: Some(epoch(acked)),
        owned: owned.iter().copied().map(p).collect(),
        ..MemberRecord::default()
    };
    Input::Member {
        name: name.into(),
        state: Some(MemberState {
            incarnation: Term::new(incarnation),
            held: true,
            record: Some(Arc::new(record)),
        }),
    }
}

#[test]
fn a_fresh_partition_starts_at_once_with_the_epoch_of_its_publish() {
    let mut a = begun("a", 3);
    let effects = a.step(table(9, &[("a", 3)], &[(0, 9, &[]), (0, 7, &[])]));
    assert_eq!(starts(&effects), [(0, 9), (1, 7)]);
    assert_eq!(
        urgent(&effects),
        None,
        "nobody waits for it: the next renewal tells"
    );
}

#[test]
fn a_member_starts_nothing_until_a_table_names_its_incarnation() {
    let mut a = begun("a", 4);
    assert_eq!(starts(&a.step(table(9, &[("a", 3)], &[(0, 9, &[])]))), []);
    let effects = a.step(table(12, &[("a", 3), ("a", 4)], &[(1, 12, &[0])]));
    assert_eq!(starts(&effects), [(0, 12)], "the earlier life has ended");
}

#[test]
fn the_next_owner_starts_when_the_former_one_has_acknowledged_and_cleared_the_bit() {
    let members = [("a", 1), ("b", 1)];
    let mut b = begun("b", 1);
    let effects = b.step(table(9, &members, &[(1, 9, &[0])]));
    assert_eq!(starts(&effects), []);
    assert!(effects.contains(&Effect::Watch(BTreeSet::from(["a".into()]))));
    assert_eq!(
        starts(&b.step(shows("a", 1, layout(1), 5, &[]))),
        [],
        "it has not seen the table"
    );
    assert_eq!(
        starts(&b.step(shows("a", 1, layout(1), 9, &[0]))),
        [],
        "it still drains"
    );
    assert_eq!(b.waiting(), [(p(0), vec![Member::new("a", Term::new(1))])]);
    let effects = b.step(shows("a", 1, layout(1), 9, &[]));
    assert_eq!(starts(&effects), [(0, 9)]);
    assert!(effects.contains(&Effect::Watch(BTreeSet::new())));
    assert_eq!(b.waiting(), [], "what runs waits for nobody");
}

#[test]
fn an_owner_that_waits_for_two_starts_when_one_after_the_other_is_released() {
    let members = [("a", 1), ("b", 1), ("c", 1)];
    let mut c = begun("c", 1);
    c.step(table(9, &members, &[(2, 9, &[0, 1])]));
    let effects = c.step(shows("a", 1, layout(1), 9, &[]));
    assert_eq!(starts(&effects), []);
    assert!(effects.contains(&Effect::Watch(BTreeSet::from(["b".into()]))));
    let effects = c.step(shows("b", 1, layout(1), 9, &[]));
    assert_eq!(starts(&effects), [(0, 9)], "the first release still holds");
}

#[test]
fn a_missing_member_lease_releases_nothing() {
    let mut b = begun("b", 1);
    b.step(table(9, &[("a", 1), ("b", 1)], &[(1, 9, &[0])]));
    let gone = Input::Member {
        name: "a".into(),
        state: None,
    };
    assert_eq!(starts(&b.step(gone)), []);
}

#[test]
fn a_revoked_partition_drains_and_is_acknowledged_when_its_work_has_ended() {
    let members = [("a", 1), ("b", 1)];
    let mut a = begun("a", 1);
    a.step(table(5, &members, &[(0, 5, &[]), (0, 5, &[])]));
    let effects = a.step(table(9, &members, &[(1, 9, &[0]), (0, 5, &[])]));
    assert_eq!(drains(&effects), [0]);
    assert_eq!(
        urgent(&effects),
        None,
        "an acknowledgement with the bit set helps nobody"
    );
    let record = urgent(&a.step(Input::Ended(slot(2, 0)))).unwrap();
    assert_eq!(record.acked, Some(epoch(9)));
    assert!(!record.owned.contains(p(0)) && record.owned.contains(p(1)));
}

#[test]
fn an_owner_that_never_started_acknowledges_as_well() {
    let members = [("a", 1), ("b", 1), ("c", 1)];
    let mut b = begun("b", 1);
    b.step(table(9, &members, &[(1, 9, &[0])]));
    let record = urgent(&b.step(table(11, &members, &[(2, 11, &[0, 1])]))).unwrap();
    assert_eq!((record.acked, record.owned.len()), (Some(epoch(11)), 0));
}

#[test]
fn a_partition_that_comes_back_under_another_epoch_is_started_anew() {
    let members = [("a", 1), ("b", 1)];
    let mut a = begun("a", 1);
    a.step(table(5, &members, &[(0, 5, &[])]));
    let effects = a.step(table(11, &members, &[(0, 11, &[1])]));
    assert_eq!((drains(&effects), starts(&effects)), (vec![0], vec![]));
    a.step(Input::Ended(slot(1, 0)));
    assert_eq!(
        starts(&a.step(shows("b", 1, layout(1), 11, &[]))),
        [(0, 11)]
    );
}

#[test]
fn an_older_table_is_no_news() {
    let members = [("a", 1), ("b", 1)];
    let mut a = begun("a", 1);
    a.step(table(9, &members, &[(1, 9, &[])]));
    assert_eq!(starts(&a.step(table(5, &members, &[(0, 5, &[])]))), []);
}

#[test]
fn a_child_waits_for_every_overlapping_parent_of_its_own() {
    let mut a = begun("a", 1);
    a.step(table(
        5,
        &[("a", 1)],
        &[(0, 5, &[]), (0, 5, &[]), (0, 5, &[])],
    ));
    // 3 → 2: each child overlaps two parents.
    let effects = a.step(table(9, &[("a", 1)], &[(0, 9, &[0]), (0, 9, &[0])]));
    assert_eq!(
        (drains(&effects), starts(&effects)),
        (vec![0, 1, 2], vec![])
    );
    assert_eq!(starts(&a.step(Input::Ended(slot(3, 0)))), []);
    assert_eq!(starts(&a.step(Input::Ended(slot(3, 1)))), [(0, 9)]);
    assert_eq!(starts(&a.step(Input::Ended(slot(3, 2)))), [(1, 9)]);
}

#[test]
fn a_running_parent_shows_as_all_of_its_children() {
    let members = [("a", 1), ("b", 1)];
    let mut a = begun("a", 1);
    a.step(table(5, &members, &[(0, 5, &[]), (0, 5, &[])]));
    let children: &[(usize, u64, &[u16])] =
        &[(1, 9, &[0]), (1, 9, &[0]), (1, 9, &[0]), (1, 9, &[0])];
    a.step(table(9, &members, children));
    let record = urgent(&a.step(Input::Ended(slot(2, 0)))).unwrap();
    assert_eq!(record.layout, Some(layout(4)));
    assert_eq!(record.owned, [p(2), p(3)].into_iter().collect());
}

#[test]
fn the_end_of_the_term_ends_everything_at_once() {
    let mut a = begun("a", 1);
    a.step(table(5, &[("a", 1)], &[(0, 5, &[]), (0, 5, &[])]));
    let effects = a.step(Input::End);
    assert!(effects.contains(&Effect::Lose(slot(2, 0))));
    assert!(effects.contains(&Effect::Lose(slot(2, 1))));
    assert_eq!(a.running().count(), 0);
    assert!(!a.is_idle(), "the works themselves may not have ended yet");
}

#[test]
fn a_leaver_tells_so_at_once_starts_nothing_and_leaves_when_all_is_taken() {
    let members = [("a", 1), ("b", 1)];
    let mut a = begun("a", 1);
    a.step(table(5, &members, &[(0, 5, &[]), (1, 5, &[])]));
    let record = urgent(&a.step(Input::Leave)).unwrap();
    assert!(record.draining && record.owned.contains(p(0)));
    let effects = a.step(table(9, &members, &[(1, 9, &[0]), (0, 9, &[1])]));
    assert_eq!((drains(&effects), starts(&effects)), (vec![0], vec![]));
    let effects = a.step(Input::Ended(slot(2, 0)));
    assert!(effects.contains(&Effect::Left));
}

#[test]
fn an_idle_leaver_leaves_at_once() {
    let mut a = begun("a", 1);
    assert!(a.step(Input::Leave).contains(&Effect::Left));
}

#[test]
fn a_table_of_another_hash_is_refused_and_what_runs_goes_on() {
    let mut a = begun("a", 1);
    a.step(table(5, &[("a", 1)], &[(0, 5, &[])]));
    let Input::Table(other) = table(9, &[("a", 1)], &[(0, 9, &[])]) else {
        unreachable!()
    };
    let foreign = Table {
        layout: Layout::new(2, HashId::K8sRange1, 1).unwrap(),
        ..(*other).clone()
    };
    assert!(drains(&a.step(Input::Table(Arc::new(foreign)))).is_empty());
    assert_eq!(a.refused(), Some(HashId::K8sRange1));
    assert_eq!(a.running().count(), 1);
}
