//! Where the programs of a run are: the Go ones are built once into the user's
//! cache, the Rust ones lie beside the running program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::error::{Error, Result, Step};

/// Overrides the path of the control plane's binary.
pub const CONTROL_PLANE_ENV: &str = "LEASEHOLD_CONTROL_PLANE";
/// Overrides the path of the process node's binary.
pub const PROCESS_NODE_ENV: &str = "LEASEHOLD_PROCESS_NODE";
/// Names a ready-made operator, which is then not built.
pub const OPERATOR_ENV: &str = "LEASEHOLD_OPERATOR_PROGRAM";

/// etcd, the API server, its controllers and kubectl in one binary.
pub fn control_plane() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    built_by_script(&BUILT, CONTROL_PLANE_ENV, "control-plane", &[])
}

/// The client-go candidate that benchmarks and interop tests compare with.
pub fn client_go_candidate() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    built_by_script(
        &BUILT,
        "LEASEHOLD_CANDIDATE",
        "control-plane",
        &["--candidate"],
    )
}

/// The node that runs pods as local processes.
pub fn process_node() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    built_by_script(&BUILT, PROCESS_NODE_ENV, "process-node", &[])
}

/// The operator, built first if the caller runs under cargo (a test does),
/// unless a ready-made one is named.
pub fn operator() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(path) = BUILT.get() {
        return Ok(path.clone());
    }
    let path = match std::env::var_os(OPERATOR_ENV) {
        Some(path) => PathBuf::from(path),
        None => build("leasehold-operator", &["operator", "runtime-lib", "crds"])?,
    };
    Ok(BUILT.get_or_init(|| path).clone())
}

/// The example service, built first if it is missing, or if the caller runs
/// under cargo and it is stale.
pub fn workload() -> Result<PathBuf> {
    build("leasehold-workload", &["e2e/src", "runtime-lib", "crds"])
}

/// Where the operator is or will be; see [`beside`].
pub fn operator_path() -> Result<PathBuf> {
    match std::env::var_os(OPERATOR_ENV) {
        Some(path) => Ok(PathBuf::from(path)),
        None => beside("leasehold-operator"),
    }
}

/// Where cargo puts the program `binary` of this workspace, in the profile of
/// the running program, whether it is built or not.
pub fn beside(binary: &str) -> Result<PathBuf> {
    Ok(profile_folder()?.join(binary))
}

/// Has cargo build `binary`, unless it is newer than all it is made of: cargo
/// would come to the same result, but only after whoever holds its lock.
fn build(binary: &str, made_of: &[&str]) -> Result<PathBuf> {
    let path = beside(binary)?;
    let under_cargo = std::env::var_os("CARGO").is_some();
    if path.exists() && (!under_cargo || is_fresh(&path, made_of)) {
        return Ok(path);
    }
    // The one that the toolchain file chooses; `CARGO` may name another.
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(workspace())
        .args(["build", "--quiet", "--bin", binary]);
    // With the features of the script that built the rest, so that no dependency is compiled again.
    if profile_folder()?.ends_with("release") {
        cargo.args([
            "--release",
            "-p",
            "leasehold-e2e",
            "-p",
            "leasehold-operator",
        ]);
    } else {
        cargo.args(["--workspace", "--all-features", "--example", "leader"]);
    }
    let status = cargo
        .status()
        .step(|| format!("building {binary} with cargo"))?;
    if !status.success() {
        return Err(Error::new(format!(
            "building {binary} with cargo: {status} (see above)"
        )));
    }
    Ok(path)
}

/// Whether nothing in these folders changed after `program` was built.
fn is_fresh(program: &Path, made_of: &[&str]) -> bool {
    let Ok(built) = program.metadata().and_then(|metadata| metadata.modified()) else {
        return false;
    };
    let mut folders: Vec<PathBuf> = made_of
        .iter()
        .map(|folder| workspace().join(folder))
        .collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            return false;
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else {
                return false;
            };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.modified().is_ok_and(|changed| changed > built) {
                return false;
            }
        }
    }
    true
}

/// The root of the source tree.
pub fn workspace() -> &'static Path {
    static WORKSPACE: OnceLock<PathBuf> = OnceLock::new();
    WORKSPACE.get_or_init(|| {
        let e2e = Path::new(env!("CARGO_MANIFEST_DIR"));
        e2e.parent().unwrap_or(e2e).to_owned()
    })
}

/// `target/debug` or `target/release`: where the running program is, or, for a
/// test binary, one folder up.
fn profile_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().step(|| "finding the running program")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let folder = if folder.ends_with("deps") {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    Ok(folder.to_owned())
}

fn built_by_script(
    built: &OnceLock<PathBuf>,
    env: &str,
    folder: &str,
    arguments: &[&str],
) -> Result<PathBuf> {
    if let Some(path) = built.get() {
        return Ok(path.clone());
    }
    let path = match std::env::var_os(env) {
        Some(path) => PathBuf::from(path),
        None => run_script(
            &workspace().join("e2e").join(folder).join("build.sh"),
            arguments,
        )?,
    };
    if !path.is_file() {
        let path = path.display();
        return Err(Error::new(format!(
            "{env}: found '{path}', expected the path of a program"
        )));
    }
    Ok(built.get_or_init(|| path).clone())
}

/// The script prints the path alone on its output; what it has to say about a
/// long build goes to ours.
fn run_script(script: &Path, arguments: &[&str]) -> Result<PathBuf> {
    let running = || format!("running {}", script.display());
    let output = Command::new("sh")
        .arg(script)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .step(running)?;
    if !output.status.success() {
        return Err(Error::new(format!(
            "{}: {} (see above)",
            running(),
            output.status
        )));
    }
    let path = String::from_utf8(output.stdout).step(running)?;
    Ok(PathBuf::from(path.trim()))
}
