//! What concerns which BackendClass: the ClusterServices that name it, and the Secrets that it names.
//!
//! Of Secrets only name and resourceVersion are kept: enough to see that one changed, and nothing secret.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::core::DeserializeGuard;
use kube_runtime::reflector::ObjectRef;
use leasehold_crds::{BackendClass, ClusterServiceSpec};
use tokio::sync::broadcast;

use super::{Guarded, Key, key};

/// A BackendClass as the watch delivers it: one that cannot be read is a value, not a broken watch.
pub type GuardedClass = DeserializeGuard<BackendClass>;
/// Names a BackendClass whose state may have changed.
pub type ClassTrigger = ObjectRef<GuardedClass>;

/// More than the classes of a large installation; whoever lags further behind looks at all of them.
const TRIGGERS_MAX: usize = 1024;

/// See the module.
#[derive(Debug)]
pub struct ClassBeliefs {
    inner: Mutex<Inner>,
    triggers: broadcast::Sender<ClassTrigger>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By class: the services that name it.
    users: BTreeMap<String, BTreeSet<Key>>,
    /// By service: the classes that it names.
    named: BTreeMap<Key, BTreeSet<String>>,
    /// By class: the Secrets that it names.
    secrets_of: BTreeMap<String, BTreeSet<String>>,
    /// resourceVersions of the Secrets in the namespace of the classes; none while they are not watched.
    revisions: Option<BTreeMap<String, String>>,
}

/// What the watch says of a Secret in the namespace of the classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSighting {
    /// Nothing: Secrets are not watched (now).
    Unwatched,
    /// There is none.
    Absent,
    /// Its resourceVersion.
    Present(String),
}

impl Default for ClassBeliefs {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            triggers: broadcast::channel(TRIGGERS_MAX).0,
        }
    }
}

