//! A Redis of one's own. It keeps nothing: a restarted one is empty.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{INSTALL, PORT_TRIES, START_MAX, in_path, password, write_secret};
use crate::control_plane::folder::Folder;
use crate::control_plane::ports;
use crate::error::{Error, Result, Step};
use crate::process::{Lifetime, Process, ProcessRecord};
use crate::wait;

const PROGRAM: &str = "redis-server";
/// What is stopped where it stands obeys at once.
const OBEY_MAX: Duration = Duration::from_secs(5);
/// How long a shutdown may take before the server is killed.
const STOP_MAX: Duration = Duration::from_secs(5);

/// A running Redis.
pub struct Redis {
    // The server ends before its folder goes.
    process: Mutex<Option<Process>>,
    folder: Folder,
    program: PathBuf,
    url: String,
}

impl Redis {
    /// Starts an empty one, and waits until its password lets in.
    pub async fn start() -> Result<Self> {
        let found = in_path(&[PROGRAM]);
        let program =
            found.ok_or_else(|| Error::new(format!("found no {PROGRAM} in PATH; {INSTALL}")))?;
        let mut server = Self {
            process: Mutex::default(),
            folder: Folder::temporary()?,
            program: program.join(PROGRAM),
            url: String::new(),
        };
        let started = server.start_empty().await;
        if started.is_err() {
            server.folder.keep();
        }
        let path = server.folder.path().to_owned();
        started.step(|| format!("starting Redis in {}", path.display()))?;
        Ok(server)
    }

    /// How a client logs in. It holds the password: not to be printed.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its folder: data and logs.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The server, if it runs.
    pub fn process(&self) -> Option<ProcessRecord> {
        let process = self.lock();
        process.as_ref().map(|process| process.record().clone())
    }

    /// Stops it where it stands, as a hung machine would.
    pub fn pause(&self) -> Result<()> {
        match &*self.lock() {
            Some(process) => {
                process.pause()?;
                let stopped = || process.record().is_stopped();
                if !wait::blocking(OBEY_MAX, stopped) {
                    return Err(Error::new("Redis did not stop where it stood"));
                }
                Ok(())
            }
            None => Err(Error::new("Redis does not run")),
        }
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        match &*self.lock() {
            Some(process) => process.resume(),
            None => Err(Error::new("Redis does not run")),
        }
    }

    /// Shuts it down; what it held is gone. Blocks.
    pub fn stop(&self) {
        if let Some(process) = self.lock().take() {
            process.stop(STOP_MAX);
        }
    }

    /// Starts it again on its port, empty; stops it before if it still runs.
    pub async fn restart(&self) -> Result<()> {
        self.stop();
        self.serve(&self.url).await
    }

    async fn start_empty(&mut self) -> Result<()> {
        let password = password();
        for tries in 1.. {
            let port = ports::free_port()?;
            self.configure(port, &password)?;
            self.url = format!("redis://:{password}@127.0.0.1:{port}/");
            match self.serve(&self.url).await {
                Err(_) if tries < PORT_TRIES && self.lost_its_port() => {}
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// By a file, since everybody may read the arguments of a process.
    fn configure(&self, port: u16, password: &str) -> Result<()> {
        let path = self.configuration();
        if path.exists() {
            std::fs::remove_file(&path).step(|| format!("removing {}", path.display()))?;
        }
        let folder = self.folder.path().display();
        let text = format!(
            "bind 127.0.0.1\nport {port}\nrequirepass {password}\n\
             dir \"{folder}\"\nsave \"\"\nappendonly no\n"
        );
        write_secret(&path, &text, None)
    }

    async fn serve(&self, url: &str) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg(self.configuration());
        let log = self.folder.log("redis");
        let process = Process::spawn("redis", &command, &log, Lifetime::Bound)?;
        let serves = process.until_it_serves("a login to Redis", START_MAX, || async {
            let client = redis::Client::open(url)?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            let answer: String = redis::cmd("PING").query_async(&mut connection).await?;
            Ok(answer == "PONG")
        });
        let outcome = serves.await;
        *self.lock() = Some(process);
        outcome
    }

    fn lost_its_port(&self) -> bool {
        self.lock().as_ref().is_some_and(Process::lost_its_port)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("redis.conf")
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(process) = self.lock().take() {
            process.kill();
        }
    }
}
