//! Commands of the workspace: `cargo xtask <command>`.

mod crds;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

commands:
  crds [--check]  write the CRD YAML from the types, or check that it is current
  tidy            check the house rules of docs/style.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The manifest of this crate lies one level below the root of the workspace.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."));
    let result = match arguments.as_slice() {
        ["crds"] => crds::write(root),
        ["crds", "--check"] => crds::check(root),
        ["tidy"] => tidy::run(root),
        _ => Err(format!("found {arguments:?}\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
