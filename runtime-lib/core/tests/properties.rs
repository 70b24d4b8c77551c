//! What holds for every sequence of inputs, and twins that say the same in another way.
//!
//! The machine is fed sequences of nonsense: no order, no store, no honest clock behind them. A
//! shadow ([`shadow::Shadow`]) follows what comes out and objects.

#[path = "properties/chaos.rs"]
mod chaos;
#[path = "properties/shadow.rs"]
mod shadow;
#[path = "properties/twins.rs"]
mod twins;

use std::collections::BTreeSet;

use leasehold_core::election::{Effect, Election, Input};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use chaos::{Move, config, moves};
use shadow::Shadow;

/// That many cases, or another share of them: `PROPTEST_CASES` is 256 unless it is set.
fn cases(cases: u32) -> Config {
    Config {
        cases: cases * Config::default().cases / 256,
        failure_persistence: None, // a failing case is printed in full
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// Never panics; one request at a time; Begin and End in pairs; no deadline in the past; trust
    /// only from own stored writes; release and claim only after the work has ended.
    #[test]
    fn no_sequence_of_inputs_breaks_the_machine(moves in moves(120)) {
        Run::new(Rules::ALL).play(&moves)?;
    }

    /// Every deadline, once served, is gone: alone with its timers the machine comes to rest or
    /// waits for a later instant.
    #[test]
    fn timers_alone_always_lead_on(moves in moves(40)) {
        let mut run = Run::new(Rules::ALL);
        run.play(&moves)?;
        for _ in 0..200 {
            let Some(deadline) = run.machine.next_deadline() else { break };
            prop_assert!(deadline > run.now, "{deadline:?} has passed at {:?}", run.now);
            run.step(&Input::Timer, deadline)?;
        }
    }
}

/// A machine, its shadow, and what happened.
struct Run {
    machine: Election,
    shadow: Shadow,
    now: Instant,
    effects: BTreeSet<String>,
}

impl Run {
    fn new(rules: Rules) -> Self {
        Self {
            machine: Election::new(config(rules)),
            shadow: Shadow::default(),
            now: Instant::ZERO.after(Duration::from_secs(1)),
            effects: BTreeSet::new(),
        }
    }

    fn play(&mut self, moves: &[Move]) -> Result<(), TestCaseError> {
        for step in moves {
            let now = match step {
                Move::Wait => self.machine.next_deadline().unwrap_or(self.now),
                Move::Input { later, .. } => self.now.after(*later),
            };
            self.step(&step.input(&self.shadow, now), now)?;
        }
        Ok(())
    }

    fn step(&mut self, input: &Input, now: Instant) -> Result<(), TestCaseError> {
        self.now = now;
        let effects = self.machine.step(input.clone(), now);
        self.effects.extend(effects.iter().map(name));
        self.shadow.follow(input, &effects, now)?;
        let deadline = self.machine.next_deadline();
        prop_assert!(
            deadline.is_none_or(|at| at > now),
            "after {input:?} at {now:?} the deadline is {deadline:?}"
        );
        let mut again = self.machine.clone();
        let effects = again.step(Input::Timer, now);
        prop_assert!(effects.is_empty(), "a second timer at {now:?}: {effects:?}");
        prop_assert_eq!(&again, &self.machine, "a timer out of turn changes nothing");
        let leading = again.view().leading.map(|(_, until)| until);
        prop_assert_eq!(
            leading,
            self.shadow.trusted_until(),
            "the view tells another trust"
        );
        Ok(())
    }
}

/// Positive control: the moves reach what they are meant to test.
#[test]
fn the_moves_reach_every_effect() {
    let mut found = BTreeSet::new();
    for moves in samples(600) {
        let mut run = Run::new(Rules::ALL);
        let _ = run.play(&moves);
        found.append(&mut run.effects);
    }
    let all = [
        "Adopted", "Begin", "Claim", "Drain", "End", "Extend", "Read", "Release", "Released",
        "Renew", "Shorten", "Stopped",
    ];
    for effect in all {
        assert!(
            found.contains(effect),
            "{effect} never happened, only {found:?}"
        );
    }
}

/// Positive control: the shadow objects to a machine that lacks a rule.
#[cfg(feature = "controls")]
#[test]
fn the_shadow_misses_a_rule() {
    use leasehold_core::rules::Rule;
    for rule in [
        Rule::E2TrustFromSend,
        Rule::E2UnknownIsNoTrust,
        Rule::ReleaseAfterDrain,
    ] {
        let rules = Rules::ALL.without(rule);
        let objects = samples(400).any(|moves| Run::new(rules).play(&moves).is_err());
        assert!(objects, "nobody misses {rule:?}");
    }
}

/// The same moves in every run.
fn samples(count: usize) -> impl Iterator<Item = Vec<Move>> {
    let mut runner = TestRunner::deterministic();
    let trees = (0..count).filter_map(move |_| moves(120).new_tree(&mut runner).ok());
    trees.map(|tree| tree.current())
}

fn name(effect: &Effect) -> String {
    let text = match effect {
        Effect::Write(write) => format!("{:?}", write.purpose),
        Effect::Notice(notice) => format!("{notice:?}"),
        other => format!("{other:?}"),
    };
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}
