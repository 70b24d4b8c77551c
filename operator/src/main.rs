//! The program `leasehold-operator`: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use leasehold_operator::{args::Args, command, run};

fn main() -> ExitCode {
    let mut args = Args::parse();
    if let Some(wanted) = args.command.take() {
        return match command::in_runtime(wanted, args.kubeconfig.as_deref()) {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("leasehold-operator: {error}");
                ExitCode::from(error.exit_code())
            }
        };
    }
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
