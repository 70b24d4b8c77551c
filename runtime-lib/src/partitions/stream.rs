//! What a member gets and gives up, in order.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_core::id::FencingToken;
use leasehold_core::partition::{Shard, Slot};
use tokio::sync::{mpsc, watch};

/// One change of what this process owns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The partition, and the layout that its number belongs to.
    pub slot: Slot,
    /// The token under which it is or was owned.
    pub token: FencingToken,
    /// What happened.
    pub kind: AssignmentKind,
}

/// What happened to a partition here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AssignmentKind {
    /// It is ours: its work starts.
    Assigned,
    /// It goes to another member: its work was asked to finish, and may act until it has.
    Revoked,
    /// Its work has finished, and the next owner may start.
    Released,
    /// It may not be acted upon any more: its work is dropped.
    Lost,
}

/// The changes of one service, in order, none left out. Starts with what is owned at that time.
pub struct Assignments {
    changes: mpsc::UnboundedReceiver<Assignment>,
}

impl Assignments {
    /// The next change; `None` once the service has ended.
    pub async fn next(&mut self) -> Option<Assignment> {
        self.changes.recv().await
    }
}

/// What is owned, and who wants to know of changes.
#[derive(Default)]
pub(crate) struct Roster {
    inner: Mutex<Inner>,
    /// Changes with what is owned, and at the end.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    owned: BTreeMap<Slot, (FencingToken, AssignmentKind)>,
    subscribers: Vec<mpsc::UnboundedSender<Assignment>>,
    closed: bool,
}

impl Roster {
    pub(super) fn subscribe(&self) -> Assignments {
        let (sender, changes) = mpsc::unbounded_channel();
        let mut inner = self.inner();
        for (slot, (token, kind)) in &inner.owned {
            let assigned = AssignmentKind::Assigned;
            for kind in [Some(assigned), Some(*kind).filter(|kind| *kind != assigned)] {
                // The receiver is still here.
                let _ = kind.map(|kind| sender.send(assignment(*slot, *token, kind)));
            }
        }
        if !inner.closed {
            inner.subscribers.push(sender);
        }
        Assignments { changes }
    }

    /// The keys of what is owned now, drained or not.
    pub(crate) fn shard(&self) -> Shard {
        Shard::of(self.inner().owned.keys().copied())
    }

    /// Tells when what is owned may have changed.
    #[cfg_attr(not(feature = "kubernetes"), allow(dead_code))] // lists are of Kubernetes
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// No more changes will come.
    #[cfg_attr(not(feature = "kubernetes"), allow(dead_code))]
    pub(crate) fn is_closed(&self) -> bool {
        self.inner().closed
    }

    pub(crate) fn assigned(&self, slot: Slot, token: FencingToken) {
        let mut inner = self.inner();
        inner.owned.insert(slot, (token, AssignmentKind::Assigned));
        inner.tell(&assignment(slot, token, AssignmentKind::Assigned));
        self.changed.send_modify(|count| *count += 1);
    }

    /// Something happened to an owned partition; a partition that is not owned is left alone.
    pub(crate) fn changed(&self, slot: Slot, kind: AssignmentKind) {
        let mut inner = self.inner();
        let Some((token, present)) = inner.owned.get_mut(&slot) else {
            return;
        };
        let token = *token;
        *present = kind;
        if matches!(kind, AssignmentKind::Released | AssignmentKind::Lost) {
            inner.owned.remove(&slot);
            self.changed.send_modify(|count| *count += 1);
        }
        inner.tell(&assignment(slot, token, kind));
    }

    /// No more changes will come.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        inner.subscribers.clear();
        self.changed.send_modify(|count| *count += 1);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn tell(&mut self, change: &Assignment) {
        self.subscribers
            .retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

fn assignment(slot: Slot, token: FencingToken, kind: AssignmentKind) -> Assignment {
    Assignment { slot, token, kind }
}

#[cfg(test)]
mod tests {
    use leasehold_core::id::Revision;
    use leasehold_core::partition::{HashId, Layout, Partition};

    use super::*;

    fn slot(number: u16) -> Slot {
        Slot {
            layout: Layout::new(1, HashId::CsHash1, 8).unwrap(),
            partition: Partition::new(number),
        }
    }

    #[tokio::test]
    async fn a_late_subscriber_starts_with_what_is_owned() {
        let roster = Roster::default();
        let token = FencingToken::new(0, Revision::new(9).unwrap());
        for number in 0..3 {
            roster.assigned(slot(number), token);
        }
        roster.changed(slot(0), AssignmentKind::Revoked);
        roster.changed(slot(0), AssignmentKind::Released);
        roster.changed(slot(1), AssignmentKind::Revoked);
        roster.changed(slot(7), AssignmentKind::Lost); // never owned
        let mut changes = roster.subscribe();
        roster.changed(slot(2), AssignmentKind::Lost);
        roster.close();
        let mut seen = Vec::new();
        while let Some(change) = changes.next().await {
            seen.push((change.slot.partition.number(), change.kind));
        }
        assert_eq!(
            seen,
            [
                (1, AssignmentKind::Assigned),
                (1, AssignmentKind::Revoked),
                (2, AssignmentKind::Assigned),
                (2, AssignmentKind::Lost),
            ]
        );
    }
}
