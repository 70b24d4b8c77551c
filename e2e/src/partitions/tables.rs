//! The assignment Lease as the API server showed it, each version once.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::watcher;
use leasehold_core::lease::Contents;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::error::{Result, Step};
use crate::history;

/// One published table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// When it was seen, in nanoseconds of the boot-time clock.
    pub t: u64,
    /// The resource version of its Lease.
    pub revision: u64,
    /// The revision on which it was based.
    pub epoch: u64,
    /// The generation of the layout.
    pub generation: u32,
    /// The owner of each partition, `<pod>#<incarnation>`; empty if there is none.
    pub owners: Vec<String>,
    /// The epoch of each partition.
    pub epochs: Vec<u64>,
    /// A count that comes next.
    pub queued: Option<u16>,
    /// What its writer says that it did.
    pub reason: String,
    /// How many moves its writer says that it made.
    pub moves: u16,
    /// How few moves its writer says are possible.
    pub least: u16,
}

impl Table {
    /// The pod that owns a partition.
    pub fn pod(&self, partition: usize) -> Option<&str> {
        let (pod, _) = self.owners.get(partition)?.split_once('#')?;
        Some(pod)
    }

    /// How many partitions there are.
    pub fn count(&self) -> u16 {
        u16::try_from(self.owners.len()).unwrap_or(u16::MAX)
    }
}

/// Follows one assignment Lease until it is dropped.
#[derive(Debug)]
pub struct Tables {
    path: PathBuf,
    seen: Arc<Mutex<Seen>>,
    following: JoinHandle<()>,
}

#[derive(Debug)]
struct Seen {
    tables: Vec<Table>,
    /// What could not be read, and when.
    problems: Vec<String>,
    file: File,
}

impl Tables {
    /// Begins to follow `<cluster-id>.assignment`; every table is appended to `path`.
    pub fn follow(leases: Api<Lease>, cluster_id: &str, path: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path);
        let seen = Arc::new(Mutex::new(Seen {
            tables: Vec::new(),
            problems: Vec::new(),
            file: file.step(|| format!("opening {}", path.display()))?,
        }));
        let name = format!("{cluster_id}.assignment");
        let following = tokio::spawn(follow(leases, name, Arc::clone(&seen)));
        Ok(Self {
            path: path.to_owned(),
            seen,
            following,
        })
    }

    /// The file of all tables.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of them so far.
    pub fn all(&self) -> Vec<Table> {
        self.lock().tables.clone()
    }

    /// The newest one.
    pub fn newest(&self) -> Option<Table> {
        self.lock().tables.last().cloned()
    }

    /// What was found in the Lease that is no table.
    pub fn problems(&self) -> Vec<String> {
        self.lock().problems.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.following.abort();
    }
}

async fn follow(leases: Api<Lease>, name: String, seen: Arc<Mutex<Seen>>) {
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(leases, only));
    while let Some(event) = events.next().await {
        // The watcher lists again by itself, also after an error.
        if let Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) = event {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            match read(&lease) {
                Ok(table) => seen.note(table),
                Err(problem) => seen.problems.push(problem.to_string()),
            }
        }
    }
}

impl Seen {
    fn note(&mut self, table: Table) {
        if self
            .tables
            .last()
            .is_some_and(|last| last.revision == table.revision)
        {
            return;
        }
        let line = serde_json::to_string(&table).unwrap_or_default() + "\n";
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.problems.push(error.to_string());
        }
        self.tables.push(table);
    }
}

fn read(lease: &Lease) -> Result<Table> {
    let versioned = leasehold::kubernetes::read_lease(lease)?;
    let Contents::Table(table) = &versioned.record.contents else {
        return Err(crate::Error::new(format!(
            "revision {} holds no table: {:?}",
            versioned.revision, versioned.record.contents
        )));
    };
    let owner = |partition| table.owner(partition).map(ToString::to_string);
    let owners = table.layout.partitions().map(owner);
    Ok(Table {
        t: history::now(),
        revision: versioned.revision.number(),
        epoch: table.epoch.number(),
        generation: table.layout.generation(),
        owners: owners.map(Option::unwrap_or_default).collect(),
        epochs: table.parts.iter().map(|part| part.epoch.number()).collect(),
        queued: table.queued,
        reason: table.rebalance.reason.to_string(),
        moves: table.rebalance.moves,
        least: table.rebalance.least,
    })
}
