//! A Kubernetes with Leasehold on this machine, to look at: `demo` tells a story
//! and ends, `up` leaves it running, `down` removes it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use leasehold_e2e::dev;

/// Runs Leasehold on a Kubernetes control plane of its own, without containers.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show how a leader is replaced: deleted, killed, paused. Ends by itself.
    Demo,
    /// Show how partitions are handed from pod to pod. Ends by itself.
    DemoPartitions,
    /// Show how logins on Postgres and Redis change without a failing request. Ends by itself.
    DemoCredentials,
    /// Start a control plane, the operator and an example, and leave them running.
    Up,
    /// End what `up` left running, and remove its state.
    Down,
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        let work = async {
            match command {
                Command::Demo => dev::demo::run().await,
                Command::DemoPartitions => dev::partitions::run().await,
                Command::DemoCredentials => dev::credentials::run().await,
                Command::Up => dev::up::up().await,
                Command::Down => dev::up::down(),
            }
        };
        // An interrupt drops the work, and with it everything it started.
        tokio::select! {
            outcome = work => Some(outcome),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    match outcome {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("\nerror: {error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("\ninterrupted; everything that was started has been ended");
            ExitCode::from(130)
        }
    }
}
