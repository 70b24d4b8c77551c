//! What the controller of credentials last found, in memory: the one writer of status reads it there.
//!
//! Nothing here outlives the process. After a restart there is no report until the first look, and
//! status keeps what it said before: unknown is not absent.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use leasehold_crds::cluster_service::{BackendKind, CredentialStatus};

/// What a condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// True, False, or Unknown.
    pub is_met: Option<bool>,
    /// Its reason.
    pub reason: &'static str,
    /// Its message; never a password.
    pub message: String,
}

impl Said {
    /// It is so.
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Some(true), reason, message)
    }

    /// It is not so.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Some(false), reason, message)
    }

    /// Nobody knows now.
    pub fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(None, reason, message)
    }

    fn new(is_met: Option<bool>, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            is_met,
            reason,
            message,
        }
    }
}

/// What is known of one service at one store.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// PostgresReady or RedisReady.
    pub ready: Said,
    /// Its part of CredentialsCurrent.
    pub current: Said,
    /// Its part of `status.credentials`; none while no login is in force.
    pub credential: Option<CredentialStatus>,
}

/// (namespace, name).
type Key = (String, String);
/// What is known of one service, by store.
pub type OfService = BTreeMap<BackendKind, Report>;

/// All reports.
#[derive(Debug, Default)]
pub struct Reports(Mutex<BTreeMap<Key, OfService>>);

impl Reports {
    /// Takes in what was found; true if it is news.
    pub fn note(&self, key: &Key, kind: BackendKind, report: Report) -> bool {
        let mut all = self.all();
        let of_service = all.entry(key.clone()).or_default();
        let is_news = of_service.get(&kind) != Some(&report);
        of_service.insert(kind, report);
        is_news
    }

    /// What is known of a service.
    pub fn of(&self, key: &Key) -> OfService {
        self.all().get(key).cloned().unwrap_or_default()
    }

    /// The service wants nothing of this store any more, or is gone; true if that is news.
    pub fn forget(&self, key: &Key, kind: BackendKind) -> bool {
        let mut all = self.all();
        let Some(of_service) = all.get_mut(key) else {
            return false;
        };
        let is_news = of_service.remove(&kind).is_some();
        if of_service.is_empty() {
            all.remove(key);
        }
        is_news
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, OfService>> {
        // Every change leaves the map whole, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_different_report_is_news() {
        let reports = Reports::default();
        let key = ("demo".to_owned(), "orders".to_owned());
        let report = Report {
            ready: Said::yes("Provisioned", "works"),
            current: Said::yes("Current", "new"),
            credential: None,
        };
        assert!(reports.note(&key, BackendKind::Redis, report.clone()));
        assert!(!reports.note(&key, BackendKind::Redis, report.clone()));
        let other = Report {
            ready: Said::no("BackendUnreachable", "away"),
            ..report
        };
        assert!(reports.note(&key, BackendKind::Redis, other));
        assert!(reports.forget(&key, BackendKind::Redis));
        assert!(!reports.forget(&key, BackendKind::Redis));
        assert!(reports.of(&key).is_empty());
    }
}
