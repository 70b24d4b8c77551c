//! Takeovers and overlaps, ours beside the client-go model in the same world.

use crate::LENGTH;
use crate::clock::SEC;
use crate::runs::{self, Seeds};
use crate::scenario::{Fault, Kind, Knobs, Mix};
use crate::stats::Stats;
use crate::world::World;

const SEEDS: Seeds = Seeds {
    first: 900_000,
    count: 24,
};

/// What both were measured on.
pub struct Comparison {
    pub ours: Stats,
    pub client_go: Stats,
}

/// Nothing but deleted and crashed leaders, on a good network, 15 s leases, three pods.
pub fn takeovers() -> Comparison {
    let faults = [Fault::Rollout, Fault::CrashPod];
    compare(&Mix {
        at_leader: 1000,
        ..Mix::focused(&faults, 180 * SEC)
    })
}

/// Pauses, dead links and a hanging API, with slow packets.
pub fn overlaps() -> Comparison {
    let faults = [
        Fault::Pause,
        Fault::LinkDropped,
        Fault::LinkHeld,
        Fault::ApiHangs,
    ];
    compare(&Mix {
        slow: 20,
        ..Mix::focused(&faults, 120 * SEC)
    })
}

fn compare(mix: &Mix) -> Comparison {
    let run = |kind| {
        let mut sum = Stats::default();
        for stats in runs::for_each(SEEDS, |seed| {
            let mix = Mix {
                kind,
                ..mix.clone()
            };
            let mut world = World::new(seed, mix, Knobs::ALL, LENGTH);
            world.run_until(None);
            let found = &world.judge.found;
            assert!(found.is_empty(), "seed {seed}: {found:?}");
            world.stats
        }) {
            sum.add(stats);
        }
        sum
    };
    Comparison {
        ours: run(Kind::Ours),
        client_go: run(Kind::ClientGo),
    }
}
