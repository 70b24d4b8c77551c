//! The stage: Leases, a leader, pods, one clock. Who reads what, and when, is up to the commands;
//! requests are answered at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::election::{Target, Write, WriteOutcome};
use leasehold_core::id::{FencingToken, Identity, LeaseUid, Revision, Term};
use leasehold_core::lease::{AttemptStamp, Contents, LeaseRecord, LeaseTiming, Versioned};
use leasehold_core::partition::check::history::{Bounds, History, Tenure};
use leasehold_core::partition::planner::{Config, Effect, Input, Pace, Planner, Wanted};
use leasehold_core::partition::{HashId, Listing, MemberState, Slot, Table, handoff};
use leasehold_core::rules::{Rule, Rules};
use leasehold_core::time::{Duration, Instant};

use crate::pod::{Pod, record_text, table_text};

const TIMING: LeaseTiming = LeaseTiming::DEFAULT;

pub(crate) struct Scene {
    rules: Rules,
    now: Instant,
    revision: u64,
    leases: BTreeMap<Arc<str>, Versioned>,
    assignment: Option<Versioned>,
    /// Every table that was stored.
    tables: Vec<Arc<Table>>,
    pods: BTreeMap<String, Pod>,
    leader: Option<Planner>,
    /// One that leads no more and does not know it.
    former: Option<Planner>,
    leaders: u32,
    /// The store takes no tables.
    full: bool,
    /// The leader's watch shows nothing of this member any more.
    deaf: Option<Arc<str>>,
    count: u16,
    history: History,
    renewed: Instant,
    pub(crate) said: Vec<String>,
}

