//! Every revision of one Lease, as the API server told it.

use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::watcher;
use leasehold_e2e::history;
use tokio::task::JoinHandle;

use crate::ground::holder;

/// One revision.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    /// When it was seen, in nanoseconds of the boot-time clock.
    pub(crate) t: u64,
    pub(crate) holder: Option<String>,
    /// Its renewTime, as text.
    pub(crate) renewed: Option<String>,
}

/// Follows one Lease until it is dropped.
pub(crate) struct Revisions {
    seen: Arc<Mutex<Vec<Revision>>>,
    following: JoinHandle<()>,
}

impl Revisions {
    pub(crate) fn follow(leases: Api<Lease>, name: &str) -> Self {
        let seen = Arc::new(Mutex::default());
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let following = tokio::spawn(follow(leases, config, Arc::clone(&seen)));
        Self { seen, following }
    }

    /// All so far, in order.
    pub(crate) fn all(&self) -> Vec<Revision> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Revisions {
    fn drop(&mut self) {
        self.following.abort();
    }
}

async fn follow(leases: Api<Lease>, config: watcher::Config, seen: Arc<Mutex<Vec<Revision>>>) {
    let mut events = std::pin::pin!(watcher(leases, config));
    while let Some(event) = events.next().await {
        let Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) = event else {
            continue; // the watcher lists again by itself
        };
        let spec = lease.spec.as_ref();
        let revision = Revision {
            t: history::now(),
            holder: holder(&lease).map(str::to_owned),
            renewed: spec.and_then(|spec| Some(spec.renew_time.as_ref()?.0.to_string())),
        };
        seen.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(revision);
    }
}
