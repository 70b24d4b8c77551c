//! What is written reads back; what cannot be read says why; a large table stays small.

use std::collections::BTreeSet;

use leasehold_core::id::{Revision, Term};
use leasehold_core::partition::{Bitmap, Member, MemberRecord, Part, Partition, Rebalance, Table};
use serde_json::{Value, json};

use super::table::TABLE_BYTES_MAX;
use super::*;
use crate::key::LeaseKey;

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn index(&mut self, end: usize) -> u16 {
        u16::try_from(self.below(end as u64)).unwrap()
    }

    fn word(&mut self, length: usize) -> String {
        let letters = b"bcdfghjklmnpqrstvwxz2456789";
        let letter = |n: u64| char::from(letters[usize::try_from(n).unwrap()]);
        (0..length).map(|_| letter(self.below(27))).collect()
    }
}

fn orders() -> LeaseKey {
    LeaseKey::new("orders").unwrap()
}

fn member_kind() -> LeaseKind {
    orders().member("a").unwrap().kind().clone()
}

fn epoch(number: u64) -> Revision {
    Revision::new(number).unwrap()
}

fn layout(generation: u32, count: u16) -> Layout {
    Layout::new(generation, HashId::CsHash1, count).unwrap()
}

fn read_back(kind: &LeaseKind, contents: &Contents) -> Contents {
    let (name, text) = write(contents).unwrap().unwrap();
    read(kind, |asked| (asked == name).then_some(text.as_str()))
}

fn text_of(contents: &Contents) -> String {
    write(contents).unwrap().unwrap().1
}

fn of_member(text: &str) -> Contents {
    read(&member_kind(), |_| Some(text))
}

fn of_table(text: &str) -> Contents {
    read(&LeaseKind::Assignment, |_| Some(text))
}

#[track_caller]
fn reason(contents: Contents) -> (bool, String) {
    match contents {
        Contents::Unreadable { newer, reason } => (newer, reason.to_string()),
        other => panic!("it was read: {other:?}"),
    }
}

fn full_record() -> MemberRecord {
    MemberRecord {
        layout: Some(layout(3, 64)),
        acked: Some(epoch(48_213)),
        owned: [0, 7, 8, 63].into_iter().map(Partition::new).collect(),
        draining: true,
        hash: HashId::CsHash1,
        revision: Some("7c9f8b6d5".into()),
        zone: Some("eu-1a".into()),
        weight: 2,
    }
}

fn small_table() -> Table {
    let part = |owner, at, prev: &[u16]| Part {
        owner,
        epoch: epoch(at),
        prev: prev.to_vec(),
    };
    Table {
        layout: layout(3, 6),
        epoch: epoch(48_213),
        members: vec![
            Member::new("web-0", Term::new(3)),
            Member::new("web-1", Term::new(1)),
            Member::new("web.2", Term::new(9)),
        ],
        parts: vec![
            part(Some(0), 48_213, &[]),
            part(Some(0), 48_213, &[]),
            part(Some(1), 46_987, &[0, 2]),
            part(Some(1), 46_987, &[]),
            part(None, 48_213, &[]),
            part(Some(2), 7, &[]),
        ],
        prev_all: vec![1],
        rebalance: Rebalance {
            reason: "web-1 joined".into(),
            moves: 2,
            least: 2,
        },
        queued: Some(96),
    }
}

