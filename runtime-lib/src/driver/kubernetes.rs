//! Leases of `coordination.k8s.io` as the lease store.
//!
//! ```text
//!   elector A ─┐ read, write        ┌──────────┐  POST, PUT, GET   ┌────────────┐
//!   elector B ─┼──────────────────▶ │ Requests │ ────────────────▶ │ API server │
//!   observer C ┘                    └──────────┘   own connection  └────────────┘
//!        ▲            ┌───────────────┐      ┌───────┐ one list+watch    │
//!        └────────────│ Subscriptions │ ◀────│ Watch │ ◀─────────────────┘
//!           news      └───────────────┘      └───────┘ for all leaders and assignments,
//!                                                        one for each member that is followed,
//!                                                        or one for all members of a cluster id
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::election::{Target, Write};
use leasehold_core::id::{LeaseUid, Revision};
use leasehold_core::lease::Versioned;
use leasehold_core::partition::Listing;
use leasehold_core::time::Duration;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Answer, Feed, LeaseStore, Marks, MemberFeed, StoreError, WriteFailed};
use crate::clock::{self, Clock};
use crate::key::{LeaseKey, LeaseKind};

mod connection;
mod convert;
mod dialer;
mod requests;
mod selection;
mod subscriptions;
mod watch;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))] // public under `testing`
pub mod wire;

pub(crate) use connection::ConfigError;
pub(crate) use connection::{config_from_kubeconfig, config_of_pod};
pub use convert::{Malformed, read_lease};

use requests::{PutAnswer, Requests};
use selection::Selection;
use subscriptions::Subscriptions;
use watch::Watch;

/// The Leases of one namespace.
pub struct KubernetesStore {
    requests: Arc<Requests>,
    subscriptions: Arc<Subscriptions>,
    watch: Arc<Watch>,
    /// The watches; they end with the store.
    tasks: Mutex<JoinSet<()>>,
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
            tasks: Mutex::default(),
        })
    }

    /// Starts the watch of a selection, if it is asked for and has none.
    fn start(&self, selection: Selection) {
        if !self.subscriptions.claim(&selection) {
            return;
        }
        let watch = Arc::clone(&self.watch);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        match selection {
            Selection::Shared(_) => tasks.spawn(watch.run_shared()),
            Selection::Members(id) => tasks.spawn(watch.run_members(id)),
            Selection::Name(key) if key.member_name().is_some() => {
                tasks.spawn(watch.run_member(key))
            }
            Selection::Name(key) => tasks.spawn(watch.run_makeshift(key)),
        };
    }

    fn note(&self, key: &LeaseKey, object: Value) -> Result<Versioned, StoreError> {
        let state = convert::read_object(&object).map_err(malformed)?;
        self.subscriptions
            .keep(key, &state, convert::trimmed(object));
        Ok(state)
    }

    async fn try_read(
        &self,
        key: &LeaseKey,
        limit: Duration,
    ) -> Result<Option<Versioned>, StoreError> {
        let Some(object) = self.requests.get(&key.lease_name(), limit).await? else {
            return Ok(None);
        };
        // E4: a Lease without our labels is invisible to the shared watch and gets its own.
        if key.member_name().is_none() && !convert::has_our_labels(&object, key) {
            self.start(Selection::Name(key.clone()));
        }
        self.note(key, object).map(Some)
    }

    async fn try_list(&self, key: &LeaseKey, limit: Duration) -> Result<Listing, StoreError> {
        let started = tokio::time::Instant::now();
        let left = || limit.saturating_sub(started.elapsed());
        // H1: before the list, so that its table is no older than the absence.
        let own = match key.member_name() {
            Some(name) => {
                let state = self.try_read(key, limit).await?;
                state.map(|state| (Arc::clone(name), state))
            }
            None => None,
        };
        let query = selection::parts_of(key);
        let (objects, revision) = self.requests.list(&query, left()).await?;
        let revision = convert::read_revision(Some(&revision));
        let mut listing = Listing {
            revision: revision.map_err(malformed)?,
            assignment: None,
            members: BTreeMap::new(),
        };
        for object in objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let found = LeaseKey::of_lease_name(name);
            // Names decide: labels can be edited by anybody.
            let Some(found) = found.filter(|found| found.leader() == key.leader()) else {
                continue;
            };
            let Some(state) = self.watch.keep(&found, convert::trimmed(object)) else {
                continue;
            };
            match found.kind() {
                LeaseKind::Leader => {}
                LeaseKind::Assignment => listing.assignment = Some(state),
                LeaseKind::Member(name) => {
                    listing.members.insert(Arc::clone(name), state);
                }
            }
        }
        if listing.assignment.is_none() {
            listing.assignment = self.try_read(&key.assignment(), left()).await?;
        }
        if let Some((name, state)) = own {
            listing.members.entry(name).or_insert(state);
        }
        Ok(listing)
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
        let object =
            object.map_err(|detail| WriteFailed::Failed(StoreError::Invalid { detail }))?;
        let limit = limit.saturating_sub(started.elapsed());
        let answer = match base {
            None => self.requests.create(&object, limit).await,
            Some(_) => {
                self.requests
                    .replace(&key.lease_name(), &object, limit)
                    .await
            }
        };
        match answer.map_err(WriteFailed::Failed)? {
            PutAnswer::Stored(object) => {
                let state = convert::read_object(&object);
                let state = state.map_err(|error| WriteFailed::Failed(malformed(error)))?;
                let object = convert::trimmed(object);
                self.subscriptions.keep_written(key, &state, object);
                Ok(state)
            }
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
        let name = key.lease_name();
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

    fn list<'a>(
        &'a self,
        key: &'a LeaseKey,
        limit: Duration,
    ) -> Answer<'a, Result<Listing, StoreError>> {
        Box::pin(self.try_list(key, limit))
    }

    fn watch(&self, key: &LeaseKey) -> Feed {
        let feed = self.subscriptions.subscribe(key);
        if key.member_name().is_some() {
            self.start(Selection::Members(key.leader()));
            self.start(Selection::Name(key.clone()));
        } else {
            self.start(Selection::Shared(Vec::new()));
        }
        feed
    }

    fn watch_members(&self, key: &LeaseKey) -> MemberFeed {
        let feed = self.subscriptions.subscribe_members(key);
        self.start(Selection::Members(key.leader()));
        feed
    }
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn malformed(error: Malformed) -> StoreError {
    StoreError::Malformed {
        detail: error.to_string(),
    }
}
