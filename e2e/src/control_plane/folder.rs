//! The folder of one control plane: data, keys and logs. It is removed when
//! its owner ends, however that happens, and kept after a failure.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Result, Step};

/// Waits for the end of its input, which comes when the owner of the folder
/// drops it or dies; then removes the folder unless it is to be kept. Dying
/// processes may still write into it, hence more than one try.
const SWEEPER: &str = r#"read -r _
[ -e "$1/keep" ] && exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$1" 2>/dev/null
    [ -e "$1" ] || exit 0
    sleep 0.2
done"#;

/// A folder and its end.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    sweeper: Option<Child>,
}

impl Folder {
    /// A new temporary folder.
    pub fn temporary() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("leasehold-e2e-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        if path.exists() {
            // Left by an earlier process with this pid, kept for its owner to read.
            std::fs::remove_dir_all(&path).step(|| format!("removing {}", path.display()))?;
        }
        let mut folder = Self::lasting(&path)?;
        let sweeper = Command::new("sh")
            .args(["-c", SWEEPER, "sweeper"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // an interrupt at the terminal is not for it
            .spawn()
            .step(|| "starting the sweeper of a temporary folder")?;
        folder.sweeper = Some(sweeper);
        Ok(folder)
    }

    /// A folder that stays until somebody removes it.
    pub fn lasting(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path.join("logs"))
            .step(|| format!("making folder {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            sweeper: None,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The log file of one process.
    pub fn log(&self, name: &str) -> PathBuf {
        self.path.join("logs").join(format!("{name}.log"))
    }

    /// Keeps the folder for a person to read, also when its owner dies.
    pub fn keep(&self) {
        if let Err(error) = std::fs::write(self.path.join("keep"), "a test failed\n") {
            eprintln!("cannot keep {}: {error}", self.path.display());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep();
            eprintln!("kept for you to read: {}", self.path.display());
        }
        if let Some(mut sweeper) = self.sweeper.take() {
            drop(sweeper.stdin.take());
            let _ = sweeper.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Folder;

    #[test]
    fn a_temporary_folder_goes_with_its_owner() {
        let folder = Folder::temporary().unwrap();
        let path = folder.path().to_owned();
        std::fs::write(folder.log("etcd"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_kept_folder_stays() {
        let folder = Folder::temporary().unwrap();
        let path = folder.path().to_owned();
        folder.keep();
        drop(folder);
        assert!(path.exists());
        std::fs::remove_dir_all(path).unwrap();
    }
}
