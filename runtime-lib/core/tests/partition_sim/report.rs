//! The summary of a run: printed, and written to `target/sim/partitions.txt`.

use std::fmt::Write as _;

use crate::clock::SEC;
use crate::histogram::table;
use crate::runs::{HOUR, Seeds};
use crate::scenario::Fault;
use crate::stats::Stats;

/// What the swarm did.
pub fn of_swarm(seeds: Seeds, stats: &Stats) -> String {
    let mut text = String::new();
    let hours = stats.simulated as f64 / HOUR as f64;
    let rate = stats.get("request") as f64 / (stats.simulated as f64 / SEC as f64);
    let _ = writeln!(
        text,
        "Simulation of partitions: {hours:.0} hours, {} seeds ({} to {}), {} starts of a partition, {rate:.1} requests/s",
        stats.seeds,
        seeds.first,
        seeds.last(),
        stats.get("work began")
    );
    let faults = stats.faults.values().sum::<u64>();
    let _ = writeln!(text, "Faults, {faults} in all:");
    for (fault, count) in &stats.faults {
        let _ = writeln!(text, "  {:<38} {count:>8}", format!("{fault:?}"));
    }
    let _ = writeln!(text, "What happened:");
    for (what, count) in &stats.counts {
        let _ = writeln!(text, "  {what:<38} {count:>8}");
    }
    let _ = writeln!(
        text,
        "Time without an owner, by the end of the owner before:"
    );
    for (how, times) in &stats.unowned {
        table(&mut text, how, times, false);
    }
    text
}

/// A run in which something never happened proves nothing about it.
pub fn nothing_happened(stats: &Stats) -> Vec<String> {
    let faults = Fault::ALL
        .iter()
        .filter(|fault| !stats.faults.contains_key(fault));
    let mut missing: Vec<String> = faults.map(|fault| format!("{fault:?}")).collect();
    let needed = [
        "conflict",
        "crashed in a rebalance",
        "drain",
        "fence",
        "guarded write",
        "incarnation began",
        "layout changed",
        "leadership began",
        "member Lease given back",
        "member's Lease was taken",
        "member's drain overran",
        "member's trust expired",
        "moves",
        "older table put back",
        "paused between plan and publish",
        "publish",
        "request late",
        "request lost",
        "request timed out",
        "rollout finished",
        "shut down",
        "stale write refused",
        "table lost before others saw it",
        "table made anew",
        "work began",
    ];
    let needed = needed.iter().filter(|what| stats.get(what) == 0);
    missing.extend(needed.map(ToString::to_string));
    missing
}
