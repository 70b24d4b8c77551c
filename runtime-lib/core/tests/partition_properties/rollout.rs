//! A rollout as the planner sees it: for each old pod a new one joins, the old one hands over and
//! goes. Everything is answered at once, and members understand each table at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::election::{Target, Write, WriteOutcome};
use leasehold_core::id::{Identity, LeaseUid, Revision, Term};
use leasehold_core::lease::{Contents, LeaseRecord, LeaseTiming, Versioned};
use leasehold_core::partition::planner::{Config, Effect, Input, Pace, Planner, Wanted};
use leasehold_core::partition::{HashId, Listing, Member, MemberRecord, Table};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};

const TIMING: LeaseTiming = LeaseTiming::DEFAULT;

/// How many partitions move, and who owns what in the end, when each of `old` is replaced by one
/// of `new`, one after the other, and everything has come to rest again.
pub(crate) fn roll_out(
    count: u16,
    old: &[String],
    new: &[String],
) -> (u32, BTreeMap<Arc<str>, u16>) {
    let mut rollout = Rollout::new(count);
    for name in old {
        rollout.join(name, "old");
    }
    rollout.tell(Input::Timer);
    rollout.pass(5);
    rollout.moves = 0;
    for (leaver, newcomer) in old.iter().zip(new) {
        rollout.join(newcomer, "new");
        rollout.pass(3);
        rollout.say(leaver, |record| record.draining = true);
        rollout.pass(1);
        rollout.go(leaver);
        rollout.pass(1);
    }
    rollout.pass(60);
    (rollout.moves, rollout.shares())
}

struct Rollout {
    planner: Planner,
    now: Instant,
    revision: u64,
    leases: BTreeMap<Arc<str>, Versioned>,
    assignment: Option<Versioned>,
    moves: u32,
}

impl Rollout {
    fn new(count: u16) -> Self {
        let config = Config {
            me: "leader".into(),
            identity: sound(Identity::new("leader")),
            leader_term: life(),
            timing: TIMING,
            first_attempt: 1,
            wanted: Wanted {
                count,
                hash: HashId::CsHash1,
            },
            pace: Pace::default(),
            rules: Rules::ALL,
        };
        Self {
            planner: Planner::new(config, BTreeMap::new(), Instant::ZERO),
            now: Instant::ZERO,
            revision: 100,
            leases: BTreeMap::new(),
            assignment: None,
            moves: 0,
        }
    }

    fn next(&mut self) -> Revision {
        self.revision += 1;
        sound(Revision::new(self.revision))
    }

    /// Seconds pass; everyone renews in each of them.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let end = self.now.after(Duration::from_secs(1));
            while let Some(at) = self.planner.next_deadline().filter(|at| *at < end) {
                self.now = at;
                self.tell(Input::Timer);
            }
            self.now = end;
            let held = self.leases.iter();
            let held = held.filter(|(_, lease)| lease.record.holder.is_some());
            for name in held.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
                self.say(&name, |_| {});
            }
            self.tell(Input::Timer);
        }
    }

    fn join(&mut self, name: &str, revision: &str) {
        let record = MemberRecord {
            revision: Some(revision.into()),
            ..MemberRecord::default()
        };
        self.write(name, true, record);
    }

    fn say(&mut self, name: &str, change: impl FnOnce(&mut MemberRecord)) {
        let found = self.leases.get(name).map(|lease| &lease.record.contents);
        let Some(Contents::Member(record)) = found else {
            unreachable!("{name} has joined");
        };
        let mut record = (**record).clone();
        change(&mut record);
        if let Some(table) = self.table() {
            record.layout = Some(table.layout);
            record.acked = Some(table.epoch);
            let me = Member::new(name, life());
            let mine = table.layout.partitions();
            record.owned = mine.filter(|p| table.owner(*p) == Some(&me)).collect();
        }
        self.write(name, true, record);
    }

    /// It gives its Lease back.
    fn go(&mut self, name: &str) {
        self.write(name, false, MemberRecord::default());
    }

    fn write(&mut self, name: &str, held: bool, record: MemberRecord) {
        let name: Arc<str> = name.into();
        let lease = Versioned {
            uid: LeaseUid::new(name.to_string()),
            revision: self.next(),
            record: LeaseRecord {
                holder: held.then(|| name.to_string()),
                duration: Some(TIMING.lease_duration()),
                term: life(),
                contents: Contents::Member(Arc::new(record)),
                ..LeaseRecord::default()
            },
        };
        self.leases.insert(Arc::clone(&name), lease.clone());
        self.tell(Input::MemberSeen { name, lease });
    }

    fn tell(&mut self, input: Input) {
        for effect in self.planner.step(input, self.now) {
            let answer = match effect {
                Effect::List => Input::Listed {
                    asked: self.now,
                    listing: Listing {
                        revision: sound(Revision::new(self.revision)),
                        assignment: self.assignment.clone(),
                        members: self.leases.clone(),
                    },
                },
                Effect::Publish(write) => self.publish(&write),
                Effect::Fence { name, .. } => unreachable!("{name} renews"),
                Effect::Notice(_) => continue,
            };
            self.tell(answer);
        }
    }

    fn publish(&mut self, write: &Write) -> Input {
        let before = self.table();
        let uid = match &write.target {
            Target::Absent => LeaseUid::new("assignment"),
            Target::Exactly { uid, .. } => uid.clone(),
        };
        let lease = Versioned {
            uid,
            revision: self.next(),
            record: write.record.clone(),
        };
        self.assignment = Some(lease.clone());
        if let (Some(before), Some(now)) = (before, self.table()) {
            for partition in now.layout.partitions() {
                self.moves += u32::from(before.owner(partition) != now.owner(partition));
            }
        }
        Input::WriteDone {
            attempt: write.attempt,
            outcome: WriteOutcome::Done(lease),
        }
    }

    fn table(&self) -> Option<Arc<Table>> {
        match &self.assignment.as_ref()?.record.contents {
            Contents::Table(table) => Some(Arc::clone(table)),
            _ => None,
        }
    }

    fn shares(&self) -> BTreeMap<Arc<str>, u16> {
        let mut shares = BTreeMap::new();
        if let Some(table) = self.table() {
            let owners = table.layout.partitions();
            for owner in owners.filter_map(|partition| table.owner(partition)) {
                *shares.entry(Arc::clone(&owner.name)).or_default() += 1;
            }
        }
        shares
    }
}

/// Nobody lives twice.
fn life() -> Term {
    Term::new(1)
}

fn sound<T, E: std::fmt::Display>(made: Result<T, E>) -> T {
    made.unwrap_or_else(|error| unreachable!("{error}"))
}
