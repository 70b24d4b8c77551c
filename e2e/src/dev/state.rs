//! What `up` left running, so that `down` ends exactly that.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Step};
use crate::process::ProcessRecord;
use crate::programs;

/// Overrides where the state of `up` is.
pub(super) const STATE_ENV: &str = "LEASEHOLD_STATE";

/// The folder of `up`: `target/dev` unless `LEASEHOLD_STATE` says otherwise.
pub fn state_folder() -> PathBuf {
    match std::env::var_os(STATE_ENV).filter(|folder| !folder.is_empty()) {
        Some(folder) => std::path::absolute(&folder).unwrap_or_else(|_| PathBuf::from(folder)),
        None => programs::workspace().join("target").join("dev"),
    }
}

/// Makes sure that one `up` or `down` works on the folder at a time; ends with
/// the process.
pub(super) fn claim(folder: &Path) -> Result<File> {
    std::fs::create_dir_all(folder).step(|| format!("making {}", folder.display()))?;
    let path = folder.with_extension("claim");
    let file = File::create(&path).step(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(Error::new(format!(
            "another leasehold-dev is working on {}; wait for it to end",
            folder.display()
        ))),
    }
}

/// Processes that run in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Running {
    /// Start times count from a boot, so they mean nothing after another one.
    boot: String,
    /// In the order in which they started.
    processes: Vec<ProcessRecord>,
}

impl Running {
    /// Writes down what runs.
    pub(super) fn save(folder: &Path, processes: Vec<ProcessRecord>) -> Result<()> {
        let running = Self {
            boot: boot(),
            processes,
        };
        let path = file(folder);
        let text = serde_json::to_string_pretty(&running)?;
        std::fs::write(&path, text).step(|| format!("writing {}", path.display()))
    }

    /// Reads it back; nothing if there is no such file.
    pub(super) fn load(folder: &Path) -> Result<Self> {
        let path = file(folder);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(error).step(|| format!("reading {}", path.display())),
        };
        serde_json::from_str(&text).step(|| format!("reading {}", path.display()))
    }

    /// Those of them that still run; a pid that now belongs to another process
    /// is not among them.
    pub(super) fn alive(&self) -> Vec<&ProcessRecord> {
        if self.boot != boot() {
            return Vec::new();
        }
        self.processes
            .iter()
            .filter(|process| process.is_running())
            .collect()
    }

    /// Ends them, the last started first: the node gets time to end its pods.
    pub(super) fn end(&self) -> usize {
        let alive = self.alive();
        for process in alive.iter().rev() {
            let is_node = process.name == "process-node";
            process.end(Duration::from_secs(if is_node { 6 } else { 0 }));
        }
        alive.len()
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("running.json")
}

fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::Running;
    use crate::process::{Lifetime, Process};
    use std::path::Path;

    #[test]
    fn only_what_was_recorded_and_still_runs_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut command = std::process::Command::new("sleep");
        command.arg("600");
        let process = Process::spawn(
            "sleeper",
            &command,
            Path::new("/dev/null"),
            Lifetime::Detached,
        )
        .unwrap();
        let mut other = process.record().clone();
        other.started_ticks -= 1;
        Running::save(folder, vec![other, process.record().clone()]).unwrap();

        let running = Running::load(folder).unwrap();
        assert_eq!(running.alive(), [process.record()]);
        assert_eq!(running.end(), 1);
        assert!(!process.record().is_running());
        process.kill();
    }

    #[test]
    fn without_a_record_nothing_runs() {
        assert_eq!(
            Running::load(Path::new("/nonexistent"))
                .unwrap()
                .alive()
                .len(),
            0
        );
    }
}
