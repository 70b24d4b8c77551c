//! The program `leasehold-operator`: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use leasehold_operator::{args::Args, run};

fn main() -> ExitCode {
    let args = Args::parse();
    run::start_log(args.log_format);
    match run::in_runtime(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(key = "operator.failed", %error);
            eprintln!("leasehold-operator: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
