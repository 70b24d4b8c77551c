//! Partitions on the real control plane: how long handoffs and crashes leave a
//! partition without an owner, and what settled members ask of the API server.

mod fleet;
mod settled;

use std::path::PathBuf;
use std::time::Duration;

use super::figure::{Report, Samples};
use crate::error::Result;
use crate::{Cluster, TestNamespace};
use fleet::Fleet;

/// What to measure, and how often.
#[derive(Clone, Debug)]
pub struct Options {
    /// How often a member joins and leaves.
    pub handoffs: usize,
    /// How many fleets lose members to a crash, all at once.
    pub crashes: usize,
    /// How long requests of settled members are counted.
    pub settled: Duration,
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

/// Runs all parts; the table and the JSON grow with each.
pub async fn run(options: &Options) -> Result<Report> {
    let cluster = Cluster::shared().await?;
    let mut report = Report::default();
    if options.wants("handoff") {
        let namespace = TestNamespace::on(cluster, "bench-handoff").await?;
        handoffs(&namespace, options.handoffs, &mut report).await?;
        report.write(&options.json)?;
        namespace.finish().await?;
    }
    if options.wants("crash_unowned") {
        let namespace = TestNamespace::on(cluster, "bench-crash").await?;
        crashes(&namespace, options.crashes, &mut report).await?;
        report.write(&options.json)?;
        namespace.finish().await?;
    }
    if options.wants("settled_requests") {
        let namespace = TestNamespace::on(cluster, "bench-settled").await?;
        settled::measure(&namespace, options.settled, &mut report).await?;
        report.write(&options.json)?;
        namespace.finish().await?;
    }
    Ok(report)
}

/// A fourth member joins three others and goes again, without work to drain.
async fn handoffs(namespace: &TestNamespace<'_>, trials: usize, report: &mut Report) -> Result<()> {
    let none = Samples::default();
    let (mut handoff, mut unowned) = (Samples::default(), Samples::default());
    let (mut exit, mut requests) = (Samples::default(), Samples::default());
    let mut fleet = Fleet::start(namespace, "handoff", 3, 64).await?;
    for trial in 0..trials {
        let mark = fleet.mark()?;
        let newcomer = fleet.hire(&format!("handoff-new-{trial}"))?;
        fleet.settled(4).await?;
        for step in fleet.steps(mark)? {
            unowned.push(step.unowned);
            handoff.push(step.since_publish);
        }
        requests.push(fleet.requests_since(mark)?);
        let mark = fleet.mark()?;
        fleet.terminate(newcomer).await?;
        fleet.settled(3).await?;
        for step in fleet.steps(mark)? {
            exit.push(step.unowned);
        }
    }
    report.median("handoff_p50_s", "s", &handoff, &none, Some(0.4))?;
    report.quantile("handoff_p99_s", "s", &handoff, 0.99, None)?;
    report.median("handoff_unowned_p50_s", "s", &unowned, &none, None)?;
    report.quantile("handoff_unowned_p99_s", "s", &unowned, 0.99, None)?;
    report.median("clean_exit_unowned_p50_s", "s", &exit, &none, Some(1.0))?;
    report.quantile("clean_exit_unowned_p99_s", "s", &exit, 0.99, None)?;
    report.median("join_requests", "requests", &requests, &none, None)
}

/// Members die for good: one that does not lead, the leader, and both at once.
async fn crashes(namespace: &TestNamespace<'_>, fleets: usize, report: &mut Report) -> Result<()> {
    let mut running = Vec::new();
    for number in 0..fleets {
        running.push(Fleet::start(namespace, &format!("crash-{number}"), 5, 32).await?);
    }
    let none = Samples::default();
    let d = fleet::TIMING.lease_duration().as_secs_f64();
    let cases = [
        ("crash_unowned_max_s", &[false][..], d + 2.0),
        ("crash_of_leader_unowned_max_s", &[true], d + 2.0),
        (
            "crash_with_leader_unowned_max_s",
            &[true, false],
            2.0 * d + 3.0,
        ),
    ];
    let mut left = 5;
    for (metric, victims, goal) in cases {
        let mut longest = Samples::default();
        let mut marks = Vec::new();
        for fleet in &mut running {
            marks.push(fleet.mark()?);
            fleet.crash(victims).await?;
        }
        left -= victims.len();
        for (fleet, mark) in running.iter().zip(marks) {
            fleet.settled(left).await?;
            longest.push(fleet.unowned_max(mark)?);
        }
        report.largest(metric, "s", &longest, &none, Some(goal))?;
    }
    Ok(())
}
