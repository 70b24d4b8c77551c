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

/// All keys.
pub(crate) const ALL: [&str; 11] = [
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
