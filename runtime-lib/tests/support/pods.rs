//! Members of one cluster id in one world, and a ledger that sees every work begin and end.

#![allow(dead_code)] // each test file uses its part
#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use leasehold::testing::{LeaseKey, LeaseStore};
use leasehold::{
    FencingToken, Identity, PartitionGuard, PartitionedBuilder, PartitionedHandle, Slot, Table,
};

use super::world::{Node, World, until};

pub(crate) const KEY: &str = "orders";

pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who works on what. It notes every work that begins beside another that may still act on the
/// same keys, or with a token that is lower than the last one there.
#[derive(Default)]
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next: u64,
    active: BTreeMap<u64, Entry>,
    /// The highest token of each slot.
    tokens: BTreeMap<Slot, FencingToken>,
    begun: usize,
    violations: Vec<String>,
}

#[derive(Clone)]
struct Entry {
    member: String,
    guard: PartitionGuard,
}

/// A work that goes on until it is dropped.
struct Active {
    ledger: Arc<Ledger>,
    number: u64,
}

impl Drop for Active {
    fn drop(&mut self) {
        self.ledger.inner().active.remove(&self.number);
    }
}

fn slot_of(guard: &PartitionGuard) -> Slot {
    Slot {
        layout: guard.layout(),
        partition: guard.partition(),
    }
}

fn share_keys(a: Slot, b: Slot) -> bool {
    let mut overlapping = a.layout.overlapping(a.partition, b.layout);
    overlapping.any(|partition| partition == b.partition)
}

impl Ledger {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, member: &str, guard: &PartitionGuard) -> Active {
        let slot = slot_of(guard);
        let mut inner = self.inner();
        let others = inner
            .active
            .values()
            .filter(|entry| share_keys(slot, slot_of(&entry.guard)) && entry.guard.check().is_ok());
        let beside: Vec<String> = others
            .map(|entry| {
                format!(
                    "{:?} on {} beside {:?} on {member}",
                    entry.guard, entry.member, guard
                )
            })
            .collect();
        inner.violations.extend(beside);
        let token = guard.check().unwrap();
        let before = inner.tokens.insert(slot, token);
        if before.is_some_and(|before| before > token) {
            let violation = format!("{guard:?} on {member} after {before:?}");
            inner.violations.push(violation);
        }
        let number = inner.next;
        inner.next += 1;
        inner.begun += 1;
        let entry = Entry {
            member: member.to_owned(),
            guard: guard.clone(),
        };
        inner.active.insert(number, entry);
        Active {
            ledger: Arc::clone(self),
            number,
        }
    }

    /// Work that is written down and runs until it is asked to finish, and then so long on.
    pub(crate) fn work(
        self: &Arc<Self>,
        member: &str,
        drains: Duration,
    ) -> impl Fn(PartitionGuard) -> Work + Send + Sync + 'static {
        let (ledger, member) = (Arc::clone(self), member.to_owned());
        move |guard| {
            let active = ledger.enter(&member, &guard);
            Box::pin(async move {
                let _active = active;
                guard.draining().await;
                if drains > Duration::ZERO {
                    tokio::time::sleep(drains).await;
                }
            })
        }
    }

    /// How many partitions each member may act on now.
    pub(crate) fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for entry in self.inner().active.values() {
            if entry.guard.check().is_ok() {
                *shares.entry(entry.member.clone()).or_default() += 1;
            }
        }
        shares
    }

    pub(crate) fn share(&self, member: &str) -> usize {
        self.shares().get(member).copied().unwrap_or(0)
    }

    /// The token of each slot that somebody may act on now.
    pub(crate) fn tokens(&self) -> BTreeMap<Slot, FencingToken> {
        let inner = self.inner();
        let valid = inner
            .active
            .values()
            .filter(|entry| entry.guard.check().is_ok());
        valid
            .map(|entry| (slot_of(&entry.guard), entry.guard.token()))
            .collect()
    }

    pub(crate) fn guards_of(&self, member: &str) -> Vec<PartitionGuard> {
        let inner = self.inner();
        let own = inner.active.values().filter(|entry| entry.member == member);
        own.map(|entry| entry.guard.clone()).collect()
    }

    pub(crate) fn begun(&self) -> usize {
        self.inner().begun
    }

    pub(crate) fn violations(&self) -> usize {
        self.inner().violations.len()
    }

    /// `one-owner` and `tokens-only-grow` held; and something happened.
    pub(crate) fn judge(&self) {
        let inner = self.inner();
        assert!(inner.begun > 0, "nothing happened");
        assert!(inner.violations.is_empty(), "{:#?}", inner.violations);
    }
}

/// One process with a partitioned service.
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) node: Node,
    pub(crate) handle: PartitionedHandle,
}

impl World {
    /// A pod whose work is written into the ledger and drains at once.
    pub(crate) async fn pod(&self, name: &str, ledger: &Arc<Ledger>) -> Pod {
        self.pod_with(name, ledger, Duration::ZERO, |service| service)
            .await
    }

    pub(crate) async fn pod_with(
        &self,
        name: &str,
        ledger: &Arc<Ledger>,
        drains: Duration,
        say: impl FnOnce(PartitionedBuilder) -> PartitionedBuilder,
    ) -> Pod {
        let node = self.node(name).await;
        let service = say(node.cluster.service(KEY).partitioned());
        let handle = service.spawn(ledger.work(name, drains)).unwrap();
        Pod {
            name: name.to_owned(),
            node,
            handle,
        }
    }

    pub(crate) async fn table(&self) -> Option<Arc<Table>> {
        let key = id().assignment();
        let state = self
            .memory
            .read(&key, Duration::from_secs(1))
            .await
            .unwrap()?;
        match state.record.contents {
            leasehold_core::lease::Contents::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Who holds the member lease of that name.
    pub(crate) async fn member_holder(&self, name: &str) -> Option<String> {
        let key = member(name);
        let state = self
            .memory
            .read(&key, Duration::from_secs(1))
            .await
            .unwrap()?;
        state.record.holder
    }

    /// The incarnation in the member lease of that name.
    pub(crate) async fn incarnation(&self, name: &str) -> Option<u32> {
        let key = member(name);
        let state = self
            .memory
            .read(&key, Duration::from_secs(1))
            .await
            .unwrap()?;
        Some(state.record.term.number())
    }
}

/// The key of the leader lease, and of the cluster id.
pub(crate) fn id() -> LeaseKey {
    LeaseKey::new(KEY).unwrap()
}

/// The key of a member lease.
pub(crate) fn member(name: &str) -> LeaseKey {
    id().member(name).unwrap()
}

pub(crate) fn identity(text: &str) -> Identity {
    Identity::new(text).unwrap()
}

/// Waits until exactly these members may act on so many partitions each.
pub(crate) async fn shared_out(ledger: &Ledger, shares: &[(&str, usize)]) {
    let expected: BTreeMap<String, usize> = shares
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect();
    until(&format!("{expected:?}"), || ledger.shares() == expected).await;
}
