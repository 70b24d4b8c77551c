//! One pod of a scene: its handoff machine, and its own member Lease as far as it knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_core::id::{LeaseUid, Revision, Term};
use leasehold_core::partition::{Handoff, MemberRecord, Slot, Table};
use leasehold_core::rules::Rules;
use leasehold_core::time::Instant;

pub(crate) struct Pod {
    pub(crate) name: Arc<str>,
    pub(crate) handoff: Handoff,
    /// The incarnation that it holds.
    pub(crate) term: Option<Term>,
    /// The revision of its own last write.
    pub(crate) own: Option<(LeaseUid, Revision)>,
    pub(crate) trusted_until: Instant,
    /// What its records carry.
    pub(crate) record: Arc<MemberRecord>,
    pub(crate) watched: BTreeSet<Arc<str>>,
    /// What it runs, since when and under which epoch.
    pub(crate) works: BTreeMap<Slot, (Instant, Revision)>,
    /// What drains or was lost.
    pub(crate) ending: BTreeSet<Slot>,
    pub(crate) sleeps: bool,
}

impl Pod {
    pub(crate) fn new(name: &str, rules: Rules) -> Self {
        let record = MemberRecord::default();
        Self {
            name: name.into(),
            handoff: Handoff::new(name, record.clone(), rules),
            term: None,
            own: None,
            trusted_until: Instant::ZERO,
            record: Arc::new(record),
            watched: BTreeSet::new(),
            works: BTreeMap::new(),
            ending: BTreeSet::new(),
            sleeps: false,
        }
    }
}

/// A table as one line.
pub(crate) fn table_text(table: &Table) -> String {
    let name = |index: &u16| table.members[usize::from(*index)].to_string();
    let mut parts: Vec<String> = table
        .entries()
        .map(|(partition, part)| {
            let owner = part.owner.as_ref().map_or("nobody".into(), name);
            let after: Vec<String> = part.prev.iter().map(name).collect();
            let after = if after.is_empty() {
                String::new()
            } else {
                format!(" after {}", after.join(", "))
            };
            format!("p{partition} {owner} since {:?}{after}", part.epoch)
        })
        .collect();
    if !table.prev_all.is_empty() {
        let all: Vec<String> = table.prev_all.iter().map(name).collect();
        parts.push(format!("all after {}", all.join(", ")));
    }
    format!("{} ({})", parts.join("; "), table.rebalance.reason)
}

/// What a member says, as one line.
pub(crate) fn record_text(record: &MemberRecord) -> String {
    let acked = record
        .acked
        .map_or("no table".into(), |acked| format!("{acked:?}"));
    let leaves = if record.draining { ", leaves" } else { "" };
    format!("understood {acked}, runs {:?}{leaves}", record.owned)
}
