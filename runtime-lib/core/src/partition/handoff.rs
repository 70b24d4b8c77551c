//! What one member may run: starts, drains and acknowledgements (H1, H3, H8).
//!
//! ```text
//!            the table names us           every predecessor is released,
//!            (this incarnation)           nothing of ours overlaps it
//!   ┌─────┐ ─────────────────▶ ┌─────────┐ ─────────────────▶ ┌─────────┐
//!   │ not │                    │ waiting │        Start        │ running │
//!   │ ours│ ◀───────────────── └─────────┘                     └─────────┘
//!   └─────┘   it is taken away                                      │ it is taken away, or named
//!      ▲                        ┌──────────┐         Drain          │ under another epoch
//!      └─────────────────────── │ draining │ ◀──────────────────────┘
//!         the work has ended:   └──────────┘
//!         the bit clears, the record says so
//! ```
//!
//! The end of the own member Lease's term ends all of it at once (`trust-ends-first`); the next
//! incarnation starts nothing until a table names it (H1). A member without a table, or without a
//! leader, goes on with what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::layout::{HashId, Layout, Partition};
use super::member::{Bitmap, Member, MemberRecord, MemberState};
use super::table::Table;
use crate::id::{Revision, Term};
use crate::rules::{Rule, Rules};

/// Something that happened to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The own member Lease is held: this incarnation may act.
    Begin(Term),
    /// The own term is over: nothing may act any more.
    End,
    /// The newest table; older ones than the last are ignored. A lost table is no news.
    Table(Arc<Table>),
    /// The newest state of another member's Lease; `None` if it is missing, which shows nothing (H6).
    Member {
        /// Whose.
        name: Arc<str>,
        /// What it shows.
        state: Option<MemberState>,
    },
    /// The work of this slot ended: it returned or was dropped, nothing of it runs on.
    Ended(Slot),
    /// Leave: start nothing new, and tell the leader to give our partitions to others.
    Leave,
    /// Nobody took them in time: drain everything, whatever the table says.
    DrainAll,
}

/// Something the shell must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start the work of this slot with this epoch as its fencing token.
    Start {
        /// Which partition.
        slot: Slot,
        /// The epoch: its fencing token (H2).
        epoch: Revision,
    },
    /// Ask the work to finish; it may act meanwhile. Say [`Input::Ended`] afterwards.
    Drain(Slot),
    /// Invalidate its guard now, then drop the work, then say [`Input::Ended`].
    Lose(Slot),
    /// Let the member Lease carry this.
    Publish {
        /// What it says from now on.
        record: Arc<MemberRecord>,
        /// Others wait for it: publish at once; else with the next renewal.
        at_once: bool,
    },
    /// Whose member Leases must be followed from now on; all others no more.
    Watch(BTreeSet<Arc<str>>),
    /// Nothing runs here any more, and it wanted to leave: the member Lease can be given back.
    Left,
}

/// A partition of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// The layout that the number belongs to.
    pub layout: Layout,
    /// The partition.
    pub partition: Partition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Work {
    epoch: Revision,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Running,
    Draining,
    Lost,
}

/// The ownership of one process for one cluster id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handoff {
    name: Arc<str>,
    rules: Rules,
    /// What it says of itself in every record: hash, revision, zone, weight.
    about: MemberRecord,
    incarnation: Option<Term>,
    table: Option<Arc<Table>>,
    /// The partitions of the table that are ours, as long as they have not been started.
    waiting: BTreeSet<Partition>,
    /// The partitions whose next owner waits for us, and since which epoch.
    owed: BTreeMap<Partition, Revision>,
    others: BTreeMap<Arc<str>, Option<MemberState>>,
    watched: BTreeSet<Arc<str>>,
    works: BTreeMap<Slot, Work>,
    published: Option<Arc<MemberRecord>>,
    /// The last record that had to be published at once: what others will surely see.
    known: Option<Arc<MemberRecord>>,
    leaving: bool,
    left: bool,
    refused: Option<HashId>,
}

impl Handoff {
    /// A member that has seen nothing. `about`: what it says of itself (hash, revision, zone, weight).
    pub fn new(name: impl Into<Arc<str>>, about: MemberRecord, rules: Rules) -> Self {
        Self {
            name: name.into(),
            rules,
            about,
            incarnation: None,
            table: None,
            waiting: BTreeSet::new(),
            owed: BTreeMap::new(),
            others: BTreeMap::new(),
            watched: BTreeSet::new(),
            works: BTreeMap::new(),
            published: None,
            known: None,
            leaving: false,
            left: false,
            refused: None,
        }
    }

