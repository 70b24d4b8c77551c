//! One process of a small world: its handoff machine, and its member Lease as far as it knows it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use leasehold_core::id::{LeaseUid, Revision, Term};
use leasehold_core::partition::{Handoff, MemberRecord, MemberState, Slot, Table};
use leasehold_core::rules::Rules;
use leasehold_core::time::Instant;

/// The members.
pub(crate) const NAMES: [&str; 2] = ["a", "b"];

/// Watch events that a process may be behind; older ones are left out, as after a relist.
const BEHIND_MAX: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pod {
    pub(crate) handoff: Handoff,
    /// The incarnation that it holds.
    pub(crate) life: Option<Term>,
    /// Its own last write.
    pub(crate) own: Option<(LeaseUid, Revision)>,
    pub(crate) trusted_until: Instant,
    /// What its Lease is to say, and whether others wait for that.
    pub(crate) record: Arc<MemberRecord>,
    pub(crate) is_urgent: bool,
    /// News under way to it.
    pub(crate) tables: VecDeque<Arc<Table>>,
    pub(crate) followed: BTreeMap<Arc<str>, VecDeque<Option<MemberState>>>,
    /// Works that drain, or were lost.
    pub(crate) ending: BTreeSet<Slot>,
    pub(crate) is_paused: bool,
    pub(crate) has_left: bool,
    /// It gave its Lease back and is gone.
    pub(crate) is_gone: bool,
}

impl Pod {
    /// A new process, which has heard of nothing but the present table.
    pub(crate) fn new(name: usize, table: Option<Arc<Table>>, rules: Rules) -> Self {
        let record = MemberRecord::default();
        Self {
            handoff: Handoff::new(NAMES[name], record.clone(), rules),
            life: None,
            own: None,
            trusted_until: Instant::ZERO,
            record: Arc::new(record),
            is_urgent: false,
            tables: table.into_iter().collect(),
            followed: BTreeMap::new(),
            ending: BTreeSet::new(),
            is_paused: false,
            has_left: false,
            is_gone: false,
        }
    }

    /// What may act now.
    pub(crate) fn acting(&self, now: Instant) -> impl Iterator<Item = Slot> + '_ {
        let may = self.life.is_some() && now < self.trusted_until;
        let running = self.handoff.running().filter(move |_| may);
        running.map(|(slot, _)| slot)
    }

    pub(crate) fn may_join(&self) -> bool {
        let is_free = self.life.is_none() && self.ending.is_empty();
        is_free && !self.is_paused && !self.is_gone
    }

    /// Time passes only at a price while something is under way to it or from it.
    pub(crate) fn is_busy(&self) -> bool {
        let news = || self.followed.values().any(|news| !news.is_empty());
        let held = self.life.is_some();
        let has_news = held && (!self.tables.is_empty() || news());
        let acts = has_news || !self.ending.is_empty() || self.is_urgent || self.has_left;
        !self.is_paused && !self.is_gone && (acts || self.may_join())
    }
}

pub(crate) fn announce<T>(queue: &mut VecDeque<T>, news: T) {
    if queue.len() == BEHIND_MAX {
        queue.pop_front();
    }
    queue.push_back(news);
}
