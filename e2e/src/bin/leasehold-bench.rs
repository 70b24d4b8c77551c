//! Benchmarks; `make bench-election` runs it in release.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use leasehold_e2e::bench::{self, figure};

/// Measures our election beside client-go's on one control plane.
#[derive(Parser)]
#[command(name = "leasehold-bench")]
struct Args {
    /// Trials of each graceful failover.
    #[arg(long, default_value_t = 30)]
    graceful: usize,
    /// Trials of a crash failover.
    #[arg(long, default_value_t = 20)]
    crash: usize,
    /// Trials of a crash with a restart in place.
    #[arg(long, default_value_t = 15)]
    restart: usize,
    /// Seconds over which steady requests are counted.
    #[arg(long, default_value_t = 60)]
    steady: u64,
    /// ClusterServices of the operator whose memory is measured.
    #[arg(long, default_value_t = 100)]
    services: usize,
    /// Only parts whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench/election.json")]
    json: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let options = bench::Options {
        graceful: args.graceful,
        crash: args.crash,
        restart: args.restart,
        steady: Duration::from_secs(args.steady),
        services: args.services,
        only: args.only,
        json: args.json,
    };
    println!("{}", figure::HEAD);
    match bench::run(&options).await {
        Ok(report) => {
            println!("\nwritten to {}", options.json.display());
            let missed = report.missed().count();
            println!("{missed} goals missed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("leasehold-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
