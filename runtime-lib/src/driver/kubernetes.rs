//! Leases of `coordination.k8s.io` as the lease store.
//!
//! ```text
//!   elector A ─┐ read, write        ┌──────────┐  POST, PUT, GET   ┌────────────┐
//!   elector B ─┼──────────────────▶ │ Requests │ ────────────────▶ │ API server │
//!   observer C ┘                    └──────────┘   own connection  └────────────┘
//!        ▲            ┌───────────────┐      ┌───────┐ one list+watch    │
//!        └────────────│ Subscriptions │ ◀────│ Watch │ ◀─────────────────┘
//!           news      └───────────────┘      └───────┘ for all keys
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use leasehold_core::election::{Target, Write};
use leasehold_core::id::{LeaseUid, Revision};
use leasehold_core::lease::Versioned;
use leasehold_core::time::Duration;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Answer, Feed, LeaseStore, Marks, StoreError, WriteFailed};
use crate::clock::{self, Clock};
use crate::key::LeaseKey;

mod connection;
mod convert;
mod dialer;
mod requests;
mod selection;
mod subscriptions;
mod watch;

pub(crate) use connection::ConfigError;
pub(crate) use connection::{config_from_kubeconfig, config_of_pod};
pub use convert::{Malformed, leader_lease_name, read_lease};

use requests::{PutAnswer, Requests};
use subscriptions::Subscriptions;
use watch::Watch;

/// The Leases of one namespace.
pub struct KubernetesStore {
    requests: Arc<Requests>,
    subscriptions: Arc<Subscriptions>,
    watch: Arc<Watch>,
    shared_watch: OnceLock<AbortOnDrop>,
    by_name: Mutex<ByName>,
}

/// Watches of single Leases that carry no labels.
#[derive(Default)]
struct ByName {
    tasks: JoinSet<LeaseKey>,
    keys: BTreeSet<LeaseKey>,
}

impl KubernetesStore {
    /// A store with connections of its own.
    #[allow(clippy::needless_pass_by_value)] // as kube's own client is made
    pub fn new(config: kube::Config, namespace: &str, clock: Clock) -> Result<Self, ConfigError> {
        let (client, dialer) = connection::connect(&config)?;
        let requests = Arc::new(Requests::new(client, dialer, namespace.to_owned()));
        let subscriptions = Arc::new(Subscriptions::default());
        let watch = Watch {
            requests: Arc::clone(&requests),
            subscriptions: Arc::clone(&subscriptions),
            clock,
        };
        Ok(Self {
            requests,
            subscriptions,
            watch: Arc::new(watch),
            shared_watch: OnceLock::new(),
            by_name: Mutex::default(),
        })
    }

    /// E4: a Lease without our labels is invisible to the shared watch and gets its own.
    fn follow_by_name(&self, key: &LeaseKey) {
        if !self.subscriptions.contains(key) {
            return;
        }
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = by_name.tasks.try_join_next() {
            if let Ok(key) = ended {
                by_name.keys.remove(&key);
            }
        }
        if by_name.keys.insert(key.clone()) {
            let watch = Arc::clone(&self.watch);
            let key = key.clone();
            by_name.tasks.spawn(async move {
                watch.run_by_name(key.clone()).await;
                key
            });
        }
    }

    fn note(&self, key: &LeaseKey, object: Value) -> Result<Versioned, StoreError> {
        let state = convert::read_object(&object).map_err(|error| StoreError::Malformed {
            detail: error.to_string(),
        })?;
        self.subscriptions
            .keep(key, &state, convert::trimmed(object));
        Ok(state)
    }

    async fn try_read(
        &self,
        key: &LeaseKey,
        limit: Duration,
    ) -> Result<Option<Versioned>, StoreError> {
        let Some(object) = self.requests.get(&convert::lease_name(key), limit).await? else {
            return Ok(None);
        };
        if !convert::has_our_labels(&object, key) {
            self.follow_by_name(key);
        }
        self.note(key, object).map(Some)
    }

    async fn try_write(
        &self,
        key: &LeaseKey,
        write: &Write,
        marks: &Marks,
        limit: Duration,
    ) -> Result<Versioned, WriteFailed> {
        let started = tokio::time::Instant::now();
        let base = match &write.target {
            Target::Absent => None,
            Target::Exactly { uid, revision } => Some(self.base(key, uid, *revision, limit).await?),
        };
        let namespace = self.requests.namespace();
        let object = convert::to_object(
            base.as_deref(),
            key,
            namespace,
            write,
            marks,
            clock::wall_now(),
        );
        let limit = limit.saturating_sub(started.elapsed());
        let answer = match base {
            None => self.requests.create(&object, limit).await,
            Some(_) => {
                self.requests
                    .replace(&convert::lease_name(key), &object, limit)
                    .await
            }
        };
        match answer.map_err(WriteFailed::Failed)? {
            PutAnswer::Stored(object) => self.note(key, object).map_err(WriteFailed::Failed),
            PutAnswer::Conflict => Err(WriteFailed::Conflict),
        }
    }

    /// The object that a PUT replaces, with everything of others in it.
    async fn base(
        &self,
        key: &LeaseKey,
        uid: &LeaseUid,
        revision: Revision,
        limit: Duration,
    ) -> Result<Arc<Value>, WriteFailed> {
        if let Some(object) = self.subscriptions.object(key, revision) {
            return Ok(object);
        }
        let name = convert::lease_name(key);
        // Nothing was written yet: whatever fails here is no unknown outcome.
        let read = self.requests.get(&name, limit).await.map_err(|error| {
            WriteFailed::Failed(match error {
                unknown if unknown.is_outcome_unknown() => StoreError::Throttled {
                    retry_after: None,
                    detail: format!("the record to replace could not be read: {unknown}"),
                },
                known => known,
            })
        })?;
        let object = read.ok_or(WriteFailed::Conflict)?;
        match convert::read_object(&object) {
            Ok(state) if state.uid == *uid && state.revision == revision => {
                Ok(Arc::new(convert::trimmed(object)))
            }
            _ => Err(WriteFailed::Conflict),
        }
    }
}

impl LeaseStore for KubernetesStore {
    fn read<'a>(
        &'a self,
        key: &'a LeaseKey,
        limit: Duration,
    ) -> Answer<'a, Result<Option<Versioned>, StoreError>> {
        Box::pin(self.try_read(key, limit))
    }

    fn write<'a>(
        &'a self,
        key: &'a LeaseKey,
        write: &'a Write,
        marks: &'a Marks,
        limit: Duration,
    ) -> Answer<'a, Result<Versioned, WriteFailed>> {
        Box::pin(self.try_write(key, write, marks, limit))
    }

    fn watch(&self, key: &LeaseKey) -> Feed {
        let feed = self.subscriptions.subscribe(key);
        self.shared_watch
            .get_or_init(|| AbortOnDrop(tokio::spawn(Arc::clone(&self.watch).run())));
        feed
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
