//! The watches: they feed the beliefs, on every replica, whether or not it leads.
//!
//! One watch of ClusterServices and one of our Leases (by label) for the whole cluster, or for each
//! chosen namespace; for credentials those of [`classes`] and [`secrets`], without which the rest goes
//! on. They never end: errors are noted, said once, and tried again with a back-off.

pub mod classes;
pub mod secrets;

use std::{collections::BTreeSet, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt, api::ListParams, core::DeserializeGuard};
use kube_runtime::{
    WatchStreamExt,
    reflector::store::Writer,
    watcher::{self, Event, watcher},
};
use leasehold_crds::keys;
use tokio::time::Instant;

use crate::{
    belief::{Beliefs, Guarded, Heard, key, record::shortened},
    context::Timers,
    error::Action,
    metrics::Metrics,
};

/// Plural name of ClusterServices.
const SERVICES: &str = "clusterservices";

/// What a watch needs.
#[derive(Clone)]
pub struct Watcher {
    /// Client of the API server.
    pub client: Client,
    /// One namespace, or all.
    pub region: Option<String>,
    /// Where news goes.
    pub beliefs: Arc<Beliefs>,
    /// Where failures are counted.
    pub metrics: Arc<Metrics>,
    /// How long things may take.
    pub timers: Timers,
}

/// Name of the watch of Leases.
pub fn leases(region: Option<&str>) -> String {
    format!("leases in {}", region.unwrap_or("all namespaces"))
}

/// Name of the watch of ClusterServices.
pub fn services(region: Option<&str>) -> String {
    format!("clusterservices in {}", region.unwrap_or("all namespaces"))
}

impl Watcher {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match &self.region {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// Watches ClusterServices into `writer` and the beliefs; waits for the CRD first.
    pub async fn watch_services(self, mut writer: Writer<Guarded>) {
        let name = services(self.region.as_deref());
        loop {
            self.wait_for_crd(&name, &self.api::<Guarded>(), SERVICES)
                .await;
            self.watch_services_once(&name, &mut writer).await;
            tokio::time::sleep(self.timers.crd_poll).await;
        }
    }

    async fn watch_services_once(&self, name: &str, writer: &mut Writer<Guarded>) {
        let mut stream = watcher(self.api::<Guarded>(), watcher::Config::default())
            .default_backoff()
            .boxed();
        let mut listed: Vec<Guarded> = Vec::new();
        while let Some(event) = stream.next().await {
            let event = match self.noted(name, keys::GROUP, SERVICES, event) {
                Noted::News(event) => lean(event),
                Noted::Nothing => continue,
                Noted::Useless => return,
            };
            // The store first: a trigger must find the object that it names.
            writer.apply_watcher_event(&event);
            let now = Instant::now();
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(service) => listed.push(service),
                Event::InitDone => {
                    let names: BTreeSet<_> = listed.iter().map(key).collect();
                    self.beliefs.retain_services(self.region.as_deref(), &names);
                    let classes = self.beliefs.classes();
                    classes.retain_services(self.region.as_deref(), &names);
                    for service in listed.drain(..) {
                        self.beliefs.note_service(&service, now);
                        classes.note_service(&service);
                    }
                    self.beliefs.watch_synced(name);
                }
                Event::Apply(service) => {
                    self.beliefs.note_service(&service, now);
                    self.beliefs.classes().note_service(&service);
                }
                Event::Delete(service) => {
                    let (namespace, name) = key(&service);
                    self.beliefs.forget_service(&namespace, &name);
                    self.beliefs.classes().forget_service(&namespace, &name);
                }
            }
        }
    }

    /// Watches our Leases into the beliefs, revision by revision.
    pub async fn watch_leases(self) {
        let name = leases(self.region.as_deref());
        loop {
            self.watch_leases_once(&name).await;
            tokio::time::sleep(self.timers.crd_poll).await;
        }
    }

