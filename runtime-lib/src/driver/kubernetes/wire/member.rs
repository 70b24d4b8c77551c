//! A member's record as JSON.

use k8s_openapi::ByteString;
use leasehold_core::id::Revision;
use leasehold_core::partition::{Bitmap, MemberRecord, PARTITIONS_MAX};
use serde::{Deserialize, Serialize};

use super::{LayoutJson, Unreadable, VERSION, read_hash};

/// Fields that say what is usual are left out.
#[derive(Serialize, Deserialize)]
struct Json {
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layout: Option<LayoutJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acked: Option<u64>,
    /// The bitmap in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owned: Option<ByteString>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    draining: bool,
    hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<i64>,
}

pub(super) fn write(record: &MemberRecord) -> Result<String, String> {
    let owned = record.owned.to_bytes();
    let json = Json {
        version: VERSION,
        layout: record.layout.map(LayoutJson::of),
        acked: record.acked.map(Revision::number),
        owned: (!owned.is_empty()).then_some(ByteString(owned)),
        draining: record.draining,
        hash: record.hash.as_str().to_owned(),
        revision: record.revision.as_deref().map(str::to_owned),
        zone: record.zone.as_deref().map(str::to_owned),
        weight: (record.weight != 1).then_some(record.weight.into()),
    };
    serde_json::to_string(&json).map_err(|error| error.to_string())
}

pub(super) fn read(text: &str) -> Result<MemberRecord, Unreadable> {
    let json: Json = serde_json::from_str(text)?;
    let owned = json.owned.map(|owned| owned.0).unwrap_or_default();
    let owned_max = usize::from(PARTITIONS_MAX / 8);
    if owned.len() > owned_max {
        let found = owned.len();
        return Err(format!("owned: found {found} bytes, allowed are up to {owned_max}").into());
    }
    let weight = json.weight.unwrap_or(1);
    let layout = json.layout.map(|layout| layout.read()).transpose()?;
    Ok(MemberRecord {
        layout,
        acked: json.acked.map(read_epoch).transpose()?,
        owned: Bitmap::from_bytes(&owned),
        draining: json.draining,
        hash: read_hash("hash", &json.hash)?,
        revision: json.revision.map(Into::into),
        zone: json.zone.map(Into::into),
        weight: u32::try_from(weight)
            .ok()
            .filter(|weight| *weight > 0)
            .ok_or_else(|| format!("weight: found {weight}, allowed are 1 to {}", u32::MAX))?,
    })
}

fn read_epoch(number: u64) -> Result<Revision, String> {
    Revision::new(number).map_err(|error| format!("acked: {error}"))
}
