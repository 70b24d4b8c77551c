//! Simulation of partitions in true time: each pod runs the real elections, handoff and planner, on
//! clocks that drift, over a lossy API; pods crash, stop, scale and roll out, counts change, and
//! hands edit the Leases. Every run is judged, and a failure names its seed.
//!
//! `SIM_SEED` (first seed), `SIM_SEEDS` (how many), `SIM_HOURS` (simulated, in all) and
//! `SIM_LINES` (of the story of a failure) change what runs.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "one test program: nothing leaves it, and a broken run may panic"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the runs are independent and use both cores; the environment chooses seeds"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "simulated time is far below the limits of its types"
)]

// What knows nothing of elections is shared with the simulation of those.
#[path = "../sim/clock.rs"]
mod clock;
#[path = "../sim/histogram.rs"]
mod histogram;
#[path = "../sim/prng.rs"]
mod prng;
#[path = "../sim/queue.rs"]
mod queue;
#[path = "../sim/runs.rs"]
mod runs;
#[path = "../sim/story.rs"]
mod story;
#[path = "../sim/tell.rs"]
mod tell;

mod bounds;
mod controls;
mod faults;
mod guarded;
mod judge;
mod lifecycle;
mod network;
mod pod;
mod report;
mod scenario;
mod settle;
mod shell;
mod stats;
mod store;
mod swarm;
mod tables;
mod told;
mod watching;
mod work;
mod world;

use runs::Seeds;
use world::World;

/// Fewer seeds, as in a replay, need not show every kind of fault.
const SEEDS_THAT_SHOW_ALL: u64 = 100;

#[test]
fn hours_of_faults_break_no_guarantee() {
    let seeds = Seeds::from_env(swarm::HOURS, swarm::LENGTH);
    println!(
        "SIM_SEED={} SIM_SEEDS={}: up to seed {}",
        seeds.first,
        seeds.count,
        seeds.last()
    );
    let (stats, failures) = swarm::run(seeds);
    runs::publish("partitions.txt", &report::of_swarm(seeds, &stats));
    assert!(
        failures.is_empty(),
        "{} of {} seeds failed\n{}",
        failures.len(),
        seeds.count,
        swarm::explain(&failures)
    );
    if seeds.count >= SEEDS_THAT_SHOW_ALL {
        let missing = report::nothing_happened(&stats);
        assert!(missing.is_empty(), "these never happened: {missing:?}");
    }
}

#[test]
fn one_seed_tells_the_same_story_twice() {
    for seed in [3, 78] {
        let tell = |mut world: World| {
            world.run_until(None);
            (world.log.lines, world.log.hash)
        };
        let (first, hash) = tell(swarm::world(seed).with_log());
        let (second, _) = tell(swarm::world(seed).with_log());
        let lines = first.as_ref().map_or(0, Vec::len);
        assert!(lines > 1000, "nothing happened in seed {seed}");
        assert!(first == second, "seed {seed} told two stories");
        let (_, silent) = tell(swarm::world(seed));
        assert_eq!(
            silent, hash,
            "seed {seed} differs when it is not written down"
        );
    }
}
