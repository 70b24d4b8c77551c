//! The summary of a run: printed, and written to `target/sim/summary.txt`.

use std::fmt::Write as _;

use crate::clock::SEC;
use crate::comparison::Comparison;
use crate::histogram::table;
use crate::runs::{HOUR, Seeds};
use crate::scenario::Fault;
use crate::stats::Stats;

/// What the swarm did.
pub fn of_swarm(seeds: Seeds, stats: &Stats) -> String {
    let mut text = String::new();
    let last = seeds.last();
    let hours = stats.simulated as f64 / HOUR as f64;
    let _ = writeln!(
        text,
        "Simulation: {hours:.0} hours, {} seeds ({} to {last}), {} leadership changes",
        stats.seeds, seeds.first, stats.changes
    );
    let _ = writeln!(
        text,
        "Faults, {} in all:",
        stats.faults.values().sum::<u64>()
    );
    for (fault, count) in &stats.faults {
        let _ = writeln!(text, "  {:<34} {count:>7}", format!("{fault:?}"));
    }
    let _ = writeln!(text, "What happened:");
    for (what, count) in &stats.counts {
        let _ = writeln!(text, "  {what:<34} {count:>7}");
    }
    let _ = writeln!(
        text,
        "  {:<34} {:>7}",
        "stale guarded write refused", stats.refused
    );
    let _ = writeln!(
        text,
        "Time without a leader, by the end of the term before:"
    );
    for (how, times) in &stats.takeovers {
        table(&mut text, how, times, false);
    }
    let _ = writeln!(
        text,
        "Guards valid at once, all within V after an edit from outside:"
    );
    table(&mut text, "overlap", &stats.overlaps, false);
    text
}

/// Takeovers and overlaps beside the client-go model.
pub fn of_comparison(takeovers: &Comparison, overlaps: &Comparison) -> String {
    let mut text = String::from("Takeover on a good network, 15 s lease, three pods:\n");
    for how in ["graceful", "crash"] {
        for (name, stats) in named(takeovers) {
            let times = stats.takeovers.get(how).map_or(&[][..], Vec::as_slice);
            table(&mut text, &format!("{how}, {name}"), times, true);
        }
    }
    let _ = writeln!(
        text,
        "Two leaders at once, with pauses, dead links and a hanging API:"
    );
    for (name, stats) in named(overlaps) {
        table(
            &mut text,
            &format!("overlap, {name}"),
            &stats.overlaps,
            true,
        );
    }
    let _ = writeln!(text, "Requests per second of a cluster of three:");
    for (name, stats) in named(takeovers) {
        let rate = stats.get("request") as f64 / (stats.simulated as f64 / SEC as f64);
        let _ = writeln!(text, "  {name:<34} {rate:>7.3}");
    }
    text
}

fn named(comparison: &Comparison) -> [(&'static str, &Stats); 2] {
    [
        ("ours", &comparison.ours),
        ("client-go model", &comparison.client_go),
    ]
}

/// A run in which something never happened proves nothing about it.
pub fn nothing_happened(stats: &Stats) -> Vec<String> {
    let mut missing: Vec<String> = Fault::ALL
        .iter()
        .filter(|fault| !stats.faults.contains_key(fault))
        .map(|fault| format!("{fault:?}"))
        .collect();
    let needed = [
        "answer lost",
        "conflict",
        "drain",
        "duplicate identity noticed",
        "not released",
        "released",
        "request late",
        "request lost",
        "request timed out",
        "unknown write adopted",
        "write with unknown outcome",
    ];
    missing.extend(
        needed
            .iter()
            .filter(|what| stats.get(what) == 0)
            .map(ToString::to_string),
    );
    for (what, count) in [
        ("leadership changes", stats.changes),
        ("stale guarded writes", stats.refused),
        ("overlaps after edits", stats.overlaps.len() as u64),
    ] {
        if count == 0 {
            missing.push(what.to_owned());
        }
    }
    missing
}
