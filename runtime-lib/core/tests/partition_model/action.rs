//! What can happen next in a small world.

use leasehold_core::partition::Slot;

use crate::leader::Flight;
use crate::world::{World, number};

/// One step of the world. The first number is the pod or the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Tick,
    /// It takes its member Lease.
    Join(usize),
    /// It writes what others wait for.
    Write(usize),
    /// It gives its Lease back.
    Release(usize),
    /// It hears of the next table, or of another member's Lease.
    ReadTable(usize),
    ReadMember(usize, usize),
    EndWork(usize, Slot),
    /// It ends, and another process starts in its place.
    Crash(usize),
    Pause(usize),
    Resume(usize),
    /// It is asked to leave.
    Leave(usize),
    /// Somebody deletes its Lease.
    DeleteLease(usize),
    DeleteTable,
    /// Another number of partitions is wanted.
    Resize,
    /// The next leader begins; the former one does not know it.
    NextLeader,
    /// The leader's watch shows nothing of that member any more.
    Deafen(usize),
    Timer(usize),
    Listed(usize),
    SeeMember(usize, usize),
    SeeTable(usize),
    /// The store decides on the leader's publish; the leader hears how; or it never does.
    Publish(usize),
    Published(usize),
    LoseAnswer(usize),
    /// The same of its fence of that member.
    Fence(usize, usize),
    Fenced(usize, usize),
}

impl Action {
    /// Everybody does what it has to do, and nothing goes wrong.
    pub(crate) fn is_ordinary(self) -> bool {
        use Action::{Crash, Deafen, DeleteLease, DeleteTable, Leave, LoseAnswer};
        use Action::{NextLeader, Pause, Resize, Tick};
        let disturbs = matches!(
            self,
            Crash(_) | Pause(_) | Leave(_) | DeleteLease(_) | DeleteTable | LoseAnswer(_)
        );
        !disturbs && !matches!(self, Resize | NextLeader | Deafen(_) | Tick)
    }
}

impl World {
    pub(crate) fn actions(&self, actions: &mut Vec<Action>) {
        for n in 0..self.pods.len() {
            self.pod_actions(n, actions);
        }
        for l in 0..self.leaders.len() {
            self.leader_actions(l, actions);
        }
        let may = self.allowance;
        if may.lost_tables > 0 && self.store.assignment.lease.is_some() {
            actions.push(Action::DeleteTable);
        }
        if may.resizes > 0 {
            actions.push(Action::Resize);
        }
        if may.leaders > 0 {
            actions.push(Action::NextLeader);
        }
        let now = self.now();
        let due = self.leader().is_some_and(|leader| leader.is_due(now));
        if !due && (may.delays > 0 || !self.is_busy()) {
            actions.push(Action::Tick);
        }
    }

    fn pod_actions(&self, n: usize, actions: &mut Vec<Action>) {
        let (pod, may) = (&self.pods[n], self.allowance);
        if may.deletions > 0 && self.store.members[n].lease.is_some() {
            actions.push(Action::DeleteLease(n));
        }
        if pod.is_gone {
            return;
        }
        if may.crashes > 0 && pod.life.is_some() {
            actions.push(Action::Crash(n));
        }
        if pod.is_paused {
            actions.push(Action::Resume(n));
            return;
        }
        if may.pauses > 0 && pod.life.is_some() {
            actions.push(Action::Pause(n));
        }
        if pod.may_join() {
            actions.push(Action::Join(n));
        }
        actions.extend(pod.ending.iter().map(|slot| Action::EndWork(n, *slot)));
        if pod.life.is_none() {
            return;
        }
        if pod.is_urgent {
            actions.push(Action::Write(n));
        }
        if pod.has_left {
            actions.push(Action::Release(n));
        }
        if !pod.tables.is_empty() {
            actions.push(Action::ReadTable(n));
        }
        for (name, news) in &pod.followed {
            if !news.is_empty() {
                actions.push(Action::ReadMember(n, number(name)));
            }
        }
        let runs = !pod.handoff.is_idle();
        if may.leaves > 0 && runs {
            actions.push(Action::Leave(n));
        }
        if may.deaf > 0 && runs {
            actions.push(Action::Deafen(n));
        }
    }

    fn leader_actions(&self, l: usize, actions: &mut Vec<Action>) {
        let leader = &self.leaders[l];
        // Its requests are under way, whatever has become of it.
        if matches!(leader.publish, Some(Flight::Sent(_))) {
            actions.push(Action::Publish(l));
        }
        for (n, flight) in &leader.fences {
            if matches!(flight, Flight::Sent(_)) {
                actions.push(Action::Fence(l, *n));
            }
        }
        if !self.leads(l) && self.allowance.former == 0 {
            return;
        }
        if leader.is_due(self.now()) {
            actions.push(Action::Timer(l));
        }
        if leader.list.is_some() {
            actions.push(Action::Listed(l));
        }
        if matches!(leader.publish, Some(Flight::Answered(..))) {
            actions.push(Action::Published(l));
            if self.allowance.losses > 0 {
                actions.push(Action::LoseAnswer(l));
            }
        }
        for (n, flight) in &leader.fences {
            if matches!(flight, Flight::Answered(..)) {
                actions.push(Action::Fenced(l, *n));
            }
        }
        actions.extend(leader.news().map(|n| Action::SeeMember(l, n)));
        if leader.table_unseen {
            actions.push(Action::SeeTable(l));
        }
    }
}