impl ClassBeliefs {
    /// Triggers from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<ClassTrigger> {
        self.triggers.subscribe()
    }

    /// Looks at a class once.
    pub fn trigger(&self, class: &str) {
        // Nobody listens while another replica leads.
        let _ = self.triggers.send(ClassTrigger::new(class));
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change leaves the maps whole, so a panic elsewhere does not spoil them.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a BackendClass.
    pub fn note_class(&self, class: &GuardedClass) {
        let name = class_name(class);
        let secrets = class.0.as_ref().map_or(BTreeSet::new(), |class| {
            let spec = &class.spec;
            let named = [spec.admin_secret(), spec.ca_secret()];
            named.into_iter().flatten().map(str::to_owned).collect()
        });
        self.inner().secrets_of.insert(name.clone(), secrets);
        self.trigger(&name);
    }

    /// A BackendClass is gone.
    pub fn forget_class(&self, name: &str) {
        self.inner().secrets_of.remove(name);
        self.trigger(name);
    }

    /// Classes that a complete LIST did not show are gone.
    pub fn retain_classes(&self, listed: &BTreeSet<String>) {
        let mut inner = self.inner();
        let gone: Vec<String> = inner.secrets_of.keys().cloned().collect();
        inner.secrets_of.retain(|name, _| listed.contains(name));
        drop(inner);
        for name in gone.iter().filter(|name| !listed.contains(*name)) {
            self.trigger(name);
        }
    }

    /// Takes in a ClusterService; one that cannot be read keeps what it named before.
    pub fn note_service(&self, service: &Guarded) {
        if let Ok(readable) = &service.0 {
            self.name(key(service), &classes_of(&readable.spec));
        }
    }

    /// A ClusterService is gone.
    pub fn forget_service(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.name(key, &BTreeSet::new());
    }

    /// ClusterServices that a complete LIST did not show are gone.
    pub fn retain_services(&self, region: Option<&str>, listed: &BTreeSet<Key>) {
        let is_gone = |key: &&Key| region.is_none_or(|it| it == key.0) && !listed.contains(*key);
        let gone: Vec<Key> = self.inner().named.keys().filter(is_gone).cloned().collect();
        for (namespace, name) in gone {
            self.forget_service(&namespace, &name);
        }
    }

    fn name(&self, service: Key, classes: &BTreeSet<String>) {
        let mut inner = self.inner();
        let before = inner.named.remove(&service).unwrap_or_default();
        for class in before.difference(classes) {
            if let Some(users) = inner.users.get_mut(class) {
                users.remove(&service);
            }
        }
        inner.users.retain(|_, users| !users.is_empty());
        for class in classes.difference(&before) {
            let users = inner.users.entry(class.clone()).or_default();
            users.insert(service.clone());
        }
        if !classes.is_empty() {
            inner.named.insert(service, classes.clone());
        }
        drop(inner);
        for class in before.symmetric_difference(classes) {
            self.trigger(class);
        }
    }

    /// (namespace, name) of the ClusterServices that name a class.
    pub fn users(&self, class: &str) -> BTreeSet<Key> {
        self.inner().users.get(class).cloned().unwrap_or_default()
    }

    /// Takes in a Secret of the namespace of the classes.
    pub fn note_secret(&self, name: &str, revision: &str) {
        let mut inner = self.inner();
        let revisions = inner.revisions.get_or_insert_default();
        let before = revisions.insert(name.to_owned(), revision.to_owned());
        if before.as_deref() != Some(revision) {
            let concerned = inner.naming(name);
            drop(inner);
            for class in &concerned {
                self.trigger(class);
            }
        }
    }

    /// A Secret is gone.
    pub fn forget_secret(&self, name: &str) {
        let mut inner = self.inner();
        let known = inner.revisions.as_mut().and_then(|it| it.remove(name));
        if known.is_some() {
            let concerned = inner.naming(name);
            drop(inner);
            for class in &concerned {
                self.trigger(class);
            }
        }
    }

    /// Secrets that a complete LIST did not show are gone.
    pub fn retain_secrets(&self, listed: &BTreeSet<String>) {
        let known = self.inner().revisions.get_or_insert_default().clone();
        for name in known.keys().filter(|name| !listed.contains(*name)) {
            self.forget_secret(name);
        }
    }

    /// The Secrets cannot be watched (now): what was known may be old.
    pub fn secrets_unwatched(&self) {
        self.inner().revisions = None;
    }

    /// What the watch says of a Secret.
    pub fn secret(&self, name: &str) -> SecretSighting {
        match &self.inner().revisions {
            None => SecretSighting::Unwatched,
            Some(known) => known.get(name).map_or(SecretSighting::Absent, |it| {
                SecretSighting::Present(it.clone())
            }),
        }
    }
}

impl Inner {
    fn naming(&self, secret: &str) -> Vec<String> {
        let naming = self.secrets_of.iter();
        let naming = naming.filter(|(_, secrets)| secrets.contains(secret));
        naming.map(|(class, _)| class.clone()).collect()
    }
}

/// metadata.name of a class.
pub fn class_name(class: &GuardedClass) -> String {
    use kube::ResourceExt as _;
    class.name_any()
}

