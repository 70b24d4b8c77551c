//! All orders in which two operators can act, one of which sleeps in front of a write and wakes up
//! rotations later (C5).

use stateright::{Checker, Model, Property};

use leasehold_core::credential::Slot;

use crate::hand::Hand;
use crate::operator::Phase;
use crate::server::Guard;
use crate::world::World;

/// Where a check begins, and what may happen.
#[derive(Clone)]
struct Small {
    guard: Guard,
    allowance: Allowance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Allowance {
    /// Rotations that are asked for.
    triggers: u8,
    ticks: u64,
    crashes: u8,
    /// Effects of the operator that sleeps now and then.
    late: u8,
    hands: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    world: World,
    left: Allowance,
    /// Why no good end can be reached from here.
    stuck: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Read(usize),
    Look(usize),
    Act(usize),
    Crash(usize),
    Trigger,
    Tick,
    Hand(Hand),
}

const SLEEPER: usize = 1;
const HANDS: [Hand; 5] = [
    Hand::DeleteSecret,
    Hand::EditPassword,
    Hand::RemovePrevious,
    Hand::Drop(Slot::A),
    Hand::Drop(Slot::B),
];

impl Model for Small {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut world = World::new(self.guard, 2);
        world.judge.forgives = !self.guard.counts && self.allowance.late > 0;
        vec![State {
            world,
            left: self.allowance,
            stuck: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let world = &state.world;
        if world.judge.broken.is_some() || state.stuck.is_some() {
            return;
        }
        for (n, operator) in world.operators.iter().enumerate() {
            match operator.phase() {
                Phase::Idle if n == SLEEPER && state.left.late == 0 => {}
                Phase::Idle => actions.push(Action::Read(n)),
                Phase::Read(_) => actions.push(Action::Look(n)),
                Phase::Ready(_) => actions.push(Action::Act(n)),
            }
            if n != SLEEPER && state.left.crashes > 0 && !operator.is_idle() {
                actions.push(Action::Crash(n));
            }
        }
        if state.left.triggers > 0 && world.secret.as_ref().is_some_and(|s| s.current.is_some()) {
            actions.push(Action::Trigger);
        }
        if state.left.ticks > 0 {
            actions.push(Action::Tick);
        }
        if state.left.hands > 0 {
            actions.extend(HANDS.map(Action::Hand));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut state = state.clone();
        let world = &mut state.world;
        match action {
            Action::Read(n) => world.read(n),
            Action::Look(n) => {
                world.look(n);
                if n == SLEEPER && !world.operators[n].is_idle() {
                    state.left.late -= 1;
                }
            }
            Action::Act(n) => world.act(n),
            Action::Crash(n) => {
                world.crash(n);
                state.left.crashes -= 1;
            }
            Action::Trigger => {
                world.trigger = Some(world.trigger.map_or(1, |n| n + 1));
                state.left.triggers -= 1;
            }
            Action::Tick => {
                world.tick();
                state.left.ticks -= 1;
            }
            Action::Hand(hand) => {
                state.left.hands -= 1;
                if !world.hand(hand) {
                    return None;
                }
            }
        }
        if matches!(action, Action::Act(_) | Action::Hand(_)) && state.world.judge.broken.is_none()
        {
            let mut alone = state.world.clone();
            alone.crash(0);
            state.stuck = alone.settle(0).err();
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFE, |_, state: &State| {
                state.world.judge.broken.is_none() && state.stuck.is_none()
            }),
            Property::sometimes("two rotations", |_, state: &State| {
                state.world.judge.turns >= 3
            }),
            Property::sometimes("a former login was ended", |_, state: &State| {
                state.world.judge.ended
            }),
        ]
    }
}

const SAFE: &str = "the current login works, and one operator alone comes to the good end";

const PAUSED: Allowance = Allowance {
    triggers: 2,
    ticks: 2,
    crashes: 0,
    late: 2, // it tries the current login before it does anything else
    hands: 0,
};

fn worlds() -> Vec<(&'static str, Small)> {
    let more = depth() - 1;
    let small = |guard, allowance: Allowance| Small {
        guard,
        allowance: Allowance {
            triggers: allowance.triggers + more,
            ticks: allowance.ticks + u64::from(more),
            ..allowance
        },
    };
    let postgres = |allowance| small(Guard::POSTGRES, allowance);
    vec![
        ("an operator that sleeps", postgres(PAUSED)),
        (
            "two that are awake",
            postgres(Allowance { late: 3, ..PAUSED }),
        ),
        (
            "sleep and hands",
            postgres(Allowance {
                hands: 1,
                ticks: 1,
                ..PAUSED
            }),
        ),
        (
            "sleep and crashes",
            postgres(Allowance {
                crashes: 1,
                ..PAUSED
            }),
        ),
        // Redis refuses nothing, so the login may break; the next look mends it.
        ("redis and sleep", small(Guard::REDIS, PAUSED)),
        (
            "redis, hands and crashes",
            small(
                Guard::REDIS,
                Allowance {
                    late: 0,
                    crashes: 1,
                    hands: 1,
                    ..PAUSED
                },
            ),
        ),
    ]
}

#[test]
fn no_order_of_two_operators_locks_a_service_out() {
    let mut states = 0;
    for (name, model) in worlds() {
        let checker = model.checker().threads(2).spawn_bfs().join();
        println!("{name}: {} different states", checker.unique_state_count());
        if let Some(path) = checker.discovery(SAFE) {
            let last = path.last_state();
            panic!(
                "{name}: {:?} {:?} after {:?}",
                last.world.judge.broken,
                last.stuck,
                path.clone().into_actions()
            );
        }
        checker.assert_properties();
        states += checker.unique_state_count();
    }
    assert!(states > 50_000, "only {states} states");
}

/// Positive controls: a server that does not compare generations is locked out by a late write.
#[test]
fn late_writes_that_are_not_refused_are_found() {
    let all = Guard::POSTGRES;
    let deleted = Allowance {
        triggers: 0,
        ticks: 0,
        hands: 1,
        ..PAUSED
    };
    let unguarded = [
        (
            "sets an older password",
            Guard {
                refuses_old: false,
                ..all
            },
            PAUSED,
        ),
        (
            "ends a later login",
            Guard {
                spares_later: false,
                ..all
            },
            PAUSED,
        ),
        (
            "sets a second password",
            Guard {
                refuses_second: false,
                ..all
            },
            deleted,
        ),
    ];
    for (what, guard, allowance) in unguarded {
        let model = Small { guard, allowance };
        let checker = model
            .checker()
            .threads(2)
            .finish_when(stateright::HasDiscoveries::AnyFailures)
            .spawn_bfs()
            .join();
        let found = checker.discovery(SAFE).map(|path| {
            let broken = path.last_state().world.judge.broken;
            (broken, path.into_actions().len())
        });
        println!("a server that {what}: {found:?}");
        assert!(
            found.is_some_and(|(broken, _)| broken.is_some()),
            "nobody misses it: {what}"
        );
    }
}

#[allow(clippy::disallowed_methods)] // the runner is no machine
fn depth() -> u8 {
    let text = std::env::var("MODEL_DEPTH").unwrap_or_default();
    text.parse().unwrap_or(1).max(1)
}
