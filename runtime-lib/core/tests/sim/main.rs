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

mod checks;
mod client_go;
mod clock;
mod comparison;
mod control;
mod controls;
mod faults;
mod histogram;
mod judge;
mod lifecycle;
mod network;
mod node;
mod prng;
mod queue;
mod report;
mod runs;
mod scenario;
mod stats;
mod store;
mod story;
mod swarm;
mod tell;
mod watching;
mod work;
mod world;

use clock::{Nanos, SEC};
use scenario::{Fault, Kind, Knobs, Mix};
use world::World;

/// Simulated length of one seed.
pub const LENGTH: Nanos = 2 * runs::HOUR;
/// Simulated hours of all seeds.
pub const HOURS: u64 = 1040;
/// Seeds that a control may take; the swarm itself takes more than ten times as many.
pub const CONTROL_SEEDS: u64 = 40;
/// The arguments of cargo that run the swarm again.
pub const REPLAY: &str = "--test sim a_thousand";

/// One watch that dies without a sign costs a crash less than 5 s more than the lease.
#[test]
fn a_dead_watch_prolongs_a_takeover_by_seconds_only() {
    let faults = [
        Fault::CrashPod,
        Fault::WatchHalfOpen,
        Fault::WatchEnds,
        Fault::WatchLags,
    ];
    let mix = Mix {
        at_leader: 500,
        ..Mix::focused(&faults, 120 * SEC)
    };
    let mut crashes = Vec::new();
    for seed in 1..=10 {
        let mut world = World::new(seed, mix.clone(), Knobs::ALL, LENGTH);
        world.run_until(None);
        assert!(world.judge.found.is_empty(), "{:?}", world.judge.found);
        crashes.extend(world.stats.takeovers.remove("crash").unwrap_or_default());
    }
    assert!(crashes.len() > 100);
    let longest = crashes.into_iter().max().unwrap_or_default();
    assert!(longest < 20 * SEC, "{} s", histogram::seconds(longest));
}

/// An application on its way from client-go to us, handed over in both directions. client-go leads
/// on beside us after a pause, and wipes our record by a late release; ours never leads beside it
/// by a fault of its own.
#[test]
fn beside_client_go_peers_only_the_peers_outlast_their_lease() {
    let faults = [
        Fault::Rollout,
        Fault::CrashPod,
        Fault::Pause,
        Fault::LinkDropped,
    ];
    let mix = Mix {
        kind: Kind::Mixed,
        pods: 4,
        by_name: true,
        ..Mix::focused(&faults, 120 * SEC)
    };
    let (mut to_us, mut to_them, mut theirs, mut ours, mut wiped) = (0, 0, 0, 0, 0);
    for seed in 1..=10 {
        let mut world = World::new(seed, mix.clone(), Knobs::ALL, LENGTH);
        world.run_until(None);
        for (former, later) in world.handovers() {
            match [former, later].map(|p| world.processes[p].is_client_go()) {
                [true, false] => to_us += 1,
                [false, true] => to_them += 1,
                _ => {}
            }
        }
        wiped += world.stats.get("released by a peer that did not hold it");
        for outlasting in world.outlasting() {
            if world.processes[outlasting].is_client_go() {
                theirs += 1;
            } else {
                ours += 1;
            }
        }
    }
    println!(
        "{to_us} handovers to us, {to_them} to client-go, which led on beside us {theirs} times \
         and wiped our record {wiped} times"
    );
    assert!(to_us >= 50 && to_them >= 50 && theirs > 0 && wiped > 0);
    assert_eq!(ours, 0, "terms of ours that outlasted their lease");
}

#[test]
fn a_thousand_hours_of_faults_break_no_guarantee() {
    swarm::breaks_no_guarantee("summary.txt");
}

#[test]
fn takeovers_are_fast_and_never_overlap_beside_a_client_go_candidate() {
    let (takeovers, overlaps) = (comparison::takeovers(), comparison::overlaps());
    let text = report::of_comparison(&takeovers, &overlaps);
    runs::publish("client-go.txt", &text);
    let longest = |stats: &stats::Stats, how: &str| {
        let times = stats.takeovers.get(how).expect("it happened");
        assert!(times.len() > 100, "only {} of {how}", times.len());
        let times = histogram::sorted(times);
        [500, 1000].map(|share| histogram::seconds(histogram::quantile(&times, share)))
    };
    let [graceful, _] = longest(&takeovers.ours, "graceful");
    let [crash, crash_max] = longest(&takeovers.ours, "crash");
    assert!(graceful <= 0.1, "graceful takeover in {graceful} s");
    assert!(
        crash <= 13.0 && crash_max <= 16.0,
        "after a crash {crash} s, at most {crash_max} s"
    );
    let [theirs, _] = longest(&takeovers.client_go, "crash");
    assert!(
        theirs > crash,
        "the model of client-go is too fast to compare with: {theirs} s"
    );
    // That overlaps can be seen at all shows in the model that has them.
    assert!(overlaps.client_go.overlaps.len() > 100);
    assert_eq!(overlaps.ours.overlaps, [], "two guards at once");
}

#[test]
fn one_seed_tells_the_same_story_twice() {
    for seed in [3, 77] {
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
