//! One planner and the Leases it plans for. Members renew by themselves as long as they live;
//! requests are answered at once unless a test takes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::election::{Target, Write, WriteOutcome};
use crate::id::{Identity, LeaseUid, Revision, Term};
use crate::lease::{AttemptStamp, Contents, LeaseRecord, LeaseTiming, Versioned};
use crate::partition::planner::{Config, Effect, Input, Notice, Pace, Planner, Wanted};
use crate::partition::{Bitmap, HashId, Listing, Member, MemberRecord, Partition, Table};
use crate::rules::Rules;
use crate::time::{Duration, Instant};

pub(super) fn p(number: u16) -> Partition {
    Partition::new(number)
}

pub(super) fn epoch(number: u64) -> Revision {
    Revision::new(number).unwrap()
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The planner of leader `l`, which is no member unless a test says so, and everything it sees.
pub(super) struct Stage {
    pub(super) planner: Planner,
    pub(super) now: Instant,
    pub(super) revision: u64,
    pub(super) assignment: Option<Versioned>,
    pub(super) members: BTreeMap<Arc<str>, Versioned>,
    /// Whose Leases are renewed as time passes.
    pub(super) alive: BTreeSet<Arc<str>>,
    /// Every write that was sent, in order.
    pub(super) writes: Vec<Write>,
    pub(super) notices: Vec<Notice>,
    /// Requests are left to the test.
    pub(super) by_hand: bool,
    pub(super) open: Vec<Effect>,
    renewed: Instant,
}

pub(super) fn config(term: u32, count: u16) -> Config {
    let hash = HashId::CsHash1;
    Config {
        me: "l".into(),
        identity: Identity::new("l").unwrap(),
        leader_term: Term::new(term),
        timing: LeaseTiming::DEFAULT,
        first_attempt: 1,
        wanted: Wanted { count, hash },
        pace: Pace::default(),
        rules: Rules::ALL,
    }
}

impl Stage {
    pub(super) fn new(config: Config) -> Self {
        let now = Instant::ZERO.after(secs(100));
        Self {
            planner: Planner::new(config, BTreeMap::new(), now),
            now,
            revision: 100,
            assignment: None,
            members: BTreeMap::new(),
            alive: BTreeSet::new(),
            writes: Vec::new(),
            notices: Vec::new(),
            by_hand: false,
            open: Vec::new(),
            renewed: now,
        }
    }

    /// In its first term, with these members, `count` partitions, and the first table published.
    pub(super) fn settled(count: u16, names: &[&str], rules: Rules) -> Self {
        let mut stage = Self::new(Config {
            rules,
            ..config(1, count)
        });
        for name in names {
            stage.write(name, 1, |_| {});
        }
        stage.tell(Input::Timer);
        stage.pass(secs(3));
        stage.acknowledge_all();
        stage.pass(secs(1));
        stage
    }

    /// Stores a held revision of that member's Lease, without telling the planner.
    pub(super) fn write(
        &mut self,
        name: &str,
        incarnation: u32,
        say: impl FnOnce(&mut MemberRecord),
    ) {
        self.revision += 1;
        let old = self.members.get(name);
        let mut record = match old.map(|old| (&old.record.contents, old.record.term)) {
            Some((Contents::Member(record), term)) if term.number() == incarnation => {
                (**record).clone()
            }
            _ => MemberRecord::default(),
        };
        say(&mut record);
        let uid = old.map_or_else(
            || LeaseUid::new(format!("{name}@{}", self.revision)),
            |old| old.uid.clone(),
        );
        let lease = Versioned {
            uid,
            revision: epoch(self.revision),
            record: LeaseRecord {
                holder: Some(name.into()),
                duration: Some(secs(15)),
                term: Term::new(incarnation),
                attempt: AttemptStamp::parse(&format!("{name}#{incarnation}#{}", self.revision)),
                contents: Contents::Member(Arc::new(record)),
                ..LeaseRecord::default()
            },
        };
        self.members.insert(name.into(), lease);
        self.alive.insert(name.into());
    }

    /// The same, and the watch delivers it.
    pub(super) fn say(
        &mut self,
        name: &str,
        incarnation: u32,
        say: impl FnOnce(&mut MemberRecord),
    ) {
        self.write(name, incarnation, say);
        self.show(name);
    }

    pub(super) fn join(&mut self, name: &str) {
        self.say(name, 1, |_| {});
    }

    pub(super) fn show(&mut self, name: &str) {
        let lease = self.members[name].clone();
        let name = name.into();
        self.tell(Input::MemberSeen { name, lease });
    }

    /// It renews no more.
    pub(super) fn dies(&mut self, name: &str) {
        self.alive.remove(name);
    }

    /// Its Lease is emptied by itself.
    pub(super) fn releases(&mut self, name: &str) {
        self.revision += 1;
        let revision = epoch(self.revision);
        self.alive.remove(name);
        let lease = self.members.get_mut(name).unwrap();
        lease.revision = revision;
        lease.record.holder = None;
        self.show(name);
    }

    pub(super) fn deleted(&mut self, name: &str) {
        self.revision += 1;
        self.alive.remove(name);
        self.members.remove(name);
        self.tell(Input::MemberGone { name: name.into() });
    }

    /// What a member says that has understood the table and runs what is its own, and only that.
    pub(super) fn acknowledge(&mut self, name: &str) {
        let table = self.table();
        let term = self.members[name].record.term;
        let me = Member::new(name, term);
        let owned: Bitmap = table
            .entries()
            .filter(|(partition, _)| table.owner(*partition) == Some(&me))
            .map(|(partition, _)| partition)
            .collect();
        self.say(name, term.number(), |record| {
            record.layout = Some(table.layout);
            record.acked = Some(table.epoch);
            record.owned = owned;
        });
    }

    pub(super) fn acknowledge_all(&mut self) {
        for name in self.alive.clone() {
            self.acknowledge(&name);
        }
    }

    pub(super) fn tell(&mut self, input: Input) {
        let effects = self.planner.step(input, self.now);
        let mut open = Vec::new();
        for effect in effects {
            match effect {
                Effect::Notice(notice) => self.notices.push(notice),
                Effect::Publish(write) => {
                    self.writes.push(write.clone());
                    open.push(Effect::Publish(write));
                }
                Effect::Fence { name, write } => {
                    self.writes.push(write.clone());
                    open.push(Effect::Fence { name, write });
                }
                Effect::List => open.push(Effect::List),
            }
        }
        self.open.extend(open);
        if !self.by_hand {
            self.answer();
        }
    }

    /// Answers everything that is open.
    pub(super) fn answer(&mut self) {
        while !self.open.is_empty() {
            let input = match self.open.remove(0) {
                Effect::List => self.list(),
                Effect::Publish(write) => self.store(None, &write),
                Effect::Fence { name, write } => self.store(Some(name), &write),
                Effect::Notice(_) => continue,
            };
            self.tell(input);
        }
    }

    pub(super) fn list(&self) -> Input {
        Input::Listed {
            asked: self.now,
            listing: Listing {
                revision: epoch(self.revision),
                assignment: self.assignment.clone(),
                members: self.members.clone(),
            },
        }
    }

    /// Compare-and-set.
    pub(super) fn store(&mut self, name: Option<Arc<str>>, write: &Write) -> Input {
        let found = match &name {
            Some(name) => self.members.get(name),
            None => self.assignment.as_ref(),
        };
        let fits = match (&write.target, found) {
            (Target::Absent, None) => true,
            (Target::Exactly { uid, revision }, Some(found)) => {
                *uid == found.uid && *revision == found.revision
            }
            _ => false,
        };
        let outcome = if fits {
            self.revision += 1;
            let fresh = LeaseUid::new(format!("@{}", self.revision));
            let lease = Versioned {
                uid: found.map_or(fresh, |found| found.uid.clone()),
                revision: epoch(self.revision),
                record: write.record.clone(),
            };
            match name {
                Some(name) => {
                    self.members.insert(name, lease.clone());
                }
                None => self.assignment = Some(lease.clone()),
            }
            WriteOutcome::Done(lease)
        } else {
            WriteOutcome::Conflict
        };
        let attempt = write.attempt;
        Input::WriteDone { attempt, outcome }
    }

    /// Time passes: members renew, deadlines come.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        let mut steps = 0;
        loop {
            let renewal = self.renewed.after(secs(4));
            let deadline = self.planner.next_deadline().unwrap_or(Instant::MAX);
            assert!(deadline > self.now, "a deadline that has passed");
            self.now = end.min(renewal).min(deadline);
            if self.now == renewal {
                self.renewed = self.now;
                for name in self.alive.clone() {
                    let term = self.members[&name].record.term.number();
                    self.say(&name, term, |_| {});
                }
            }
            self.tell(Input::Timer);
            if self.now >= end {
                return;
            }
            steps += 1;
            assert!(steps < 10_000, "the planner never rests");
        }
    }

    pub(super) fn table(&self) -> Arc<Table> {
        match &self.assignment.as_ref().unwrap().record.contents {
            Contents::Table(table) => Arc::clone(table),
            other => panic!("no table: {other:?}"),
        }
    }

    /// Everyone who owns something, with how much.
    pub(super) fn shares(&self) -> BTreeMap<String, usize> {
        let table = self.table();
        let mut shares = BTreeMap::new();
        for (partition, _) in table.entries() {
            let owner = table
                .owner(partition)
                .map_or("nobody".into(), ToString::to_string);
            *shares.entry(owner).or_default() += 1;
        }
        shares
    }

    pub(super) fn share(&self, owner: &str) -> Vec<Partition> {
        let table = self.table();
        let mine = table.entries().filter(|(partition, _)| {
            table
                .owner(*partition)
                .is_some_and(|found| found.to_string() == owner)
        });
        mine.map(|(partition, _)| partition).collect()
    }

    /// Whom the owner of a partition waits for.
    pub(super) fn waits(&self, partition: Partition) -> Vec<String> {
        self.table()
            .waits_for(partition)
            .map(ToString::to_string)
            .collect()
    }

    /// The fences that were sent, by holder's stamp.
    pub(super) fn fences(&self) -> usize {
        let empty = self
            .writes
            .iter()
            .filter(|write| write.record.holder.is_none());
        empty.count()
    }

    pub(super) fn publishes(&self) -> usize {
        self.writes.len() - self.fences()
    }
}
