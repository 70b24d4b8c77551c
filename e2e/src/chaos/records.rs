//! What the Leases of a namespace said, as the API server told it: each change
//! of a holder with the instant at which it was seen here.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::watcher;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::history;

/// A Lease as it became with a change of holder, term or life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the change was seen, in nanoseconds of the boot-time clock.
    pub t: u64,
    /// The Lease.
    pub lease: String,
    /// Its resource version.
    pub revision: u64,
    /// Its holder; none if it is empty or the Lease was deleted.
    pub holder: Option<String>,
    /// Its number of transitions.
    pub transitions: i32,
}

/// Follows all Leases of one namespace until it is dropped.
pub struct Records {
    seen: Arc<Mutex<Vec<Record>>>,
    following: JoinHandle<()>,
}

impl Records {
    /// Begins to follow.
    pub fn follow(leases: Api<Lease>) -> Self {
        let seen = Arc::new(Mutex::default());
        let following = tokio::spawn(follow(leases, Arc::clone(&seen)));
        Self { seen, following }
    }

    /// The changes of one Lease so far.
    pub fn of(&self, lease: &str) -> Vec<Record> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of_lease = seen.iter().filter(|record| record.lease == lease);
        of_lease.cloned().collect()
    }

    /// The first change of one Lease, after `since`, that `wanted` accepts.
    pub fn find(
        &self,
        lease: &str,
        since: u64,
        wanted: impl Fn(&Record) -> bool,
    ) -> Option<Record> {
        let records = self.of(lease).into_iter();
        let mut later = records.filter(|record| record.t >= since);
        later.find(|record| wanted(record))
    }

    /// The resource version of the write with which `holder` acquired one Lease
    /// for the `turn`th time (from 0): the token of that leadership.
    pub fn token(&self, lease: &str, holder: &str, turn: usize) -> Result<u64> {
        let acquired = self
            .of(lease)
            .into_iter()
            .filter(|record| record.holder.as_deref() == Some(holder))
            .nth(turn);
        acquired.map(|record| record.revision).ok_or_else(|| {
            Error::new(format!(
                "{lease}: {holder} started {} times, but the API server did not show so many acquisitions",
                turn + 1
            ))
        })
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.following.abort();
    }
}

async fn follow(leases: Api<Lease>, seen: Arc<Mutex<Vec<Record>>>) {
    let mut events = std::pin::pin!(watcher(leases, watcher::Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) => {
                note(&seen, read(&lease, false));
            }
            Ok(watcher::Event::Delete(lease)) => note(&seen, read(&lease, true)),
            // The watcher lists again by itself.
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
        }
    }
}

fn note(seen: &Mutex<Vec<Record>>, record: Record) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let before = seen
        .iter()
        .rev()
        .find(|before| before.lease == record.lease);
    let is_same = before.is_some_and(|before| {
        before.holder == record.holder && before.transitions == record.transitions
    });
    if !is_same {
        seen.push(record);
    }
}

fn read(lease: &Lease, deleted: bool) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let revision = lease.metadata.resource_version.as_deref();
    Record {
        t: history::now(),
        lease: lease.metadata.name.clone().unwrap_or_default(),
        revision: revision
            .and_then(|text| text.parse().ok())
            .unwrap_or_default(),
        holder: spec
            .holder_identity
            .filter(|holder| !holder.is_empty() && !deleted),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}
