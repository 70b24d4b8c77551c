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
#[path = "../sim/control.rs"]
mod control;
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
#[path = "../sim/swarm.rs"]
mod swarm;
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
mod tables;
mod told;
mod watching;
mod work;
mod world;

use clock::Nanos;
use world::World;

/// Simulated length of one seed.
pub const LENGTH: Nanos = runs::HOUR;
/// Simulated hours of all seeds.
pub const HOURS: u64 = 320;
/// Seeds that a control may take; the swarm itself takes more than ten times as many.
pub const CONTROL_SEEDS: u64 = 30;
/// The arguments of cargo that run the swarm again.
pub const REPLAY: &str = "--test partition_sim hours_of_faults";

#[test]
fn hours_of_faults_break_no_guarantee() {
    swarm::breaks_no_guarantee("partitions.txt");
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
