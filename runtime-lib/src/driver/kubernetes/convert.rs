//! Lease objects to records and back.
//!
//! Objects are kept as raw JSON: what we do not know (fields of newer servers, labels and
//! annotations of others) survives our writes, and no nonsense in one field makes the rest
//! unreadable.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use leasehold_core::election::{Purpose, Target, Write};
use leasehold_core::id::{LeaseUid, Revision, Term};
use leasehold_core::lease::{AttemptStamp, Contents, LeaseRecord, ReleaseStamp, Versioned};
use leasehold_core::time::Duration;
use leasehold_crds::keys;
use serde_json::{Map, Value, json};

use super::wire;
use crate::driver::Marks;
use crate::key::LeaseKey;

/// Why an object cannot be used as a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: found {found}, allowed is {allowed}")]
pub struct Malformed {
    field: &'static str,
    found: String,
    allowed: &'static str,
}

/// The record of a Lease, as the election reads it.
///
/// Only the revision and uid must be sound; any other nonsense reads as "missing". What it is for,
/// and so what it may carry, its name says.
pub fn read_lease(lease: &Lease) -> Result<Versioned, Malformed> {
    let spec = lease.spec.as_ref();
    let annotation = |name: &str| Some(lease.metadata.annotations.as_ref()?.get(name)?.as_str());
    let record = LeaseRecord {
        holder: spec.and_then(|spec| non_empty(spec.holder_identity.as_deref()?)),
        duration: spec.and_then(|spec| duration(spec.lease_duration_seconds?.into())),
        term: term(
            spec.and_then(|spec| spec.lease_transitions)
                .unwrap_or(0)
                .into(),
        ),
        attempt: annotation(keys::ANNOTATION_ATTEMPT).and_then(AttemptStamp::parse),
        released: annotation(keys::ANNOTATION_RELEASED).and_then(ReleaseStamp::parse),
        preferred_holder: spec.and_then(|spec| non_empty(spec.preferred_holder.as_deref()?)),
        contents: contents(lease.metadata.name.as_deref(), annotation),
    };
    let metadata = &lease.metadata;
    versioned(
        metadata.uid.as_deref(),
        metadata.resource_version.as_deref(),
        record,
    )
}

/// The same from raw JSON.
pub(super) fn read_object(object: &Value) -> Result<Versioned, Malformed> {
    let metadata = &object["metadata"];
    let spec = &object["spec"];
    let annotation = |name: &str| metadata["annotations"][name].as_str();
    let record = LeaseRecord {
        holder: spec["holderIdentity"].as_str().and_then(non_empty),
        duration: spec["leaseDurationSeconds"].as_i64().and_then(duration),
        term: term(spec["leaseTransitions"].as_i64().unwrap_or(0)),
        attempt: annotation(keys::ANNOTATION_ATTEMPT).and_then(AttemptStamp::parse),
        released: annotation(keys::ANNOTATION_RELEASED).and_then(ReleaseStamp::parse),
        preferred_holder: spec["preferredHolder"].as_str().and_then(non_empty),
        contents: contents(metadata["name"].as_str(), annotation),
    };
    versioned(
        metadata["uid"].as_str(),
        metadata["resourceVersion"].as_str(),
        record,
    )
}

/// Labels can be edited by anybody, so the name decides.
fn contents<'a>(name: Option<&str>, annotation: impl Fn(&str) -> Option<&'a str>) -> Contents {
    match name.and_then(LeaseKey::of_lease_name) {
        Some(key) => wire::read(key.kind(), annotation),
        None => Contents::Nothing,
    }
}

fn versioned(
    uid: Option<&str>,
    revision: Option<&str>,
    record: LeaseRecord,
) -> Result<Versioned, Malformed> {
    let uid = uid.filter(|uid| !uid.is_empty()).ok_or(Malformed {
        field: "metadata.uid",
        found: "nothing".to_owned(),
        allowed: "the uid that the API server gave",
    })?;
    Ok(Versioned {
        uid: LeaseUid::new(uid),
        revision: read_revision(revision)?,
        record,
    })
}

