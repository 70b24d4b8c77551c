//! Several processes in one: clusters that share a store and a clock that only moves when all wait.

#![allow(dead_code)] // each test file uses its part
#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

use std::sync::Arc;
use std::time::Duration;

use leasehold::testing::{Clock, LeaseKey, LeaseStore, MemoryStore, fault::FaultStore};
use leasehold::{ChangeKind, Cluster, Identity, LeadershipChange, LeadershipChanges};

pub(crate) struct World {
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) clock: Clock,
}

/// One process of the world, with its own way to the store.
pub(crate) struct Node {
    pub(crate) cluster: Cluster,
    pub(crate) store: Arc<FaultStore>,
    pub(crate) clock: Clock,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Clock::test();
        Self {
            memory: Arc::new(MemoryStore::separate(clock.clone())),
            clock,
        }
    }

    /// A process whose clock can jump without the others'.
    pub(crate) async fn node(&self, name: &str) -> Node {
        self.node_with(name, &[]).await
    }

    /// A process with an identity of the test's choice.
    pub(crate) async fn node_as(&self, identity: Identity) -> Node {
        self.make(identity, &[]).await
    }

    pub(crate) async fn node_with(&self, name: &str, variables: &[(&str, &str)]) -> Node {
        let identity = Identity::new(format!("{name}__00000001")).unwrap();
        self.make(identity, variables).await
    }

    async fn make(&self, identity: Identity, variables: &[(&str, &str)]) -> Node {
        let store = Arc::new(FaultStore::new(
            Arc::clone(&self.memory) as Arc<dyn LeaseStore>
        ));
        let clock = Clock::test();
        let cluster = Cluster::builder()
            .environment(variables.iter().copied())
            .identity(identity)
            .store(Arc::clone(&store) as Arc<dyn LeaseStore>)
            .clock(clock.clone())
            .signals(false)
            .build()
            .await
            .unwrap();
        Node {
            cluster,
            store,
            clock,
        }
    }

    pub(crate) async fn holder(&self, key: &str) -> Option<String> {
        let key = LeaseKey::new(key).unwrap();
        let state = self
            .memory
            .read(&key, Duration::from_secs(1))
            .await
            .unwrap();
        state.and_then(|state| state.record.holder)
    }

    pub(crate) async fn duration(&self, key: &str) -> Option<Duration> {
        let key = LeaseKey::new(key).unwrap();
        let state = self
            .memory
            .read(&key, Duration::from_secs(1))
            .await
            .unwrap();
        state.and_then(|state| state.record.duration)
    }
}

/// The next change, or a failure that says what was waited for.
pub(crate) async fn next(changes: &mut LeadershipChanges, waiting_for: &str) -> LeadershipChange {
    match tokio::time::timeout(Duration::from_mins(5), changes.next()).await {
        Ok(Some(change)) => change,
        Ok(None) => panic!("the changes ended while waiting for {waiting_for}"),
        Err(tokio::time::error::Elapsed { .. }) => {
            panic!("nothing happened while waiting for {waiting_for}")
        }
    }
}

/// Waits for the change of `kind` by `node`.
pub(crate) async fn wait_for(
    changes: &mut LeadershipChanges,
    node: &str,
    kind: &ChangeKind,
) -> LeadershipChange {
    loop {
        let change = next(changes, &format!("{kind:?} of {node}")).await;
        if change.kind == *kind && change.holder.starts_with(node) {
            return change;
        }
    }
}

/// Waits until `condition` holds, in steps of virtual time.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}
