//! The election benchmark: our candidate and client-go's, interleaved on one
//! control plane in one run, so that a noisy machine is noisy for both.
//!
//! Every figure is measured from outside: signals are sent to processes, their
//! histories are read, requests are counted in the API server's audit log.

pub mod candidate;
mod failover;
pub mod figure;
mod memory;
pub mod partitions;
mod restart;
mod steady;

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Result;
use crate::{Cluster, TestNamespace};
use figure::Report;

/// What to measure, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// Trials of each graceful failover.
    pub graceful: usize,
    /// Trials of each crash failover, all in parallel.
    pub crash: usize,
    /// Trials of a crash with a restart in place, all in parallel.
    pub restart: usize,
    /// How long steady requests are counted.
    pub steady: Duration,
    /// Services of the operator whose memory is measured.
    pub services: usize,
    /// Only parts whose name contains this.
    pub only: Option<String>,
    /// Where the JSON goes.
    pub json: PathBuf,
}

impl Options {
    fn wants(&self, part: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| part.contains(only.as_str()))
    }
}

/// Runs all parts and returns the figures; the table and the JSON grow with
/// each part, so that a run that is cut short still says what it saw.
pub async fn run(options: &Options) -> Result<Report> {
    let cluster = Cluster::shared().await?;
    let mut report = Report::default();
    for (name, followers) in [
        ("graceful_failover", 1),
        ("graceful_failover_10_followers", 10),
    ] {
        if options.wants(name) {
            let namespace = TestNamespace::on(cluster, "bench-graceful").await?;
            failover::graceful(&namespace, name, followers, options.graceful, &mut report).await?;
            finish(namespace, &report, options).await?;
        }
    }
    if options.wants("crash_failover") {
        let namespace = TestNamespace::on(cluster, "bench-crash").await?;
        failover::crash(&namespace, options.crash, &mut report).await?;
        finish(namespace, &report, options).await?;
    }
    if options.wants("crash_restart_in_place") {
        let namespace = TestNamespace::on(cluster, "bench-restart").await?;
        restart::in_place(&namespace, options.restart, &mut report).await?;
        finish(namespace, &report, options).await?;
    }
    if options.wants("steady") {
        let namespace = TestNamespace::on(cluster, "bench-steady").await?;
        steady::measure(&namespace, options.steady, &mut report).await?;
        finish(namespace, &report, options).await?;
    }
    if options.wants("operator_rss") {
        let namespace = TestNamespace::on(cluster, "bench-operator").await?;
        memory::of_operator(&namespace, options.services, &mut report).await?;
        finish(namespace, &report, options).await?;
    }
    Ok(report)
}

async fn finish(namespace: TestNamespace<'_>, report: &Report, options: &Options) -> Result<()> {
    report.write(&options.json)?;
    namespace.finish().await
}
