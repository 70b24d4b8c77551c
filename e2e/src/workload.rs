//! The example service: `leasehold-workload`. It campaigns for one or many
//! cluster ids, writes into a guarded ledger while it leads, and writes down
//! what happens, for the checker.

mod journal;
pub mod options;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{Cluster, Scope};

use crate::error::{Error, Result, Step};
use crate::history::{Event, Writer};
use crate::ledger::Ledger;
use journal::Journal;
use options::{Hang, Options};
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
    let cluster = Cluster::from_env().await.step(|| "starting")?;
    let options = Arc::new(options);
    let hang = Arc::new(AtomicBool::new(false));
    listen_for_hang(&hang).step(|| "listening for SIGUSR1")?;

    let mut handles = Vec::new();
    for service in &options.services {
        let journal = Journal::new(Arc::clone(&writer), cluster.identity().as_str(), service);
        journal.write(&journal.line(Event::Started));
        let work = Work {
            journal,
            ledger: options.ledger_of(service).map(|path| Ledger::at(&path)),
            options: Arc::clone(&options),
            counter: Arc::default(),
            hang: Arc::clone(&hang),
        };
        let mut builder = cluster
            .service(service.as_str())
            .scope(Scope::Cluster)
            .leader_elected();
        if let Some(timing) = options.timing {
            builder = builder.timing(timing);
        }
        if let Some(timeout) = options.drain_timeout {
            builder = builder.drain_timeout(timeout);
        }
        if options.hang == Some(Hang::Wait) {
            builder = builder.progress_timeout(PROGRESS_MAX);
        }
        handles.push(builder.spawn(move |leadership| work.clone().run(leadership))?);
    }
    for handle in handles {
        handle.finished().await?;
    }
    cluster.close().await;
    for service in &options.services {
        let journal = Journal::new(Arc::clone(&writer), cluster.identity().as_str(), service);
        journal.write(&journal.line(Event::Exit));
    }
    Ok(())
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
