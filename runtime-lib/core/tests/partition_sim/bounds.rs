//! How long hashes are unowned after a crash, and what a rollout moves, on a good network.

use crate::clock::{Nanos, SEC};
use crate::histogram::seconds;
use crate::runs::HOUR;
use crate::scenario::{Fault, Knobs, Mix};
use crate::stats::Stats;
use crate::world::{Event, World};

/// One run in which these faults strike in turn, each when the one before is long over.
pub fn spaced(seed: u64, mix: &Mix, knobs: Knobs, faults: &[Fault], gap: Nanos) -> Stats {
    let mut world = World::new(seed, mix.clone(), knobs, HOUR);
    for number in 1..HOUR / gap {
        let fault = faults[number as usize % faults.len()];
        world.schedule(number * gap, Event::Fault(fault));
    }
    world.run_until(None);
    assert!(
        world.judge.found.is_empty(),
        "seed {seed}: {:?}",
        world.judge.found
    );
    world.stats
}

fn longest(stats: &Stats, how: &str) -> f64 {
    let times = &stats.unowned[how];
    assert!(times.len() > 100, "only {} of {how}", times.len());
    seconds(times.iter().copied().max().unwrap_or_default())
}

fn crashes(faults: &[Fault], knobs: Knobs) -> Stats {
    let mix = Mix {
        pods: 6,
        counts: vec![64],
        at_leader: 0,
        ..Mix::quiet()
    };
    let mut sum = Stats::default();
    for seed in 1..=6 {
        sum.add(spaced(seed, &mix, knobs, faults, 100 * SEC));
    }
    sum
}

#[test]
fn a_crash_leaves_partitions_unowned_for_two_seconds_more_than_the_lease_at_most() {
    let stats = crashes(&[Fault::CrashPod, Fault::CrashLeader], Knobs::ALL);
    let longest = longest(&stats, "crash");
    println!("unowned after a crash, the leader's included: at most {longest} s");
    // D on the slowest clock.
    assert!(longest <= 15.0 * 1.01 + 2.0, "{longest} s");
}

#[test]
fn a_crash_beside_the_leaders_costs_three_seconds_more_than_two_leases_at_most() {
    let stats = crashes(&[Fault::CrashTwo], Knobs::ALL);
    let longest = longest(&stats, "crash of two");
    println!("unowned after a crash beside the leader's: at most {longest} s");
    assert!(longest <= 2.0 * 15.0 * 1.01 + 3.0, "{longest} s");
}

/// H10, switched off.
#[test]
fn a_leader_whose_member_lease_nobody_follows_is_missed_for_longer() {
    let knobs = Knobs {
        follows_leader: false,
        ..Knobs::ALL
    };
    let stats = crashes(&[Fault::CrashLeader], knobs);
    let longest = longest(&stats, "crash");
    assert!(longest > 15.0 * 1.01 + 2.0, "{longest} s");
}
