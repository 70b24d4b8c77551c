//! What the leader publishes: who lives, who is fenced, who owns what (H1–H8).
//!
//! ```text
//!   member Leases ──▶ membership ──▶ cast ──▶ pace ──▶ publish ──▶ the table, by compare-and-set
//!   (watch, lists)    who lives,     everyone  who      owners (assign), epochs (H2),
//!                     silent, gone   named     waits    predecessors (H3, H4, H7, H8)
//!                         │
//!                         └──▶ fence: empty the Lease of whoever is silent (H5)
//! ```
//!
//! It exists while its process leads, and knows nothing that is not in the Leases: a new one begins
//! with a list and goes on from the table that it finds. Its writes are compare-and-set, so that
//! one that comes late, from a leader that leads no more, is refused.
//!
//! | What happens | What follows |
//! | --- | --- |
//! | a member falls silent | it is fenced; its share moves after the answer, without it as predecessor |
//! | a fence is refused for a newer revision | it lives |
//! | a member empties its Lease, or comes back in a later life | its share moves at once |
//! | a member says that it leaves | its share moves, with it as predecessor; `pace` says when |
//! | a member Lease is missing | nothing, until its member's trust has run out (H6) |
//! | what a member says cannot be read | it keeps what it has and receives nothing |
//! | the outcome of a publish is unknown | list, and go on from what is there |
//! | the number of partitions changes | a new layout when no handoff runs, else queued (H8) |
//! | the assignment Lease is gone | confirmed by a list, then rebuilt from the bitmaps (H7) |
//! | it cannot be read, or an older copy was put back | the same, on its revision; what a later version wrote is never touched |
//! | nothing | nothing (`quiet-when-settled`) |
//!
//! # The very first table
//!
//! An absent table cannot be told from a deleted one, and a member whose Lease was deleted with it
//! could still run something. H7 therefore waits a full duration. A first start would wait as long
//! for nobody, so it does not, if everything says that there has never been a table: this is the
//! first term of the leader Lease, no member Lease, held or empty, has ever acknowledged a table,
//! all of them can be read, and this planner has seen none. What is left is a deletion of the
//! leader Lease, the table and the Leases of members that run, all within one duration of a start:
//! for edits from outside guards are not promised to exclude each other, and tokens hold, since
//! the epoch of the first table is the revision of the list.

mod assignment;
mod base;
mod cast;
mod homes;
mod interface;
mod membership;
mod origin;
mod pace;
mod publish;
mod reason;
mod requests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::member::Member;
use super::table::Table;
use crate::id::Revision;
use crate::time::Instant;
use assignment::Assignment;
use base::Base;
use cast::Person;
use membership::{Membership, Standing};
use pace::{Decision, Pacing};
use publish::Draft;

pub use interface::{Concern, Config, Effect, Input, Notice, Pace, Sighting, Wanted};
pub use view::{MemberPhase, MemberView};

/// The planning of one leadership for one cluster id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Planner {
    config: Config,
    members: Membership,
    assignment: Assignment,
    /// What the present table says, read once.
    base: Option<Arc<Base>>,
    pacing: Pacing,
    /// The list under way, and when it was sent.
    listing: Option<Instant>,
    list_due: bool,
    publish: Option<Sent>,
    /// The fences under way, with the numbers of their attempts.
    fences: BTreeMap<Arc<str>, u64>,
    attempt: u64,
    /// No request before this instant.
    retry_at: Instant,
    failures: u32,
    conflicts: u32,
    /// When something newer about the assignment last came; an older list cannot contradict it (E4).
    heard_at: Instant,
    /// This planner has seen a table.
    has_seen: bool,
    /// The highest epoch that it has seen, in a table or understood by a member.
    newest: Option<Revision>,
    /// This planner has sent a table.
    has_tried: bool,
    /// What the last plan was made of: the same would lead to the same.
    planned: Option<Key>,
    concerns: BTreeSet<Concern>,
    now: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    attempt: u64,
    table: Arc<Table>,
}

/// Everything that decides whether there is something to publish, beside the present table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    decision: Decision,
    /// Who is over, how much it weighs, and where it is.
    people: Vec<(Member, bool, u32, Option<Arc<str>>)>,
    resized: bool,
    queued: Option<u16>,
    /// Somebody waits for a word of the planner (H6).
    frees: bool,
}

impl Planner {
    /// A planner that has seen nothing but what this process followed before (`seen`, H10). Its
    /// first effect is a list.
    pub fn new(config: Config, seen: BTreeMap<Arc<str>, Sighting>, now: Instant) -> Self {
        let own = config.timing.lease_duration();
        // Half of the numbers are left to count up to.
        let attempt = config.first_attempt & (u64::MAX >> 1);
        Self {
            members: Membership::new(seen, own, config.rules),
            assignment: Assignment::Unknown,
            base: None,
            pacing: Pacing::new(config.pace),
            listing: None,
            list_due: true,
            publish: None,
            fences: BTreeMap::new(),
            attempt,
            retry_at: now,
            failures: 0,
            conflicts: 0,
            heard_at: Instant::ZERO,
            has_seen: false,
            newest: None,
            has_tried: false,
            planned: None,
            concerns: BTreeSet::new(),
            now,
            config,
        }
    }

