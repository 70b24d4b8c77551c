//! Which partitions are owned, moving or unowned, and who is to blame.

use std::{collections::BTreeMap, sync::Arc};

use leasehold_core::{
    id::Term,
    partition::{HashId, MemberRecord, Part},
};

use super::*;

fn epoch(number: u64) -> Revision {
    Revision::new(number).unwrap()
}

fn layout(count: u16) -> Layout {
    Layout::new(1, HashId::CsHash1, count).unwrap()
}

/// A table of one partition for each (owner, epoch, prev); members a#1, b#1, c#1.
fn table(parts: &[(Option<u16>, u64, &[u16])]) -> Table {
    Table {
        layout: layout(u16::try_from(parts.len()).unwrap()),
        epoch: epoch(100),
        members: ["a", "b", "c"]
            .map(|name| Member::new(name, Term::new(1)))
            .into(),
        parts: parts
            .iter()
            .map(|(owner, at, prev)| Part {
                owner: *owner,
                epoch: epoch(*at),
                prev: prev.to_vec(),
            })
            .collect(),
        prev_all: Vec::new(),
        rebalance: Rebalance::default(),
        queued: None,
    }
}

#[derive(Default)]
struct World(BTreeMap<&'static str, (MemberState, bool)>);

impl World {
    /// A member Lease, held at incarnation 1, that acknowledged `acked` and runs `owned`.
    fn member(mut self, name: &'static str, table: &Table, acked: u64, owned: &[u16]) -> Self {
        let record = MemberRecord {
            layout: Some(table.layout),
            acked: Some(epoch(acked)),
            owned: owned.iter().copied().map(Partition::new).collect(),
            ..MemberRecord::default()
        };
        let state = MemberState {
            incarnation: Term::new(1),
            held: true,
            record: Some(Arc::new(record)),
        };
        self.0.insert(name, (state, true));
        self
    }

    fn but(mut self, name: &'static str, change: impl FnOnce(&mut (MemberState, bool))) -> Self {
        change(self.0.get_mut(name).unwrap());
        self
    }

    fn tally(&self, table: &Table) -> Tally {
        Summary::of(table).unwrap().tally(|name| {
            let (state, is_renewed) = self.0.get(name)?;
            Some(Seen {
                state,
                is_renewed: *is_renewed,
            })
        })
    }
}

/// owned, moving, unowned, and (blocker, partitions).
fn counts(tally: &Tally) -> (usize, usize, usize, Vec<(String, Vec<u16>)>) {
    let blockers = tally.blockers.iter();
    let blockers = blockers.map(|it| (it.member.to_string(), it.partitions.clone()));
    (tally.owned, tally.moving, tally.unowned, blockers.collect())
}

#[test]
fn a_settled_table_is_owned_whether_or_not_its_bits_are_written_yet() {
    let table = table(&[(Some(0), 90, &[]), (Some(0), 100, &[]), (Some(1), 100, &[])]);
    let world = World::default()
        .member("a", &table, 100, &[0])
        .member("b", &table, 90, &[]);
    let tally = world.tally(&table);
    assert_eq!(counts(&tally), (3, 0, 0, vec![]));
    assert_eq!(tally.shares, [2, 1, 0]);
}

#[test]
fn a_partition_moves_until_every_former_owner_has_released_it() {
    let table = table(&[
        (Some(1), 100, &[0]),
        (Some(1), 100, &[0, 2]),
        (Some(0), 90, &[]),
    ]);
    let world = |a: u64, runs: &[u16], c: u64| {
        World::default()
            .member("a", &table, a, runs)
            .member("b", &table, 100, &[])
            .member("c", &table, c, &[])
    };
    // a has not read the table: its clear bit says nothing (H3).
    let tally = world(90, &[2], 90).tally(&table);
    let blockers = vec![("a#1".into(), vec![0, 1]), ("c#1".into(), vec![1])];
    assert_eq!(counts(&tally), (1, 2, 0, blockers));
    // It has, and still drains partition 1.
    let tally = world(100, &[1, 2], 100).tally(&table);
    assert_eq!(counts(&tally), (2, 1, 0, vec![("a#1".into(), vec![1])]));
    let tally = world(100, &[2], 100).tally(&table);
    assert_eq!(counts(&tally), (3, 0, 0, vec![]));
}

#[test]
fn an_empty_lease_or_a_later_life_is_a_release() {
    let table = table(&[(Some(1), 100, &[0])]);
    let world = || {
        World::default()
            .member("a", &table, 90, &[0])
            .member("b", &table, 100, &[])
    };
    assert_eq!(world().tally(&table).moving, 1);
    let fenced = world().but("a", |(state, _)| state.held = false);
    assert_eq!(fenced.tally(&table).owned, 1);
    let again = world().but("a", |(state, _)| state.incarnation = Term::new(2));
    assert_eq!(again.tally(&table).owned, 1);
}

#[test]
fn a_missing_lease_is_no_release_but_an_owner_that_runs_is_an_owner() {
    let table = table(&[(Some(1), 100, &[0])]);
    let waits = World::default().member("b", &table, 100, &[]);
    assert_eq!(
        counts(&waits.tally(&table)),
        (0, 1, 0, vec![("a#1".into(), vec![0])])
    );
    // The Lease was collected after the handoff had ended.
    let runs = World::default().member("b", &table, 100, &[0]);
    assert_eq!(counts(&runs.tally(&table)), (1, 0, 0, vec![]));
    // A bit from before the table says nothing.
    let old = World::default().member("b", &table, 90, &[0]);
    assert_eq!(old.tally(&table).moving, 1);
}

#[test]
fn a_partition_is_unowned_without_an_owner_that_lives() {
    let table = table(&[(None, 100, &[0]), (Some(0), 100, &[1])]);
    let world = || {
        World::default()
            .member("a", &table, 100, &[1])
            .member("b", &table, 90, &[])
    };
    assert_eq!(
        counts(&world().tally(&table)),
        (0, 1, 1, vec![("b#1".into(), vec![1])])
    );
    let silent = world().but("a", |(_, is_renewed)| *is_renewed = false);
    assert_eq!(silent.tally(&table).unowned, 2);
    let emptied = world().but("a", |(state, _)| state.held = false);
    assert_eq!(emptied.tally(&table).unowned, 2);
    let again = world().but("a", |(state, _)| state.incarnation = Term::new(2));
    assert_eq!(again.tally(&table).unowned, 2);
    assert_eq!(World::default().tally(&table).unowned, 2);
}

#[test]
fn an_earlier_life_of_the_owner_keeps_nobody() {
    let mut table = table(&[(Some(1), 100, &[0])]);
    table.members[1] = Member::new("a", Term::new(2));
    let world = World::default()
        .member("a", &table, 90, &[])
        .but("a", |(state, _)| state.incarnation = Term::new(2));
    assert_eq!(counts(&world.tally(&table)), (1, 0, 0, vec![]));
}

#[test]
fn after_a_lost_table_everybody_is_awaited_for_every_partition() {
    let mut table = table(&[(Some(0), 100, &[]), (Some(1), 100, &[])]);
    table.prev_all = vec![0, 1, 2];
    let world = World::default()
        .member("a", &table, 100, &[0])
        .member("b", &table, 100, &[])
        .member("c", &table, 90, &[]);
    let tally = world.tally(&table);
    let blockers = vec![
        // What it runs itself is not awaited of it.
        ("c#1".into(), vec![0, 1]),
    ];
    assert_eq!(counts(&tally), (0, 2, 0, blockers));
}

#[test]
fn a_record_that_cannot_be_read_releases_nothing() {
    let table = table(&[(Some(1), 100, &[0])]);
    let world = World::default()
        .member("a", &table, 100, &[])
        .member("b", &table, 100, &[])
        .but("a", |(state, _)| state.record = None);
    assert_eq!(world.tally(&table).moving, 1);
}

#[test]
fn a_settled_table_of_4096_costs_two_bytes_a_partition() {
    let parts: Vec<(Option<u16>, u64, &[u16])> = (0..4096)
        .map(|number| (Some(number % 3), u64::from(number) / 50 + 1, &[][..]))
        .collect();
    let summary = Summary::of(&table(&parts)).unwrap();
    assert!(summary.handoffs.is_empty());
    assert_eq!(size_of_val(&*summary.owners), 8192);
    // And one that is all on the move keeps one entry for each publish and its predecessors.
    let parts: Vec<(Option<u16>, u64, &[u16])> = (0..4096)
        .map(|number| (Some(number % 3), 7, &[2][..]))
        .collect();
    assert_eq!(Summary::of(&table(&parts)).unwrap().handoffs.len(), 1);
}

#[test]
fn a_table_that_contradicts_itself_is_refused() {
    let bad = table(&[(Some(3), 100, &[])]);
    let problem = Summary::of(&bad).unwrap_err();
    assert!(problem.contains("member index: found 3"), "{problem}");
}
