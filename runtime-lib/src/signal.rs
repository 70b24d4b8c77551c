//! Every key under which something is logged and counted. An alert rule names one of these.

use std::sync::atomic::{AtomicU64, Ordering};

/// A leadership began or ended, here or elsewhere.
pub(crate) const LEADERSHIP_CHANGED: &str = "leadership.changed";
/// Waits for somebody else's lease.
pub(crate) const LEADERSHIP_WAITS: &str = "leadership.waits";
/// A request to the lease store failed.
pub(crate) const LEASE_UNAVAILABLE: &str = "lease.unavailable";
/// A write to the lease store ended without a known outcome (E2).
pub(crate) const LEASE_OUTCOME_UNKNOWN: &str = "lease.outcome_unknown";
/// A Lease cannot be read.
pub(crate) const LEASE_MALFORMED: &str = "lease.malformed";
/// A lease could not be given back and has to lapse.
pub(crate) const LEASE_NOT_RELEASED: &str = "lease.not_released";
/// Two processes share an identity.
pub(crate) const IDENTITY_DUPLICATE: &str = "identity.duplicate";
/// The watch of the leases is down.
pub(crate) const WATCH_DOWN: &str = "watch.down";
/// Declared settings are in force.
pub(crate) const SETTINGS_APPLIED: &str = "settings.applied";
/// Declared settings cannot be used.
pub(crate) const SETTINGS_REFUSED: &str = "settings.refused";
/// The veto or the watchdog found the work unhealthy.
pub(crate) const WORK_UNHEALTHY: &str = "work.unhealthy";
/// A member began or ended a life: it holds its member lease, or no more.
pub(crate) const MEMBERSHIP_CHANGED: &str = "membership.changed";
/// The leader took the lease of a silent member away (H5).
pub(crate) const MEMBER_FENCED: &str = "member.fenced";
/// The handoff of a partition takes longer than a drain may.
pub(crate) const PARTITION_STUCK: &str = "partition.stuck";
/// The work of a partition ended by itself and is started again.
pub(crate) const PARTITION_RESTARTED: &str = "partition.restarted";
/// The leader published a table.
pub(crate) const TABLE_PUBLISHED: &str = "table.published";
/// A table cannot be used.
pub(crate) const TABLE_REFUSED: &str = "table.refused";
/// A client went over to other credentials.
pub(crate) const BINDING_CHANGED: &str = "binding.changed";
/// A binding cannot be read, or its credentials do not let in.
pub(crate) const BINDING_REFUSED: &str = "binding.refused";
/// Credentials come from a variable, so they cannot be reloaded.
pub(crate) const BINDING_FIXED: &str = "binding.fixed";

/// All keys.
pub(crate) const ALL: [&str; 20] = [
    LEADERSHIP_CHANGED,
    LEADERSHIP_WAITS,
    LEASE_UNAVAILABLE,
    LEASE_OUTCOME_UNKNOWN,
    LEASE_MALFORMED,
    LEASE_NOT_RELEASED,
    IDENTITY_DUPLICATE,
    WATCH_DOWN,
    SETTINGS_APPLIED,
    SETTINGS_REFUSED,
    WORK_UNHEALTHY,
    MEMBERSHIP_CHANGED,
    MEMBER_FENCED,
    PARTITION_STUCK,
    PARTITION_RESTARTED,
    TABLE_PUBLISHED,
    TABLE_REFUSED,
    BINDING_CHANGED,
    BINDING_REFUSED,
    BINDING_FIXED,
];

static COUNTS: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

/// Counts one occurrence.
pub(crate) fn count(key: &str) {
    if let Some(position) = ALL.iter().position(|known| *known == key) {
        COUNTS[position].fetch_add(1, Ordering::Relaxed);
    }
}

/// How often `key` occurred in this process.
#[cfg(feature = "metrics")]
pub(crate) fn counted(key: &str) -> u64 {
    let position = ALL.iter().position(|known| *known == key);
    position.map_or(0, |position| COUNTS[position].load(Ordering::Relaxed))
}
