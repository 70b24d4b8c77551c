//! What a positive control is: a seed that finds the broken protection, and nothing with all in force.

use leasehold_core::rules::{Rule, Rules};

use crate::clock::SEC;
use crate::judge::Check;
use crate::scenario::{Knobs, Mix};
use crate::world::World;
use crate::{CONTROL_SEEDS, LENGTH};

/// Fails unless some seed finds `expected` under `knobs`, and the seeds up to it find nothing without.
#[track_caller]
pub fn finds(expected: Check, knobs: Knobs, mix: &Mix) {
    let mut others = Vec::new();
    for seed in 1..=CONTROL_SEEDS {
        let mut world = World::new(seed, mix.clone(), knobs, LENGTH);
        world.run_until(Some(expected));
        others.extend(world.judge.found.iter().map(|found| found.check));
        if !others.contains(&expected) {
            continue;
        }
        println!("{expected:?} by seed {seed} after {} s", world.now / SEC);
        for seed in 1..=seed {
            let mut sound = World::new(seed, mix.clone(), Knobs::ALL, LENGTH);
            sound.run_until(None);
            let found = &sound.judge.found;
            assert!(
                found.is_empty(),
                "with all rules in force, seed {seed}: {found:?}"
            );
        }
        return;
    }
    others.sort();
    others.dedup();
    panic!("{CONTROL_SEEDS} seeds did not find {expected:?}, only {others:?}");
}

pub fn without(rule: Rule) -> Knobs {
    Knobs {
        rules: Rules::ALL.without(rule),
        ..Knobs::ALL
    }
}
