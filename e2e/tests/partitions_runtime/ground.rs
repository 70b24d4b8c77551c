//! What all scenarios share: a namespace with the node, and partitioned services
//! that are started, settled and judged.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use leasehold::LeaseTiming;
use leasehold_e2e::history::{Event, Fault, Line};
use leasehold_e2e::partitions::check::Judgement;
use leasehold_e2e::partitions::crew::{Crew, Place};
use leasehold_e2e::{Cluster, Error, ProcessNode, Result, TestNamespace};
use serde_json::Value;

/// No single step of a scenario takes longer, however slow the machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// The timing where a property does not depend on it.
pub(crate) const TIMING: LeaseTiming = LeaseTiming::FAST;

/// How many partitions most scenarios have.
pub(crate) const COUNT: u16 = 24;

pub(crate) struct Ground {
    pub(crate) namespace: TestNamespace<'static>,
    pub(crate) node: Arc<ProcessNode>,
    pub(crate) folder: PathBuf,
}

impl Ground {
    pub(crate) async fn prepare() -> Result<Self> {
        leasehold_e2e::programs::workload()?;
        let cluster = Cluster::shared().await?;
        let namespace = TestNamespace::new("partitions").await?;
        Ok(Self {
            node: cluster.node().await?,
            folder: cluster.folder().join("partitions"),
            namespace,
        })
    }

    pub(crate) async fn clear(self) -> Result<()> {
        self.namespace.finish().await
    }

    /// A service whose pods are not there yet.
    pub(crate) async fn crew(&self, name: &str, timing: LeaseTiming) -> Result<Crew> {
        let place = Place {
            name: name.to_owned(),
            namespace: self.namespace.name().to_owned(),
            folder: self.folder.join(name),
            admin: self.namespace.cluster().admin_kubeconfig(),
            timing,
            with_servers: false,
        };
        Crew::prepare(place, self.namespace.client(), &self.node).await
    }

    /// A service of `pods` pods that own all of [`COUNT`] partitions.
    pub(crate) async fn settled(
        &self,
        name: &str,
        pods: usize,
        more: &[(&str, &str)],
    ) -> Result<Crew> {
        let crew = self.crew(name, TIMING).await?;
        crew.declare(1, COUNT).await?;
        let mut env = vec![("WORKLOAD_WRITE_EVERY_MS", "200".to_owned())];
        env.extend(
            more.iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        crew.deploy(pods, &env).await?;
        crew.settled(pods, COUNT, PATIENCE).await?;
        Ok(crew)
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        self.namespace.api()
    }

    /// Changes a Lease as somebody outside, and writes down that it happened.
    pub(crate) async fn edit(&self, crew: &Crew, name: &str, patch: &Value) -> Result<Lease> {
        let edited = self
            .leases()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        note_edit(crew)?;
        Ok(edited)
    }
}

pub(crate) fn note_edit(crew: &Crew) -> Result<()> {
    crew.note(Line {
        fault: Some(Fault::Edit),
        ..Line::new(Event::Fault)
    })
}

/// Deployment `name` gets so many replicas.
pub(crate) async fn scale(crew: &Crew, name: &str, pods: usize) -> Result<()> {
    let replicas = format!("--replicas={pods}");
    let scale = ["scale", "deployment", name, &replicas];
    crew.kubectl().run(&scale).await.map(|_| ())
}

/// Judges everything so far; nothing may have been without an owner for longer
/// than `unowned_max`.
pub(crate) fn demand_good(crew: &Crew, unowned_max: Duration) -> Result<Judgement> {
    let judgement = crew.judge(&crew.demands(unowned_max))?;
    demand(judgement.is_good(), || {
        format!("the history is broken:\n{judgement}")
    })?;
    Ok(judgement)
}

/// Fails with `what` unless `holds`.
pub(crate) fn demand(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Error::new(what()))
    }
}
