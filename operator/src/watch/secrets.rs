//! The watch of our Secrets, metadata alone (R4): whoever changes or deletes one is noticed at once.

use std::collections::BTreeSet;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt, core::PartialObjectMeta};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event, watcher},
};
use leasehold_crds::{BackendKind, keys};

use super::{Noted, Watcher};
use crate::belief::key;

/// Name of the watch of our Secrets.
pub fn secrets(region: Option<&str>) -> String {
    format!("secrets in {}", region.unwrap_or("all namespaces"))
}

impl Watcher {
    /// Watches our Secrets; each change wakes the credentials of its ClusterService.
    pub async fn watch_secrets(self) {
        let name = secrets(self.region.as_deref());
        loop {
            self.watch_secrets_once(&name).await;
            tokio::time::sleep(self.timers.crd_poll).await;
        }
    }

    async fn watch_secrets_once(&self, name: &str) {
        let [postgres, redis] = BackendKind::ALL.map(BackendKind::as_str);
        let ours = format!("{} in ({postgres}, {redis})", keys::LABEL_CREDENTIAL);
        let config = watcher::Config::default().labels(&ours);
        let mut stream = watcher(self.api::<PartialObjectMeta<Secret>>(), config)
            .default_backoff()
            .boxed();
        let mut listed = BTreeSet::new();
        while let Some(event) = stream.next().await {
            let event = match self.noted(name, "", "secrets", event) {
                Noted::News(event) => event,
                Noted::Nothing => continue,
                Noted::Useless => return,
            };
            let beliefs = self.beliefs.secrets();
            let concerned = match event {
                Event::Init => {
                    listed.clear();
                    Vec::new()
                }
                Event::InitApply(secret) => {
                    listed.insert(key(&secret));
                    self.note(&secret)
                }
                Event::InitDone => {
                    self.beliefs.watch_synced(name);
                    beliefs.retain(self.region.as_deref(), &listed)
                }
                Event::Apply(secret) => self.note(&secret),
                Event::Delete(secret) => beliefs.forget(&key(&secret)).into_iter().collect(),
            };
            for (namespace, service) in concerned {
                self.beliefs.wake(&namespace, &service);
            }
        }
    }

    fn note(&self, secret: &PartialObjectMeta<Secret>) -> Vec<(String, String)> {
        let revision = secret.resource_version().unwrap_or_default();
        let concerned = self.beliefs.secrets().note(key(secret), &revision);
        concerned.into_iter().collect()
    }
}