#[test]
fn the_text_of_a_member_is_fixed() {
    let full = Contents::Member(Arc::new(full_record()));
    assert_eq!(
        text_of(&full),
        r#"{"version":1,"layout":{"generation":3,"hash":"cs-hash/1","partitions":64},"acked":48213,"owned":"gQEAAAAAAIA=","draining":true,"hash":"cs-hash/1","revision":"7c9f8b6d5","zone":"eu-1a","weight":2}"#
    );
    assert_eq!(read_back(&member_kind(), &full), full);
    let fresh = Contents::Member(Arc::new(MemberRecord::default()));
    assert_eq!(text_of(&fresh), r#"{"version":1,"hash":"cs-hash/1"}"#);
    assert_eq!(read_back(&member_kind(), &fresh), fresh);
}

#[test]
fn the_text_of_a_table_is_fixed() {
    let table = Contents::Table(Arc::new(small_table()));
    assert_eq!(
        text_of(&table),
        r#"{"version":1,"layout":{"generation":3,"hash":"cs-hash/1","partitions":6},"epochs":[48213,1226,46980],"members":["web-0#3","web-1#1","web.2#9"],"parts":"0*2 1@1/0,2 1 -@0 2@2","prevAll":[1],"rebalance":{"reason":"web-1 joined","moves":2,"least":2},"queued":96}"#
    );
    assert_eq!(read_back(&LeaseKind::Assignment, &table), table);
}

#[test]
fn random_members_and_tables_read_back() {
    let mut numbers = Numbers(1);
    for _ in 0..300 {
        let record = random_record(&mut numbers);
        let contents = Contents::Member(Arc::new(record));
        assert_eq!(read_back(&member_kind(), &contents), contents);
        let table = random_table(&mut numbers);
        let contents = Contents::Table(Arc::new(table));
        assert_eq!(read_back(&LeaseKind::Assignment, &contents), contents);
    }
}

fn random_record(numbers: &mut Numbers) -> MemberRecord {
    let count = 1 + numbers.index(4096);
    let owned: Bitmap = (0..numbers.below(200))
        .map(|_| Partition::new(numbers.index(count.into())))
        .collect();
    MemberRecord {
        layout: (numbers.below(4) > 0).then(|| layout(numbers.index(999).into(), count)),
        acked: (numbers.below(4) > 0).then(|| epoch(1 + numbers.below(u64::MAX / 2))),
        owned,
        draining: numbers.below(2) == 0,
        hash: [HashId::CsHash1, HashId::K8sRange1][usize::from(numbers.index(2))],
        revision: (numbers.below(2) == 0).then(|| numbers.word(9).into()),
        zone: (numbers.below(2) == 0).then(|| "zone \"ü\"".into()),
        weight: 1 + u32::from(numbers.index(3)),
    }
}

fn random_table(numbers: &mut Numbers) -> Table {
    let count = 1 + numbers.index(200);
    let members: Vec<Member> = (0..=numbers.index(20))
        .map(|_| Member::new(numbers.word(8), Term::new(numbers.index(60_000).into())))
        .collect();
    let newest = 1_000 + numbers.below(u64::MAX / 4);
    let some = |numbers: &mut Numbers| -> Vec<u16> {
        let found: BTreeSet<u16> = (0..numbers.below(4))
            .map(|_| numbers.index(members.len()))
            .collect();
        found.into_iter().collect()
    };
    let parts = (0..count).map(|_| Part {
        owner: (numbers.below(9) > 0).then(|| numbers.index(members.len())),
        epoch: epoch(newest - numbers.below(5)),
        prev: some(numbers),
    });
    let parts = parts.collect();
    Table {
        layout: layout(numbers.index(99).into(), count),
        epoch: epoch(newest),
        parts,
        prev_all: some(numbers),
        rebalance: Rebalance::default(),
        queued: (numbers.below(2) == 0).then(|| 1 + numbers.index(4096)),
        members,
    }
}

#[test]
fn unknown_fields_are_ignored_so_that_the_format_can_grow() {
    for contents in [
        Contents::Member(Arc::new(full_record())),
        Contents::Table(Arc::new(small_table())),
    ] {
        let (name, text) = write(&contents).unwrap().unwrap();
        let mut grown: Value = serde_json::from_str(&text).unwrap();
        grown["colour"] = json!({"of": ["a", 7]});
        grown["layout"]["colour"] = json!("red");
        let grown = grown.to_string();
        let kind = match contents {
            Contents::Member(_) => member_kind(),
            _ => LeaseKind::Assignment,
        };
        let back = read(&kind, |asked| (asked == name).then_some(grown.as_str()));
        assert_eq!(back, contents);
    }
}

#[test]
fn a_later_version_is_told_from_garbage() {
    for read in [of_member, of_table] {
        let (newer, text) = reason(read(r#"{"version":2,"anything":[]}"#));
        assert!(newer, "{text}");
        assert!(text.contains("version: found 2, allowed is 1"), "{text}");
        for garbage in [
            "",
            "7",
            "[]",
            "{}",
            "null",
            "{",
            r#"{"version":"1"}"#,
            r#"{"version":0}"#,
            r#"{"version":-1}"#,
            r#"{"version":1}"#,
            &"[".repeat(100_000),
        ] {
            let (newer, text) = reason(read(garbage));
            assert!(!newer && text.starts_with("leasehold.dev/"), "{text}");
            assert!(text.len() < 400, "{text}");
        }
    }
}

#[test]
fn a_field_that_cannot_be_is_named_with_what_is_allowed() {
    let member = text_of(&Contents::Member(Arc::new(full_record())));
    for (from, to, part) in [
        (
            r#""weight":2"#,
            r#""weight":0"#,
            "weight: found 0, allowed are 1 to",
        ),
        (r#""weight":2"#, r#""weight":-3"#, "weight: found -3"),
        (
            r#"true,"hash":"cs-hash/1""#,
            r#"true,"hash":"md5""#,
            "hash: found \"md5\", allowed are \"cs-hash/1\"",
        ),
        (
            r#""partitions":64"#,
            r#""partitions":4097"#,
            "layout.partitions: found 4097, allowed are 1 to 4096",
        ),
        (
            r#""partitions":64"#,
            r#""partitions":0"#,
            "layout.partitions: found 0",
        ),
        (
            r#""acked":48213"#,
            r#""acked":0"#,
            "acked: revision: found 0",
        ),
        ("gQEAAAAAAIA=", "§", "line 1 column"),
        (
            "gQEAAAAAAIA=",
            &"AAAA".repeat(200),
            "owned: found 600 bytes, allowed are up to 512",
        ),
    ] {
        assert!(member.contains(from), "{from}");
        let (_, text) = reason(of_member(&member.replacen(from, to, 1)));
        assert!(text.contains(part), "{part}: {text}");
    }
    let table = text_of(&Contents::Table(Arc::new(small_table())));
    for (from, to, part) in [
        ("[48213,1226,46980]", "[]", "epochs: found none"),
        (
            "[48213,1226,46980]",
            "[48213,1226,46987]",
            "epochs[2]: found 46987",
        ),
        (
            "[48213,1226,46980]",
            "[48213,0,46980]",
            "epochs[1]: found 0",
        ),
        (
            "[48213,1226,46980]",
            "[9223372036854775808]",
            "epochs[0]: found 92",
        ),
        (
            "web-0#3",
            "web-0",
            "members: found \"web-0\", allowed is <name>#<incarnation>",
        ),
        ("web-0#3", "#3", "members: found \"#3\""),
        ("web-0#3", "web-0#2147483648", "members: found"),
        ("0*2 1@1", "0*3 1@1", "parts: found more than 6"),
        ("0*2 1@1", "0 1@1", "entries: found 5, allowed are 6"),
        ("0*2 1@1", "x*2 1@1", "parts: found \"x*2\" for partition 0"),
        (
            "0*2 1@1",
            "0*2 1@3",
            "parts: found \"1@3/0,2\" for partition 2",
        ),
        ("1 -@0", "1/, -@0", "parts: found \"1/,\" for partition 3"),
        (
            "2@2",
            "3@2",
            "member index: found 3, allowed are those below 3",
        ),
        ("[1]", "[4]", "member index: found 4"),
        (
            r#""queued":96"#,
            r#""queued":0"#,
            "queued: found 0, allowed are 1 to 4096",
        ),
    ] {
        assert!(table.contains(from), "{from}");
        let (_, text) = reason(of_table(&table.replacen(from, to, 1)));
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_text_that_promises_more_than_it_holds_costs_nothing() {
    let table = text_of(&Contents::Table(Arc::new(Table {
        layout: layout(1, 4096),
        parts: vec![small_table().parts[0].clone(); 4096],
        ..small_table()
    })));
    let many = format!("0/{}*4096", vec!["0"; 40_000].join(","));
    let (_, text) = reason(of_table(&table.replace("0*4096", &many)));
    assert!(text.contains("more than 262144 predecessors"), "{text}");
    let (_, text) = reason(of_table(&table.replace("0*4096", "0*18446744073709551615")));
    assert!(text.contains("found more than 4096"), "{text}");
}

#[test]
fn a_leader_carries_nothing_whatever_stands_there() {
    assert_eq!(read(&LeaseKind::Leader, |_| Some("{")), Contents::Nothing);
    assert_eq!(read(&LeaseKind::Assignment, |_| None), Contents::Nothing);
    assert_eq!(write(&Contents::Nothing), Ok(None));
}

#[test]
fn a_table_that_contradicts_itself_is_not_written() {
    let mut table = small_table();
    table.parts.pop();
    let problem = write(&Contents::Table(Arc::new(table))).unwrap_err();
    assert_eq!(
        problem,
        "leasehold.dev/assignment: entries: found 5, allowed are 6"
    );
}

const P: u16 = 4096;
const N: usize = 300;

/// A cluster of 300 pods of one Deployment, whose table has been changed a thousand times.
struct Cluster {
    numbers: Numbers,
    members: Vec<Member>,
    parts: Vec<Part>,
    newest: u64,
}

impl Cluster {
    fn of(pod: impl Fn(&mut Numbers) -> String) -> Self {
        let mut numbers = Numbers(7);
        let members = (0..N).map(|_| Member::new(pod(&mut numbers), Term::new(1)));
        let members = members.collect();
        let newest = 1_800_000_000;
        let parts = (0..P).map(|_| Part {
            owner: Some(numbers.index(N)),
            epoch: epoch(newest),
            prev: Vec::new(),
        });
        let parts = parts.collect();
        Self {
            numbers,
            members,
            parts,
            newest,
        }
    }

    /// One member after another comes or goes; each time a share of the partitions moves. Between
    /// two changes others write to the store: 300 renewals every 5 s, for half an hour.
    fn churn(mut self) -> Self {
        for _ in 0..1000 {
            self.newest += 1 + self.numbers.below(2 * 60 * 1800);
            for _ in 0..=usize::from(P) / N {
                let place = usize::from(self.numbers.index(P.into()));
                self.parts[place].owner = Some(self.numbers.index(N));
                self.parts[place].epoch = epoch(self.newest);
            }
        }
        self
    }

    /// Every partition waits for its former owner.
    fn with_prev(mut self) -> Self {
        for part in &mut self.parts {
            part.prev = vec![self.numbers.index(N)];
        }
        self
    }

    fn at_one_epoch(mut self) -> Self {
        self.newest += 1;
        for part in &mut self.parts {
            part.epoch = epoch(self.newest);
        }
        self
    }

    fn table(self, prev_all: Vec<u16>) -> Table {
        let reason = "orders-7c9f8b6d5-x2x4q joined, orders-7c9f8b6d5-abcde left";
        Table {
            layout: layout(3, P),
            epoch: epoch(self.newest),
            members: self.members,
            parts: self.parts,
            prev_all,
            rebalance: Rebalance {
                reason: reason.into(),
                moves: P,
                least: P,
            },
            queued: None,
        }
    }
}

fn size(table: Table) -> usize {
    let contents = Contents::Table(Arc::new(table));
    assert_eq!(read_back(&LeaseKind::Assignment, &contents), contents);
    text_of(&contents).len()
}

/// A pod of a Deployment.
fn pod(numbers: &mut Numbers) -> String {
    format!("orders-7c9f8b6d5-{}", numbers.word(5))
}

/// The longest name that the API server gives a pod of a Deployment.
fn long_pod(numbers: &mut Numbers) -> String {
    format!("{}-7c9f8b6d5-{}", "x".repeat(47), numbers.word(5))
}

#[test]
fn a_table_of_4096_partitions_and_300_members_needs_at_most_20_bytes_for_each() {
    let all: Vec<u16> = (0..N).map(|n| u16::try_from(n).unwrap()).collect();
    let tables = [
        ("one publish", Cluster::of(pod).table(Vec::new())),
        (
            "after many changes",
            Cluster::of(pod).churn().table(Vec::new()),
        ),
        (
            "rebuilt after a loss",
            Cluster::of(pod).churn().at_one_epoch().table(all),
        ),
        (
            "all moving at once",
            Cluster::of(pod)
                .churn()
                .at_one_epoch()
                .with_prev()
                .table(Vec::new()),
        ),
        (
            "all waiting, after many changes",
            Cluster::of(pod).churn().with_prev().table(Vec::new()),
        ),
        (
            "the same with the longest names",
            Cluster::of(long_pod).churn().with_prev().table(Vec::new()),
        ),
    ];
    for (what, table) in tables {
        let bytes = size(table);
        println!(
            "{what}: {bytes} bytes, {:.1} for each",
            bytes as f64 / f64::from(P)
        );
        assert!(bytes <= 20 * usize::from(P), "{what}: {bytes} bytes");
    }
}

#[test]
fn the_worst_table_of_twice_as_many_names_still_fits() {
    // In a rollout both pods of each pair may be named, each partition may have an epoch of its own.
    let mut cluster = Cluster::of(long_pod).with_prev();
    let more = (0..N).map(|_| Member::new(long_pod(&mut cluster.numbers), Term::MAX));
    let more: Vec<Member> = more.collect();
    cluster.members.extend(more);
    for part in &mut cluster.parts {
        cluster.newest += 1 + cluster.numbers.below(9_999_999);
        part.epoch = epoch(cluster.newest);
        part.owner = Some(300 + cluster.numbers.index(N));
    }
    let bytes = size(cluster.table(Vec::new()));
    println!(
        "worst: {bytes} bytes, {:.1} for each",
        bytes as f64 / f64::from(P)
    );
    assert!(bytes < TABLE_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn a_table_that_would_not_fit_a_lease_is_refused_with_both_sizes() {
    let mut cluster = Cluster::of(long_pod);
    let name = |n: usize| Member::new(format!("{}{n}", "x".repeat(230)), Term::new(1));
    cluster.members = (0..1000).map(name).collect();
    let problem = write(&Contents::Table(Arc::new(cluster.table(Vec::new())))).unwrap_err();
    assert!(
        problem.starts_with("leasehold.dev/assignment: table: found 2")
            && problem.contains("4096 partitions and 1000 members, allowed are 204800"),
        "{problem}"
    );
}
