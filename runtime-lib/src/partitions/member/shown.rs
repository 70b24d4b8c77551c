//! What a member tells people: status, and handoffs that take too long.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::election::Waiting;
use leasehold_core::partition::{Member, Partition, Slot};
use leasehold_core::time::{Duration, Instant};

use super::Membership;
use crate::partitions::builder::OnDrainTimeout;
use crate::partitions::late::Delay;
use crate::signal;
use crate::view::{PartitionsStatus, WaitingPartition, describe};

/// More waiting partitions than this are only counted.
const SHOWN_MAX: usize = 32;

impl Membership {
    pub(super) fn show(&mut self) {
        let now = self.shared.clock.now();
        let waiting = self.handoff.waiting();
        let is_blocked = |(_, holders): &&(Partition, Vec<Member>)| !holders.is_empty();
        let draining: BTreeMap<Slot, Instant> = self.works.draining().collect();
        let table = self.handoff.table().cloned();
        let mut blocked = BTreeMap::new();
        if let Some(layout) = table.as_ref().map(|table| table.layout) {
            for (partition, _) in waiting.iter().filter(is_blocked) {
                let partition = *partition;
                blocked.insert(Slot { layout, partition }, now);
            }
        }
        self.late.note(Delay::Waiting, &blocked);
        self.late.note(Delay::Draining, &draining);
        let view = self.election.view();
        let (waits_for, until) = describe(&view);
        let acting = self.handoff.running().count();
        let status = PartitionsStatus {
            member: self.shared.name.to_string(),
            incarnation: self.begun.is_some().then(|| view.term.number()),
            state: self.state(),
            total: table.as_ref().map(|table| table.layout.count()),
            epoch: table.as_ref().map(|table| table.epoch.number()),
            owned: acting.saturating_sub(draining.len()),
            draining: draining.len(),
            waiting: waiting.iter().filter(is_blocked).count(),
            waits_for_members: waiting
                .iter()
                .filter(is_blocked)
                .take(SHOWN_MAX)
                .map(|(partition, holders)| WaitingPartition {
                    partition: partition.number(),
                    members: holders.iter().map(ToString::to_string).collect(),
                })
                .collect(),
            waits_for,
            until_s: until.map(|until| until.since(now).as_secs_f64()),
            trusted_for_s: view
                .leading
                .map(|(_, until)| until.since(now).as_secs_f64()),
            table_problem: self.refused.clone(),
        };
        self.shared.board.show_partitions(status);
    }

    fn state(&self) -> &'static str {
        match self.election.view().waiting {
            Waiting::Nothing => "stopped",
            Waiting::WorkToEnd => "ending",
            _ if self.begun.is_none() => "candidate",
            _ if self.leaving => "leaving",
            _ if self.joining.is_some() => "joining",
            _ => "member",
        }
    }

    /// Says which handoffs take longer than a drain may, and who holds them up.
    pub(super) fn say_late(&mut self, now: Instant) {
        let limit = self.sources.drain_timeout();
        for (delay, slot, taken) in self.late.take_due(limit, now) {
            match delay {
                Delay::Draining => self.drains_late(slot, taken),
                Delay::Waiting => self.waits_late(slot, taken),
            }
        }
    }

    fn drains_late(&mut self, slot: Slot, taken: Duration) {
        if self.leaving || self.begun.is_none() {
            return; // The drain of the whole member has its own end (E10).
        }
        let fences = self.on_drain_timeout == OnDrainTimeout::FenceMember;
        say_stuck(self, slot, &[Arc::clone(&self.shared.name)], taken);
        if fences {
            tracing::warn!(cluster_id = %self.shared.id, member = %self.shared.name, partition = %slot.partition, "giving the whole member up, because it does not give up one partition");
            self.begin_anew();
        }
    }

    fn waits_late(&self, slot: Slot, taken: Duration) {
        let waiting = self.handoff.waiting();
        let of_slot = waiting
            .iter()
            .find(|(partition, _)| *partition == slot.partition);
        let pods: Vec<Arc<str>> = of_slot.map_or_else(Vec::new, |(_, holders)| {
            holders
                .iter()
                .map(|holder| Arc::clone(&holder.name))
                .collect()
        });
        say_stuck(self, slot, &pods, taken);
    }
}

fn say_stuck(member: &Membership, slot: Slot, pods: &[Arc<str>], taken: Duration) {
    tracing::warn!(key = signal::PARTITION_STUCK, cluster_id = %member.shared.id, partition = %slot.partition, pod = pods.join(", "), seconds = taken.as_secs(), "the handoff of a partition takes longer than a drain may: see what the work of that pod waits for, or delete the pod");
    signal::count(signal::PARTITION_STUCK);
}
