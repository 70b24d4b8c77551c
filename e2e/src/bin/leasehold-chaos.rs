//! Disturbs workloads on a real control plane for some minutes and has what
//! they wrote down judged: exit status 0 only if no guarantee was broken and
//! something happened.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use leasehold_core::lease::LeaseTiming;
use leasehold_e2e::chaos::deck::Length;
use leasehold_e2e::chaos::{self, Options, partitions};
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
    /// Disturb a partitioned service of pods instead of an election.
    #[arg(long)]
    partitions: bool,
    /// Let pods write without fences: the checker must find it.
    #[arg(long, requires = "partitions")]
    unfenced: bool,
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
        Ok((text, is_good)) => {
            print!("{text}");
            if is_good {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// What came out, and whether it is good.
async fn run(arguments: Arguments) -> Result<(String, bool)> {
    let seed = arguments.seed.unwrap_or_else(|| history::now() % 1_000_000);
    println!("seed {seed} (--seed {seed} gives the same order of disturbances again)");
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let timing = match arguments.timing {
        Timing::Fast => LeaseTiming::FAST,
        Timing::Default => LeaseTiming::DEFAULT,
    };
    if arguments.partitions {
        let options = partitions::Options {
            seed,
            length,
            deck: match arguments.deck {
                Cards::Short => partitions::deck::Length::Short,
                Cards::Long => partitions::deck::Length::Long,
            },
            pods: 8,
            count: 128,
            timing,
            unfenced: arguments.unfenced,
            grace: Duration::from_secs(5),
            keep: arguments.keep,
        };
        let outcome = partitions::run(&options).await?;
        return Ok((outcome.to_string(), outcome.is_good()));
    }
    let options = Options {
        seed,
        length,
        deck: match arguments.deck {
            Cards::Short => Length::Short,
            Cards::Long => Length::Long,
        },
        processes: arguments.processes.into(),
        timing,
        keep: arguments.keep,
    };
    let outcome = chaos::run(&options).await?;
    Ok((outcome.to_string(), outcome.judgement.is_good()))
}

fn minutes(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.1..=1440.0).contains(&minutes) => Ok(minutes),
        _ => Err("expected minutes from 0.1 to 1440, such as 5".to_owned()),
    }
}
