//! A Secret as the API server has it, of which Debug shows the name and the keys, and no value.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use leasehold_crds::keys;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize as _;

/// A Secret. `Api<SecretObject>` reads and writes it, so that no other type ever holds the data, which
/// the Debug of [`Secret`] would print.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretObject(Secret);

impl SecretObject {
    /// Wraps one that a test or a program has built.
    pub fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Name, labels and annotations.
    pub fn metadata(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    /// Its type, which never changes.
    pub fn kind(&self) -> Option<&str> {
        self.0.type_.as_deref()
    }

    /// Nobody can change it, not even its owner.
    pub fn is_immutable(&self) -> bool {
        self.0.immutable == Some(true)
    }

    /// The BackendClass that it was made for, and the database, if it names one.
    pub fn place(&self) -> Option<(&str, Option<&str>)> {
        let class = self.annotation(keys::ANNOTATION_CLASS)?;
        Some((class, self.text(keys::secret::DATABASE)))
    }

    /// Whether it was made by us for this very object, to go with it.
    pub fn goes_with(&self, uid: &str) -> bool {
        let owners = self.0.metadata.owner_references.iter().flatten();
        self.annotation(keys::ANNOTATION_OWNER_MARK).is_some()
            && owners.into_iter().any(|owner| owner.uid == uid)
    }

    /// A value that is text and not empty.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        let bytes = &self.0.data.as_ref()?.get(key)?.0;
        std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.is_empty())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0
            .data
            .as_ref()
            .is_some_and(|data| data.contains_key(key))
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.0.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    pub(super) fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }

    pub(super) fn annotate(&mut self, key: &str, value: Option<String>) {
        let annotations = self.0.metadata.annotations.get_or_insert_default();
        match value {
            Some(value) => annotations.insert(key.to_owned(), value),
            None => annotations.remove(key),
        };
    }

    /// Sets a value, or takes it away; what stood there is wiped from memory.
    pub(super) fn put(&mut self, key: &str, value: Option<&str>) {
        let data = self.0.data.get_or_insert_default();
        let former = match value {
            Some(value) => data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec())),
            None => data.remove(key),
        };
        if let Some(mut former) = former {
            former.0.zeroize();
        }
    }
}

impl fmt::Debug for SecretObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectMeta {
            namespace,
            name,
            resource_version,
            ..
        } = &self.0.metadata;
        let keys: Vec<_> = self.0.data.iter().flat_map(BTreeMap::keys).collect();
        f.debug_struct("SecretObject")
            .field("namespace", namespace)
            .field("name", name)
            .field("resource_version", resource_version)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

impl Drop for SecretObject {
    fn drop(&mut self) {
        for value in self.0.data.iter_mut().flat_map(BTreeMap::values_mut) {
            value.0.zeroize();
        }
        for value in self.0.string_data.iter_mut().flat_map(BTreeMap::values_mut) {
            value.zeroize();
        }
    }
}

impl k8s_openapi::Resource for SecretObject {
    const API_VERSION: &'static str = <Secret as k8s_openapi::Resource>::API_VERSION;
    const GROUP: &'static str = <Secret as k8s_openapi::Resource>::GROUP;
    const KIND: &'static str = <Secret as k8s_openapi::Resource>::KIND;
    const VERSION: &'static str = <Secret as k8s_openapi::Resource>::VERSION;
    const URL_PATH_SEGMENT: &'static str = <Secret as k8s_openapi::Resource>::URL_PATH_SEGMENT;
    type Scope = <Secret as k8s_openapi::Resource>::Scope;
}

impl k8s_openapi::Metadata for SecretObject {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}