fn classes_of(spec: &ClusterServiceSpec) -> BTreeSet<String> {
    let postgres = spec.postgres.as_ref().map(|it| it.class_name.clone());
    let redis = spec.redis.as_ref().map(|it| it.class_name.clone());
    postgres.into_iter().chain(redis).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(name: &str, admin: &str) -> GuardedClass {
        serde_json::from_value(json!({
            "apiVersion": "leasehold.dev/v1alpha1", "kind": "BackendClass",
            "metadata": {"name": name},
            "spec": {"postgres": {
                "host": "db", "adminSecretRef": {"name": admin}, "tls": {"caSecretRef": {"name": "ca"}},
            }},
        }))
        .unwrap()
    }

    fn service(name: &str, spec: &Value) -> Guarded {
        serde_json::from_value(json!({
            "apiVersion": "leasehold.dev/v1alpha1", "kind": "ClusterService",
            "metadata": {"name": name, "namespace": "demo"}, "spec": spec,
        }))
        .unwrap()
    }

    fn drained(triggers: &mut broadcast::Receiver<ClassTrigger>) -> Vec<String> {
        let mut names = Vec::new();
        while let Ok(trigger) = triggers.try_recv() {
            names.push(trigger.name);
        }
        names
    }

    fn names(users: &BTreeSet<Key>) -> Vec<&str> {
        users.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn a_class_knows_who_names_it_and_hears_only_of_changes() {
        let beliefs = ClassBeliefs::default();
        let mut triggers = beliefs.subscribe();
        let both = json!({"postgres": {"className": "main"}, "redis": {"className": "cache"}});
        beliefs.note_service(&service("billing", &both));
        beliefs.note_service(&service("web", &json!({"redis": {"className": "cache"}})));
        assert_eq!(drained(&mut triggers), ["cache", "main", "cache"]);
        assert_eq!(names(&beliefs.users("cache")), ["billing", "web"]);
        beliefs.note_service(&service("billing", &both));
        assert_eq!(drained(&mut triggers), Vec::<String>::new());
        beliefs.note_service(&service("billing", &json!({})));
        assert_eq!(drained(&mut triggers), ["cache", "main"]);
        assert_eq!(names(&beliefs.users("cache")), ["web"]);
        beliefs.retain_services(Some("elsewhere"), &BTreeSet::new());
        assert_eq!(names(&beliefs.users("cache")), ["web"]);
        beliefs.retain_services(None, &BTreeSet::new());
        assert!(beliefs.users("cache").is_empty());
        assert_eq!(drained(&mut triggers), ["cache"]);
    }

    #[test]
    fn an_unreadable_service_still_holds_its_class() {
        let beliefs = ClassBeliefs::default();
        beliefs.note_service(&service("web", &json!({"redis": {"className": "cache"}})));
        beliefs.note_service(&service("web", &json!({"redis": 7})));
        assert_eq!(names(&beliefs.users("cache")), ["web"]);
    }

    #[test]
    fn a_changed_secret_concerns_the_classes_that_name_it() {
        let beliefs = ClassBeliefs::default();
        beliefs.note_class(&class("main", "main-admin"));
        beliefs.note_class(&class("other", "other-admin"));
        let mut triggers = beliefs.subscribe();
        assert_eq!(beliefs.secret("main-admin"), SecretSighting::Unwatched);
        beliefs.note_secret("main-admin", "1");
        beliefs.note_secret("unrelated", "1");
        beliefs.note_secret("main-admin", "1");
        assert_eq!(drained(&mut triggers), ["main"]);
        assert_eq!(
            beliefs.secret("main-admin"),
            SecretSighting::Present("1".to_owned())
        );
        beliefs.note_secret("ca", "1");
        assert_eq!(drained(&mut triggers), ["main", "other"]);
        beliefs.retain_secrets(&BTreeSet::from(["ca".to_owned()]));
        assert_eq!(drained(&mut triggers), ["main"]);
        assert_eq!(beliefs.secret("main-admin"), SecretSighting::Absent);
        beliefs.secrets_unwatched();
        assert_eq!(beliefs.secret("ca"), SecretSighting::Unwatched);
    }

    #[test]
    fn classes_that_are_gone_are_looked_at_once_more() {
        let beliefs = ClassBeliefs::default();
        beliefs.note_class(&class("main", "a"));
        beliefs.note_class(&class("other", "a"));
        let mut triggers = beliefs.subscribe();
        beliefs.retain_classes(&BTreeSet::from(["main".to_owned()]));
        beliefs.forget_class("main");
        assert_eq!(drained(&mut triggers), ["other", "main"]);
    }
}
