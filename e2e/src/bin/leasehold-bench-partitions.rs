//! The part of `make bench-partitions` that needs a control plane.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use leasehold_e2e::bench::{figure, partitions};

/// Measures handoffs, crashes and settled requests of partitioned services.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// How often a member joins and leaves.
    #[arg(long, default_value_t = 12)]
    handoffs: usize,
    /// How many fleets lose members to a crash, all at once.
    #[arg(long, default_value_t = 6)]
    crashes: usize,
    /// Seconds over which requests of settled members are counted.
    #[arg(long, default_value_t = 120)]
    settled: u64,
    /// Only parts whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench/partitions-cluster.json")]
    json: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = partitions::Options {
        handoffs: arguments.handoffs,
        crashes: arguments.crashes,
        settled: Duration::from_secs(arguments.settled),
        only: arguments.only,
        json: arguments.json,
    };
    println!("{}", figure::HEAD);
    match partitions::run(&options).await {
        Ok(report) => {
            println!("\nwritten to {}", options.json.display());
            println!("{} goals missed", report.missed().count());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("leasehold-bench-partitions: {error}");
            ExitCode::FAILURE
        }
    }
}
