//! The watch of BackendClasses, for the whole cluster, and of the Secrets that they may name.

use std::{collections::BTreeSet, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt, core::PartialObjectMeta};
use kube_runtime::{
    WatchStreamExt,
    reflector::store::Writer,
    watcher::{self, Event, watcher},
};
use leasehold_crds::keys;

use super::{Noted, Watcher};
use crate::belief::classes::{GuardedClass, class_name};

/// Name of the watch of BackendClasses.
pub const CLASSES: &str = "backendclasses";
/// An absent kind, or a missing right, is looked for this many times less often than a needed one.
const PATIENCE: u32 = 6;

/// Name of the watch of the Secrets that classes may name.
pub fn class_secrets(namespace: &str) -> String {
    format!("secrets of classes in {namespace}")
}

impl Watcher {
    fn patience(&self) -> Duration {
        self.timers.crd_poll * PATIENCE
    }

    /// Watches BackendClasses into `writer` and the beliefs; waits for the CRD first. Those whose label
    /// names another namespace than ours are another operator's.
    pub async fn watch_classes(self, mut writer: Writer<GuardedClass>, ours: String) {
        loop {
            let api = Api::all(self.client.clone());
            self.wait_for_crd(CLASSES, &api, CLASSES).await;
            self.watch_classes_once(api, &mut writer, &ours).await;
            tokio::time::sleep(self.timers.crd_poll).await;
        }
    }

    async fn watch_classes_once(
        &self,
        api: Api<GuardedClass>,
        writer: &mut Writer<GuardedClass>,
        ours: &str,
    ) {
        let mut stream = watcher(api, watcher::Config::default())
            .default_backoff()
            .boxed();
        let beliefs = self.beliefs.classes();
        let mut listed: Vec<GuardedClass> = Vec::new();
        while let Some(event) = stream.next().await {
            let event = match self.noted(CLASSES, keys::GROUP, CLASSES, event) {
                Noted::News(event) => event,
                Noted::Nothing => continue,
                Noted::Useless => return,
            };
            let event = match event {
                Event::InitApply(class) if !is_for(&class, ours) => continue,
                // It may have been ours until its label was changed.
                Event::Apply(class) if !is_for(&class, ours) => Event::Delete(class),
                other => other,
            };
            // The store first: a trigger must find the object that it names.
            writer.apply_watcher_event(&event);
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(class) => listed.push(class),
                Event::InitDone => {
                    self.beliefs.watch_synced(CLASSES);
                    beliefs.retain_classes(&listed.iter().map(class_name).collect());
                    listed.drain(..).for_each(|it| beliefs.note_class(&it));
                }
                Event::Apply(class) => beliefs.note_class(&class),
                Event::Delete(class) => beliefs.forget_class(&class_name(&class)),
            }
        }
    }

    /// Watches name and resourceVersion of the Secrets that classes may name.
    pub async fn watch_class_secrets(self, namespace: String) {
        let name = class_secrets(&namespace);
        loop {
            let api = Api::namespaced(self.client.clone(), &namespace);
            self.watch_class_secrets_once(&name, api).await;
            self.beliefs.classes().secrets_unwatched();
            tokio::time::sleep(self.patience()).await;
        }
    }

    async fn watch_class_secrets_once(&self, name: &str, api: Api<PartialObjectMeta<Secret>>) {
        let mut stream = watcher(api, watcher::Config::default())
            .default_backoff()
            .boxed();
        let beliefs = self.beliefs.classes();
        let mut listed = BTreeSet::new();
        let revision = |it: &PartialObjectMeta<Secret>| it.resource_version().unwrap_or_default();
        while let Some(event) = stream.next().await {
            let event = match self.noted(name, "", "secrets", event) {
                Noted::News(event) => event,
                Noted::Nothing => {
                    // Deaf for now: whoever needs a Secret reads it.
                    beliefs.secrets_unwatched();
                    continue;
                }
                Noted::Useless => return,
            };
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(secret) => {
                    listed.insert((secret.name_any(), revision(&secret)));
                }
                Event::InitDone => {
                    let names = listed.iter().map(|(name, _)| name.clone()).collect();
                    beliefs.retain_secrets(&names);
                    for (name, revision) in std::mem::take(&mut listed) {
                        beliefs.note_secret(&name, &revision);
                    }
                    self.beliefs.watch_synced(name);
                }
                Event::Apply(secret) => {
                    beliefs.note_secret(&secret.name_any(), &revision(&secret));
                }
                Event::Delete(secret) => beliefs.forget_secret(&secret.name_any()),
            }
        }
    }
}

fn is_for(class: &GuardedClass, namespace: &str) -> bool {
    let labelled = class.labels().get(keys::LABEL_CLASS_NAMESPACE);
    labelled.is_none_or(|it| it == namespace)
}
