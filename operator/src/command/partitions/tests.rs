//! The page, from Leases to text.

use leasehold_core::{
    id::{Revision, Term},
    partition::{HashId, Layout, MemberRecord, Part, Partition, Rebalance},
};

use super::*;

fn epoch(number: u64) -> Revision {
    Revision::new(number).unwrap()
}

fn found() -> Found {
    let layout = Layout::new(3, HashId::CsHash1, 4).unwrap();
    let part = |owner, at, prev: &[u16]| Part {
        owner,
        epoch: epoch(at),
        prev: prev.to_vec(),
    };
    let table = Table {
        layout,
        epoch: epoch(90),
        members: vec![
            Member::new("billing-0", Term::new(2)),
            Member::new("billing-1", Term::new(1)),
            Member::new("billing-2", Term::new(7)),
        ],
        parts: vec![
            part(Some(0), 40, &[]),
            part(Some(1), 90, &[0]),
            part(Some(2), 40, &[]),
            part(None, 90, &[]),
        ],
        prev_all: Vec::new(),
        rebalance: Rebalance {
            reason: "billing-1 joined".into(),
            moves: 1,
            least: 1,
        },
        queued: Some(8),
    };
    let member = |incarnation, acked, owned: &[u16]| {
        let record = MemberRecord {
            layout: Some(layout),
            acked: Some(epoch(acked)),
            owned: owned.iter().copied().map(Partition::new).collect(),
            zone: Some("a".into()),
            ..MemberRecord::default()
        };
        let state = MemberState {
            incarnation: Term::new(incarnation),
            held: true,
            record: Some(record.into()),
        };
        (state, None)
    };
    let members = [
        ("billing-0".to_owned(), member(2, 40, &[0, 1])),
        ("billing-1".to_owned(), member(1, 90, &[])),
    ];
    Found {
        table,
        members: members.into(),
    }
}

fn text(found: &Found) -> String {
    let summary = Summary::of(&found.table).unwrap();
    let tally = summary.tally(|name| {
        found.members.get(name).map(|(state, _)| Seen {
            state,
            is_renewed: true,
        })
    });
    [
        head("billing", &found.table, &tally),
        columns(&members(found)),
        columns(&rows(found, &tally)),
    ]
    .concat()
}

#[test]
fn the_page_names_owners_epochs_and_whom_they_wait_for() {
    assert_eq!(
        text(&found()),
        "\
billing: 4 partitions by cs-hash/1, layout 3, epoch 90
1 owned, 1 moving, 2 unowned
newest table: billing-1 joined: 1 moves, the least possible 1
a change to 8 partitions waits
MEMBER      INCARNATION   LEASE   OWNS   RUNS   ACKNOWLEDGED   REVISION   ZONE
billing-0   2             held    1      2      40             -          a
billing-1   1             held    1      0      90             -          a
billing-2   7             none    1      -      -              -          -
PARTITION   OWNER       INCARNATION   EPOCH   STATE
0           billing-0   2             40      running
1           billing-1   1             90      waiting for billing-0#2
2           billing-2   7             40      the owner's Lease is missing
3           -           -             90      nobody
"
    );
}

#[test]
fn a_member_of_another_life_or_without_a_readable_record_is_said() {
    let mut found = found();
    let (state, _) = found.members.get_mut("billing-0").unwrap();
    state.incarnation = Term::new(3);
    let (state, problem) = found.members.get_mut("billing-1").unwrap();
    state.record = None;
    *problem = Some("version: found 2".into());
    let text = text(&found);
    for line in [
        "billing-0   3             held           0",
        "billing-0   2             a later life   1",
        "billing-1   1             unreadable     1",
        "0           billing-0   2             40      the owner began anew",
        "1           billing-1   1             90      free to start",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