impl Scene {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            now: Instant::ZERO,
            revision: 100,
            leases: BTreeMap::new(),
            assignment: None,
            tables: Vec::new(),
            pods: BTreeMap::new(),
            leader: None,
            former: None,
            leaders: 0,
            full: false,
            deaf: None,
            count: 1,
            history: History::default(),
            renewed: Instant::ZERO,
            said: Vec::new(),
        }
    }

    /// Plays one command:
    ///
    /// | Command | Means |
    /// | --- | --- |
    /// | `2 partitions` | so many are wanted from now on; 1 at first |
    /// | `leader` | a leader begins; the one before it is stopped |
    /// | `the former leader sees the table` | ... and goes on with what it knew of the members |
    /// | `the store is full`, `the store has room` | it refuses tables, or takes them again |
    /// | `the leader is deaf to a` | its watch shows nothing of that member any more |
    /// | `+15s` | time passes: pods renew every 4 s, the leader's deadlines come |
    /// | `a joins` | a new process of that name takes its member Lease |
    /// | `a sleeps`, `a wakes` | it is stopped: it renews and hears nothing; its trust runs out meanwhile |
    /// | `a reads the table`, `a reads table 1` | its watch shows the newest table, or an earlier one |
    /// | `a renews` | it writes its Lease now |
    /// | `a leaves` | it wants to leave |
    /// | `a finishes` | all that drains or was lost has ended |
    /// | `delete a`, `delete the table` | somebody deletes a Lease |
    pub(crate) fn play(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [count, "partitions"] => {
                self.count = count.parse().map_err(|_| "a number")?;
                self.lead(Input::Wanted(wanted(self.count)));
            }
            ["leader"] => self.begin_leader(),
            ["the", "former", "leader", "sees", "the", "table"] => {
                std::mem::swap(&mut self.leader, &mut self.former);
                self.lead(Input::Assignment(self.assignment.clone()));
                std::mem::swap(&mut self.leader, &mut self.former);
            }
            ["the", "store", "is", "full"] => self.full = true,
            ["the", "store", "has", "room"] => self.full = false,
            ["the", "leader", "is", "deaf", "to", name] => self.deaf = Some(name.into()),
            [time] if time.starts_with('+') => {
                let seconds = time.trim_matches(['+', 's']).parse();
                self.pass(Duration::from_secs(seconds.map_err(|_| "seconds")?));
            }
            [name, "joins"] => self.join(name),
            [name, "sleeps"] => self.pod(name)?.sleeps = true,
            [name, "wakes"] => {
                self.pod(name)?.sleeps = false;
                self.tell(name, handoff::Input::End);
            }
            [name, "reads", "the", "table"] => self.read(name, self.tables.len())?,
            [name, "reads", "table", number] => {
                self.read(name, number.parse().map_err(|_| "a number")?)?;
            }
            [name, "renews"] => self.renew(name, true),
            [name, "leaves"] => self.tell(name, handoff::Input::Leave),
            [name, "finishes"] => {
                let ending = self.pod(name)?.ending.clone();
                for slot in ending {
                    self.tell(name, handoff::Input::Ended(slot));
                }
            }
            ["delete", "the", "table"] => {
                self.revision += 1;
                self.assignment = None;
                self.lead(Input::Assignment(None));
            }
            ["delete", name] => {
                self.revision += 1;
                self.leases.remove(name);
                self.lead(Input::MemberGone { name: name.into() });
            }
            _ => return Err(format!("no such command: {line:?}")),
        }
        Ok(())
    }

    /// What the judge says at the end.
    pub(crate) fn violations(&mut self) -> Vec<String> {
        for name in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.stop_all(&name);
        }
        let bounds = Bounds {
            unowned_max: Duration::MAX,
            changes_min: 0,
        };
        let report = self.history.check(bounds);
        report.violations.iter().map(ToString::to_string).collect()
    }

    fn pod(&mut self, name: &str) -> Result<&mut Pod, String> {
        self.pods.get_mut(name).ok_or(format!("no pod {name}"))
    }

    fn begin_leader(&mut self) {
        self.leaders += 1;
        self.deaf = None;
        let config = Config {
            me: "leader".into(),
            identity: Identity::new("leader").expect("a plain identity"),
            leader_term: Term::new(self.leaders),
            timing: TIMING,
            first_attempt: 1,
            wanted: wanted(self.count),
            pace: Pace::default(),
            rules: self.rules,
        };
        self.former = self.leader.take();
        self.leader = Some(Planner::new(config, BTreeMap::new(), self.now));
        self.lead(Input::Timer);
    }

    fn lead(&mut self, input: Input) {
        let Some(leader) = &mut self.leader else {
            return;
        };
        for effect in leader.step(input, self.now) {
            let answer = match effect {
                Effect::List => Input::Listed {
                    asked: self.now,
                    listing: Listing {
                        revision: revision(self.revision),
                        assignment: self.assignment.clone(),
                        members: self.leases.clone(),
                    },
                },
                Effect::Publish(write) if self.full => Input::WriteDone {
                    attempt: write.attempt,
                    outcome: WriteOutcome::Refused { retry_after: None },
                },
                Effect::Publish(write) => self.store(None, &write),
                Effect::Fence { name, write } => self.store(Some(name), &write),
                Effect::Notice(_) => continue,
            };
            self.lead(answer);
        }
    }

    fn store(&mut self, name: Option<Arc<str>>, write: &Write) -> Input {
        let found = match &name {
            Some(name) => self.leases.get(name),
            None => self.assignment.as_ref(),
        };
        let what = name
            .as_ref()
            .map_or("the table".into(), |name| format!("the Lease of {name}"));
        let outcome = match put(
            found,
            write.target.clone(),
            &write.record,
            self.revision + 1,
        ) {
            None => {
                self.said
                    .push(format!("leader: {what} has a newer revision"));
                WriteOutcome::Conflict
            }
            Some(lease) => {
                self.revision += 1;
                match (name, &write.record.contents) {
                    (Some(name), _) => {
                        self.said.push(format!("leader: empties {what}"));
                        self.leases.insert(Arc::clone(&name), lease.clone());
                        self.show(&name);
                    }
                    (None, Contents::Table(table)) => {
                        self.tables.push(Arc::clone(table));
                        let number = self.tables.len();
                        self.said
                            .push(format!("leader: table {number}: {}", table_text(table)));
                        self.assignment = Some(lease.clone());
                    }
                    (None, other) => panic!("no table: {other:?}"),
                }
                WriteOutcome::Done(lease)
            }
        };
        let attempt = write.attempt;
        Input::WriteDone { attempt, outcome }
    }

    /// A member Lease has a new revision: the leader and whoever follows it hear of it.
    fn show(&mut self, name: &str) {
        let lease = self.leases[name].clone();
        if self.deaf.as_deref() != Some(name) {
            let (name, lease) = (name.into(), lease.clone());
            self.lead(Input::MemberSeen { name, lease });
        }
        for follower in self.pods.keys().cloned().collect::<Vec<_>>() {
            if self.pods[&follower].watched.contains(name) {
                self.inform(&follower, name);
            }
        }
    }

    fn inform(&mut self, follower: &str, name: &str) {
        let state = self.leases.get(name).map(MemberState::of);
        let name = name.into();
        self.tell(follower, handoff::Input::Member { name, state });
    }

    fn join(&mut self, name: &str) {
        if self.pods.contains_key(name) {
            self.stop_all(name); // a new process in place of the old one
        }
        let has_h1 = self.rules != Rules::ALL.without(Rule::H1Incarnation);
        let newest = self
            .tables
            .last()
            .filter(|_| has_h1 && self.assignment.is_some());
        let floor = newest.and_then(|table| table.incarnation_max(name));
        let found = self.leases.get(name).map(|lease| lease.record.term);
        let term = found.max(floor).unwrap_or_default().next();
        let mut pod = Pod::new(name, self.rules);
        pod.term = Some(term);
        pod.own = self
            .leases
            .get(name)
            .map(|lease| (lease.uid.clone(), lease.revision));
        self.pods.insert(name.to_owned(), pod);
        self.said.push(format!("{name}#{term} joins"));
        self.tell(name, handoff::Input::Begin(term));
        self.renew(name, false);
    }

    /// Writes the member Lease on the revision of the own last write; if there is another, the term
    /// is over.
    fn renew(&mut self, name: &str, aloud: bool) {
        let pod = &self.pods[name];
        let Some(term) = pod.term else { return };
        let record = LeaseRecord {
            holder: Some(name.into()),
            duration: Some(TIMING.lease_duration()),
            term,
            attempt: AttemptStamp::parse(&format!("{name}#{term}#1")),
            contents: Contents::Member(Arc::clone(&pod.record)),
            ..LeaseRecord::default()
        };
        let target = pod
            .own
            .clone()
            .map_or(Target::Absent, |(uid, revision)| Target::Exactly {
                uid,
                revision,
            });
        let Some(lease) = put(self.leases.get(name), target, &record, self.revision + 1) else {
            self.said.push(format!("{name}#{term} has lost its Lease"));
            return self.tell(name, handoff::Input::End);
        };
        self.revision += 1;
        if aloud {
            self.said
                .push(format!("{name}#{term} says: {}", record_text(&pod.record)));
        }
        let until = self.now.after(TIMING.trusted());
        let pod = self.pods.get_mut(name).expect("just looked up");
        pod.own = Some((lease.uid.clone(), lease.revision));
        pod.trusted_until = until;
        self.leases.insert(name.into(), lease);
        self.show(name);
    }

    fn read(&mut self, name: &str, number: usize) -> Result<(), String> {
        let table = self.tables.get(number.wrapping_sub(1));
        let table = table.ok_or(format!("no table {number}"))?.clone();
        self.tell(name, handoff::Input::Table(table));
        Ok(())
    }

    fn tell(&mut self, name: &str, input: handoff::Input) {
        let Some(pod) = self.pods.get_mut(name).filter(|pod| !pod.sleeps) else {
            return;
        };
        if let handoff::Input::Ended(slot) = input {
            self.stop(name, slot);
        } else if matches!(input, handoff::Input::End) {
            pod.term = None;
        }
        let pod = self.pods.get_mut(name).expect("just looked up");
        for effect in pod.handoff.step(input) {
            self.carry_out(name, effect);
        }
    }

    fn carry_out(&mut self, name: &str, effect: handoff::Effect) {
        let pod = self.pods.get_mut(name).expect("it stepped");
        match effect {
            handoff::Effect::Start { slot, epoch } => {
                pod.works.insert(slot, (self.now, epoch));
                self.said
                    .push(format!("{name} starts {} under {epoch:?}", slot_text(slot)));
            }
            handoff::Effect::Drain(slot) => {
                pod.ending.insert(slot);
                self.said.push(format!("{name} drains {}", slot_text(slot)));
            }
            handoff::Effect::Lose(slot) => {
                pod.ending.insert(slot);
                self.said.push(format!("{name} loses {}", slot_text(slot)));
                self.stop(name, slot);
            }
            handoff::Effect::Publish { record, at_once } => {
                pod.record = record;
                if at_once {
                    self.renew(name, true);
                }
            }
            handoff::Effect::Watch(names) => {
                pod.watched.clone_from(&names);
                if !names.is_empty() {
                    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
                    self.said
                        .push(format!("{name} waits for {}", names.join(", ")));
                }
                for other in names {
                    self.inform(name, &other);
                }
            }
            handoff::Effect::Left => self.said.push(format!("{name} has nothing left")),
        }
    }

    /// The guard of this work is invalid from now on, if it has not been since its trust ran out.
    fn stop(&mut self, name: &str, slot: Slot) {
        let pod = self.pods.get_mut(name).expect("it ran something");
        pod.ending.remove(&slot);
        let Some((from, epoch)) = pod.works.remove(&slot) else {
            return;
        };
        let until = self.now.min(pod.trusted_until).max(from);
        self.history.tenures.push(Tenure {
            owner: name.to_owned(),
            layout: slot.layout,
            partition: slot.partition,
            token: FencingToken::new(0, epoch),
            from,
            until,
            ended: until,
        });
    }

    fn stop_all(&mut self, name: &str) {
        let slots: Vec<Slot> = self.pods[name].works.keys().copied().collect();
        for slot in slots {
            self.stop(name, slot);
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.now < end {
            let renewal = self.renewed.after(Duration::from_secs(4));
            let deadline = self.leader.as_ref().and_then(Planner::next_deadline);
            self.now = end.min(renewal).min(deadline.unwrap_or(Instant::MAX));
            if self.now == renewal {
                self.renewed = renewal;
                let awake = self.pods.values().filter(|pod| !pod.sleeps);
                for name in awake.map(|pod| pod.name.clone()).collect::<Vec<_>>() {
                    self.renew(&name, false);
                }
            }
            self.lead(Input::Timer);
        }
    }
}

fn wanted(count: u16) -> Wanted {
    let hash = HashId::CsHash1;
    Wanted { count, hash }
}

fn revision(number: u64) -> Revision {
    Revision::new(number).expect("small numbers")
}

fn slot_text(slot: Slot) -> String {
    format!("{} of {}", slot.partition, slot.layout.count())
}

/// Compare-and-set: what is stored then, if the precondition holds.
fn put(
    found: Option<&Versioned>,
    target: Target,
    record: &LeaseRecord,
    next: u64,
) -> Option<Versioned> {
    let uid = match (target, found) {
        (Target::Absent, None) => LeaseUid::new(format!("uid-{next}")),
        (Target::Exactly { uid, revision }, Some(found))
            if uid == found.uid && revision == found.revision =>
        {
            uid
        }
        _ => return None,
    };
    Some(Versioned {
        uid,
        revision: revision(next),
        record: record.clone(),
    })
}
