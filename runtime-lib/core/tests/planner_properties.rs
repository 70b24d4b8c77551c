//! `planner-is-total`: whatever members, watches, answers and edits do, a planner neither panics nor
//! spins, keeps its promises about requests, and publishes only tables that are tables.
#![allow(clippy::expect_used)] // a world that cannot be built fails the test

#[path = "planner_properties/checks.rs"]
mod checks;
#[path = "planner_properties/world.rs"]
mod world;

use std::cell::Cell;

use leasehold_core::partition::planner::Input;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use world::World;

#[derive(Clone, Debug)]
enum Step {
    /// A member Lease is written by its member, in this or the next life; the watch may lose it.
    Write {
        name: u8,
        what: What,
        shown: bool,
    },
    /// A member Lease or the table is deleted.
    Delete {
        name: Option<u8>,
        shown: bool,
    },
    /// Somebody writes this in place of the table.
    Forge(Forged),
    /// The watch delivers what it delivered before.
    Again(u8),
    /// Time passes, with the deadlines in it.
    Pass {
        millis: u32,
    },
    /// The oldest request is answered.
    Answer(Kind),
    Wanted {
        count: u16,
        hash: bool,
    },
    /// Another leader begins.
    Leader {
        term: u32,
    },
}

#[derive(Clone, Copy, Debug)]
enum What {
    Join,
    Renew,
    Acknowledge,
    Drain,
    Release,
    Garbage,
}

#[derive(Clone, Copy, Debug)]
enum Forged {
    Garbage,
    Newer,
    Short,
    HighEpoch,
    Copy,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Served,
    Lost { stored: bool },
    Refused,
}

fn step() -> impl Strategy<Value = Step> {
    use What::{Acknowledge, Drain, Garbage, Join, Release, Renew};
    let what = prop::sample::select(vec![
        Join,
        Join,
        Renew,
        Renew,
        Acknowledge,
        Acknowledge,
        Drain,
        Release,
        Garbage,
    ]);
    let forged = prop::sample::select(vec![
        Forged::Garbage,
        Forged::Newer,
        Forged::Short,
        Forged::HighEpoch,
        Forged::Copy,
    ]);
    let kind = prop::sample::select(vec![
        Kind::Lost { stored: true },
        Kind::Lost { stored: false },
        Kind::Refused,
    ]);
    let name = 0..5_u8;
    prop_oneof![
        8 => (name.clone(), what, prop::bool::weighted(0.8))
            .prop_map(|(name, what, shown)| Step::Write { name, what, shown }),
        1 => (prop::option::weighted(0.7, name.clone()), any::<bool>())
            .prop_map(|(name, shown)| Step::Delete { name, shown }),
        1 => forged.prop_map(Step::Forge),
        1 => name.prop_map(Step::Again),
        5 => (0..20_000_u32).prop_map(|millis| Step::Pass { millis }),
        8 => Just(Step::Answer(Kind::Served)),
        2 => kind.prop_map(Step::Answer),
        1 => (0..20_u16, prop::bool::weighted(0.1))
            .prop_map(|(count, hash)| Step::Wanted { count, hash }),
        1 => (1..4_u32).prop_map(|term| Step::Leader { term }),
    ]
}

#[test]
fn a_planner_is_total_and_comes_to_rest() {
    let (published, settled) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(512)
    });
    let steps = prop::collection::vec(step(), 1..120);
    let result = runner.run(&steps, |steps| {
        let mut world = World::new();
        world.tell(Input::Timer)?;
        for step in &steps {
            world.play(step)?;
        }
        world.settle()?;
        published.set(published.get() + world.published);
        settled.set(settled.get() + usize::from(world.check_settled()?));
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
    let (published, settled) = (published.get(), settled.get());
    assert!(published > 1000, "only {published} tables");
    assert!(
        settled > 100,
        "only {settled} worlds with members at the end"
    );
}
