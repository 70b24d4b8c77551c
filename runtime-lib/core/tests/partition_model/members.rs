//! What a member of a small world does with its Lease, and what its handoff asks for.

use std::sync::Arc;

use leasehold_core::election::Target;
use leasehold_core::id::Identity;
use leasehold_core::lease::{AttemptStamp, Contents, LeaseRecord, ReleaseStamp};
use leasehold_core::partition::{handoff, planner};
use leasehold_core::rules::{Rule, Rules};

use crate::leader::timing;
use crate::pod::{NAMES, announce};
use crate::world::{World, number};

impl World {
    /// H1: takes the member Lease. It is empty, absent, or was this very process's, or that of a
    /// process that has ended (E6, E8).
    pub(crate) fn join(&mut self, n: usize) {
        let has_h1 = self.rules != Rules::ALL.without(Rule::H1Incarnation);
        let table = self.store.table().filter(|_| has_h1);
        let floor = table.and_then(|table| table.incarnation_max(NAMES[n]));
        let found = self.store.members[n].lease.as_ref();
        let term = found.map(|lease| lease.record.term).max(floor);
        let term = term.unwrap_or_default().next();
        self.pods[n].own = found.map(|lease| (lease.uid.clone(), lease.revision));
        self.pods[n].life = Some(term);
        self.write(n);
        // A life begins with the table that there is, and may be told older ones.
        if let (true, Some(table)) = (self.pods[n].tables.is_empty(), self.store.table()) {
            self.pods[n].tables.push_back(table);
        }
        self.tell(n, handoff::Input::Begin(term));
    }

    /// Writes the member Lease on the revision of the own last write; if there is another, the term
    /// is over (E6).
    pub(crate) fn write(&mut self, n: usize) {
        let pod = &self.pods[n];
        let term = pod.life.unwrap_or_default();
        let record = LeaseRecord {
            holder: Some(NAMES[n].into()),
            duration: Some(timing().lease_duration()),
            term,
            attempt: Some(AttemptStamp {
                identity: identity(n),
                term,
                number: 0,
            }),
            contents: Contents::Member(Arc::clone(&pod.record)),
            ..LeaseRecord::default()
        };
        let before = self.store.members[n].lease.as_ref();
        let is_renewal = before.is_some_and(|before| before.record == record);
        if !self.put(n, &record) {
            return self.end(n);
        }
        self.pods[n].is_urgent = false;
        self.pods[n].trusted_until = self.now().after(timing().trusted());
        if is_renewal {
            self.show_renewal(n);
        } else {
            self.show(n);
        }
    }

    /// E10: nothing runs here any more.
    pub(crate) fn release(&mut self, n: usize) {
        let pod = &self.pods[n];
        let term = pod.life.unwrap_or_default();
        let stamp = ReleaseStamp {
            identity: identity(n),
            term,
        };
        let record = LeaseRecord {
            holder: None,
            term,
            released: Some(stamp),
            contents: Contents::Member(Arc::clone(&pod.record)),
            ..LeaseRecord::default()
        };
        if self.put(n, &record) {
            self.show(n);
        }
        self.pods[n].is_gone = true;
        self.end(n);
    }

    fn put(&mut self, n: usize, record: &LeaseRecord) -> bool {
        let own = self.pods[n].own.clone();
        let target = own.map_or(Target::Absent, |(uid, revision)| Target::Exactly {
            uid,
            revision,
        });
        let stored = self.store.members[n].put(&target, record);
        let done = stored.is_some();
        if let Some(lease) = stored {
            self.pods[n].own = Some((lease.uid, lease.revision));
        }
        done
    }

    /// The term of the member Lease is over.
    pub(crate) fn end(&mut self, n: usize) {
        self.pods[n].life = None;
        self.pods[n].is_urgent = false;
        self.tell(n, handoff::Input::End);
        self.pods[n].is_urgent = false;
    }

    pub(crate) fn tell(&mut self, n: usize, input: handoff::Input) {
        for effect in self.pods[n].handoff.step(input) {
            self.carry_out(n, effect);
        }
    }

    fn carry_out(&mut self, n: usize, effect: handoff::Effect) {
        let pod = &mut self.pods[n];
        match effect {
            handoff::Effect::Start { slot, epoch } => {
                let life = pod.life.unwrap_or_default().number();
                self.judge.started((n, life), slot, epoch);
            }
            handoff::Effect::Drain(slot) | handoff::Effect::Lose(slot) => {
                pod.ending.insert(slot);
            }
            handoff::Effect::Publish { record, at_once } => {
                pod.is_urgent |= at_once;
                pod.record = record;
            }
            handoff::Effect::Watch(names) => {
                pod.followed.retain(|name, _| names.contains(name));
                for name in names {
                    // A watch begins with what there is.
                    let state = self.store.members[number(&name)].state();
                    let news = pod.followed.entry(name);
                    news.or_insert_with(|| [state].into());
                }
            }
            handoff::Effect::Left => pod.has_left = true,
        }
    }

    /// A member Lease has changed: whoever follows it will hear of it.
    pub(crate) fn show(&mut self, n: usize) {
        for leader in &mut self.leaders {
            leader.unseen.insert(n);
        }
        let state = self.store.members[n].state();
        for pod in &mut self.pods {
            if let Some(news) = pod.followed.get_mut(NAMES[n]) {
                announce(news, state.clone());
            }
        }
    }

    /// Nothing but its revision has changed: a leader that is up to date hears of it at once.
    fn show_renewal(&mut self, n: usize) {
        let Some(lease) = self.store.members[n].lease.clone() else {
            return;
        };
        for l in 0..self.leaders.len() {
            let leader = &self.leaders[l];
            let follows = leader.deaf_to != Some(n) && !leader.unseen.contains(&n);
            if follows && self.leads(l) {
                let (name, lease) = (NAMES[n].into(), lease.clone());
                self.lead(l, planner::Input::MemberSeen { name, lease });
            } else {
                self.leaders[l].unseen.insert(n);
            }
        }
    }
}

fn identity(n: usize) -> Identity {
    Identity::new(NAMES[n]).unwrap_or_else(|error| unreachable!("{error}"))
}
