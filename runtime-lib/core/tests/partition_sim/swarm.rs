//! Many seeds, each a random subset of faults, on all cores; a failure names its seed.

use std::fmt::Write as _;

use crate::clock::{Nanos, SEC};
use crate::judge::Found;
use crate::prng::Prng;
use crate::runs::{HOUR, Seeds, for_each};
use crate::scenario::{Knobs, Mix};
use crate::stats::Stats;
use crate::world::World;

/// Simulated length of one seed.
pub const LENGTH: Nanos = HOUR;
pub const HOURS: u64 = 320;

/// A seed that broke something.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub found: Vec<Found>,
}

/// The world of a seed of the swarm.
pub fn world(seed: u64) -> World {
    let mix = Mix::swarm(&mut Prng::new(!seed));
    World::new(seed, mix, Knobs::ALL, LENGTH)
}

/// Runs the swarm.
pub fn run(seeds: Seeds) -> (Stats, Vec<Failure>) {
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
pub fn explain(failures: &[Failure]) -> String {
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
            "  replay: SIM_SEED={} SIM_SEEDS=1 cargo test -p leasehold-core --features controls --test partition_sim hours_of_faults",
            failure.seed
        );
    }
    if let Some(failure) = failures.first() {
        let _ = writeln!(text, "the story of seed {} until then:", failure.seed);
        let mut world = world(failure.seed).with_log();
        world.run_until(None);
        for line in world.log.until(failure.found[0].at) {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}
