//! The counter-examples of the handoff rules as transcripts: a leader, members and their Leases,
//! and exactly what each of them does.
//!
//! Each file of `partition_transcripts/` is one scene, in the format of `transcripts/`: lines with
//! `#` are prose, lines with two spaces are what was done, all others are commands; see
//! [`scene::Scene::play`]. The first line of prose names the rule without which the same commands
//! break a guarantee; each scene is played a second time without it, and must.
//!
//! `UPDATE=1 cargo test -p leasehold-core --all-features --test partition_transcripts` writes anew.
#![allow(clippy::expect_used, clippy::panic)] // a scene that cannot be played fails the test

#[path = "partition_transcripts/pod.rs"]
mod pod;
#[path = "partition_transcripts/scene.rs"]
mod scene;

use std::fs;
use std::path::{Path, PathBuf};

use leasehold_core::rules::{Rule, Rules};
use scene::Scene;

/// The rules that a scene can be played without.
const RULES: [(&str, Rule); 8] = [
    ("H1", Rule::H1Incarnation),
    ("H2", Rule::H2EpochIsRevision),
    ("H3", Rule::H3Acknowledged),
    ("H4", Rule::H4PrevCarries),
    ("H5", Rule::H5FenceFirst),
    ("H6", Rule::H6MissingIsNoRelease),
    ("H7", Rule::H7PrevAll),
    ("H8", Rule::H8ParentsReleased),
];

#[test]
fn every_scene_is_what_the_machines_do_and_breaks_no_guarantee() {
    let mut wrong = Vec::new();
    for path in scenes() {
        let text = fs::read_to_string(&path).expect("a scene is text");
        let (played, violations) = play(&text, Rules::ALL);
        if !violations.is_empty() {
            wrong.push(format!("{}: {violations:?}", path.display()));
        }
        if text == played {
            continue;
        }
        if updating() {
            fs::write(&path, played).expect("a scene can be written");
        } else {
            wrong.push(format!("{}\n{played}", path.display()));
        }
    }
    let wrong = wrong.join("\n");
    assert!(
        wrong.is_empty(),
        "{wrong}\nIf this is what should happen: UPDATE=1"
    );
}

#[test]
fn every_scene_breaks_a_guarantee_without_its_rule() {
    for path in scenes() {
        let text = fs::read_to_string(&path).expect("a scene is text");
        let (_, rule) = cited(&text);
        let (played, violations) = play(&text, Rules::ALL.without(rule));
        assert!(!violations.is_empty(), "{}\n{played}", path.display());
    }
}

#[test]
fn every_rule_of_the_handoff_has_a_scene() {
    let texts: Vec<String> = scenes()
        .iter()
        .map(|path| fs::read_to_string(path).expect("a scene is text"))
        .collect();
    for (id, _) in RULES {
        assert!(
            texts.iter().any(|text| cited(text).0 == id),
            "no scene needs {id}"
        );
    }
}

/// The rule in brackets in the first line.
fn cited(text: &str) -> (&'static str, Rule) {
    let first = text.lines().next().unwrap_or_default();
    let found = RULES
        .iter()
        .find(|(id, _)| first.contains(&format!("({id})")));
    *found.expect("the first line names a rule in brackets")
}

/// The same text with what the machines did, and the broken guarantees.
fn play(text: &str, rules: Rules) -> (String, Vec<String>) {
    let mut scene = Scene::new(rules);
    let mut played = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("  ") {
            continue;
        }
        played.extend([line, "\n"]);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        scene
            .play(line)
            .unwrap_or_else(|error| panic!("line {}: {error}", number + 1));
        for answer in scene.said.drain(..) {
            played.extend(["  ", &answer, "\n"]);
        }
    }
    (played, scene.violations())
}

fn scenes() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/partition_transcripts");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder of scenes")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no scene in {}", folder.display());
    paths
}

#[allow(clippy::disallowed_methods)] // the runner is no machine
fn updating() -> bool {
    std::env::var_os("UPDATE").is_some_and(|value| value == "1")
}
