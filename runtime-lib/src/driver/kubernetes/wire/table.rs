//! The table as JSON, compact enough for 4096 partitions and hundreds of members.
//!
//! ```text
//!   "epochs":  [48213, 1200, 7]          48213, 48213-1200, 48213-1200-7
//!   "members": ["web-0#3", "web-1#1"]    numbered from 0
//!   "parts":   "0*2 1@2/0 -@0"           one entry for each partition, in order:
//!               │ │ │ │ │ └─ nobody, since the newest epoch
//!               │ │ │ │ └─── its owner waits for member 0
//!               │ │ │ └───── since epochs[2]; an entry without @ has the epoch of the one before
//!               │ │ └─────── owner: member 1
//!               │ └───────── two partitions alike
//!               └─────────── owner: member 0, since epochs[0]
//! ```

use std::fmt::Write;

use leasehold_core::id::{Revision, Term};
use leasehold_core::partition::{Member, Part, Rebalance, Table};
use serde::{Deserialize, Serialize};

use super::{LayoutJson, Unreadable, VERSION, read_count};

/// A larger table is not written: the API server allows 256 KiB for all annotations of a Lease.
pub(super) const TABLE_BYTES_MAX: usize = 200 * 1024;
/// A text can promise more predecessors than anybody has memory for.
const PREV_MAX: usize = 1 << 18;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    version: u64,
    layout: LayoutJson,
    epochs: Vec<u64>,
    members: Vec<String>,
    parts: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    prev_all: Vec<u16>,
    #[serde(default)]
    rebalance: RebalanceJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queued: Option<i64>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct RebalanceJson {
    reason: String,
    moves: u16,
    least: u16,
}

pub(super) fn write(table: &Table) -> Result<String, String> {
    // A table that no reader takes would stop every handoff.
    if let Some(problem) = table.problem() {
        return Err(problem);
    }
    let mut epochs: Vec<u64> = table.parts.iter().map(|part| part.epoch.number()).collect();
    epochs.push(table.epoch.number());
    epochs.sort_unstable_by(|a, b| b.cmp(a));
    epochs.dedup();
    let json = Json {
        version: VERSION,
        layout: LayoutJson::of(table.layout),
        members: table.members.iter().map(ToString::to_string).collect(),
        parts: write_parts(&table.parts, &epochs),
        epochs: steps(&epochs),
        prev_all: table.prev_all.clone(),
        rebalance: RebalanceJson {
            reason: table.rebalance.reason.as_ref().to_owned(),
            moves: table.rebalance.moves,
            least: table.rebalance.least,
        },
        queued: table.queued.map(i64::from),
    };
    let text = serde_json::to_string(&json).map_err(|error| error.to_string())?;
    if text.len() > TABLE_BYTES_MAX {
        return Err(format!(
            "table: found {} bytes for {} partitions and {} members, allowed are {TABLE_BYTES_MAX}; \
             use fewer partitions or shorter names",
            text.len(),
            table.parts.len(),
            table.members.len()
        ));
    }
    Ok(text)
}

/// The newest epoch, then how far each is below the one before.
fn steps(epochs: &[u64]) -> Vec<u64> {
    let first = epochs.first().copied();
    let below = epochs.windows(2).map(|pair| pair[0] - pair[1]);
    first.into_iter().chain(below).collect()
}

fn write_parts(parts: &[Part], epochs: &[u64]) -> String {
    let mut out = String::new();
    let mut at = 0;
    for run in parts.chunk_by(|a, b| a == b) {
        let part = &run[0];
        if !out.is_empty() {
            out.push(' ');
        }
        // Writing to a String cannot fail.
        let _ = match part.owner {
            Some(owner) => write!(out, "{owner}"),
            None => write!(out, "-"),
        };
        let index = epochs.partition_point(|epoch| *epoch > part.epoch.number());
        if index != at {
            let _ = write!(out, "@{index}");
            at = index;
        }
        for (nth, prev) in part.prev.iter().enumerate() {
            let _ = write!(out, "{}{prev}", if nth == 0 { '/' } else { ',' });
        }
        if run.len() > 1 {
            let _ = write!(out, "*{}", run.len());
        }
    }
    out
}

