//! What all scenarios share: a namespace, an account, the records of its Leases,
//! and ways to start candidates as processes and within this one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use leasehold::{Identity, Leadership, LeaseTiming, ServiceBuilder, ServiceHandle};
use leasehold_core::id::FencingToken;
use leasehold_e2e::chaos::candidates::{Workload, WorkloadOptions};
use leasehold_e2e::chaos::records::Records;
use leasehold_e2e::check::{Demands, Judgement, judge};
use leasehold_e2e::cluster::{Account, lease_rules};
use leasehold_e2e::control_plane::kubeconfig;
use leasehold_e2e::history::{self, Event, Line};
use leasehold_e2e::ledger::Ledger;
use leasehold_e2e::{Cluster, Error, Result, Step as _, TestNamespace, wait};
use serde_json::Value;

/// No single step of a scenario takes longer, however slow the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The timing where a property does not depend on it.
pub(crate) const TIMING: LeaseTiming = LeaseTiming::FAST;

pub(crate) struct Ground {
    pub(crate) namespace: TestNamespace<'static>,
    pub(crate) account: Account,
    pub(crate) records: Records,
    pub(crate) folder: PathBuf,
}

/// A leader and a process that campaigns beside it.
pub(crate) struct Pair {
    pub(crate) leader: Workload,
    pub(crate) follower: Workload,
    /// When and with what the leader began.
    pub(crate) gained: Line,
}

