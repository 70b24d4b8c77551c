//! Which Secrets of ours there are, by name and resourceVersion: enough to see that one changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use leasehold_crds::BackendKind;

use super::Key;

/// See the module.
#[derive(Debug, Default)]
pub struct SecretBeliefs(Mutex<BTreeMap<Key, String>>);

impl SecretBeliefs {
    /// Takes in a Secret; the ClusterService that it concerns, if it is news.
    pub fn note(&self, secret: Key, revision: &str) -> Option<Key> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let service = service_of(&secret);
        let before = known.insert(secret, revision.to_owned());
        (before.as_deref() != Some(revision))
            .then_some(service)
            .flatten()
    }

    /// Whether there is a Secret of ours of this name, as far as is seen.
    pub fn is_known(&self, secret: &Key) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains_key(secret)
    }

    /// A Secret is gone; the ClusterService that it concerns.
    pub fn forget(&self, secret: &Key) -> Option<Key> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(secret)?;
        service_of(secret)
    }

    /// Secrets that a complete LIST did not show are gone; the ClusterServices that they concern.
    pub fn retain(&self, region: Option<&str>, listed: &BTreeSet<Key>) -> Vec<Key> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut concerned = Vec::new();
        known.retain(|secret, _| {
            let is_kept = region.is_some_and(|it| it != secret.0) || listed.contains(secret);
            if !is_kept {
                concerned.extend(service_of(secret));
            }
            is_kept
        });
        concerned
    }
}

/// By name, since a label cannot hold every name.
fn service_of((namespace, name): &Key) -> Option<Key> {
    let (service, _) = BackendKind::of_secret_name(name)?;
    Some((namespace.clone(), service.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> Key {
        (namespace.to_owned(), name.to_owned())
    }

    #[test]
    fn a_secret_that_is_made_changed_or_gone_concerns_its_service_once() {
        let beliefs = SecretBeliefs::default();
        let billing = Some(key("demo", "billing"));
        assert_eq!(beliefs.note(key("demo", "billing-redis"), "1"), billing);
        assert_eq!(beliefs.note(key("demo", "billing-redis"), "1"), None);
        assert_eq!(beliefs.note(key("demo", "billing-redis"), "2"), billing);
        assert_eq!(beliefs.note(key("demo", "somebody"), "1"), None);
        assert_eq!(beliefs.forget(&key("demo", "billing-redis")), billing);
        assert_eq!(beliefs.forget(&key("demo", "billing-redis")), None);
    }

    #[test]
    fn a_list_tells_what_is_gone_from_its_region() {
        let beliefs = SecretBeliefs::default();
        for namespace in ["a", "b"] {
            beliefs.note(key(namespace, "x-postgres"), "1");
            beliefs.note(key(namespace, "y-postgres"), "1");
        }
        let listed = BTreeSet::from([key("a", "x-postgres")]);
        assert_eq!(beliefs.retain(Some("a"), &listed), [key("a", "y")]);
        assert_eq!(
            beliefs.retain(None, &listed),
            [key("b", "x"), key("b", "y")]
        );
    }
}
