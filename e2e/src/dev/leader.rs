//! Who leads, read from the Lease: the truth the operator shows as well.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use leasehold_core::id::pod_name;

use crate::control_plane::kubeconfig;
use crate::error::Result;
use crate::wait;

/// A leader as the Lease shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    pub(super) pod: String,
    pub(super) holder: String,
    pub(super) term: i32,
}

/// Looks at one leader Lease.
pub(super) struct LeaderView {
    leases: Api<Lease>,
    name: String,
}

impl LeaderView {
    pub(super) async fn new(admin: &Path, namespace: &str, cluster_id: &str) -> Result<Self> {
        let leases = Api::namespaced(kubeconfig::client(admin).await?, namespace);
        Ok(Self {
            leases,
            name: format!("{cluster_id}.leader"),
        })
    }

    /// The leader now, if there is one.
    pub(super) async fn now(&self) -> Result<Option<Leader>> {
        let Some(spec) = self
            .leases
            .get_opt(&self.name)
            .await?
            .and_then(|lease| lease.spec)
        else {
            return Ok(None);
        };
        let term = spec.lease_transitions.unwrap_or_default();
        Ok(spec
            .holder_identity
            .filter(|holder| !holder.is_empty())
            .map(|holder| Leader {
                pod: pod_name(&holder).unwrap_or(&holder).to_owned(),
                holder,
                term,
            }))
    }

    /// The first leader.
    pub(super) async fn first(&self, within: Duration) -> Result<Leader> {
        wait::until("a first leader", within, || self.now()).await
    }

    /// The next leader after `old`, and how long after `since` it was there.
    pub(super) async fn next(
        &self,
        old: &Leader,
        since: Instant,
        within: Duration,
    ) -> Result<(Leader, Duration)> {
        let what = format!("a leader after {} of term {}", old.pod, old.term);
        let leader = wait::closely(&what, within, || async {
            Ok(self
                .now()
                .await?
                .filter(|leader| leader.holder != old.holder))
        })
        .await?;
        Ok((leader, since.elapsed()))
    }
}
