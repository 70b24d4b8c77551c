//! Inputs and effects in few words, for the story of a run.

use std::fmt::Write as _;

use leasehold_core::election::{Effect, Input, WriteOutcome};
use leasehold_core::lease::{LeaseRecord, Versioned};

pub fn input(input: &Input) -> String {
    match input {
        Input::Watched(state) => format!("watch shows {}", versioned(state)),
        Input::Listed { asked, state } => {
            format!("list asked at {asked:?} shows {}", shown(state.as_ref()))
        }
        Input::Read(state) => format!("read shows {}", shown(state.as_ref())),
        Input::WriteDone { outcome, .. } => match outcome {
            WriteOutcome::Done(state) => format!("write done: {}", versioned(state)),
            other => format!("write ended: {other:?}"),
        },
        other => format!("{other:?}"),
    }
}

pub fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Write(write) => {
            let target = &write.target;
            format!(
                "{:?} over {target:?}: {}",
                write.purpose,
                record(&write.record)
            )
        }
        other => format!("{other:?}"),
    }
}

fn shown(state: Option<&Versioned>) -> String {
    state.map_or_else(|| "nothing".to_owned(), versioned)
}

fn versioned(state: &Versioned) -> String {
    let (uid, revision) = (state.uid.as_str(), state.revision);
    format!("{uid} r{revision} [{}]", record(&state.record))
}

fn record(record: &LeaseRecord) -> String {
    let holder = record.holder.as_deref().unwrap_or("nobody");
    let seconds = record.duration.map_or(0, |duration| duration.as_secs());
    let mut text = format!("{holder} term {} for {seconds} s", record.term);
    if let Some(stamp) = &record.attempt {
        let number = stamp.number % 100_000;
        let _ = write!(text, ", attempt ..{number} of term {}", stamp.term);
    }
    if let Some(stamp) = &record.released {
        let _ = write!(text, ", released {stamp}");
    }
    if let Some(name) = &record.preferred_holder {
        let _ = write!(text, ", prefer {name}");
    }
    text
}