/// E7: an integer of at most 2⁶³−1; anything else is refused rather than guessed.
pub(super) fn read_revision(text: Option<&str>) -> Result<Revision, Malformed> {
    let number = text.and_then(|text| text.parse::<u64>().ok());
    number
        .and_then(|number| Revision::new(number).ok())
        .ok_or_else(|| Malformed {
            field: "metadata.resourceVersion",
            found: text.map_or("nothing".to_owned(), |text| {
                format!("{:?}", shortened(text))
            }),
            allowed: "an integer from 1 to 9223372036854775807",
        })
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn duration(seconds: i64) -> Option<Duration> {
    u64::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
}

fn term(transitions: i64) -> Term {
    let clamped = transitions.clamp(0, i64::from(i32::MAX));
    Term::new(u32::try_from(clamped).unwrap_or(0))
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Does the Lease carry the labels by which watches find it (E4)?
pub(super) fn has_our_labels(object: &Value, key: &LeaseKey) -> bool {
    let labels = &object["metadata"]["labels"];
    labels[keys::LABEL_CLUSTER_ID] == key.cluster_id()
        && labels[keys::LABEL_LEASE] == key.kind().as_str()
}

/// Drops what only the server needs, so that keeping an object is cheap.
pub(super) fn trimmed(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// The object of a write: `base` is the revision it replaces, with everything of others in it.
pub(super) fn to_object(
    base: Option<&Value>,
    key: &LeaseKey,
    namespace: &str,
    write: &Write,
    marks: &Marks,
    now: jiff::Timestamp,
) -> Result<Value, String> {
    let mut object = match base {
        Some(Value::Object(base)) => base.clone(),
        _ => Map::new(),
    };
    let mut metadata = take_map(&mut object, "metadata");
    metadata.insert("name".to_owned(), json!(key.lease_name()));
    metadata.insert("namespace".to_owned(), json!(namespace));
    metadata.remove("managedFields"); // absent: the server keeps its own
    // E1: uid and resourceVersion make a PUT a compare-and-set of one life.
    let (uid, revision) = match &write.target {
        Target::Absent => (None, None),
        Target::Exactly { uid, revision } => {
            (Some(json!(uid.as_str())), Some(json!(revision.to_string())))
        }
    };
    set(&mut metadata, "uid", uid);
    set(&mut metadata, "resourceVersion", revision);
    let mut labels = take_map(&mut metadata, "labels");
    labels.insert(keys::LABEL_CLUSTER_ID.to_owned(), json!(key.cluster_id()));
    labels.insert(keys::LABEL_LEASE.to_owned(), json!(key.kind().as_str()));
    metadata.insert("labels".to_owned(), Value::Object(labels));
    let mut annotations = take_map(&mut metadata, "annotations");
    write_annotations(&mut annotations, write, marks)?;
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    let mut spec = take_map(&mut object, "spec");
    write_spec(&mut spec, write, now);
    object.insert("apiVersion".to_owned(), json!("coordination.k8s.io/v1"));
    object.insert("kind".to_owned(), json!("Lease"));
    object.insert("metadata".to_owned(), Value::Object(metadata));
    object.insert("spec".to_owned(), Value::Object(spec));
    Ok(Value::Object(object))
}

fn write_annotations(
    annotations: &mut Map<String, Value>,
    write: &Write,
    marks: &Marks,
) -> Result<(), String> {
    let record = &write.record;
    let stamps = [
        (
            keys::ANNOTATION_ATTEMPT,
            record.attempt.as_ref().map(ToString::to_string),
        ),
        (
            keys::ANNOTATION_RELEASED,
            record.released.as_ref().map(ToString::to_string),
        ),
    ];
    let generation = marks.settings_generation;
    let marks = [
        (
            keys::ANNOTATION_SETTINGS_GENERATION,
            generation.map(|generation| generation.to_string()),
        ),
        (keys::ANNOTATION_FIXED, marks.fixed.clone()),
    ];
    // A fence is somebody else's write: the marks are the member's own.
    let marks = marks
        .into_iter()
        .filter(|_| write.purpose != Purpose::Fence);
    for (name, value) in stamps.into_iter().chain(marks) {
        set(annotations, name, value.map(Value::String));
    }
    if let Some((name, text)) = wire::write(&record.contents)? {
        annotations.insert(name.to_owned(), Value::String(text));
    }
    Ok(())
}

/// All five classic fields, as client-go peers expect them.
fn write_spec(spec: &mut Map<String, Value>, write: &Write, now: jiff::Timestamp) {
    let record = &write.record;
    let now = serde_json::to_value(MicroTime(now)).unwrap_or(Value::Null);
    spec.insert(
        "holderIdentity".to_owned(),
        json!(record.holder.as_deref().unwrap_or("")),
    );
    let seconds = record
        .duration
        .map(|duration| duration.as_secs().clamp(1, i32::MAX as u64));
    set(spec, "leaseDurationSeconds", seconds.map(Value::from));
    spec.insert("leaseTransitions".to_owned(), json!(record.term.number()));
    if write.purpose == Purpose::Claim || !spec.contains_key("acquireTime") {
        spec.insert("acquireTime".to_owned(), now.clone());
    }
    spec.insert("renewTime".to_owned(), now);
    set(
        spec,
        "preferredHolder",
        record.preferred_holder.clone().map(Value::String),
    );
}

fn set(map: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(name.to_owned(), value),
        None => map.remove(name),
    };
}

/// Takes the object under `name`; whatever else stands there is dropped.
fn take_map(map: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match map.remove(name) {
        Some(Value::Object(inner)) => inner,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
