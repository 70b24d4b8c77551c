//! Chaos: workloads on a real control plane, a seeded order of disturbances,
//! and a judgement by a checker that shares nothing with what it judges.
//!
//! ```text
//!   deck (seed) ──▶ stage ──▶ crew of workloads ──▶ histories ─┐
//!                     │            │                           ├──▶ checker
//!                     ├──▶ faults ─┴──▶ guarded ledger ────────┤
//!                     └──▶ own history: what was done, when ───┘
//! ```

pub mod candidates;
pub mod deck;
pub mod partitions;
pub mod records;
pub mod stage;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::lease::LeaseTiming;
use tokio::time::Instant;

use crate::check::{Demands, Judgement, judge};
use crate::error::{Error, Result, Step};
use crate::history;
use crate::ledger::Ledger;
use deck::{Deck, Length};
use stage::Stage;

/// Half-open links included, no crash may cost more than D and this (H10).
const GRACE: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The same seed gives the same order of disturbances.
    pub seed: u64,
    /// How long to disturb.
    pub length: Duration,
    /// Which disturbances are in the deck.
    pub deck: Length,
    /// How many workloads.
    pub processes: usize,
    /// Their timing.
    pub timing: LeaseTiming,
    /// Keep histories and logs here; else they go unless the run is broken.
    pub keep: Option<PathBuf>,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// How often each disturbance was done.
    pub done: Vec<(&'static str, usize)>,
    /// The checker's word.
    pub judgement: Judgement,
}

/// Disturbs for as long as asked, and has the histories judged.
pub async fn run(options: &Options) -> Result<Outcome> {
    let mut stage = Stage::set(options).await?;
    let mut deck = Deck::new(options.seed, options.deck);
    let ends = Instant::now() + options.length;
    stage.leader().await.step(|| "waiting for a first leader")?;
    while Instant::now() < ends {
        let disturbance = deck.deal();
        println!("{:>7.1} s  {disturbance}", stage.elapsed().as_secs_f64());
        stage
            .disturb(&disturbance)
            .await
            .step(|| format!("disturbance: {disturbance}"))?;
        stage
            .leader()
            .await
            .step(|| format!("waiting for a leader after: {disturbance}"))?;
    }
    stage.calm_down().await?;
    let judgement = judged(options, &stage)?;
    let done = deck.counts();
    if options.keep.is_some() || !judgement.is_good() {
        println!(
            "histories and logs are kept in {}",
            stage.folder().display()
        );
    }
    if judgement.is_good() {
        stage.finish().await?;
    }
    Ok(Outcome { done, judgement })
}

fn judged(options: &Options, stage: &Stage) -> Result<Judgement> {
    let lines = history::read(&stage.histories())?;
    let entries = Ledger::at(&stage.ledger()).entries()?;
    if entries.is_empty() {
        return Err(Error::new("no guarded write reached the ledger"));
    }
    let longest = options.timing.lease_duration() + GRACE;
    let demands = Demands {
        trusted: options.timing.trusted(),
        vacancy_max: longest,
        recovery_max: longest,
        changes_min: 3,
    };
    judge(&lines, &entries, stage::SERVICE, &demands)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.done {
            writeln!(f, "  {kind:<38} {count:>10}")?;
        }
        write!(f, "{}", self.judgement)
    }
}
