//! Many seeds, each a random subset of faults, on all cores; a failure names its seed.

use std::fmt::Write as _;

use crate::clock::{Nanos, SEC};
use crate::judge::Found;
use crate::prng::Prng;
use crate::report;
use crate::runs::{Seeds, for_each, publish};
use crate::scenario::{Knobs, Mix};
use crate::stats::Stats;
use crate::world::World;
use crate::{HOURS, LENGTH, REPLAY};

/// Fewer seeds, as in a replay, need not show every kind of fault.
const SEEDS_THAT_SHOW_ALL: u64 = 100;

/// A seed that broke something.
#[derive(Debug)]
struct Failure {
    seed: u64,
    found: Vec<Found>,
}

/// The world of a seed of the swarm.
pub fn world(seed: u64) -> World {
    let mix = Mix::swarm(&mut Prng::new(!seed));
    World::new(seed, mix, Knobs::ALL, LENGTH)
}

/// Runs the swarm, writes its summary to this file, and fails if a guarantee broke or nothing happened.
pub fn breaks_no_guarantee(summary: &str) {
    let seeds = Seeds::from_env(HOURS, LENGTH);
    println!(
        "SIM_SEED={} SIM_SEEDS={}: up to seed {}",
        seeds.first,
        seeds.count,
        seeds.last()
    );
    let (stats, failures) = run(seeds);
    publish(summary, &report::of_swarm(seeds, &stats));
    assert!(
        failures.is_empty(),
        "{} of {} seeds failed\n{}",
        failures.len(),
        seeds.count,
        explain(&failures)
    );
    if seeds.count >= SEEDS_THAT_SHOW_ALL {
        let missing = report::nothing_happened(&stats);
        assert!(missing.is_empty(), "these never happened: {missing:?}");
    }
}

/// Runs the swarm.
fn run(seeds: Seeds) -> (Stats, Vec<Failure>) {
    let results = for_each(seeds, |seed| {
        let mut world = world(seed);
        world.run_until(None);
        (seed, world.stats, world.judge.found)
    });
    let (mut stats, mut failures) = (Stats::default(), Vec::new());
    for (seed, one, found) in results {
        stats.add(one);
        if !found.is_empty() {
            failures.push(Failure { seed, found });
        }
    }
    (stats, failures)
}

/// What a person needs to see of the first failures, and how to see it again.
fn explain(failures: &[Failure]) -> String {
    let mut text = String::new();
    for failure in failures.iter().take(12) {
        let first = &failure.found[0];
        let _ = writeln!(
            text,
            "seed {}: {} ({}) at {:.3} s; {} violations",
            failure.seed,
            first.check,
            first.detail,
            first.at as f64 / SEC as f64,
            failure.found.len()
        );
        let _ = writeln!(
            text,
            "  replay: SIM_SEED={} SIM_SEEDS=1 cargo test -p leasehold-core --features controls {REPLAY}",
            failure.seed
        );
    }
    if let Some(failure) = failures.first() {
        let _ = writeln!(text, "the story of seed {} until then:", failure.seed);
        for line in story(failure.seed, failure.found[0].at) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// The last lines before `at`, told by running the seed again.
fn story(seed: u64, at: Nanos) -> Vec<String> {
    let mut world = world(seed).with_log();
    world.run_until(None);
    world.log.until(at)
}
