//! What all scenarios share: a namespace, the proxy, the records of the Leases,
//! and how to put candidates of both kinds behind links.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use leasehold_core::lease::LeaseTiming;
use leasehold_core::time::Instant;
use leasehold_e2e::chaos::candidates::{ClientGo, ClientGoOptions, Workload, WorkloadOptions};
use leasehold_e2e::chaos::records::Records;
use leasehold_e2e::cluster::lease_rules;
use leasehold_e2e::history::{Event, Line};
use leasehold_e2e::proxy::{FaultProxy, Link};
use leasehold_e2e::{Cluster, Error, Result, TestNamespace, history, wait};

/// No single step of a scenario takes longer, however slow the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Ground {
    pub(crate) namespace: TestNamespace<'static>,
    pub(crate) proxy: FaultProxy,
    pub(crate) records: Records,
    /// `LEASEHOLD_FAULTS=long`: leases of 15 s, as client-go's usual ones.
    pub(crate) timing: LeaseTiming,
    rival_timing: [Duration; 3],
    folder: PathBuf,
}

impl Ground {
    pub(crate) async fn prepare() -> Result<Option<Self>> {
        let cluster = Cluster::shared().await?;
        let Some(plane) = cluster.control_plane_or_skip("the fault proxy") else {
            return Ok(None);
        };
        let namespace = TestNamespace::new("faults").await?;
        let folder = cluster.folder().join("faults");
        std::fs::create_dir_all(&folder)?;
        let is_long = match std::env::var("LEASEHOLD_FAULTS").as_deref() {
            Ok("long") => true,
            Ok("short") | Err(_) => false,
            Ok(other) => {
                return Err(Error::new(format!(
                    "LEASEHOLD_FAULTS: found {other:?}, allowed are short and long"
                )));
            }
        };
        Ok(Some(Self {
            proxy: FaultProxy::in_front_of(plane)?,
            records: Records::follow(namespace.api()),
            timing: if is_long {
                LeaseTiming::DEFAULT
            } else {
                LeaseTiming::FAST
            },
            rival_timing: if is_long {
                ClientGoOptions::USUAL
            } else {
                ClientGoOptions::FAST
            },
            namespace,
            folder,
        }))
    }

    /// All scenarios passed: the namespace goes.
    pub(crate) async fn clear(self) -> Result<()> {
        self.namespace.finish().await
    }

    /// A fresh workload, with an account of its own.
    pub(crate) async fn ours(
        &self,
        name: &str,
        services: &str,
        link: Option<&Link>,
    ) -> Result<Workload> {
        let options = self.our_options(name, services, link).await?;
        Workload::start(name, &options)
    }

    pub(crate) async fn our_options(
        &self,
        name: &str,
        services: &str,
        link: Option<&Link>,
    ) -> Result<WorkloadOptions> {
        Ok(WorkloadOptions {
            namespace: self.namespace.name().to_owned(),
            kubeconfig: self.kubeconfig(name, link).await?,
            services: services.to_owned(),
            timing: self.timing,
            ledger: None,
            folder: self.folder.clone(),
            env: Vec::new(),
        })
    }

    /// A fresh client-go candidate for `<service>.leader`.
    pub(crate) async fn rival(
        &self,
        name: &str,
        service: &str,
        link: Option<&Link>,
    ) -> Result<ClientGo> {
        let options = self.rival_options(name, &[service], link).await?;
        ClientGo::start(name, &options)
    }

    pub(crate) async fn rival_options(
        &self,
        name: &str,
        services: &[&str],
        link: Option<&Link>,
    ) -> Result<ClientGoOptions> {
        Ok(ClientGoOptions {
            namespace: self.namespace.name().to_owned(),
            kubeconfig: self.kubeconfig(name, link).await?,
            leases: services.iter().map(|service| lease(service)).collect(),
            timing: self.rival_timing,
            folder: self.folder.clone(),
        })
    }

    /// SIGSTOP between two renewals: with one in flight, client-go would wake up past its deadline, stop, and
    /// empty the Lease whoever holds it by then, which is the story of a late release.
    pub(crate) async fn pause(&self, rival: &ClientGo, service: &str) -> Result<()> {
        let lease = lease(service);
        let leases: Api<Lease> = self.namespace.api();
        let renewed = || async {
            let spec = leases.get(&lease).await?.spec;
            Ok::<_, Error>(spec.and_then(|spec| spec.renew_time))
        };
        let before = renewed().await?;
        wait::until_true("a renewal by client-go", PATIENCE, || async {
            Ok(renewed().await? != before)
        })
        .await?;
        // By then it has read the answer as well.
        let later = history::now() + nanos(Duration::from_millis(100));
        rival.until("act", &lease, later, PATIENCE).await?;
        rival.process().pause()
    }

    pub(crate) fn ledger(&self, service: &str) -> PathBuf {
        self.folder.join(format!("{service}.ledger"))
    }

    async fn kubeconfig(&self, name: &str, link: Option<&Link>) -> Result<PathBuf> {
        let account = self.namespace.account(name, lease_rules()).await?;
        match link {
            None => Ok(account.kubeconfig),
            Some(link) => link.kubeconfig(&account.kubeconfig, "link"),
        }
    }
}

/// The leader Lease of a cluster id.
pub(crate) fn lease(service: &str) -> String {
    format!("{service}.leader")
}

/// The last instant at which the guard answered yes under `token`.
pub(crate) fn last_held(lines: &[Line], token: &str) -> u64 {
    let held = lines.iter().filter(|line| {
        matches!(line.event, Event::Held | Event::Write | Event::Gained)
            && line.token.as_deref() == Some(token)
    });
    held.map(|line| line.t).max().unwrap_or_default()
}

/// Whether a leadership under `token` has ended after `since`, and when.
pub(crate) fn ended(lines: &[Line], token: &str, since: u64) -> Option<u64> {
    let ends = lines.iter().filter(|line| {
        matches!(
            line.event,
            Event::CheckFailed | Event::Lost | Event::Drained
        ) && line.token.as_deref() == Some(token)
            && line.t >= since
    });
    ends.map(|line| line.t).min()
}

pub(crate) fn token(line: &Line) -> Result<&str> {
    line.token.as_deref().ok_or_else(|| {
        Error::new(format!(
            "the line {:?} at {} holds no token",
            line.event, line.t
        ))
    })
}

/// Seconds from one instant to another, negative if it lies before.
pub(crate) fn seconds(from: u64, to: u64) -> f64 {
    let (from, to) = (Instant::from_nanos(from), Instant::from_nanos(to));
    if to >= from {
        to.since(from).as_secs_f64()
    } else {
        -from.since(to).as_secs_f64()
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Fails with `what` unless `holds`.
pub(crate) fn demand(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds {
        Ok(())
    } else {
        Err(Error::new(what()))
    }
}
