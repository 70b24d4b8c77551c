//! What Leases carry for partitions: versioned JSON in one annotation each.
//!
//! The format is public: `docs/wire-format.md` describes it for readers in other languages, and a
//! test runs the reader of that page on what is written here.

use std::sync::Arc;

use leasehold_core::lease::Contents;
use leasehold_core::partition::{HashId, Layout, PARTITIONS_MAX};
use leasehold_crds::keys;
use serde::{Deserialize, Serialize};

use crate::key::LeaseKind;

mod member;
mod table;

/// The version that this build writes, and the only one that it reads.
const VERSION: u64 = 1;

/// Reads what a Lease of this kind carries; `annotation` looks one up by its name.
///
/// Never fails: what cannot be read says why, and whether a later version wrote it.
pub fn read<'a>(kind: &LeaseKind, annotation: impl Fn(&str) -> Option<&'a str>) -> Contents {
    let (name, read): (_, Reader) = match kind {
        LeaseKind::Leader => return Contents::Nothing,
        LeaseKind::Member(_) => (keys::ANNOTATION_MEMBER, |text| {
            Ok(Contents::Member(Arc::new(member::read(text)?)))
        }),
        LeaseKind::Assignment => (keys::ANNOTATION_ASSIGNMENT, |text| {
            Ok(Contents::Table(Arc::new(table::read(text)?)))
        }),
    };
    let Some(text) = annotation(name) else {
        return Contents::Nothing;
    };
    let read = check_version(text).and_then(|()| read(text));
    read.unwrap_or_else(|Unreadable { newer, reason }| Contents::Unreadable {
        newer,
        reason: format!("{name}: {reason}").into(),
    })
}

/// The annotation that carries these contents: its name and its text.
///
/// `None` if they are nothing, or were unreadable: then what stands there is left alone. The error
/// names the field, what was found and what is allowed.
pub fn write(contents: &Contents) -> Result<Option<(&'static str, String)>, String> {
    let (name, text) = match contents {
        Contents::Nothing | Contents::Unreadable { .. } => return Ok(None),
        Contents::Member(record) => (keys::ANNOTATION_MEMBER, member::write(record)),
        Contents::Table(table) => (keys::ANNOTATION_ASSIGNMENT, table::write(table)),
    };
    match text {
        Ok(text) => Ok(Some((name, text))),
        Err(problem) => Err(format!("{name}: {problem}")),
    }
}

type Reader = fn(&str) -> Result<Contents, Unreadable>;

/// Why a text could not be read.
#[derive(Debug, PartialEq, Eq)]
struct Unreadable {
    newer: bool,
    reason: String,
}

impl From<String> for Unreadable {
    fn from(reason: String) -> Self {
        Self {
            newer: false,
            reason,
        }
    }
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Self::from(error.to_string())
    }
}

/// The version first: another one may have other fields.
fn check_version(text: &str) -> Result<(), Unreadable> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let found = serde_json::from_str::<Version>(text)?.version;
    if found == VERSION {
        return Ok(());
    }
    Err(Unreadable {
        newer: found > VERSION,
        reason: format!("version: found {found}, allowed is {VERSION}"),
    })
}

/// A layout in JSON.
#[derive(Serialize, Deserialize)]
struct LayoutJson {
    generation: u32,
    hash: String,
    partitions: i64,
}

impl LayoutJson {
    fn of(layout: Layout) -> Self {
        Self {
            generation: layout.generation(),
            hash: layout.hash().as_str().to_owned(),
            partitions: layout.count().into(),
        }
    }

    fn read(&self) -> Result<Layout, String> {
        let hash = read_hash("layout.hash", &self.hash)?;
        let count = read_count("layout.partitions", self.partitions)?;
        Layout::new(self.generation, hash, count).map_err(|error| format!("layout.{error}"))
    }
}

fn read_hash(field: &str, name: &str) -> Result<HashId, String> {
    HashId::from_name(name).ok_or_else(|| {
        let found: String = name.chars().take(80).collect();
        format!(
            "{field}: found {found:?}, allowed are \"{}\" and \"{}\"",
            HashId::CsHash1,
            HashId::K8sRange1
        )
    })
}

fn read_count(field: &str, found: i64) -> Result<u16, String> {
    let count = u16::try_from(found).ok();
    count
        .filter(|count| (1..=PARTITIONS_MAX).contains(count))
        .ok_or_else(|| format!("{field}: found {found}, allowed are 1 to {PARTITIONS_MAX}"))
}

#[cfg(test)]
mod tests;
