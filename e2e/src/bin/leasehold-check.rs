//! Judges a run from what its processes wrote down: were two guards ever valid
//! at once, did tokens only grow, did the store take a write out of order, was
//! there a leader, and did anything happen at all? With `--tables` the same is
//! asked about every partition of a partitioned service.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use leasehold_e2e::check::{Demands, judge};
use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::history::{self, Line};
use leasehold_e2e::ledger::Ledger;
use leasehold_e2e::partitions::{self, check as partitioned, follow::Follower, moves};

/// Judges histories of workloads and of the faults done to them.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Files of history lines, of all processes of the run.
    #[arg(required = true)]
    history: Vec<PathBuf>,
    /// The cluster id to judge.
    #[arg(long)]
    service: String,
    /// The guarded store's file; of a partitioned service all of them, each called like its store.
    #[arg(long)]
    ledger: Vec<PathBuf>,
    /// The file of published tables: the service is partitioned.
    #[arg(long, requires = "ledger")]
    tables: Option<PathBuf>,
    /// V: how long guards may overlap after somebody edits the Lease.
    #[arg(long, value_name = "SECONDS", default_value_t = 11.7, value_parser = seconds)]
    trusted: f64,
    /// Longest time without a leader.
    #[arg(long, value_name = "SECONDS", default_value_t = 17.0, value_parser = seconds)]
    vacancy_max: f64,
    /// Longest time without a leader after an outage.
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    recovery_max: f64,
    /// Fewest changes of leadership, or tables, for the run to say anything.
    #[arg(long, default_value_t = 1)]
    changes_min: usize,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let mut lines = history::read(&arguments.history)?;
    if let Some(tables) = &arguments.tables {
        lines.retain(|line| line.service.is_empty() || line.service == arguments.service);
        return run_partitioned(arguments, &lines, tables);
    }
    let entries = match &arguments.ledger[..] {
        [path] if !path.exists() => {
            return Err(Error::new(format!(
                "--ledger: found no file {}",
                path.display()
            )));
        }
        [path] => Ledger::at(path).entries()?,
        [] => Vec::new(),
        more => {
            return Err(Error::new(format!(
                "--ledger: found {} files, allowed is one, or --tables",
                more.len()
            )));
        }
    };
    let demands = Demands {
        trusted: Duration::from_secs_f64(arguments.trusted),
        vacancy_max: Duration::from_secs_f64(arguments.vacancy_max),
        recovery_max: Duration::from_secs_f64(arguments.recovery_max),
        changes_min: arguments.changes_min,
    };
    let judgement = judge(&lines, &entries, &arguments.service, &demands)?;
    say(&arguments.service, judgement.is_good());
    print!("{judgement}");
    Ok(judgement.is_good())
}

fn run_partitioned(arguments: &Arguments, lines: &[Line], tables: &Path) -> Result<bool> {
    let tables: Vec<partitions::tables::Table> = Follower::of(tables).read()?;
    let mut run = partitioned::Run::default();
    run.lines(lines)?;
    for ledger in &arguments.ledger {
        let name = ledger.file_stem().unwrap_or_default().to_string_lossy();
        run.entries(&name, partitions::ledger::read(ledger)?);
    }
    let judgement = run.judge(
        &tables,
        &partitioned::Demands {
            trusted: Duration::from_secs_f64(arguments.trusted),
            unowned_max: Duration::from_secs_f64(arguments.vacancy_max),
            recovery_max: Duration::from_secs_f64(arguments.recovery_max),
            tables_min: arguments.changes_min,
        },
    )?;
    say(&arguments.service, judgement.is_good());
    print!("{judgement}");
    let moves = moves::over(&tables);
    println!(
        "  moves {}, from the first table to the last at least {}",
        moves.made, moves.least
    );
    Ok(judgement.is_good())
}

fn say(service: &str, is_good: bool) {
    println!("{service}: {}", if is_good { "good" } else { "BROKEN" });
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e6).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds from 0 to 1000000, such as 4.8".to_owned()),
    }
}
