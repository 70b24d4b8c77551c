//! Disturbs workloads on a real control plane for some minutes and has what
//! they wrote down judged: exit status 0 only if no guarantee was broken and
//! something happened.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use leasehold_core::lease::LeaseTiming;
use leasehold_e2e::chaos::deck::Length;
use leasehold_e2e::chaos::{self, Options, Outcome};
use leasehold_e2e::error::Result;
use leasehold_e2e::history;

/// Chaos on a real control plane, judged by a separate checker.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// How long to disturb.
    #[arg(long, default_value_t = 6.0, value_parser = minutes)]
    minutes: f64,
    /// Gives the same order of disturbances again; random if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How many workloads campaign.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(2..=50))]
    processes: u8,
    /// Their timing.
    #[arg(long, value_enum, default_value = "default")]
    timing: Timing,
    /// Which disturbances: `short` leaves out the long outages.
    #[arg(long, value_enum, default_value = "long")]
    deck: Cards,
    /// Keep histories and logs in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Timing {
    /// A lease of 6 s.
    Fast,
    /// A lease of 15 s.
    Default,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cards {
    Short,
    Long,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(outcome) => report(&outcome),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> Result<Outcome> {
    let seed = arguments.seed.unwrap_or_else(|| history::now() % 1_000_000);
    println!("seed {seed} (--seed {seed} gives the same order of disturbances again)");
    let options = Options {
        seed,
        length: Duration::from_secs_f64(arguments.minutes * 60.0),
        deck: match arguments.deck {
            Cards::Short => Length::Short,
            Cards::Long => Length::Long,
        },
        processes: arguments.processes.into(),
        timing: match arguments.timing {
            Timing::Fast => LeaseTiming::FAST,
            Timing::Default => LeaseTiming::DEFAULT,
        },
        keep: arguments.keep,
    };
    chaos::run(&options).await
}

fn report(outcome: &Outcome) -> ExitCode {
    print!("{outcome}");
    if outcome.judgement.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn minutes(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.1..=1440.0).contains(&minutes) => Ok(minutes),
        _ => Err("expected minutes from 0.1 to 1440, such as 5".to_owned()),
    }
}
