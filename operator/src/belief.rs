//! What the operator believes about the cluster, fed by its watches and read by its reconciler.
//!
//! [`Beliefs`] holds one [`LeaseBelief`] per leader and settings Lease, one [`PartitionsBelief`] per
//! cluster id with members, and an index from cluster ids to the ClusterServices that share them.
//! Whatever matters to a ClusterService becomes a trigger; lease renewals do not. News of partitions come
//! in bursts, so they are gathered until the next sweep. Every replica keeps its beliefs warm, also while it does not lead, so that a new
//! leader can announce the terms that the old one no longer could.

pub mod classes;
mod gather;
pub mod lease;
pub mod partitions;
pub mod purpose;
pub mod record;
pub mod secrets;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, ResourceExt, core::DeserializeGuard};
use kube_runtime::reflector::ObjectRef;
use leasehold_crds::ClusterService;
use serde::Serialize;
use tokio::{sync::broadcast, time::Instant};

use classes::ClassBeliefs;
use partitions::PartitionsBelief;
use purpose::Purpose;
use secrets::SecretBeliefs;

pub use lease::{Ending, Heard, LeaseBelief, LeaseState, Sighting};
pub use record::LeaseReading;
pub use view::BeliefsView;

/// A ClusterService as the watch delivers it: one that cannot be read is a value, not a broken watch.
pub type Guarded = DeserializeGuard<ClusterService>;
/// Names a ClusterService whose state may have changed.
pub type Trigger = ObjectRef<Guarded>;

/// More than the objects of a large installation; whoever lags further behind looks at all of them.
const TRIGGERS_MAX: usize = 8192;
/// What the names of our annotations begin with.
const ANNOTATIONS: &str = "leasehold.dev/";

/// Everything believed, shared by watches, reconciler and debug view.
#[derive(Debug)]
pub struct Beliefs {
    inner: Mutex<Inner>,
    triggers: broadcast::Sender<Trigger>,
    wakes: broadcast::Sender<Trigger>,
    classes: ClassBeliefs,
    secrets: SecretBeliefs,
}

#[derive(Debug, Default)]
struct Inner {
    leases: BTreeMap<Key, LeaseBelief>,
    /// By (namespace, cluster id).
    partitions: BTreeMap<Key, PartitionsBelief>,
    /// Those with news since the last sweep.
    stirred: BTreeSet<Key>,
    services: BTreeMap<Key, ServiceBelief>,
    /// Names of the ClusterServices of a (namespace, cluster id).
    clusters: BTreeMap<Key, BTreeSet<String>>,
    watches: BTreeMap<String, WatchState>,
}

/// (namespace, name).
type Key = (String, String);

#[derive(Clone, Debug)]
struct ServiceBelief {
    cluster_id: Option<String>,
    /// Only terms that came after it are announced if it has no history yet.
    first_seen: Instant,
    generation: Option<i64>,
    commands: Commands,
    /// Its status names credentials, so logins of it are on servers.
    has_credentials: bool,
}

/// What else than its spec asks for work on credentials; status and leaders do not.
#[derive(Clone, Debug, Default, PartialEq)]
struct Commands {
    is_deleted: bool,
    finalizers: Vec<String>,
    /// Annotations of ours.
    annotations: BTreeMap<String, String>,
}

impl Commands {
    fn of(metadata: &ObjectMeta) -> Self {
        let ours = |(name, _): &(&String, &String)| name.starts_with(ANNOTATIONS);
        let annotations = metadata.annotations.iter().flatten().filter(ours);
        Self {
            is_deleted: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            annotations: annotations
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }
}

/// How a watch fares.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchState {
    /// It has listed everything once.
    pub is_synced: bool,
    /// A permission is missing.
    pub is_denied: bool,
    /// Why it does not deliver now.
    pub problem: Option<String>,
    /// The operator does the rest of its work without it.
    pub is_optional: bool,
}

impl WatchState {
    /// Whoever waits for the first complete LIST waits no more.
    pub fn is_settled(&self) -> bool {
        self.is_synced || (self.is_optional && self.problem.is_some())
    }
}

