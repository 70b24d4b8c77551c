//! Simulation of the election in true time: nodes with clocks that drift, pauses, a lossy API,
//! outages, edits from outside, restarts; every run is judged, and a failure names its seed.
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

mod client_go;
mod clock;
mod faults;
mod judge;
mod lifecycle;
mod network;
mod node;
mod prng;
mod scenario;
mod stats;
mod store;
mod swarm;
mod tell;
mod watching;
mod work;
mod world;

use swarm::Seeds;

#[test]
fn a_thousand_hours_of_faults_break_no_guarantee() {
    let seeds = Seeds::from_env();
    println!("seeds {} to {}", seeds.first, seeds.first + seeds.count - 1);
    let (stats, failures) = swarm::run(seeds);
    println!(
        "{:#?} {:#?} {} changes",
        stats.faults, stats.counts, stats.changes
    );
    assert!(
        failures.is_empty(),
        "{} of {} seeds failed\n{}",
        failures.len(),
        seeds.count,
        swarm::explain(&failures)
    );
}

#[test]
fn one_seed_tells_the_same_story_twice() {
    for seed in [3, 77] {
        let tell = || {
            let mut world = swarm::world(seed).with_log();
            world.run(false);
            world.log.lines.unwrap_or_default()
        };
        let (first, second) = (tell(), tell());
        assert!(first.len() > 1000, "nothing happened in seed {seed}");
        assert!(first == second, "seed {seed} told two stories");
    }
}
