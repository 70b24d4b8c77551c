//! Requests without a pause, and the logins that they are made under.

use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::testing::MountedSecret;
use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::wait;

/// How often the login changes.
pub(crate) const ROTATIONS: u32 = 20;

/// What the library says about connections that are not held: two seconds when idle, and thirty for
/// one that was being opened. The rest is for a machine that compiles meanwhile.
pub(crate) const RETIRED_MAX: Duration = Duration::from_mins(1);

/// A login, as a rotation makes it: two names that alternate, a password of its own each time.
pub(crate) struct Login {
    pub(crate) name: &'static str,
    pub(crate) password: String,
}

impl Login {
    pub(crate) fn of_generation(generation: u32) -> Self {
        let name = if generation.is_multiple_of(2) {
            "orders_b"
        } else {
            "orders_a"
        };
        let password = format!("canary{:032x}", rand::random::<u128>());
        Self { name, password }
    }

    /// What its Secret holds.
    pub(crate) fn files(&self, kind: &str, port: u16, rest: &[(&str, &str)]) -> Files {
        let port = port.to_string();
        let own = [
            ("type", kind),
            ("host", "127.0.0.1"),
            ("port", &port),
            ("username", self.name),
            ("password", &self.password),
        ];
        let all = own.iter().chain(rest);
        let owned = all.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Files(owned.collect())
    }
}

pub(crate) struct Files(Vec<(String, String)>);

impl Files {
    pub(crate) fn put(&self, mount: &mut MountedSecret) -> Result<()> {
        let files = self.0.iter();
        let files = files.map(|(name, text)| (name.as_str(), text.as_bytes()));
        Ok(mount.put(files)?)
    }

    pub(crate) fn mount(&self, folder: &Path) -> Result<MountedSecret> {
        let mut mount = MountedSecret::new(folder.join("orders"))?;
        self.put(&mut mount)?;
        Ok(mount)
    }
}

/// Requests one after the other, from several tasks.
#[derive(Clone, Default)]
pub(crate) struct Load {
    done: Arc<AtomicU64>,
    failed: Arc<Mutex<Vec<String>>>,
    ends: Arc<AtomicBool>,
}

impl Load {
    /// One more task that makes requests until the load ends.
    pub(crate) fn add<F>(&self, mut request: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = Result<()>> + Send,
    {
        let load = self.clone();
        tokio::spawn(async move {
            while !load.ends.load(Ordering::Relaxed) {
                if let Err(error) = request().await {
                    load.failed.lock().unwrap().push(error.to_string());
                    tokio::task::yield_now().await;
                }
                load.done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> Vec<String> {
        self.failed.lock().unwrap().clone()
    }

    /// Returns after this many more requests.
    pub(crate) async fn until_more(&self, requests: u64) -> Result<()> {
        let enough = self.done() + requests;
        let what = format!("{requests} more requests");
        wait::until_true(&what, RETIRED_MAX, || async { Ok(self.done() >= enough) }).await
    }

    pub(crate) async fn until_failed(&self) -> Result<String> {
        let look = || async { Ok(self.failed().first().cloned()) };
        wait::until("a request to fail", RETIRED_MAX, look).await
    }

    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // The test's own handle, after its tasks have theirs: a failed test ends as well.
        if Arc::strong_count(&self.ends) == 1 {
            self.end();
        }
    }
}

/// The port of a server's URL.
pub(crate) fn port(url: &str) -> Result<u16> {
    let port = url
        .rsplit(':')
        .next()
        .and_then(|rest| rest.split('/').next());
    let port = port.and_then(|port| port.parse().ok());
    port.ok_or_else(|| Error::new("a URL without a port"))
}
