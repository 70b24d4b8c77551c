//! Every order of events, in small worlds: two or three candidates made of the real machine.
//!
//! The worlds ([`world::World`]) have coarse time, a store with compare-and-set, watches that lag,
//! and small allowances for what goes wrong; `stateright` visits everything that can happen.
//! `MODEL_DEPTH=2 cargo test -p leasehold-core --test model -- --nocapture` adds a tick and a loss
//! to each world (ten million states).

#[path = "model/candidate.rs"]
mod candidate;
#[path = "model/network.rs"]
mod network;
#[path = "model/world.rs"]
mod world;

use stateright::{Checker, Model, Property};

use leasehold_core::rules::Rules;
use world::{Action, Allowance, World};

/// Where a check begins.
#[derive(Clone)]
struct Small {
    candidates: u8,
    /// Ticks that pass.
    ticks: u64,
    allowance: Allowance,
    rules: Rules,
}

impl Model for Small {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.candidates, self.allowance, self.rules)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken.is_none() {
            world.actions(actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        Some(world.after(action))
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.tick <= self.ticks
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, world: &World| world.broken.is_none()),
            Property::sometimes("somebody leads", |_, world: &World| world.leads().is_some()),
            Property::sometimes("somebody takes over", |_, world: &World| {
                world.takeovers > 0
            }),
        ]
    }
}

const SAFE: &str = "one guard at a time, tokens only grow, no work beside released";

/// Each world goes wrong in another way.
fn worlds() -> Vec<(&'static str, Small)> {
    let more = depth() - 1;
    let small = |candidates, ticks, allowance: Allowance| Small {
        candidates,
        ticks: ticks + more,
        allowance: Allowance {
            losses: allowance.losses + u8::try_from(more).unwrap_or(u8::MAX),
            ..allowance
        },
        rules: Rules::ALL,
    };
    let none = Allowance {
        delays: 1,
        ..Allowance::default()
    };
    #[rustfmt::skip]
    let worlds = vec![
        ("slow and lossy", small(2, 9, Allowance { losses: 1, delays: 2, ..none })),
        ("crashed and paused", small(2, 9, Allowance { crashes: 1, pauses: 1, ..none })),
        ("edited from outside", small(2, 7, Allowance { edits: 1, ..none })),
        ("stepped down", small(2, 8, Allowance { step_downs: 1, ..none })),
        ("three candidates", small(3, 8, Allowance { crashes: 1, delays: 0, ..none })),
    ];
    worlds
}

#[test]
fn no_order_of_events_gives_two_leaders() {
    let mut states = 0;
    for (name, model) in worlds() {
        let checker = model.checker().threads(2).spawn_bfs().join();
        println!(
            "{name}: {} states, {} of them different",
            checker.state_count(),
            checker.unique_state_count()
        );
        checker.assert_properties();
        states += checker.unique_state_count();
    }
    assert!(
        states > 10_000,
        "only {states} states: the worlds are too small to say anything"
    );
}

/// Positive controls: without the rule, the same worlds find a counter-example.
#[cfg(feature = "controls")]
#[test]
fn each_missing_rule_is_found() {
    use leasehold_core::rules::Rule;
    use stateright::HasDiscoveries;
    let controls = [
        (Rule::E2TrustFromSend, "crashed and paused"),
        (Rule::E2UnknownIsNoTrust, "slow and lossy"),
        (Rule::E3WaitRestarts, "slow and lossy"),
        (Rule::E5EmptiedByOthers, "edited from outside"),
        (Rule::E7RevisionIsToken, "edited from outside"),
        (Rule::ReleaseAfterDrain, "stepped down"),
    ];
    for (rule, place) in controls {
        let rules = Rules::ALL.without(rule);
        let found = worlds().into_iter().filter(|(name, _)| *name == place);
        let found = found
            .map(|(_, model)| Small { rules, ..model })
            .find_map(|model| {
                let checker = model
                    .checker()
                    .threads(2)
                    .finish_when(HasDiscoveries::AnyFailures);
                let path = checker.spawn_bfs().join().discovery(SAFE)?;
                Some((path.last_state().broken, path.into_actions().len()))
            });
        println!("without {rule:?}, {place}: {found:?}");
        assert!(found.is_some(), "nobody misses {rule:?}");
    }
}

#[allow(clippy::disallowed_methods)] // the runner is no machine
fn depth() -> u64 {
    let text = std::env::var("MODEL_DEPTH").unwrap_or_default();
    text.parse().unwrap_or(1).max(1)
}
