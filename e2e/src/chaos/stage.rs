//! Where a run happens: a control plane of its own, the crew of workloads, and
//! the hands that disturb them. Whatever is done is written down.

mod hands;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Options;
use super::candidates::{Workload, WorkloadOptions};
use crate::cluster::{EXTERNAL_ENV, lease_rules};
use crate::control_plane::ControlPlane;
use crate::error::{Error, Result, Step};
use crate::history::{self, Writer};
use crate::process::ProcessRecord;
use crate::{Cluster, TestNamespace, wait};

/// The cluster id of the run.
pub const SERVICE: &str = "chaos";

/// A leader's newest line is at most this old; guards are asked far more often.
const FRESH: u64 = 1_500_000_000;
/// If nobody leads for so long, there is nothing left to disturb.
const STUCK: Duration = Duration::from_mins(2);
/// Between guarded writes.
const WRITE_EVERY_MS: u64 = 50;

/// A set stage.
pub struct Stage {
    // Workloads end before what they run on: fields drop in this order.
    crew: Vec<Member>,
    /// Whoever is paused, until woken.
    paused: JoinSet<ProcessRecord>,
    namespace: TestNamespace<'static>,
    plane: &'static ControlPlane,
    folder: PathBuf,
    journal: Writer,
    timing: leasehold_core::lease::LeaseTiming,
    started: Instant,
    /// Makes the reason of every outage its own.
    outages: usize,
}

/// One workload and how to start it again.
struct Member {
    name: String,
    options: WorkloadOptions,
    workload: Workload,
}

/// Who leads, under which token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leading {
    member: usize,
    token: String,
}

impl Stage {
    /// Starts the control plane and the crew.
    pub async fn set(options: &Options) -> Result<Self> {
        let cluster = Cluster::shared().await?;
        let plane = cluster.control_plane().ok_or_else(|| {
            Error::new(format!(
                "{EXTERNAL_ENV} is set, but chaos pauses and restarts a control plane of its own"
            ))
        })?;
        let namespace = TestNamespace::new("chaos").await?;
        let folder = match &options.keep {
            Some(folder) => folder.clone(),
            None => cluster.folder().join("chaos"),
        };
        std::fs::create_dir_all(&folder).step(|| format!("making {}", folder.display()))?;
        let mut stage = Self {
            crew: Vec::new(),
            paused: JoinSet::new(),
            namespace,
            plane,
            journal: Writer::to_file(&folder.join("faults.history"))?,
            folder,
            timing: options.timing,
            started: Instant::now(),
            outages: 0,
        };
        for number in 0..options.processes {
            let member = stage.hire(&format!("workload-{number}")).await?;
            stage.crew.push(member);
        }
        Ok(stage)
    }

    async fn hire(&self, name: &str) -> Result<Member> {
        let account = self.namespace.account(name, lease_rules()).await?;
        let options = WorkloadOptions {
            namespace: self.namespace.name().to_owned(),
            kubeconfig: account.kubeconfig,
            services: SERVICE.to_owned(),
            timing: self.timing,
            ledger: Some(self.ledger()),
            folder: self.folder.clone(),
            env: vec![
                ("WORKLOAD_WRITE_EVERY_MS", WRITE_EVERY_MS.to_string()),
                // Whoever wakes up tries once more under its old token.
                ("WORKLOAD_LATE_WRITE", "true".to_owned()),
            ],
        };
        Ok(Member {
            name: name.to_owned(),
            workload: Workload::start(name, &options)?,
            options,
        })
    }

    /// Time since the stage was set.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Where histories and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All histories: of the workloads, and of what was done to them.
    pub fn histories(&self) -> Vec<PathBuf> {
        let crew = self.crew.iter();
        let mut files: Vec<PathBuf> = crew
            .map(|member| member.workload.history().to_owned())
            .filter(|path| path.exists())
            .collect();
        files.push(self.folder.join("faults.history"));
        files
    }

    /// The guarded store.
    pub fn ledger(&self) -> PathBuf {
        self.folder.join("ledger")
    }

    /// Waits until somebody leads.
    pub async fn leader(&self) -> Result<()> {
        self.leading(None).await.map(|_| ())
    }

    /// Waits until somebody leads under another token than `before`.
    async fn leading(&self, before: Option<&Leading>) -> Result<Leading> {
        wait::until("a leader", STUCK, || async {
            let found = self.crew.iter().enumerate().find_map(|(member, who)| {
                let line = who.workload.leads()?;
                let fresh = history::now().saturating_sub(line.t) < FRESH;
                let token = line.token.filter(|_| fresh)?;
                Some(Leading { member, token })
            });
            Ok(found.filter(|leading| before.is_none_or(|before| before.token != leading.token)))
        })
        .await
    }

    /// Wakes the paused, and lets every workload end in its own way.
    pub async fn calm_down(&mut self) -> Result<()> {
        while self.paused.join_next().await.is_some() {}
        self.leader().await?;
        for member in &self.crew {
            member.workload.terminate()?;
        }
        wait::until_true("the end of all workloads", STUCK, || async {
            Ok(self
                .crew
                .iter()
                .all(|member| member.workload.process().ended().is_some()))
        })
        .await
    }

    /// Nothing of the run has to be kept.
    pub async fn finish(self) -> Result<()> {
        self.namespace.finish().await
    }
}
