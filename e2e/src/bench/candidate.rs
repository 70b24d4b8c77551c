//! Our candidate and client-go's behind one face.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_core::lease::LeaseTiming;

use crate::chaos::candidates::{ClientGo, ClientGoOptions, Workload, WorkloadOptions};
use crate::cluster::{Account, lease_rules};
use crate::error::{Error, Result, Step};
use crate::history::Event;
use crate::process::Process;
use crate::{TestNamespace, wait};

/// Whose candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ours, with the default preset 15/5/2/3.
    Ours,
    /// client-go's, with its usual 15/10/2.
    ClientGo,
}

impl Kind {
    /// Both, in the order in which they take turns.
    pub const BOTH: [Self; 2] = [Self::Ours, Self::ClientGo];

    /// A name for objects.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::ClientGo => "client-go",
        }
    }
}

/// Where candidates campaign.
pub struct Ground {
    kind: Kind,
    namespace: String,
    account: Account,
    folder: PathBuf,
    /// Cluster ids; the Leases are `<id>.leader`.
    ids: Vec<String>,
}

/// One campaigning process.
pub enum Candidate {
    /// Ours.
    Ours(Workload),
    /// client-go's.
    ClientGo(ClientGo),
}

impl Ground {
    /// A ground for `kind` with a service account of its own, so that its
    /// requests can be told apart.
    pub async fn new(
        namespace: &TestNamespace<'_>,
        kind: Kind,
        name: &str,
        ids: Vec<String>,
    ) -> Result<Self> {
        let account = namespace
            .account(&format!("{name}-{}", kind.name()), lease_rules())
            .await?;
        let folder =
            namespace
                .cluster()
                .folder()
                .join(format!("{}-{}", namespace.name(), account.name));
        std::fs::create_dir_all(&folder).step(|| format!("making {}", folder.display()))?;
        Ok(Self {
            kind,
            namespace: namespace.name().to_owned(),
            account,
            folder,
            ids,
        })
    }

    /// The service account's name.
    pub fn account(&self) -> &str {
        &self.account.name
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Starts one process that campaigns for all ids.
    pub fn start(&self, name: &str) -> Result<Candidate> {
        match self.kind {
            Kind::Ours => {
                let options = WorkloadOptions {
                    namespace: self.namespace.clone(),
                    kubeconfig: self.account.kubeconfig.clone(),
                    services: self.ids.join(","),
                    timing: LeaseTiming::DEFAULT,
                    ledger: None,
                    folder: self.folder.clone(),
                    env: vec![
                        ("RUST_LOG", "warn".to_owned()),
                        ("WORKLOAD_CHECK_EVERY_MS", "3600000".to_owned()),
                    ],
                };
                Workload::start(name, &options).map(Candidate::Ours)
            }
            Kind::ClientGo => {
                let options = ClientGoOptions {
                    namespace: self.namespace.clone(),
                    kubeconfig: self.account.kubeconfig.clone(),
                    leases: self.ids.iter().map(|id| format!("{id}.leader")).collect(),
                    timing: ClientGoOptions::USUAL,
                    folder: self.folder.clone(),
                };
                ClientGo::start_idle(name, &options).map(Candidate::ClientGo)
            }
        }
    }
}

impl Candidate {
    /// The process.
    pub fn process(&self) -> &Process {
        match self {
            Self::Ours(workload) => workload.process(),
            Self::ClientGo(candidate) => candidate.process(),
        }
    }

    /// Asks it to shut down.
    pub fn terminate(&self) -> Result<()> {
        match self {
            Self::Ours(workload) => workload.terminate(),
            Self::ClientGo(candidate) => candidate.terminate(),
        }
    }

    /// When it began to lead `id` after `since`, if it did.
    pub fn gained(&self, id: &str, since: u64) -> Result<Option<u64>> {
        match self {
            Self::Ours(workload) => {
                let lines = workload.lines(id)?;
                let gained = lines
                    .iter()
                    .find(|line| line.t >= since && line.event == Event::Gained);
                Ok(gained.map(|line| line.t))
            }
            Self::ClientGo(candidate) => {
                let acts = candidate.acts(&format!("{id}.leader"))?;
                let gained = acts
                    .iter()
                    .find(|act| act.t >= since && act.event == "started");
                Ok(gained.map(|act| act.t))
            }
        }
    }

    /// Waits until it campaigns: it has said that it runs.
    pub async fn campaigns(&self) -> Result<()> {
        let name = &self.process().record().name;
        wait::until_true(
            &format!("{name} to campaign"),
            Duration::from_secs(20),
            || async {
                if let Some(ended) = self.process().ended() {
                    return Err(Error::new(format!("it ended: {ended}")));
                }
                Ok(match self {
                    Self::Ours(workload) => workload.newest().is_some(),
                    Self::ClientGo(candidate) => {
                        std::fs::read_to_string(candidate.process().log())?.contains("\"ready\"")
                    }
                })
            },
        )
        .await
    }

    /// Its resident memory in MiB.
    pub fn resident_mib(&self) -> Result<f64> {
        resident_mib(self.process().record().pid)
    }
}

/// Which candidate leads `id` since `since`, and from when; waits for one.
pub async fn first_to_lead(
    candidates: &[Candidate],
    id: &str,
    since: u64,
    within: Duration,
) -> Result<(usize, u64)> {
    wait::until(&format!("a leader of {id}"), within, || async {
        for (index, candidate) in candidates.iter().enumerate() {
            if let Some(at) = candidate.gained(id, since)? {
                return Ok(Some((index, at)));
            }
        }
        Ok(None)
    })
    .await
}

/// Resident memory of a process in MiB, as the kernel counts it.
pub fn resident_mib(pid: i32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(Path::new(&path)).step(|| format!("reading {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0)
        .ok_or_else(|| Error::new(format!("{path} has no VmRSS")))
}
