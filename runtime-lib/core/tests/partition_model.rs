//! Every order of events in small worlds of partitions: two members, one of which may live twice,
//! and one or two leaders, all made of the real machines.
//!
//! The worlds ([`world::World`]) have coarse time, a store with compare-and-set, watches that lag,
//! and small allowances for what goes wrong; `stateright` visits everything that can happen.
//! `MODEL_DEPTH=2 cargo test -p leasehold-core --test partition_model -- --nocapture` adds a tick
//! and a delay to each world.

#[path = "partition_model/action.rs"]
mod action;
#[path = "partition_model/judge.rs"]
mod judge;
#[path = "partition_model/leader.rs"]
mod leader;
#[path = "partition_model/members.rs"]
mod members;
#[path = "partition_model/pod.rs"]
mod pod;
#[path = "partition_model/store.rs"]
mod store;
#[path = "partition_model/world.rs"]
mod world;

use stateright::{Checker, Model, Property};

use action::Action;
use leasehold_core::rules::Rules;
use world::{Allowance, Start, World};

/// Where a check begins, and what it must come upon.
#[derive(Clone)]
struct Small {
    start: Start,
    /// Ticks that pass.
    ticks: u64,
    allowance: Allowance,
    reaches: &'static [&'static str],
    rules: Rules,
}

impl Model for Small {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.start, self.allowance, self.rules)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.judge.broken.is_none() {
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
        let handed: fn(&Self, &World) -> bool = |_, world| world.judge.handed_over;
        let twice: fn(&Self, &World) -> bool = |_, world| world.judge.owned_in_two_lives();
        let cut: fn(&Self, &World) -> bool = |_, world| world.judge.cut_anew;
        let late: fn(&Self, &World) -> bool = |_, world| world.judge.late_table;
        let reached = [(HANDED, handed), (TWICE, twice), (CUT, cut), (LATE, late)];
        let mut properties = vec![Property::always(SAFE, |_, world: &World| {
            world.judge.broken.is_none()
        })];
        for (name, is_so) in reached {
            if self.reaches.contains(&name) {
                properties.push(Property::sometimes(name, is_so));
            }
        }
        properties
    }
}

const SAFE: &str = "one owner of each key, and its tokens only grow";
const HANDED: &str = "a partition was handed over";
const TWICE: &str = "both lives of a member owned something";
const CUT: &str = "a partition of the next layout was owned";
const LATE: &str = "a table was stored after a later one";

/// Each world goes wrong in another way.
fn worlds() -> Vec<(&'static str, Small)> {
    let more = depth() - 1;
    let small = |start, ticks, allowance: Allowance, reaches: &'static [&'static str]| Small {
        start,
        ticks: ticks + more,
        allowance: Allowance {
            delays: allowance.delays + u8::try_from(more).unwrap_or(u8::MAX),
            ..allowance
        },
        reaches,
        rules: Rules::ALL,
    };
    let none = Allowance::default();
    let one = Start::SETTLED;
    let two = Start {
        partitions: 2,
        ..one
    };
    let unread = Start {
        joined: 1,
        has_read: false,
        ..two
    };
    let former = Allowance {
        leaders: 1,
        former: 1,
        ..none
    };
    #[rustfmt::skip]
    let worlds = vec![
        ("left and restarted", small(one, 3, Allowance { leaves: 1, crashes: 1, ..none }, &[HANDED, TWICE])),
        ("the same with two partitions", small(two, 3, Allowance { leaves: 1, crashes: 1, ..none }, &[HANDED, TWICE])),
        ("not read yet", small(unread, 3, Allowance { crashes: 1, ..none }, &[HANDED])),
        ("silent", small(one, 5, Allowance { deaf: 1, leaves: 1, ..none }, &[HANDED])),
        ("paused", small(one, 4, Allowance { pauses: 1, crashes: 1, ..none }, &[HANDED, TWICE])),
        ("answers lost", small(one, 3, Allowance { losses: 1, leaves: 1, ..none }, &[HANDED])),
        ("two leaders", small(one, 3, Allowance { leaves: 1, ..former }, &[HANDED])),
        ("two leaders and a pause", small(one, 4, Allowance { pauses: 1, ..former }, &[HANDED, TWICE])),
        ("a Lease is deleted", small(one, 4, Allowance { deletions: 1, leaves: 1, ..none }, &[HANDED, TWICE])),
        ("the table is deleted", small(one, 4, Allowance { lost_tables: 1, leaves: 1, ..none }, &[HANDED])),
        ("the table is deleted twice", small(one, 4, Allowance { lost_tables: 2, leaders: 1, ..none }, &[LATE])),
        ("cut anew", small(one, 3, Allowance { resizes: 1, leaves: 1, ..none }, &[HANDED, CUT])),
        ("cut anew by two leaders", small(one, 2, Allowance { resizes: 1, ..former }, &[HANDED, CUT])),
        ("cut anew and lost", small(one, 3, Allowance { resizes: 1, lost_tables: 1, ..none }, &[HANDED, CUT])),
        ("put together", small(two, 3, Allowance { resizes: 1, crashes: 1, ..none }, &[HANDED, TWICE, CUT])),
        ("cut anew and put together", small(one, 3, Allowance { resizes: 2, ..none }, &[HANDED, CUT])),
    ];
    worlds
}

#[test]
fn no_order_of_events_gives_a_partition_two_owners() {
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
    println!("{states} different states in all");
    assert!(
        states > 100_000,
        "only {states} states: the worlds are too small to say anything"
    );
}

/// Positive controls: without the rule, the same worlds find a counter-example.
#[cfg(feature = "controls")]
#[test]
fn each_missing_rule_of_the_handoff_is_found() {
    use leasehold_core::rules::Rule;
    use stateright::HasDiscoveries;
    let controls = [
        (Rule::H1Incarnation, "left and restarted"),
        (Rule::H3Acknowledged, "not read yet"),
        (Rule::H4PrevCarries, "left and restarted"),
        (Rule::H5FenceFirst, "silent"),
        (Rule::H6MissingIsNoRelease, "a Lease is deleted"),
        (Rule::H7PrevAll, "the table is deleted"),
        (Rule::H8ParentsReleased, "cut anew"),
        (Rule::H8ParentsReleased, "put together"),
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
                let broken = path.last_state().judge.broken;
                Some((broken, path.into_actions()))
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