impl Ground {
    pub(crate) async fn prepare() -> Result<Self> {
        let cluster = Cluster::shared().await?;
        let namespace = TestNamespace::new("runtime").await?;
        let folder = cluster.folder().join("runtime");
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            account: namespace.account("candidate", lease_rules()).await?,
            records: Records::follow(namespace.api()),
            namespace,
            folder,
        })
    }

    pub(crate) async fn clear(self) -> Result<()> {
        self.namespace.finish().await
    }

    /// How a workload for `services` is started, with one ledger for each.
    pub(crate) fn options(&self, services: &str) -> WorkloadOptions {
        WorkloadOptions {
            namespace: self.namespace.name().to_owned(),
            kubeconfig: self.account.kubeconfig.clone(),
            services: services.to_owned(),
            timing: TIMING,
            ledger: Some(self.folder.join("{service}.ledger")),
            folder: self.folder.clone(),
            // Rarer than usual: dozens of candidates share two cores.
            env: vec![("WORKLOAD_CHECK_EVERY_MS", "100".to_owned())],
        }
    }

    /// Two workloads for one service; the first one leads.
    pub(crate) async fn pair(&self, service: &str, env: &[(&'static str, String)]) -> Result<Pair> {
        let mut options = self.options(service);
        options.env.extend_from_slice(env);
        self.pair_with(service, &options).await
    }

    pub(crate) async fn pair_with(&self, name: &str, options: &WorkloadOptions) -> Result<Pair> {
        let service = options
            .services
            .split(',')
            .next_back()
            .unwrap_or(name)
            .to_owned();
        let leader = Workload::start(&format!("{name}-a"), options)?;
        let gained = leader.gained(&service, 0, PATIENCE).await?;
        let follower = Workload::start(&format!("{name}-b"), options)?;
        let is_start = |line: &Line| line.event == Event::Started;
        follower
            .until("its start", &service, 0, PATIENCE, is_start)
            .await?;
        Ok(Pair {
            leader,
            follower,
            gained,
        })
    }

    /// This test as a further process: a member of the cluster under `name`.
    pub(crate) async fn member(&self, name: &str) -> Result<leasehold::Cluster> {
        self.member_as(
            &self.account,
            self.namespace.name(),
            Identity::of_node(name, 1)?,
        )
        .await
    }

    pub(crate) async fn member_as(
        &self,
        account: &Account,
        namespace: &str,
        identity: Identity,
    ) -> Result<leasehold::Cluster> {
        let config = kubeconfig::config(&account.kubeconfig).await?;
        self.member_with(config, namespace, identity).await
    }

    pub(crate) async fn member_with(
        &self,
        config: kube::Config,
        namespace: &str,
        identity: Identity,
    ) -> Result<leasehold::Cluster> {
        let cluster = leasehold::Cluster::builder()
            .environment([("LEASEHOLD_LEASE_PRESET", "fast")])
            .kubernetes_with(config)
            .namespace(namespace)
            .identity(identity)
            .signals(false)
            .build()
            .await?;
        Ok(cluster)
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        self.namespace.api()
    }

    pub(crate) async fn lease(&self, service: &str) -> Result<Lease> {
        Ok(self.leases().get(&lease(service)).await?)
    }

    /// Changes a Lease as somebody outside the election.
    pub(crate) async fn edit(&self, name: &str, patch: &Value) -> Result<Lease> {
        let leases = self.leases();
        Ok(leases
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?)
    }

    /// Judges what workloads wrote down about a service, and its ledger.
    pub(crate) fn judge(
        &self,
        service: &str,
        histories: &[&Path],
        faults: &[Line],
        demands: &Demands,
    ) -> Result<Judgement> {
        let mut lines = history::read(histories)?;
        lines.extend_from_slice(faults);
        lines.sort_by_key(|line| line.t);
        let entries = Ledger::at(&self.folder.join(format!("{service}.ledger"))).entries()?;
        judge(&lines, &entries, service, demands)
    }
}

impl Pair {
    pub(crate) fn histories(&self) -> [&Path; 2] {
        [self.leader.history(), self.follower.history()]
    }
}

/// What most runs are held to; `vacancy_max` where it is bounded by a rule.
pub(crate) fn demands(changes_min: usize) -> Demands {
    Demands {
        trusted: TIMING.trusted(),
        vacancy_max: PATIENCE,
        recovery_max: PATIENCE,
        changes_min,
    }
}

pub(crate) fn demand_good(judgement: &Judgement) -> Result<()> {
    demand(judgement.is_good(), || {
        format!("the history is broken:\n{judgement}")
    })
}

/// A service that leads until it is asked to drain.
pub(crate) fn spawn(builder: ServiceBuilder) -> Result<ServiceHandle> {
    let work = |leadership: Leadership| async move { leadership.draining().await };
    Ok(builder.leader_elected().spawn(work)?)
}

pub(crate) async fn until_role(handle: &ServiceHandle, role: &str) -> Result<()> {
    let what = format!("{} to be {role}", handle.status().service);
    wait::until_true(&what, PATIENCE, || async {
        Ok(handle.status().role == role)
    })
    .await
    .step(|| format!("{:?}", handle.status()))
}

/// Waits until the service says that the lease store fails it, and how.
pub(crate) async fn until_error(handle: &ServiceHandle, part: &str) -> Result<String> {
    let what = format!("{} to say {part:?}", handle.status().service);
    wait::until(&what, PATIENCE, || async {
        Ok(handle
            .status()
            .last_error
            .filter(|error| error.contains(part)))
    })
    .await
    .step(|| format!("{:?}", handle.status()))
}

/// The leader Lease of a cluster id.
pub(crate) fn lease(service: &str) -> String {
    format!("{service}.leader")
}

pub(crate) fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref()?;
    (!holder.is_empty()).then_some(holder)
}

pub(crate) fn transitions(lease: &Lease) -> i32 {
    lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_transitions)
        .unwrap_or_default()
}

pub(crate) fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    Some(lease.metadata.annotations.as_ref()?.get(name)?.as_str())
}

pub(crate) fn token(line: &Line) -> Result<FencingToken> {
    let about = || {
        format!(
            "the token of {:?} of {} at {}",
            line.event, line.identity, line.t
        )
    };
    let text = line
        .token
        .as_deref()
        .ok_or_else(|| Error::new("there is none"));
    text.step(about)?.parse().step(about)
}

/// Fails with `what` unless `holds`.
pub(crate) fn demand(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Error::new(what()))
    }
}
