//! Notices that a folder has changed, and publishes what it holds if that can be used.
//!
//! It looks once a second. Notifications of the kernel would be a second sooner, where the kubelet
//! takes a minute; they say nothing on some mounts, and after each swap they point at a folder that
//! is gone.

use std::path::PathBuf;
use std::sync::Arc;

use leasehold_core::time::Duration;
use tokio::sync::{Notify, watch};

use super::credentials::Credentials;
use super::folder::{self, Version};
use crate::clock::Clock;
use crate::error::StartError;
use crate::signal;

/// From one look to the next, and how long loose files must stand still.
pub(super) const EVERY: Duration = Duration::from_secs(1);

/// Runs as long as somebody listens.
pub(super) async fn watch(
    (folder, judged): (PathBuf, Version),
    news: watch::Sender<Arc<Credentials>>,
    look: Arc<Notify>,
    clock: Clock,
) {
    let mut watcher = Watcher {
        folder,
        judged,
        settling: None,
        trouble: None,
    };
    let mut due = clock.now().after(EVERY);
    loop {
        let on_time = tokio::select! {
            () = news.closed() => return,
            () = look.notified() => false,
            () = clock.sleep_until(due) => true,
        };
        if on_time {
            due = clock.now().after(EVERY);
        }
        let looked = tokio::task::spawn_blocking(move || {
            let found = watcher.look(on_time);
            (watcher, found)
        });
        let Ok((back, found)) = looked.await else {
            return; // the runtime ends
        };
        watcher = back;
        match found {
            Some(Ok(credentials)) => publish(&news, credentials),
            Some(Err(error)) => refused(&watcher.folder.display().to_string(), &error),
            None => {}
        }
    }
}

fn publish(news: &watch::Sender<Arc<Credentials>>, credentials: Credentials) {
    news.send_if_modified(|current| {
        // A rotation also changes files that are none of ours.
        let differs = !current.is_same(&credentials);
        if differs {
            *current = Arc::new(credentials);
        }
        differs
    });
}

fn refused(binding: &str, error: &StartError) {
    signal::count(signal::BINDING_REFUSED);
    tracing::warn!(
        key = signal::BINDING_REFUSED,
        binding,
        problem = error.problems().join("; "),
        "a binding has changed and cannot be used; what was in force stays in force"
    );
}

struct Watcher {
    folder: PathBuf,
    /// The last version that was published or refused.
    judged: Version,
    /// Loose files that differ from it, and must not change once more.
    settling: Option<Version>,
    /// Why the folder cannot be looked at, said once.
    trouble: Option<String>,
}

impl Watcher {
    /// None if there is nothing new to say. Loose files are judged at their times alone.
    fn look(&mut self, on_time: bool) -> Option<Result<Credentials, StartError>> {
        let version = match folder::version(&self.folder) {
            Ok(version) => version,
            Err(problem) => return self.troubled(problem),
        };
        self.trouble = None;
        if version == self.judged {
            self.settling = None;
            return None;
        }
        let whole = matches!(version, Version::Whole(_));
        if !whole && !on_time {
            return None;
        }
        if !whole && self.settling.as_ref() != Some(&version) {
            self.settling = Some(version);
            return None;
        }
        let files = match folder::read(&self.folder) {
            Ok(files) => files,
            Err(problem) => return self.troubled(problem),
        };
        if !whole && files.version != version {
            self.settling = Some(files.version);
            return None;
        }
        self.settling = None;
        self.judged = files.version.clone();
        Some(Credentials::from_files(&files))
    }

    fn troubled(&mut self, problem: String) -> Option<Result<Credentials, StartError>> {
        if self.trouble.as_ref() == Some(&problem) {
            return None;
        }
        self.trouble = Some(problem.clone());
        Some(Err(StartError::new(problem)))
    }
}
