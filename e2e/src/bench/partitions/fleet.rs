//! Processes that share the partitions of one cluster id, and what their
//! histories say of each handoff.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use leasehold_core::lease::LeaseTiming;

use crate::audit::{Filter, Mark as AuditMark};
use crate::chaos::candidates::{Workload, WorkloadOptions};
use crate::cluster::{Account, lease_rules};
use crate::error::{Error, Result, Step};
use crate::history::{self, Event, Fault, Line, Writer};
use crate::partitions::check::{Run, Span};
use crate::partitions::tables::Tables;
use crate::partitions::tenures::Tenure;
use crate::{TestNamespace, wait};

/// The default preset, 15/5/2/3.
pub(super) const TIMING: LeaseTiming = LeaseTiming::DEFAULT;

/// No change takes longer, not even the death of two.
const WITHIN: Duration = Duration::from_mins(2);

/// The members of one cluster id.
pub(super) struct Fleet {
    id: String,
    count: u16,
    members: Vec<(String, Workload)>,
    /// Files of all members there ever were.
    histories: Vec<PathBuf>,
    options: WorkloadOptions,
    account: Account,
    tables: Tables,
    journal: Writer,
    leases: kube::Api<Lease>,
    log: Option<crate::audit::AuditLog>,
}

/// A point of time, for figures since then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    t: u64,
    log: Option<AuditMark>,
}

/// One partition that went from one member to another, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handoff {
    /// From the end of the old work to the start of the new.
    pub(super) unowned: f64,
    /// From the sight of the table to the start of the new work.
    pub(super) since_publish: f64,
}

impl Fleet {
    /// Starts `members` processes and waits until they own all partitions.
    pub(super) async fn start(
        namespace: &TestNamespace<'_>,
        id: &str,
        members: usize,
        count: u16,
    ) -> Result<Self> {
        let account = namespace.account(id, lease_rules()).await?;
        let folder = namespace.cluster().folder().join(namespace.name()).join(id);
        std::fs::create_dir_all(&folder).step(|| format!("making {}", folder.display()))?;
        let options = WorkloadOptions {
            namespace: namespace.name().to_owned(),
            kubeconfig: account.kubeconfig.clone(),
            services: id.to_owned(),
            timing: TIMING,
            ledger: None,
            folder: folder.clone(),
            env: vec![
                ("RUST_LOG", "warn".to_owned()),
                ("WORKLOAD_PARTITIONED", "true".to_owned()),
                ("WORKLOAD_PARTITIONS", count.to_string()),
                // Only the guard's answers, and those rarely: the figures are about handoffs.
                ("WORKLOAD_WRITE_EVERY_MS", "2000".to_owned()),
            ],
        };
        let plane = namespace.cluster().control_plane();
        let mut fleet = Self {
            id: id.to_owned(),
            count,
            members: Vec::new(),
            histories: vec![folder.join("faults.history")],
            tables: Tables::follow(namespace.api(), id, &folder.join("tables.jsonl"))?,
            journal: Writer::to_file(&folder.join("faults.history"))?,
            leases: namespace.api(),
            log: plane.map(crate::ControlPlane::audit_log),
            options,
            account,
        };
        for number in 0..members {
            fleet.hire(&format!("{id}-{number}"))?;
        }
        fleet.settled(members).await?;
        Ok(fleet)
    }

    /// The service account of all members.
    pub(super) fn account(&self) -> &str {
        &self.account.name
    }

    /// One more process; its name is that of its member Lease.
    pub(super) fn hire(&mut self, name: &str) -> Result<usize> {
        let mut options = self.options.clone();
        options.env.push(("LEASEHOLD_NODE_ID", name.to_owned()));
        let workload = Workload::start(name, &options)?;
        self.histories.push(workload.history().to_owned());
        self.members.push((name.to_owned(), workload));
        Ok(self.members.len() - 1)
    }

    /// Waits until `members` own all partitions, as the newest table says.
    pub(super) async fn settled(&self, members: usize) -> Result<()> {
        let what = format!("{members} members of {} to own everything", self.id);
        wait::until_true(&what, WITHIN, || async {
            let Some(table) = self.tables.newest() else {
                return Ok(false);
            };
            let mut owners: Vec<&String> = table.owners.iter().collect();
            owners.sort_unstable();
            owners.dedup();
            if owners.len() != members.min(usize::from(self.count)) {
                return Ok(false);
            }
            let run = self.run()?;
            let mut running = BTreeMap::new();
            for tenure in run.tenures().open() {
                let member = member_of(&tenure.identity);
                let token = tenure.token.revision().number();
                running.insert((tenure.slot.partition, token), member.to_owned());
            }
            Ok((0..self.count).all(|partition| {
                let index = usize::from(partition);
                let epoch = table.epochs.get(index).copied().unwrap_or_default();
                running.get(&(partition, epoch)).map(String::as_str) == table.pod(index)
            }))
        })
        .await
    }

