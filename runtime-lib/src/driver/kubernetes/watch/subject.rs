//! What a listed or watched Lease is for.

use leasehold_crds::keys;
use serde_json::Value;

use crate::key::LeaseKey;

/// What a Lease is for, by its name: labels can be edited by anybody.
pub(super) enum Subject {
    Leader(LeaseKey),
    Settings(LeaseKey),
}

impl Subject {
    pub(super) fn of(object: &Value) -> Option<Self> {
        let (id, kind) = object["metadata"]["name"].as_str()?.split_once('.')?;
        let key = LeaseKey::new(id).ok()?;
        match kind {
            keys::LEASE_LEADER => Some(Self::Leader(key)),
            keys::LEASE_SETTINGS => Some(Self::Settings(key)),
            _ => None,
        }
    }
}

pub(super) fn settings_text(object: &Value) -> Option<String> {
    let text = object["metadata"]["annotations"][keys::ANNOTATION_SETTINGS].as_str();
    text.map(str::to_owned)
}
