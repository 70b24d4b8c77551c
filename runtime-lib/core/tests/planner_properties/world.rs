//! A small store, its watches and its faults; it checks every answer of the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_core::election::{Target, Write, WriteOutcome};
use leasehold_core::id::{Identity, LeaseUid, Revision, Term};
use leasehold_core::lease::{AttemptStamp, Contents, LeaseRecord, LeaseTiming, Versioned};
use leasehold_core::partition::planner::{Config, Effect, Input, Pace, Planner, Wanted};
use leasehold_core::partition::{HashId, Listing, Member, MemberRecord, Partition, Table};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};
use proptest::prelude::*;

use crate::{Forged, Kind, Step, What};

pub(crate) struct World {
    pub(crate) planner: Planner,
    pub(crate) now: Instant,
    revision: u64,
    pub(crate) leases: BTreeMap<Arc<str>, Versioned>,
    pub(crate) table: Option<Versioned>,
    shown: Vec<(Arc<str>, Versioned)>,
    open: Vec<Effect>,
    pub(crate) published: usize,
    leaders: u64,
}

fn config(term: u32, leaders: u64) -> Config {
    Config {
        me: "a".into(),
        identity: Identity::new(format!("leader-{leaders}")).expect("a plain identity"),
        leader_term: Term::new(term),
        timing: LeaseTiming::FAST,
        first_attempt: leaders << 32,
        wanted: Wanted {
            count: 7,
            hash: HashId::CsHash1,
        },
        pace: Pace::default(),
        rules: Rules::ALL,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            planner: Planner::new(config(1, 0), BTreeMap::new(), Instant::ZERO),
            now: Instant::ZERO,
            revision: 10,
            leases: BTreeMap::new(),
            table: None,
            shown: Vec::new(),
            open: Vec::new(),
            published: 0,
            leaders: 0,
        }
    }

    fn next(&mut self) -> Revision {
        self.revision += 1;
        Revision::new(self.revision).expect("small numbers")
    }

    pub(crate) fn tell(&mut self, input: Input) -> Result<(), TestCaseError> {
        let effects = self.planner.step(input, self.now);
        for effect in effects {
            match &effect {
                Effect::Notice(_) => continue,
                Effect::Publish(write) => self.check_publish(write)?,
                Effect::Fence { name, write } => {
                    prop_assert!(write.record.holder.is_none() && write.record.released.is_none());
                    // A Lease that was made anew counts from 1; the write for the one before is refused.
                    let lease = self.leases.get(name).filter(|lease| {
                        matches!(&write.target, Target::Exactly { uid, .. } if *uid == lease.uid)
                    });
                    let same = lease.is_none_or(|lease| lease.record.term >= write.record.term);
                    prop_assert!(same, "a fence keeps the incarnation");
                }
                Effect::List => {}
            }
            self.open.push(effect);
        }
        let mut asked = BTreeSet::new();
        for effect in &self.open {
            let what = match effect {
                Effect::Fence { name, .. } => format!("fence of {name}"),
                Effect::Publish(_) => "publish".into(),
                _ => "list".into(),
            };
            prop_assert!(asked.insert(what.clone()), "a second {what} under way");
        }
        let deadline = self.planner.next_deadline();
        prop_assert!(
            deadline.is_none_or(|at| at > self.now),
            "a deadline in the past"
        );
        Ok(())
    }

    pub(crate) fn play(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Write { name, what, shown } => self.write(*name, *what, *shown),
            Step::Delete { name, shown } => {
                self.revision += 1;
                let input = if let Some(name) = name {
                    self.leases.remove(&title(*name));
                    let name = title(*name);
                    Input::MemberGone { name }
                } else {
                    self.table = None;
                    Input::Assignment(None)
                };
                if *shown { self.tell(input) } else { Ok(()) }
            }
            Step::Forge(forged) => self.forge(*forged),
            Step::Again(number) => {
                let count = self.shown.len().max(1);
                let again = self.shown.get(usize::from(*number) % count).cloned();
                again.map_or(Ok(()), |(name, lease)| {
                    self.tell(Input::MemberSeen { name, lease })
                })
            }
            Step::Pass { millis } => self.pass(Duration::from_millis((*millis).into())),
            Step::Answer(kind) => self.answer(*kind),
            Step::Wanted { count, hash } => {
                let hash = if *hash {
                    HashId::K8sRange1
                } else {
                    HashId::CsHash1
                };
                let count = *count;
                self.tell(Input::Wanted(Wanted { count, hash }))
            }
            Step::Leader { term } => {
                self.leaders += 1;
                let config = config(*term, self.leaders);
                self.planner = Planner::new(config, BTreeMap::new(), self.now);
                self.open.clear();
                self.tell(Input::Timer)
            }
        }
    }

    fn pass(&mut self, time: Duration) -> Result<(), TestCaseError> {
        let end = self.now.after(time);
        for _ in 0..1000 {
            let deadline = self.planner.next_deadline().unwrap_or(Instant::MAX);
            self.now = end.min(deadline);
            self.tell(Input::Timer)?;
            if self.now == end {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("it spins"))
    }

    fn write(&mut self, number: u8, what: What, shown: bool) -> Result<(), TestCaseError> {
        let name = title(number);
        let old = self.leases.get(&name).cloned();
        let term = old.as_ref().map_or(Term::new(0), |old| old.record.term);
        let held = old.as_ref().is_some_and(|old| old.record.holder.is_some());
        if !held && !matches!(what, What::Join) {
            return Ok(());
        }
        let term = if matches!(what, What::Join) {
            term.next()
        } else {
            term
        };
        let mut record = match old.as_ref().map(|old| &old.record.contents) {
            Some(Contents::Member(record)) if term != Term::new(0) && held => (**record).clone(),
            _ => MemberRecord::default(),
        };
        record.revision = (number > 2).then(|| "new".into()).or(Some("old".into()));
        match what {
            What::Join => {
                record = MemberRecord {
                    revision: record.revision,
                    ..MemberRecord::default()
                }
            }
            What::Drain => record.draining = true,
            What::Acknowledge => {
                self.acknowledge(&Member::new(Arc::clone(&name), term), &mut record);
            }
            What::Renew | What::Release | What::Garbage => {}
        }
        record.hash = match number {
            4 => HashId::K8sRange1,
            _ => HashId::CsHash1,
        };
        let (newer, reason) = (
            number.is_multiple_of(2),
            "version: found 2, allowed is 1".into(),
        );
        let contents = match what {
            What::Garbage => Contents::Unreadable { newer, reason },
            _ => Contents::Member(Arc::new(record)),
        };
        let revision = self.next();
        let uid = LeaseUid::new(format!("{name}-{revision}"));
        let lease = Versioned {
            uid: old.map_or(uid, |old| old.uid),
            revision,
            record: LeaseRecord {
                holder: (!matches!(what, What::Release)).then(|| name.to_string()),
                duration: Some(Duration::from_secs(6)),
                term,
                attempt: AttemptStamp::parse(&format!("{name}#{term}#{revision}")),
                contents,
                ..LeaseRecord::default()
            },
        };
        self.leases.insert(Arc::clone(&name), lease.clone());
        if !shown {
            return Ok(());
        }
        self.shown.push((Arc::clone(&name), lease.clone()));
        self.tell(Input::MemberSeen { name, lease })
    }

    fn acknowledge(&self, me: &Member, record: &mut MemberRecord) {
        let Some(table) = self.stored() else { return };
        record.layout = Some(table.layout);
        record.acked = Some(table.epoch);
        let mine = |partition: &Partition| table.owner(*partition) == Some(me);
        record.owned = table.layout.partitions().filter(mine).collect();
    }

    pub(crate) fn stored(&self) -> Option<Arc<Table>> {
        match &self.table.as_ref()?.record.contents {
            Contents::Table(table) => Some(Arc::clone(table)),
            _ => None,
        }
    }

    fn forge(&mut self, forged: Forged) -> Result<(), TestCaseError> {
        let Some(table) = self.stored() else {
            return Ok(());
        };
        let mut edited = (*table).clone();
        let reason = "found garbage".into();
        let contents = match forged {
            Forged::Garbage | Forged::Newer => Contents::Unreadable {
                newer: matches!(forged, Forged::Newer),
                reason,
            },
            Forged::Short => {
                edited.parts.pop();
                Contents::Table(Arc::new(edited))
            }
            Forged::HighEpoch => {
                let high = table
                    .epoch
                    .number()
                    .saturating_mul(1000)
                    .min(i64::MAX as u64);
                edited.epoch = Revision::new(high).expect("it fits");
                Contents::Table(Arc::new(edited))
            }
            Forged::Copy => Contents::Table(table),
        };
        let revision = self.next();
        if let Some(lease) = &mut self.table {
            lease.revision = revision;
            lease.record.contents = contents;
        }
        self.tell(Input::Assignment(self.table.clone()))
    }

    fn answer(&mut self, kind: Kind) -> Result<(), TestCaseError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let effect = self.open.remove(0);
        let (name, write) = match effect {
            Effect::Publish(write) => (None, write),
            Effect::Fence { name, write } => (Some(name), write),
            _ => {
                let retry_after = None;
                return match kind {
                    Kind::Served => {
                        let revision = self.next();
                        let listing = Listing {
                            revision,
                            assignment: self.table.clone(),
                            members: self.leases.clone(),
                        };
                        let asked = self.now;
                        self.tell(Input::Listed { asked, listing })
                    }
                    _ => self.tell(Input::ListFailed { retry_after }),
                };
            }
        };
        let stored = !matches!(kind, Kind::Lost { stored: false } | Kind::Refused);
        let result = stored.then(|| self.put(name, &write)).flatten();
        let outcome = match (kind, result) {
            (Kind::Lost { .. }, _) => WriteOutcome::Unknown,
            (Kind::Refused, _) => WriteOutcome::Refused { retry_after: None },
            (Kind::Served, Some(lease)) => WriteOutcome::Done(lease),
            (Kind::Served, None) => WriteOutcome::Conflict,
        };
        let attempt = write.attempt;
        self.tell(Input::WriteDone { attempt, outcome })
    }

    /// Compare-and-set.
    fn put(&mut self, name: Option<Arc<str>>, write: &Write) -> Option<Versioned> {
        let found = match &name {
            Some(name) => self.leases.get(name),
            None => self.table.as_ref(),
        };
        let uid = match (&write.target, found) {
            (Target::Absent, None) => LeaseUid::new(format!("table-{}", self.revision)),
            (Target::Exactly { uid, revision }, Some(found))
                if *uid == found.uid && *revision == found.revision =>
            {
                uid.clone()
            }
            _ => return None,
        };
        let lease = Versioned {
            uid,
            revision: self.next(),
            record: write.record.clone(),
        };
        match name {
            Some(name) => {
                self.leases.insert(name, lease.clone());
            }
            None => self.table = Some(lease.clone()),
        }
        Some(lease)
    }

    /// From here on nothing goes wrong: what is left is served, and living members acknowledge.
    pub(crate) fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..400 {
            while !self.open.is_empty() {
                self.answer(Kind::Served)?;
            }
            self.pass(Duration::from_secs(2))?;
            for number in 0..5 {
                self.write(number, What::Acknowledge, true)?;
            }
        }
        while !self.open.is_empty() {
            self.answer(Kind::Served)?;
        }
        let before = self.published;
        for _ in 0..20 {
            self.pass(Duration::from_secs(2))?;
            for number in 0..5 {
                self.write(number, What::Renew, true)?;
            }
        }
        prop_assert_eq!(self.published, before, "quiet-when-settled");
        Ok(())
    }
}

fn title(number: u8) -> Arc<str> {
    char::from(b'a' + number).to_string().into()
}