    /// From here on.
    pub(super) fn mark(&self) -> Result<Mark> {
        let log = self.log.as_ref();
        Ok(Mark {
            t: history::now(),
            log: log.map(crate::audit::AuditLog::mark).transpose()?,
        })
    }

    /// Every partition that changed its member since then.
    pub(super) fn steps(&self, mark: Mark) -> Result<Vec<Handoff>> {
        let run = self.run()?;
        let mut by_partition: BTreeMap<u16, Vec<&Tenure>> = BTreeMap::new();
        for tenure in run.tenures().all() {
            by_partition
                .entry(tenure.slot.partition)
                .or_default()
                .push(tenure);
        }
        let seen: BTreeMap<u64, u64> = self
            .tables
            .all()
            .iter()
            .map(|table| (table.epoch, table.t))
            .collect();
        let mut handoffs = Vec::new();
        for tenures in by_partition.values() {
            for pair in tenures.windows(2) {
                let (old, new) = (pair[0], pair[1]);
                if new.from < mark.t || old.identity == new.identity {
                    continue;
                }
                let published = seen.get(&new.token.revision().number());
                let published = published.copied().unwrap_or(new.from);
                handoffs.push(Handoff {
                    unowned: seconds(old.until(), new.from),
                    since_publish: seconds(published, new.from),
                });
            }
        }
        if handoffs.is_empty() {
            return Err(Error::new(format!("{}: no partition moved", self.id)));
        }
        Ok(handoffs)
    }

    /// Longest time that any partition was without an owner since then.
    pub(super) fn unowned_max(&self, mark: Mark) -> Result<f64> {
        let span = Span {
            from: mark.t,
            until: history::now(),
        };
        Ok(self.run()?.unowned_max(span).as_secs_f64())
    }

    /// Requests of all members since then, watches included.
    pub(super) fn requests_since(&self, mark: Mark) -> Result<f64> {
        let (Some(log), Some(mark)) = (&self.log, mark.log) else {
            return Err(Error::new("requests are counted in our own audit log"));
        };
        let ours = Filter::default().account(&self.options.namespace, self.account());
        Ok(log.since(mark, &ours)?.len() as f64)
    }

    /// SIGTERM, and its end.
    pub(super) async fn terminate(&mut self, member: usize) -> Result<()> {
        let (name, workload) = self.members.remove(member);
        workload.terminate()?;
        wait::until_true(&format!("the end of {name}"), WITHIN, || async {
            Ok(workload.process().ended().is_some())
        })
        .await
    }

    /// SIGKILL to one member for each of `victims`: the leader, or somebody else.
    pub(super) async fn crash(&mut self, victims: &[bool]) -> Result<()> {
        let lease = format!("{}.leader", self.id);
        let lease = self.leases.get(&lease).await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        let holder = holder.unwrap_or_default();
        let leader = member_of(&holder);
        for leads in victims {
            let victim = self
                .members
                .iter()
                .position(|(name, _)| (name == leader) == *leads);
            let victim = victim.ok_or_else(|| {
                Error::new(format!("{}: nobody fits ({holder:?} leads)", self.id))
            })?;
            let (name, workload) = self.members.remove(victim);
            workload.process().kill();
            self.journal.write(&Line {
                identity: "bench".to_owned(),
                pid: Some(workload.pid()),
                fault: Some(Fault::Kill),
                reason: format!("{name} killed"),
                ..Line::new(Event::Fault)
            })?;
        }
        Ok(())
    }

    fn run(&self) -> Result<Run> {
        let there: Vec<&PathBuf> = self.histories.iter().filter(|path| path.exists()).collect();
        let mut run = Run::default();
        run.lines(&history::read(&there)?)?;
        Ok(run)
    }
}

/// The name of a member in an identity.
fn member_of(identity: &str) -> &str {
    identity.split('_').next().unwrap_or(identity)
}

fn seconds(from: u64, until: u64) -> f64 {
    Duration::from_nanos(until.saturating_sub(from)).as_secs_f64()
}
