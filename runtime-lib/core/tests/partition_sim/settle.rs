//! Checks of the calm at the end: everything is owned, balanced, at rest, and quiet.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::election::Purpose;
use leasehold_core::lease::Contents;
use leasehold_core::partition::{Member, Slot, Table};

use crate::clock::nanos;
use crate::faults::SETTLED;
use crate::judge::Check;
use crate::pod::Phase;
use crate::store::Key;
use crate::tables::spread;
use crate::world::World;

impl World {
    /// A write in the last part of the calm.
    pub fn check_quiet(&mut self, p: usize, key: &Key, purpose: Purpose) {
        if self
            .judge
            .settled_from
            .is_none_or(|settled| self.now < settled)
        {
            return;
        }
        if purpose == Purpose::Renew {
            self.judge.renewals += 1;
        } else {
            self.found(Check::Restless, format!("{purpose:?} of {key:?} by p{p}"));
        }
    }

    pub fn finish(&mut self) {
        self.stats.seeds = 1;
        self.stats.simulated = self.now;
        let requests = self.judge.requests;
        self.stats.count_many("request", requests);
        if self.judge.settled_from.is_some() {
            self.check_settled();
        }
    }

    /// `quiet-when-settled`, and the end of every handoff.
    pub fn check_settled(&mut self) {
        // The members and the leader, each with its heartbeat; a clock may be 1 % fast.
        let leases = self.living.len() as u64 + 1;
        let heartbeat = nanos(self.mix.timing.heartbeat());
        let most = leases * (SETTLED * 102 / 100 / heartbeat + 2);
        if self.judge.renewals > most {
            let renewals = self.judge.renewals;
            self.found(
                Check::Restless,
                format!("{renewals} renewals, allowed are {most}"),
            );
        }
        let state = self.store.get(&Key::Assignment);
        let Some(Contents::Table(table)) = state.map(|state| state.record.contents.clone()) else {
            return self.found(Check::NotSettled, "there is no table".to_owned());
        };
        for problem in self.unsettled(&table) {
            self.found(Check::NotSettled, problem);
        }
        let members = self.living_members();
        let spread = spread(&table, &members);
        if spread > 1 {
            self.found(Check::Unbalanced, format!("{spread} among {members:?}"));
        }
    }

    fn living_members(&self) -> BTreeSet<Member> {
        let pods = self.living.iter().map(|p| &self.pods[*p]);
        let members = pods.filter_map(|pod| {
            let incarnation = pod.guard?.incarnation;
            Some(Member::new(Arc::clone(&pod.name), incarnation))
        });
        members.collect()
    }

    fn unsettled(&self, table: &Table) -> Vec<String> {
        let mut problems = Vec::new();
        if table.layout.count() != self.wanted {
            problems.push(format!(
                "{} partitions, wanted are {}",
                table.layout.count(),
                self.wanted
            ));
        }
        for (partition, part) in table.entries() {
            let slot = Slot {
                layout: table.layout,
                partition,
            };
            let owner = table.owner(partition);
            let runs = self.living.iter().map(|p| &self.pods[*p]).any(|pod| {
                let mine = owner.is_some_and(|owner| {
                    let life = pod.guard.map(|guard| guard.incarnation);
                    *owner.name == *pod.name && life == Some(owner.incarnation)
                });
                let work = pod.works.get(&slot);
                mine && work
                    .is_some_and(|work| work.phase == Phase::Running && work.epoch == part.epoch)
            });
            if !runs {
                problems.push(format!("{partition} of {owner:?} does not run"));
            }
        }
        for pod in self.living.iter().map(|p| &self.pods[*p]) {
            let rest = pod
                .works
                .values()
                .filter(|work| work.phase != Phase::Running)
                .count();
            let waiting = pod.handoff.waiting();
            let waiting = waiting
                .iter()
                .filter(|(_, holders)| !holders.is_empty())
                .count();
            if rest + waiting > 0 {
                problems.push(format!("{}: {rest} works drain, {waiting} wait", pod.name));
            }
            if pod.stopping {
                problems.push(format!("{} is still stopping", pod.name));
            }
        }
        problems
    }
}
