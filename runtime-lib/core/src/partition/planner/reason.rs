//! Why a table was published, in a few words for people.

use std::fmt::Write;

use super::base::{Base, Origin};
use super::cast::Person;
use super::membership::Standing;
use super::pace::{Decision, Role};

/// As many names are told; the rest is counted.
const NAMES_MAX: usize = 3;

/// Why this table is published.
pub(super) fn text(
    base: &Base,
    people: &[Person],
    decision: &Decision,
    queued: Option<u16>,
) -> String {
    let mut causes: Vec<String> = Vec::new();
    match base.origin {
        Origin::Table => {}
        Origin::First => causes.push("first table".into()),
        Origin::Lost => causes.push("the table was lost".into()),
        Origin::Resized => causes.push(format!("{} partitions", base.layout.count())),
    }
    let those = |which: &dyn Fn(usize, &Person) -> bool| {
        let found = people.iter().enumerate();
        let found: Vec<&Person> = found
            .filter(|(index, person)| which(*index, person))
            .map(|(_, person)| person)
            .collect();
        found
    };
    let gives =
        |index: usize, person: &Person| decision.roles[index] == Role::Gives && person.owns > 0;
    let lost = those(&|index, person| gives(index, person) && person.standing != Standing::Lives);
    let left = those(&|index, person| gives(index, person) && person.standing == Standing::Lives);
    let sits = |index: usize| matches!(decision.roles[index], Role::Sits { .. });
    let joined = those(&|index, person| sits(index) && person.owns == 0);
    for (word, people) in [("lost", lost), ("leaving", left), ("joined", joined)] {
        if people.is_empty() {
            continue;
        }
        let mut cause = format!("{word}:");
        for person in people.iter().take(NAMES_MAX) {
            let _ = write!(cause, " {}", person.member);
        }
        if people.len() > NAMES_MAX {
            let _ = write!(cause, " and {} more", people.len() - NAMES_MAX);
        }
        causes.push(cause);
    }
    if let Some(count) = queued.filter(|_| queued != base.queued) {
        causes.push(format!("next: {count} partitions"));
    }
    if causes.is_empty() {
        causes.push("balance".into());
    }
    causes.join("; ")
}