    /// The one way anything happens: takes an input, returns what must be done, in order.
    ///
    /// `now` never goes back. Calling it with [`Input::Timer`] at any time is harmless.
    pub fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        let mut out = Vec::new();
        self.now = now;
        match input {
            Input::Timer => {}
            Input::Listed { asked, listing } => self.listed(asked, &listing, now),
            Input::ListFailed { retry_after } => self.list_failed(retry_after, now, &mut out),
            Input::MembersListed { asked, members } => self.members_listed(asked, &members, now),
            Input::MemberSeen { name, lease } => {
                if self.members.seen(&name, &lease, now) {
                    self.pacing.lost(&name, now);
                }
            }
            // E4: it may only have lost its labels.
            Input::MemberGone { .. } | Input::Assignment(None) => self.doubt(),
            Input::Assignment(Some(lease)) => self.watched(&lease, now),
            Input::WriteDone { attempt, outcome } => {
                self.write_done(attempt, &outcome, now, &mut out);
            }
            Input::Wanted(wanted) => self.config.wanted = wanted,
            Input::Retime(timing) => {
                self.config.timing = timing;
                self.members.retime(timing.lease_duration());
            }
        }
        self.act(now, &mut out);
        out
    }

    fn act(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let mut concerns = BTreeSet::new();
        self.plan(now, &mut concerns, out);
        if self.list_due && self.listing.is_none() && now >= self.retry_at {
            self.list(now, out);
        }
        self.tell(concerns, out);
    }

    /// The instant at which [`Input::Timer`] must be fed, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        let table = self.rebuild_at().filter(|_| self.base.is_none());
        let members = self.members.deadlines();
        let all = members.chain(self.pacing.deadlines());
        let all = all.chain([self.retry_at]).chain(table);
        // What was due has been done, or waits for an answer.
        all.filter(|at| *at > self.now).min()
    }

    /// The newest state of the assignment.
    fn take(&mut self, assignment: Assignment, now: Instant) {
        self.heard_at = now;
        if self.assignment == assignment {
            return;
        }
        self.base = assignment.table().map(|table| Arc::new(Base::of(table)));
        self.has_seen |= self.base.is_some();
        if let Some(base) = &self.base {
            self.members.name(&base.people, now);
        }
        self.raise_newest(assignment.table().map(|table| table.epoch));
        self.planned = None;
        self.assignment = assignment;
    }

    fn plan(&mut self, now: Instant, concerns: &mut BTreeSet<Concern>, out: &mut Vec<Effect>) {
        if self.members.began().is_none() || self.assignment == Assignment::Unknown {
            return;
        }
        let Some(base) = self.base(now, concerns) else {
            return;
        };
        let rules = self.config.rules;
        let people = cast::cast(&base, &self.members, rules, now);
        self.members.forget(
            |name| people.iter().any(|person| *person.member.name == *name),
            now,
        );
        self.warn(&base, concerns, now);
        let decision = self.pacing.decide(&people, base.has_orphans(), now);
        concerns.extend(decision.concerns.iter().cloned());
        // Nothing is written while an answer is awaited that may change what is believed.
        let busy = self.list_due || self.listing.is_some() || now < self.retry_at;
        if busy {
            return;
        }
        for person in people
            .iter()
            .filter(|person| person.standing == Standing::Silent)
        {
            let named = base.people.contains(&person.member);
            if named && !self.fences.contains_key(&person.member.name) {
                self.fence(&person.member, out);
            }
        }
        if self.publish.is_some() {
            return;
        }
        self.settle(&base, &people, &decision, concerns, now, out);
    }

    /// Publishes if there is anything new to say.
    fn settle(
        &mut self,
        base: &Base,
        people: &[Person],
        decision: &Decision,
        concerns: &mut BTreeSet<Concern>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let (resized, queued) = self.layout(base, people);
        if let Some(count) = queued {
            concerns.insert(Concern::Queued { count });
        }
        let person = |p: &Person| (p.member.clone(), p.is_over(), p.weight, p.zone.clone());
        let key = Key {
            decision: decision.clone(),
            people: people.iter().map(person).collect(),
            resized: resized.is_some(),
            queued,
            frees: publish::frees_somebody(base, people),
        };
        if self.planned.as_ref() == Some(&key) {
            return;
        }
        let rules = self.config.rules;
        let draft = Draft::new(resized.as_ref().unwrap_or(base), people, decision, rules);
        self.pacing.serve(people, decision);
        let news = key.frees || draft.is_news(queued);
        let target = self.assignment.target().filter(|_| news);
        let Some((target, based_on)) = target else {
            self.planned = Some(key);
            return;
        };
        let table = draft.table(self.epoch(based_on), queued);
        self.publish(target, Arc::new(table), now, out);
    }
}

#[cfg(test)]
mod tests;
