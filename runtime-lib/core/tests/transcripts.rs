//! Corners of the protocol as transcripts: what happens, and exactly what the machine does.
//!
//! Each file of `transcripts/` is one scene. A line that starts with `#` is prose, a line that
//! starts with two spaces is what the machine answered, every other line is a command; see
//! [`scene::Scene::play`]. `UPDATE=1 cargo test -p leasehold-core --test transcripts` writes the
//! answers anew; review the difference like prose.
#![allow(clippy::expect_used)] // a scene that cannot be played fails the test

#[path = "transcripts/printing.rs"]
mod printing;
#[path = "transcripts/reading.rs"]
mod reading;
#[path = "transcripts/scene.rs"]
mod scene;

use std::fs;
use std::path::{Path, PathBuf};

use scene::Scene;

#[test]
fn every_transcript_is_what_the_machine_does() {
    let update = updating();
    let mut wrong = Vec::new();
    for path in transcripts() {
        let text = fs::read_to_string(&path).expect("a transcript is text");
        let played = match play(&text) {
            Ok(played) => played,
            Err(error) => {
                wrong.push(format!("{}: {error}", path.display()));
                continue;
            }
        };
        if text == played {
            continue;
        }
        if update {
            let new = path.with_extension("new");
            fs::write(&new, played).expect("a transcript can be written");
            fs::rename(&new, &path).expect("a transcript can be replaced");
        } else {
            wrong.push(difference(&path, &text, &played));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nIf this is what should happen: UPDATE=1",
        wrong.join("\n")
    );
}

#[test]
fn every_transcript_says_what_it_shows_and_cites_its_rule() {
    for path in transcripts() {
        let text = fs::read_to_string(&path).expect("a transcript is text");
        let prose: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        let cites = |line: &&str| line.contains("(E") || line.contains("(`");
        assert!(
            prose.iter().any(cites),
            "{}: the first lines say what it shows, with a rule id or a guarantee in brackets",
            path.display()
        );
    }
}

#[test]
fn every_rule_of_the_election_has_a_transcript() {
    let all: String = transcripts()
        .iter()
        .map(|path| fs::read_to_string(path).expect("a transcript is text"))
        .collect();
    for rule in ["E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9", "E10"] {
        let cited = [
            format!("({rule})"),
            format!("({rule},"),
            format!(" {rule})"),
            format!(" {rule},"),
        ];
        assert!(
            cited.iter().any(|form| all.contains(form)),
            "no transcript cites {rule}"
        );
    }
}

/// Positive control: a wrong answer, a missing answer and an unknown command are noticed.
#[test]
fn a_wrong_transcript_is_noticed() {
    let right = play("# One line.\nlist nothing\n").expect("a scene");
    assert_ne!(
        right, "# One line.\nlist nothing\n",
        "the answer was missing"
    );
    let wrong = right.replace("next", "next to");
    assert_ne!(play(&wrong).expect("a scene"), wrong);
    let error = play("list something").expect_err("no such list");
    assert_eq!(
        error,
        "line 1: a state starts with its revision (r7), found \"something\""
    );
}

/// The same text with the machine's own answers.
fn play(text: &str) -> Result<String, String> {
    let mut scene = Scene::default();
    let mut played = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("  ") {
            continue;
        }
        played.extend([line, "\n"]);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let answers = scene
            .play(line)
            .map_err(|error| format!("line {}: {error}", number + 1))?;
        for answer in answers {
            played.extend(["  ", &answer, "\n"]);
        }
    }
    Ok(played)
}

fn difference(path: &Path, text: &str, played: &str) -> String {
    let end = "(end)";
    let (mut found, mut wanted) = (text.lines(), played.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (found.next(), wanted.next()) {
            (Some(found), Some(wanted)) if found == wanted => {}
            (found, wanted) => {
                return format!(
                    "{}:{number}\n  file:    {}\n  machine: {}",
                    path.display(),
                    found.unwrap_or(end),
                    wanted.unwrap_or(end)
                );
            }
        }
    }
}

fn transcripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("the folder of transcripts")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no transcript in {}", folder.display());
    paths
}

#[allow(clippy::disallowed_methods)] // the runner is no machine
fn updating() -> bool {
    std::env::var_os("UPDATE").is_some_and(|value| value == "1")
}
