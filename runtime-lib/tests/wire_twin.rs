//! The page of the wire format suffices: the Python on it is run against the vectors on it, and
//! against tables and members that the library wrote.
//!
//! Where `python3` is missing the test fails; `make tools` installs it.

#![allow(clippy::expect_used, clippy::panic)] // a test reports by panicking

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use leasehold::testing::{LeaseKey, wire};
use leasehold_core::id::{Revision, Term};
use leasehold_core::lease::Contents;
use leasehold_core::partition::{
    Bitmap, HashId, Layout, Member, MemberRecord, Part, Partition, Rebalance, Table,
};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../docs/wire-format.md");

/// What is asked of the code on the page, as one JSON document on standard input.
const QUESTIONS: &str = r#"
import sys

asked = json.load(sys.stdin.buffer)
table = read_table(asked["table"])
print(json.dumps({
    "hashes": [
        {name: f"{hash(key.encode()):016x}" for name, hash in HASHES.items()}
        for key in asked["keys"]
    ],
    "partitions": [
        [partition_of(key.encode(), layout) for layout in asked["layouts"]]
        for key in asked["keys"]
    ],
    "owners": [
        table["parts"][partition_of(key.encode(), table["layout"])][0] for key in asked["keys"]
    ],
    "parts": table["parts"],
    "owned": read_owned(asked["member"]),
}))
"#;

/// The first block of Python on the page.
fn code_of_the_page() -> &'static str {
    let (_, rest) = PAGE.split_once("```python\n").expect("a block of Python");
    let (code, _) = rest.split_once("```").expect("its end");
    code
}

