//! The example service: `leasehold-workload`. It campaigns for one or many
//! cluster ids, or takes part in partitioned ones, writes into guarded stores
//! while it may, and writes down what happens, for the checker.

mod journal;
pub mod options;
mod partitioned;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::testing::Clock;
use leasehold::{Cluster, PartitionedHandle, Scope, ServiceBuilder, ServiceHandle};

use crate::error::{Error, Result, Step};
use crate::history::{Event, Writer};
use crate::ledger::Ledger;
use crate::partitions::stores::Store;
use journal::Journal;
use options::{Hang, Options};
use partitioned::Partitions;
use work::Work;

/// A leader whose work got nowhere for this long steps down.
const PROGRESS_MAX: Duration = Duration::from_secs(2);

/// Runs until the shutdown has ended.
pub async fn run() -> Result<()> {
    let options = Options::from_env().map_err(|problems| {
        Error::new(format!(
            "the environment is not usable:\n  {}",
            problems.join("\n  ")
        ))
    })?;
    let writer = Arc::new(match &options.events {
        Some(path) => Writer::to_file(path)?,
        None => Writer::to_stdout(),
    });
    let cluster = cluster(&options).await?;
    let options = Arc::new(options);
    let hang = Arc::new(AtomicBool::new(false));
    listen_for_hang(&hang).step(|| "listening for SIGUSR1")?;

    let mut running = Vec::new();
    for service in &options.services {
        let journal = Journal::new(Arc::clone(&writer), cluster.identity().as_str(), service);
        journal.write(&journal.line(Event::Started));
        let builder = configured(cluster.service(service.as_str()), &options);
        running.push(if options.partitioned {
            Running::Partitioned(partitioned(builder, service, journal, &options)?)
        } else {
            let work = Work {
                journal,
                ledger: options.ledger_of(service).map(|path| Ledger::at(&path)),
                options: Arc::clone(&options),
                counter: Arc::default(),
                hang: Arc::clone(&hang),
            };
            let builder = builder.leader_elected();
            Running::Elected(builder.spawn(move |leadership| work.clone().run(leadership))?)
        });
    }
    for service in running {
        match service {
            Running::Elected(handle) => handle.finished().await?,
            Running::Partitioned(handle) => handle.finished().await?,
        }
    }
    cluster.close().await;
    for service in &options.services {
        let journal = Journal::new(Arc::clone(&writer), cluster.identity().as_str(), service);
        journal.write(&journal.line(Event::Exit));
    }
    Ok(())
}

/// What the environment describes, under a clock of its own rate if this pod is to have one.
async fn cluster(options: &Options) -> Result<Cluster> {
    let pod = std::env::var("HOSTNAME").unwrap_or_default();
    let rate = options.clock_rate_of(&pod).map_err(Error::new);
    let mut builder = Cluster::builder();
    if let Some(rate) = rate.step(|| "WORKLOAD_CLOCK")? {
        builder = builder.clock(Clock::at_rate(rate));
    }
    builder.build().await.step(|| "starting")
}

enum Running {
    Elected(ServiceHandle),
    Partitioned(PartitionedHandle),
}

/// What is fixed in code, whatever the strategy.
fn configured(builder: ServiceBuilder, options: &Options) -> ServiceBuilder {
    let mut builder = builder.scope(Scope::Cluster);
    if let Some(timing) = options.timing {
        builder = builder.timing(timing);
    }
    if let Some(timeout) = options.drain_timeout {
        builder = builder.drain_timeout(timeout);
    }
    if options.hang == Some(Hang::Wait) {
        builder = builder.progress_timeout(PROGRESS_MAX);
    }
    builder
}

fn partitioned(
    builder: ServiceBuilder,
    service: &str,
    journal: Journal,
    options: &Arc<Options>,
) -> Result<PartitionedHandle> {
    let stores = match &options.stores {
        Some(path) => Store::all_in(path, service).step(|| "WORKLOAD_STORES")?,
        None => Vec::new(),
    };
    let work = Partitions {
        journal,
        stores: stores.into_iter().map(Arc::new).collect(),
        options: Arc::clone(options),
    };
    let mut builder = builder.partitioned();
    if let Some(count) = options.partitions {
        builder = builder.partitions(count);
    }
    Ok(builder.spawn(move |guard| work.clone().run(guard))?)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// SIGUSR1 makes the work hang as `WORKLOAD_HANG` says.
fn listen_for_hang(hang: &Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1())?;
    let hang = Arc::clone(hang);
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            hang.store(true, Ordering::Relaxed);
        }
    });
    Ok(())
}
