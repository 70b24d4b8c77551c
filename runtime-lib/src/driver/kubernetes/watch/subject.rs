//! What a listed or watched Lease is for.

use leasehold_crds::keys;
use serde_json::Value;

use crate::key::LeaseKey;

/// What a Lease is for, by its name: labels can be edited by anybody.
pub(super) enum Subject {
    /// A Lease that somebody holds or publishes.
    Lease(LeaseKey),
    /// The settings of this leader.
    Settings(LeaseKey),
}

impl Subject {
    pub(super) fn of(object: &Value) -> Option<Self> {
        let name = object["metadata"]["name"].as_str()?;
        if let Some(key) = LeaseKey::of_lease_name(name) {
            return Some(Self::Lease(key));
        }
        let (id, kind) = name.split_once('.')?;
        let key = LeaseKey::new(id).ok()?;
        (kind == keys::LEASE_SETTINGS).then_some(Self::Settings(key))
    }
}

pub(super) fn settings_text(object: &Value) -> Option<String> {
    let text = object["metadata"]["annotations"][keys::ANNOTATION_SETTINGS].as_str();
    text.map(str::to_owned)
}