pub(super) fn read(text: &str) -> Result<Table, Unreadable> {
    let json: Json = serde_json::from_str(text)?;
    let layout = json.layout.read()?;
    let epochs = read_epochs(&json.epochs)?;
    let Some(epoch) = epochs.first().copied() else {
        return Err("epochs: found none, allowed is at least one"
            .to_owned()
            .into());
    };
    let members = json.members.iter().map(|text| read_member(text));
    let queued = json.queued.map(|count| read_count("queued", count));
    let table = Table {
        layout,
        epoch,
        members: members.collect::<Result<_, _>>()?,
        parts: read_parts(&json.parts, &epochs, layout.count().into())?,
        prev_all: json.prev_all,
        rebalance: Rebalance {
            reason: json.rebalance.reason.into(),
            moves: json.rebalance.moves,
            least: json.rebalance.least,
        },
        queued: queued.transpose()?,
    };
    match table.problem() {
        None => Ok(table),
        Some(problem) => Err(problem.into()),
    }
}

fn read_epochs(steps: &[u64]) -> Result<Vec<Revision>, String> {
    let mut epochs: Vec<Revision> = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let number = match epochs.last() {
            None => Some(*step),
            Some(above) => above.number().checked_sub(*step).filter(|_| *step > 0),
        };
        let epoch = number.and_then(|number| Revision::new(number).ok());
        epochs.push(epoch.ok_or_else(|| {
            format!("epochs[{index}]: found {step}, allowed are steps down to numbers from 1")
        })?);
    }
    Ok(epochs)
}

fn read_member(text: &str) -> Result<Member, String> {
    let parts = text.rsplit_once('#').filter(|(name, _)| !name.is_empty());
    let number = parts.and_then(|(_, number)| number.parse::<u32>().ok());
    match (parts, number) {
        (Some((name, _)), Some(number)) if number <= Term::MAX.number() => {
            Ok(Member::new(name, Term::new(number)))
        }
        _ => {
            let found: String = text.chars().take(80).collect();
            Err(format!(
                "members: found {found:?}, allowed is <name>#<incarnation>, such as \"web-0#3\""
            ))
        }
    }
}

fn read_parts(text: &str, epochs: &[Revision], count: usize) -> Result<Vec<Part>, String> {
    let mut parts: Vec<Part> = Vec::with_capacity(count);
    let (mut at, mut prev_total) = (0, 0);
    for entry in text.split_ascii_whitespace() {
        let malformed = || {
            let (place, found): (_, String) = (parts.len(), entry.chars().take(80).collect());
            format!(
                "parts: found {found:?} for partition {place}, allowed is an owner or -, then @epoch, \
                 /member,member and *times where needed, with indices that exist"
            )
        };
        let (rest, times) = split(entry, '*');
        let (rest, prev) = split(rest, '/');
        let (owner, index) = split(rest, '@');
        let times = number(times, 1).ok_or_else(malformed)?;
        at = number(index, at).ok_or_else(malformed)?;
        let epoch = *epochs.get(at).ok_or_else(malformed)?;
        let owner = match owner {
            "-" => None,
            owner => Some(owner.parse().map_err(|_| malformed())?),
        };
        let prev: Option<Vec<u16>> = match prev {
            None => Some(Vec::new()),
            Some(prev) => prev.split(',').map(|prev| prev.parse().ok()).collect(),
        };
        let prev = prev.ok_or_else(malformed)?;
        if times > count - parts.len() {
            return Err(format!(
                "parts: found more than {count}, allowed are {count}"
            ));
        }
        prev_total += prev.len() * times;
        if prev_total > PREV_MAX {
            return Err(format!(
                "parts: found more than {PREV_MAX} predecessors, allowed are {PREV_MAX}"
            ));
        }
        let part = Part { owner, epoch, prev };
        parts.extend(std::iter::repeat_n(part, times));
    }
    Ok(parts)
}

fn split(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn number(text: Option<&str>, default: usize) -> Option<usize> {
    match text {
        Some(text) => text.parse().ok(),
        None => Some(default),
    }
}