impl Default for Beliefs {
    fn default() -> Self {
        let (triggers, _) = broadcast::channel(TRIGGERS_MAX);
        let (wakes, _) = broadcast::channel(TRIGGERS_MAX);
        Self {
            inner: Mutex::default(),
            triggers,
            wakes,
            classes: ClassBeliefs::default(),
            secrets: SecretBeliefs::default(),
        }
    }
}

impl Beliefs {
    /// Triggers from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Trigger> {
        self.triggers.subscribe()
    }

    /// Whose credentials may need work, from now on.
    pub fn subscribe_credentials(&self) -> broadcast::Receiver<Trigger> {
        self.wakes.subscribe()
    }

    /// The credentials of a ClusterService may need work.
    pub fn wake(&self, namespace: &str, name: &str) {
        // Nobody listens while another replica leads.
        let _ = self.wakes.send(Trigger::new(name).within(namespace));
    }

    /// The status of a ClusterService may have changed.
    pub fn touch(&self, namespace: &str, name: &str) {
        self.trigger(namespace, [name.to_owned()]);
    }

    /// What is believed about BackendClasses.
    pub fn classes(&self) -> &ClassBeliefs {
        &self.classes
    }

    /// What is believed about Secrets of ours.
    pub fn secrets(&self) -> &SecretBeliefs {
        &self.secrets
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change leaves the maps whole, so a panic elsewhere does not spoil them.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trigger(&self, namespace: &str, names: impl IntoIterator<Item = String>) {
        for name in names {
            // Nobody listens while another replica leads.
            let _ = self.triggers.send(Trigger::new(&name).within(namespace));
        }
    }

    /// Takes in a Lease from a watch or a read.
    pub fn note_lease(&self, lease: &DeserializeGuard<Lease>, heard: Heard, now: Instant) {
        let key = key(lease);
        self.note_reading(&key.0, &key.1, Some(LeaseReading::of(lease)), heard, now);
    }

    /// Takes in a reading (`None`: there is no such Lease).
    pub fn note_reading(
        &self,
        namespace: &str,
        name: &str,
        reading: Option<LeaseReading>,
        heard: Heard,
        now: Instant,
    ) {
        let mut inner = self.inner();
        if let Some(purpose @ (Purpose::Assignment(_) | Purpose::Member(..))) = Purpose::of(name) {
            inner.note_partitions(namespace, purpose, reading, heard, now);
            return;
        }
        let key = (namespace.to_owned(), name.to_owned());
        if reading.is_none() && !inner.leases.contains_key(&key) {
            return;
        }
        let belief = inner
            .leases
            .entry(key)
            .or_insert_with(|| LeaseBelief::new(now));
        let is_gone = reading.is_none();
        let matters = belief.note(reading, heard, now);
        let sharing = inner.concerned(namespace, name);
        if is_gone && sharing.is_empty() {
            // Its terms concern nobody any more.
            inner
                .leases
                .remove(&(namespace.to_owned(), name.to_owned()));
        }
        drop(inner);
        if matters {
            self.trigger(namespace, sharing);
        }
    }

    /// Leases that a complete LIST did not show are gone.
    pub fn retain_leases(&self, region: Option<&str>, listed: &BTreeSet<Key>, now: Instant) {
        let gone: Vec<Key> = self
            .inner()
            .leases
            .keys()
            .filter(|key| region.is_none_or(|region| region == key.0) && !listed.contains(*key))
            .cloned()
            .collect();
        let gone = gone
            .into_iter()
            .chain(self.inner().unlisted(region, listed));
        for (namespace, name) in gone.collect::<Vec<_>>() {
            self.note_reading(&namespace, &name, None, Heard::ByList, now);
        }
    }

    /// Looks for holders that fell silent, which a reconcile confirms, and at news of partitions.
    pub fn sweep(&self, now: Instant) {
        let mut inner = self.inner();
        let silent: Vec<Key> = inner
            .leases
            .iter_mut()
            .filter_map(|(key, belief)| belief.suspect(now).then(|| key.clone()))
            .collect();
        let mut concerned: Vec<_> = silent
            .into_iter()
            .map(|(namespace, name)| (inner.concerned(&namespace, &name), namespace))
            .collect();
        for (namespace, id) in inner.review(now) {
            concerned.push((inner.sharing(&namespace, &id), namespace));
        }
        drop(inner);
        for (names, namespace) in concerned {
            self.trigger(&namespace, names);
        }
    }

    /// A read showed that a silent holder wrote nothing since.
    pub fn confirm_lapse(&self, namespace: &str, name: &str) {
        if let Some(belief) = self
            .inner()
            .leases
            .get_mut(&(namespace.to_owned(), name.to_owned()))
        {
            belief.confirm_lapse();
        }
    }

    /// What is believed of one Lease.
    pub fn lease(&self, namespace: &str, name: &str) -> Option<LeaseBelief> {
        self.inner()
            .leases
            .get(&(namespace.to_owned(), name.to_owned()))
            .cloned()
    }

    /// Takes in a ClusterService; a changed spec concerns all that share its cluster id.
    pub fn note_service(&self, service: &Guarded, now: Instant) {
        let (namespace, name) = key(service);
        let cluster_id = match &service.0 {
            Ok(service) => service.cluster_id().ok().map(|id| id.to_string()),
            Err(_) => None,
        };
        let status = service.0.as_ref().ok().and_then(|it| it.status.as_ref());
        let has_credentials = status.is_some_and(|it| !it.credentials.is_empty());
        let generation = service.meta().generation;
        let commands = Commands::of(service.meta());
        let mut inner = self.inner();
        let mut concerned = BTreeSet::from([name.clone()]);
        let known = inner
            .services
            .get(&(namespace.clone(), name.clone()))
            .cloned();
        let is_changed = known
            .as_ref()
            .is_none_or(|it| it.generation != generation || it.cluster_id != cluster_id);
        let is_asked = is_changed || known.as_ref().is_some_and(|it| it.commands != commands);
        if is_changed {
            for id in [
                known.as_ref().and_then(|it| it.cluster_id.clone()),
                cluster_id.clone(),
            ] {
                concerned.extend(id.into_iter().flat_map(|id| inner.sharing(&namespace, &id)));
            }
        }
        if let Some(old) = known.as_ref().and_then(|it| it.cluster_id.clone()) {
            inner.unindex(&namespace, &old, &name);
        }
        if let Some(id) = &cluster_id {
            let sharing = inner
                .clusters
                .entry((namespace.clone(), id.clone()))
                .or_default();
            sharing.insert(name.clone());
        }
        let first_seen = known.map_or(now, |it| it.first_seen);
        let belief = ServiceBelief {
            cluster_id,
            first_seen,
            generation,
            commands,
            has_credentials,
        };
        inner
            .services
            .insert((namespace.clone(), name.clone()), belief);
        drop(inner);
        if is_asked {
            // An older one of the same id may have stood in the way of the others.
            for name in &concerned {
                self.wake(&namespace, name);
            }
        }
        self.trigger(&namespace, concerned);
    }

    /// A ClusterService is gone; those that share its cluster id may take its place.
    pub fn forget_service(&self, namespace: &str, name: &str) {
        let mut inner = self.inner();
        let Some(known) = inner
            .services
            .remove(&(namespace.to_owned(), name.to_owned()))
        else {
            return;
        };
        let Some(id) = known.cluster_id else { return };
        inner.unindex(namespace, &id, name);
        let concerned = inner.sharing(namespace, &id);
        if concerned.is_empty() {
            let is_left = |key: &Key, belief: &LeaseBelief| {
                let cluster = key.1.rsplit_once('.').map(|(id, _)| id);
                key.0 != namespace || cluster != Some(&id) || belief.reading().is_some()
            };
            inner.leases.retain(|key, belief| is_left(key, belief));
        }
        drop(inner);
        for name in &concerned {
            self.wake(namespace, name);
        }
        self.trigger(namespace, concerned);
    }

    /// ClusterServices that a complete LIST did not show are gone.
    pub fn retain_services(&self, region: Option<&str>, listed: &BTreeSet<Key>) {
        let gone: Vec<Key> = self
            .inner()
            .services
            .keys()
            .filter(|key| region.is_none_or(|region| region == key.0) && !listed.contains(*key))
            .cloned()
            .collect();
        for (namespace, name) in gone {
            self.forget_service(&namespace, &name);
        }
    }

    /// Names of the ClusterServices that share a cluster id.
    pub fn sharing(&self, namespace: &str, cluster_id: &str) -> BTreeSet<String> {
        self.inner().sharing(namespace, cluster_id)
    }

    /// Since when the operator knows a ClusterService.
    pub fn first_seen(&self, namespace: &str, name: &str) -> Option<Instant> {
        let key = (namespace.to_owned(), name.to_owned());
        self.inner().services.get(&key).map(|it| it.first_seen)
    }

    /// When the newest ClusterService of a namespace was seen for the first time.
    pub fn newest_service(&self, namespace: &str) -> Option<Instant> {
        let inner = self.inner();
        let from = (namespace.to_owned(), String::new());
        let those = inner.services.range(from..);
        let those = those.take_while(|((region, _), _)| region == namespace);
        those.map(|(_, it)| it.first_seen).max()
    }

    /// Whether the status of a ClusterService names credentials.
    pub fn has_credentials(&self, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        let inner = self.inner();
        inner
            .services
            .get(&key)
            .is_some_and(|it| it.has_credentials)
    }

    /// Looks at every ClusterService once.
    pub fn trigger_all(&self) {
        let all: Vec<Key> = self.inner().services.keys().cloned().collect();
        for (namespace, name) in all {
            self.trigger(&namespace, [name]);
        }
    }

    /// Notes that there is this watch, so that nobody takes what the others listed for everything.
    pub fn watch_begins(&self, watch: &str) {
        self.inner().watches.entry(watch.to_owned()).or_default();
    }

    /// Notes that there is this watch, and that the rest goes on without it.
    pub fn optional_watch_begins(&self, watch: &str) {
        let mut inner = self.inner();
        let state = inner.watches.entry(watch.to_owned()).or_default();
        state.is_optional = true;
    }

    /// Notes that a watch listed everything.
    pub fn watch_synced(&self, watch: &str) {
        let mut inner = self.inner();
        let state = inner.watches.entry(watch.to_owned()).or_default();
        *state = WatchState {
            is_synced: true,
            is_optional: state.is_optional,
            ..WatchState::default()
        };
    }

    /// Notes that a watch delivers nothing now; true if that is news.
    pub fn watch_failed(&self, watch: &str, problem: &str, is_denied: bool) -> bool {
        let mut inner = self.inner();
        let state = inner.watches.entry(watch.to_owned()).or_default();
        let is_news = state.problem.as_deref() != Some(problem);
        *state = WatchState {
            is_synced: state.is_synced,
            is_denied,
            problem: Some(problem.to_owned()),
            is_optional: state.is_optional,
        };
        is_news
    }

    /// Notes that a watch delivers again.
    pub fn watch_recovered(&self, watch: &str) {
        if let Some(state) = self.inner().watches.get_mut(watch) {
            state.problem = None;
            state.is_denied = false;
        }
    }

    /// How the watches fare, by name.
    pub fn watches(&self) -> BTreeMap<String, WatchState> {
        self.inner().watches.clone()
    }

    /// How many ClusterServices and Leases are known.
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner();
        let partitions = inner.partitions.values().map(PartitionsBelief::count);
        let leases = inner.leases.len() + partitions.sum::<usize>();
        (inner.services.len(), leases)
    }
}

impl Inner {
    /// The ClusterServices that have a Lease of this name.
    fn concerned(&self, namespace: &str, lease: &str) -> BTreeSet<String> {
        let id = Purpose::of(lease).map(Purpose::cluster_id);
        id.map(|id| self.sharing(namespace, id)).unwrap_or_default()
    }

    fn sharing(&self, namespace: &str, cluster_id: &str) -> BTreeSet<String> {
        let key = (namespace.to_owned(), cluster_id.to_owned());
        self.clusters.get(&key).cloned().unwrap_or_default()
    }

    fn unindex(&mut self, namespace: &str, cluster_id: &str, name: &str) {
        let key = (namespace.to_owned(), cluster_id.to_owned());
        if let Some(names) = self.clusters.get_mut(&key) {
            names.remove(name);
            if names.is_empty() {
                self.clusters.remove(&key);
            }
        }
    }
}

/// (namespace, name) of an object.
pub fn key(object: &impl ResourceExt) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests;