    async fn watch_leases_once(&self, name: &str) {
        let ours = format!(
            "{} in ({}, {}, {}, {})",
            keys::LABEL_LEASE,
            keys::LEASE_LEADER,
            keys::LEASE_SETTINGS,
            keys::LEASE_MEMBER,
            keys::LEASE_ASSIGNMENT
        );
        let config = watcher::Config::default().labels(&ours);
        let mut stream = watcher(self.api::<DeserializeGuard<Lease>>(), config)
            .default_backoff()
            .boxed();
        let mut listed = BTreeSet::new();
        while let Some(event) = stream.next().await {
            let event = match self.noted(name, "coordination.k8s.io", "leases", event) {
                Noted::News(event) => event,
                Noted::Nothing => continue,
                Noted::Useless => return,
            };
            let now = Instant::now();
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(lease) => {
                    listed.insert(key(&lease));
                    self.beliefs.note_lease(&lease, Heard::ByList, now);
                }
                Event::InitDone => {
                    self.beliefs
                        .retain_leases(self.region.as_deref(), &listed, now);
                    self.beliefs.watch_synced(name);
                    // Whoever could not see before looks again.
                    self.beliefs.trigger_all();
                }
                Event::Apply(lease) => self.beliefs.note_lease(&lease, Heard::ByWatch, now),
                Event::Delete(lease) => {
                    let (namespace, name) = key(&lease);
                    self.beliefs
                        .note_reading(&namespace, &name, None, Heard::ByWatch, now);
                }
            }
        }
    }

    /// The CRD may be installed after the operator.
    async fn wait_for_crd<K>(&self, watch: &str, api: &Api<K>, plural: &str)
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let one = ListParams::default().limit(1);
        loop {
            let list = api.list_metadata(&one);
            match tokio::time::timeout(self.timers.request_timeout, list).await {
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                    self.failed(watch, &crd_missing(plural), false);
                    tokio::time::sleep(self.timers.crd_poll).await;
                }
                // Whatever else is wrong, the watch itself will say.
                Ok(Ok(_) | Err(_)) | Err(_) => return,
            }
        }
    }

    /// Notes a failure and says it once; passes everything else on.
    fn noted<K>(
        &self,
        watch: &str,
        group: &'static str,
        resource: &'static str,
        event: Result<Event<K>, watcher::Error>,
    ) -> Noted<K> {
        let error = match event {
            Ok(event) => {
                // The start of an attempt is no success yet.
                if !matches!(event, Event::Init) {
                    self.beliefs.watch_recovered(watch);
                }
                return Noted::News(event);
            }
            Err(error) => error,
        };
        self.metrics.watch_failed(resource);
        match status_code(&error) {
            Some(403) => {
                let verbs = Action {
                    verb: "list, watch",
                    group,
                    resource,
                };
                let problem = format!(
                    "{verbs} is forbidden in {}; a role with this rule would help: {{apiGroups: \
                     [{group:?}], resources: [{resource:?}], verbs: [\"get\", \"list\", \"watch\"]}}",
                    self.region.as_deref().unwrap_or("all namespaces")
                );
                self.failed(watch, &problem, true);
                Noted::Nothing
            }
            Some(404) => {
                let problem = if group == keys::GROUP {
                    crd_missing(resource)
                } else {
                    shortened(&error.to_string())
                };
                self.failed(watch, &problem, false);
                Noted::Useless
            }
            // The client would go on for ever with a revision that the server cannot use.
            Some(code) if is_start(&error) && !matches!(code, 429 | 503) => {
                self.failed(watch, &shortened(&error.to_string()), false);
                Noted::Useless
            }
            _ => {
                self.failed(watch, &shortened(&error.to_string()), false);
                Noted::Nothing
            }
        }
    }

    fn failed(&self, watch: &str, problem: &str, is_denied: bool) {
        if self.beliefs.watch_failed(watch, problem, is_denied) {
            tracing::warn!(key = "watch.failed", watch, problem);
            if is_denied {
                self.beliefs.trigger_all();
            }
        }
    }
}

/// What an item of a watch is good for.
enum Noted<K> {
    /// Something to take in.
    News(Event<K>),
    /// The watch goes on by itself.
    Nothing,
    /// Only a new watch can help.
    Useless,
}

fn crd_missing(plural: &str) -> String {
    format!(
        "the CRD {plural}.{} is not installed; waiting for it: kubectl apply -f crds/",
        keys::GROUP
    )
}

/// Nobody needs the managed fields, and they are half of every object.
fn lean(event: Event<Guarded>) -> Event<Guarded> {
    let lean = |mut service: Guarded| {
        service.managed_fields_mut().clear();
        service
    };
    match event {
        Event::Apply(service) => Event::Apply(lean(service)),
        Event::Delete(service) => Event::Delete(lean(service)),
        Event::InitApply(service) => Event::InitApply(lean(service)),
        other @ (Event::Init | Event::InitDone) => other,
    }
}

fn is_start(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(_))
}

fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// Looks for holders that fell silent and at news of partitions, for as long as the operator runs.
pub async fn sweep(beliefs: Arc<Beliefs>, timers: Timers) {
    let mut ticks = tokio::time::interval(timers.sweep);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        beliefs.sweep(Instant::now());
    }
}
