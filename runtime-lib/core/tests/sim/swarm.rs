//! Many seeds, each a random subset of faults, on all cores; a failure names its seed.

use std::env;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::clock::{Nanos, SEC};
use crate::judge::Found;
use crate::prng::Prng;
use crate::scenario::{Knobs, Mix};
use crate::stats::Stats;
use crate::world::World;

pub const HOUR: Nanos = 3600 * SEC;
/// Simulated length of one seed.
pub const LENGTH: Nanos = 2 * HOUR;
const HOURS: u64 = 1040;

/// Which seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    pub first: u64,
    pub count: u64,
}

impl Seeds {
    /// `SIM_SEED` is the first seed, `SIM_SEEDS` how many, `SIM_HOURS` how long in all.
    pub fn from_env() -> Self {
        let number = |name: &str| {
            let text = env::var(name).ok().filter(|text| !text.is_empty())?;
            let number = text.parse::<u64>();
            Some(number.unwrap_or_else(|_| panic!("{name}: found {text:?}, allowed is a number")))
        };
        let hours = number("SIM_HOURS").unwrap_or(HOURS);
        let seeds = hours.div_ceil(LENGTH / HOUR);
        Self {
            first: number("SIM_SEED").unwrap_or(1),
            count: number("SIM_SEEDS").unwrap_or(seeds).max(1),
        }
    }
}

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

/// Runs `job` for each seed, two at a time; results come in the order of the seeds.
pub fn for_each<T: Send>(seeds: Seeds, job: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let (next, job) = (&next, &job);
    let mut done: Vec<(u64, T)> = thread::scope(|scope| {
        let turn = move || {
            let mut mine = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= seeds.count {
                    return mine;
                }
                mine.push((number, job(seeds.first.wrapping_add(number))));
            }
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(turn)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a run does not panic"))
            .collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
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
    for failure in failures.iter().take(5) {
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
            "  replay: SIM_SEED={} SIM_SEEDS=1 cargo test -p leasehold-core --features controls --test sim a_thousand",
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
    let lines = world.log.lines.unwrap_or_default();
    let until = lines.iter().position(|line| {
        let time = line.trim_start().split(' ').next().unwrap_or_default();
        time.parse::<f64>()
            .is_ok_and(|time| time > at as f64 / SEC as f64 + 0.001)
    });
    let until = until.unwrap_or(lines.len());
    let lines_shown = env::var("SIM_LINES").ok().and_then(|n| n.parse().ok());
    lines[until.saturating_sub(lines_shown.unwrap_or(80))..until].to_vec()
}