    /// The one way anything happens: takes an input, returns what must be done, in order.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        match input {
            Input::Begin(incarnation) => self.begin(incarnation),
            Input::End => self.end(&mut out),
            Input::Table(table) => self.take(table),
            Input::Member { name, state } => {
                self.others.insert(name, state);
            }
            Input::Ended(slot) => {
                self.works.remove(&slot);
            }
            Input::Leave => self.leaving = true,
            Input::DrainAll => self.drain(|_, _| true, &mut out),
        }
        if let (Some(incarnation), Some(table)) = (self.incarnation, self.table.clone()) {
            self.follow(
                &Member::new(Arc::clone(&self.name), incarnation),
                &table,
                &mut out,
            );
        }
        self.publish(&mut out);
        self.leave(&mut out);
        out
    }

    /// The partitions that may act now, with their epochs.
    pub fn running(&self) -> impl Iterator<Item = (Slot, Revision)> + '_ {
        let acting = self
            .works
            .iter()
            .filter(|(_, work)| work.phase != Phase::Lost);
        acting.map(|(slot, work)| (*slot, work.epoch))
    }

    /// Is nothing left of what was started, lost works included?
    pub fn is_idle(&self) -> bool {
        self.works.is_empty()
    }

    /// What we wait for: our partitions that have not started, with the members that hold each up.
    pub fn waiting(&self) -> Vec<(Partition, Vec<Member>)> {
        let (Some(incarnation), Some(table)) = (self.incarnation, &self.table) else {
            return Vec::new();
        };
        let me = Member::new(Arc::clone(&self.name), incarnation);
        let layout = table.layout;
        let is_started = |partition: &Partition| {
            let partition = *partition;
            self.works.contains_key(&Slot { layout, partition })
        };
        let waiting = self.waiting.iter();
        waiting
            // What was seen of their predecessors is forgotten.
            .filter(|partition| !is_started(partition))
            .map(|partition| {
                (
                    *partition,
                    self.holders(&me, table, *partition).cloned().collect(),
                )
            })
            .collect()
    }

    /// The newest table.
    pub fn table(&self) -> Option<&Arc<Table>> {
        self.table.as_ref()
    }

    /// The newest table speaks of this hash, for which our code is not built: it is refused, and
    /// what runs goes on.
    pub fn refused(&self) -> Option<HashId> {
        self.refused
    }

    fn begin(&mut self, incarnation: Term) {
        self.incarnation = Some(incarnation);
        self.left = false;
        if let Some(table) = self.table.clone() {
            self.read(&table);
        }
    }

    fn end(&mut self, out: &mut Vec<Effect>) {
        self.incarnation = None;
        // A newer life believes only what it reads anew: the store may have been restored.
        self.table = None;
        self.waiting.clear();
        self.owed.clear();
        self.others.clear();
        self.known = None;
        self.published = None;
        for (slot, work) in &mut self.works {
            if work.phase != Phase::Lost {
                work.phase = Phase::Lost;
                out.push(Effect::Lose(*slot));
            }
        }
        self.watch(BTreeSet::new(), out);
    }

    fn take(&mut self, table: Arc<Table>) {
        if self
            .table
            .as_ref()
            .is_some_and(|old| table.epoch <= old.epoch)
        {
            return;
        }
        let foreign = table.layout.hash() != self.about.hash;
        self.refused = foreign.then(|| table.layout.hash());
        if foreign {
            return;
        }
        self.read(&table);
        self.table = Some(table);
    }

    /// What a table means for us, worked out once.
    fn read(&mut self, table: &Table) {
        let Some(incarnation) = self.incarnation else {
            return;
        };
        let is_me = |index: &u16| {
            let member = table.members.get(usize::from(*index));
            member.is_some_and(|member| {
                let same_life = member.incarnation == incarnation;
                *member.name == *self.name && (same_life || !self.rules.has(Rule::H1Incarnation))
            })
        };
        let all = table.prev_all.iter().any(&is_me);
        self.waiting.clear();
        self.owed.clear();
        for (partition, part) in table.entries() {
            let mine = part.owner.as_ref().is_some_and(&is_me);
            if mine {
                self.waiting.insert(partition);
            } else if all || part.prev.iter().any(&is_me) {
                self.owed.insert(partition, part.epoch);
            }
        }
    }

    fn follow(&mut self, me: &Member, table: &Table, out: &mut Vec<Effect>) {
        let waiting = &self.waiting;
        let layout = table.layout;
        let wanted = |slot: &Slot, work: &Work| {
            let part = table.part(slot.partition);
            slot.layout == layout
                && waiting.contains(&slot.partition)
                && part.is_some_and(|part| part.epoch == work.epoch)
        };
        let unwanted: BTreeSet<Slot> = self
            .works
            .iter()
            .filter(|(slot, work)| !wanted(slot, work))
            .map(|(slot, _)| *slot)
            .collect();
        self.drain(|slot, _| unwanted.contains(slot), out);
        let mut watched = BTreeSet::new();
        let mut awaited = BTreeSet::new();
        let mut start = Vec::new();
        for partition in &self.waiting {
            let slot = Slot {
                layout,
                partition: *partition,
            };
            if self.works.contains_key(&slot) {
                continue;
            }
            awaited.extend(table.waits_for(*partition).map(|member| &member.name));
            let mut free = true;
            for holder in self.holders(me, table, *partition) {
                free = false;
                watched.insert(Arc::clone(&holder.name));
            }
            if let (true, Some(part)) = (free && self.may_start(slot), table.part(*partition)) {
                start.push((slot, part.epoch));
            }
        }
        // Whoever was seen released is followed no longer, but not forgotten while others of the
        // same partition are awaited: a release is never taken back.
        self.others.retain(|name, _| awaited.contains(name));
        for (slot, epoch) in start {
            let phase = Phase::Running;
            self.works.insert(slot, Work { epoch, phase });
            out.push(Effect::Start { slot, epoch });
        }
        self.watch(watched, out);
    }

    /// Nothing of ours that overlaps it runs on (H8), and we mean to stay.
    fn may_start(&self, slot: Slot) -> bool {
        let blocked = || {
            self.works.keys().any(|other| {
                let mut overlapping = slot.layout.overlapping(slot.partition, other.layout);
                overlapping.any(|partition| partition == other.partition)
            })
        };
        !(self.leaving || self.rules.has(Rule::H8ParentsReleased) && blocked())
    }

    /// The members that are not seen released from `partition` (H3); our own works are not theirs.
    fn holders<'a>(
        &'a self,
        me: &'a Member,
        table: &'a Table,
        partition: Partition,
    ) -> impl Iterator<Item = &'a Member> {
        let epoch = table.part(partition).map(|part| part.epoch);
        table.waits_for(partition).filter(move |member| {
            // Our own earlier lives ended before this one began (H1).
            let ours = member.name == me.name && member.incarnation <= me.incarnation;
            !ours
                && epoch
                    .is_some_and(|epoch| !self.is_released(member, table.layout, partition, epoch))
        })
    }

    fn is_released(
        &self,
        member: &Member,
        layout: Layout,
        partition: Partition,
        epoch: Revision,
    ) -> bool {
        match self.others.get(&member.name) {
            Some(Some(state)) if self.rules.has(Rule::H3Acknowledged) => {
                state.has_released(member.incarnation, layout, partition, epoch)
            }
            // The rule switched off: a clear bit is taken for a release.
            Some(Some(state)) => {
                let clear = state
                    .record
                    .as_ref()
                    .is_none_or(|record| !record.owned.contains(partition));
                clear || state.has_released(member.incarnation, layout, partition, epoch)
            }
            Some(None) => !self.rules.has(Rule::H6MissingIsNoRelease),
            None => false,
        }
    }

    fn drain(&mut self, which: impl Fn(&Slot, &Work) -> bool, out: &mut Vec<Effect>) {
        for (slot, work) in &mut self.works {
            if work.phase == Phase::Running && which(slot, work) {
                work.phase = Phase::Draining;
                out.push(Effect::Drain(*slot));
            }
        }
    }

    fn watch(&mut self, names: BTreeSet<Arc<str>>, out: &mut Vec<Effect>) {
        if names == self.watched {
            return;
        }
        self.watched.clone_from(&names);
        out.push(Effect::Watch(names));
    }

    fn record(&self) -> MemberRecord {
        let layout = self.table.as_ref().map(|table| table.layout);
        let mut owned = Bitmap::new();
        for slot in self.works.keys() {
            let Some(layout) = layout else { continue };
            if slot.layout == layout {
                owned.insert(slot.partition);
            } else if self.rules.has(Rule::H8ParentsReleased) {
                // H8: in the words of the new layout, a parent holds all of its children.
                for child in slot.layout.overlapping(slot.partition, layout) {
                    owned.insert(child);
                }
            }
        }
        MemberRecord {
            layout,
            acked: self.table.as_ref().map(|table| table.epoch),
            owned,
            draining: self.leaving,
            ..self.about.clone()
        }
    }

    fn publish(&mut self, out: &mut Vec<Effect>) {
        let record = self.record();
        if self
            .published
            .as_ref()
            .is_some_and(|published| **published == record)
        {
            return;
        }
        let record = Arc::new(record);
        let at_once = self.is_awaited(&record);
        self.published = Some(Arc::clone(&record));
        if at_once {
            self.known = Some(Arc::clone(&record));
        }
        out.push(Effect::Publish { record, at_once });
    }

    /// Does somebody wait for what this record shows, and the last one they will see did not?
    fn is_awaited(&self, record: &MemberRecord) -> bool {
        let known = self.known.as_deref();
        if record.draining && !known.is_some_and(|known| known.draining) {
            return true;
        }
        let shows = |record: &MemberRecord, partition: Partition, epoch: Revision| {
            record.acked.is_some_and(|acked| acked >= epoch)
                && record.layout == self.table.as_ref().map(|table| table.layout)
                && !record.owned.contains(partition)
        };
        let mut owed = self.owed.iter();
        owed.any(|(partition, epoch)| {
            let is_new = !known.is_some_and(|known| shows(known, *partition, *epoch));
            is_new && shows(record, *partition, *epoch)
        })
    }

    fn leave(&mut self, out: &mut Vec<Effect>) {
        if self.leaving && self.works.is_empty() && self.incarnation.is_some() && !self.left {
            self.left = true;
            out.push(Effect::Left);
        }
    }
}

#[cfg(test)]
mod tests;
