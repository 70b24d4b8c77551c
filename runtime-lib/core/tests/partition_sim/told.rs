//! Inputs and effects of the handoff and the planner in few words, for the story of a run.

use leasehold_core::election::{Write, WriteOutcome};
use leasehold_core::lease::{Contents, Versioned};
use leasehold_core::partition::Table;
use leasehold_core::partition::handoff;
use leasehold_core::partition::planner::{Effect, Input};

pub fn handoff(input: &handoff::Input) -> String {
    match input {
        handoff::Input::Table(table) => self::table(table),
        other => format!("{other:?}"),
    }
}

pub fn planner(input: &Input) -> String {
    match input {
        Input::Listed { asked, listing } => format!(
            "list asked at {asked:?} at {:?}: {} members, assignment {}",
            listing.revision,
            listing.members.len(),
            shown(listing.assignment.as_ref())
        ),
        Input::MembersListed { asked, members } => {
            format!("members listed at {asked:?}: {}", members.len())
        }
        Input::MemberSeen { name, lease } => format!("{name}: {}", shown(Some(lease))),
        Input::Assignment(state) => format!("assignment: {}", shown(state.as_ref())),
        Input::WriteDone { attempt, outcome } => match outcome {
            WriteOutcome::Done(state) => format!("write done: {}", shown(Some(state))),
            other => format!("write {} ended: {other:?}", attempt % 100_000),
        },
        other => format!("{other:?}"),
    }
}

pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Publish(write) => format!("publish {}", written(write)),
        Effect::Fence { name, write } => format!("fence {name}: {}", written(write)),
        other => format!("{other:?}"),
    }
}

fn written(write: &Write) -> String {
    let number = write.attempt % 100_000;
    format!(
        "over {:?} (..{number}): {}",
        write.target,
        contents(&write.record.contents)
    )
}

fn shown(state: Option<&Versioned>) -> String {
    state.map_or_else(
        || "nothing".to_owned(),
        |state| {
            let holder = state.record.holder.as_deref().unwrap_or("nobody");
            let (uid, revision, term) = (state.uid.as_str(), state.revision, state.record.term);
            format!(
                "{uid} {revision:?} {holder}#{term} {}",
                contents(&state.record.contents)
            )
        },
    )
}

fn contents(contents: &Contents) -> String {
    match contents {
        Contents::Table(table) => self::table(table),
        Contents::Member(record) => format!(
            "layout {:?} acked {:?} owned {:?}{}",
            record
                .layout
                .map(|layout| (layout.generation(), layout.count())),
            record.acked,
            record.owned,
            if record.draining { " draining" } else { "" }
        ),
        other => format!("{other:?}"),
    }
}

/// A table with few partitions in full.
fn table(table: &Table) -> String {
    let layout = (table.layout.generation(), table.layout.count());
    let members: Vec<String> = table.members.iter().map(ToString::to_string).collect();
    let part = |part: &leasehold_core::partition::Part| {
        let owner = part
            .owner
            .map_or_else(|| "-".to_owned(), |owner| owner.to_string());
        format!("{owner}@{}{:?}", part.epoch, part.prev)
    };
    let parts: Vec<String> = table.parts.iter().take(16).map(part).collect();
    format!(
        "table {layout:?} at {} of [{}]: {} all {:?} queued {:?} ({:?})",
        table.epoch,
        members.join(" "),
        parts.join(" "),
        table.prev_all,
        table.queued,
        table.rebalance
    )
}