fn ask(questions: &Value) -> Value {
    let mut python = Command::new("python3")
        .args(["-c", &format!("{}{QUESTIONS}", code_of_the_page())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect(
            "python3 (at least 3.7) runs the code of docs/wire-format.md; `make tools` installs it",
        );
    let mut stdin = python.stdin.take().expect("a pipe");
    stdin
        .write_all(questions.to_string().as_bytes())
        .expect("writing to python3");
    drop(stdin);
    let output = python.wait_with_output().expect("waiting for python3");
    assert!(output.status.success(), "the code of the page fails");
    serde_json::from_slice(&output.stdout).expect("JSON from python3")
}

fn layout(hash: HashId, count: u16) -> Layout {
    Layout::new(1, hash, count).expect("a sound layout")
}

fn as_json(layout: Layout) -> Value {
    json!({"hash": layout.hash().as_str(), "partitions": layout.count()})
}

fn text_of(contents: &Contents) -> String {
    let (_, text) = wire::write(contents).expect("a sound table").expect("one");
    text
}

/// Every form that an entry can have, several times.
fn table(count: u16) -> Table {
    let epoch = |number: u64| Revision::new(number).expect("sound");
    let newest = 9_223_372_036_854_775_807;
    let parts = (0..count).map(|n| Part {
        owner: (n % 7 > 0).then_some(n / 3 % 5),
        epoch: epoch(newest - u64::from(n / 10 % 4) * 1_000_000_007),
        prev: [vec![], vec![4], vec![0, 2, 3]][usize::from(n / 2 % 3)].clone(),
    });
    Table {
        layout: layout(HashId::CsHash1, count),
        epoch: epoch(newest),
        members: (0..5)
            .map(|n| Member::new(format!("web.{n}"), Term::new(n * 1000)))
            .collect(),
        parts: parts.collect(),
        prev_all: vec![1],
        rebalance: Rebalance {
            reason: "a \"quoted\" reason, ü".into(),
            ..Rebalance::default()
        },
        queued: None,
    }
}

fn keys() -> Vec<String> {
    let made = (0..500).map(|n| format!("order-{n}"));
    let odd = ["", "a", "default/web-0", "日本", "\u{0}"].map(str::to_owned);
    let long = "x".repeat(100_000);
    odd.into_iter().chain(made).chain([long]).collect()
}

#[test]
fn a_reader_in_another_language_gets_from_keys_to_owners_by_the_page_alone() {
    let (table, keys) = (table(1000), keys());
    let layouts: Vec<Layout> = [HashId::CsHash1, HashId::K8sRange1]
        .into_iter()
        .flat_map(|hash| [1, 10, 64, 96, 4096].map(|count| layout(hash, count)))
        .collect();
    let owned: Bitmap = [0, 7, 8, 63, 999].into_iter().map(Partition::new).collect();
    let member = MemberRecord {
        owned: owned.clone(),
        ..MemberRecord::default()
    };
    let answers = ask(&json!({
        "table": text_of(&Contents::Table(Arc::new(table.clone()))),
        "member": text_of(&Contents::Member(Arc::new(member))),
        "layouts": layouts.iter().map(|layout| as_json(*layout)).collect::<Vec<_>>(),
        "keys": keys,
    }));
    let names = |members: &mut dyn Iterator<Item = &Member>| -> Vec<String> {
        members.map(ToString::to_string).collect()
    };
    for (partition, part) in table.entries() {
        let expected = json!([
            table.owner(partition).map(ToString::to_string),
            part.epoch.number(),
            names(&mut table.waits_for(partition)),
        ]);
        assert_eq!(
            answers["parts"][partition.index()],
            expected,
            "{partition:?}"
        );
    }
    for (n, key) in keys.iter().enumerate() {
        let key = key.as_bytes();
        for hash in [HashId::CsHash1, HashId::K8sRange1] {
            let expected = format!("{:016x}", hash.of(key));
            assert_eq!(answers["hashes"][n][hash.as_str()], expected);
        }
        let partitions = layouts.iter().map(|layout| layout.partition_for_key(key));
        let partitions: Vec<u16> = partitions.map(Partition::number).collect();
        assert_eq!(answers["partitions"][n], json!(partitions));
        let owner = table.owner(table.layout.partition_for_key(key));
        assert_eq!(answers["owners"][n], json!(owner.map(ToString::to_string)));
    }
    let owned: Vec<u16> = owned.iter().map(Partition::number).collect();
    assert_eq!(answers["owned"], json!(owned));
}

#[test]
fn the_vectors_of_the_page_are_those_of_the_code() {
    let (_, rest) = PAGE.split_once("### Hash vectors").expect("the vectors");
    let rows = rest
        .lines()
        .skip_while(|line| !line.starts_with("| (empty)"));
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let key = if cells[0] == "(empty)" {
            ""
        } else {
            cells[0].trim_matches('`')
        };
        for (hash, at) in [(HashId::K8sRange1, 1), (HashId::CsHash1, 3)] {
            let value = hash.of(key.as_bytes());
            assert_eq!(cells[at], format!("`{value:016x}`"), "{key}");
            let partitions =
                [10, 64, 96, 4096].map(|count| layout(hash, count).partition_of(value));
            let partitions = partitions.map(|partition| partition.to_string());
            assert_eq!(cells[at + 1], partitions.join(", "), "{key}");
        }
    }
}

#[test]
fn the_examples_of_the_page_can_be_read() {
    let example = |annotation: &str| {
        let mark = format!("    leasehold.dev/{annotation}: '");
        let (_, rest) = PAGE.split_once(&mark).expect("an example");
        rest.split_once("'\n").expect("its end").0
    };
    let orders = LeaseKey::new("orders").expect("sound");
    let member = orders.member("a").expect("sound");
    let read = |key: &LeaseKey, text| wire::read(key.kind(), |_| Some(text));
    let Contents::Member(member) = read(&member, example("member")) else {
        panic!("the example of a member");
    };
    let owned: Vec<u16> = member.owned.iter().map(Partition::number).collect();
    assert_eq!(owned, [0, 7, 8, 63]);
    let Contents::Table(table) = read(&orders.assignment(), example("assignment")) else {
        panic!("the example of a table");
    };
    let waits: Vec<String> = table
        .waits_for(Partition::new(2))
        .map(ToString::to_string)
        .collect();
    assert_eq!(waits, ["web-0#3", "web.2#9", "web-1#1"]);
    assert_eq!(table.parts[5].epoch.number(), 7);
}
