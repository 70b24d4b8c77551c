//! A Redis of one's own. It keeps nothing: a restarted one is empty, unless its setup says otherwise.
//!
//! `REDIS_BIN` names a folder with another `redis-server`, or with a `valkey-server`.

mod setup;

pub use setup::Setup;

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

/// Its names, in the order of preference.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// Where it is, if not in `PATH`.
const FOLDER_VARIABLE: &str = "REDIS_BIN";
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
    setup: Setup,
    port: u16,
    password: String,
    url: String,
}

impl Redis {
    /// Starts an empty one, and waits until its password lets in.
    pub async fn start() -> Result<Self> {
        Self::start_with(Setup::default()).await
    }

    /// The same with more to it.
    pub async fn start_with(setup: Setup) -> Result<Self> {
        let mut server = Self {
            process: Mutex::default(),
            folder: Folder::temporary()?,
            program: program()?,
            password: setup.password.clone().unwrap_or_else(password),
            setup,
            port: 0,
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

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password of `default`.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The CA of its certificate, as PEM.
    pub fn ca(&self) -> Result<String> {
        setup::ca(self.folder.path())
    }

    /// A new connection, as `default`.
    pub async fn connect(&self) -> Result<redis::aio::MultiplexedConnection> {
        let client = if self.setup.certified.is_some() {
            let certificates = redis::TlsCertificates {
                client_tls: None,
                root_cert: Some(self.ca()?.into_bytes()),
            };
            redis::Client::build_with_tls(self.url(), certificates)?
        } else {
            redis::Client::open(self.url())?
        };
        Ok(client.get_multiplexed_async_connection().await?)
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
        self.serve().await
    }

    async fn start_empty(&mut self) -> Result<()> {
        let scheme = if self.setup.certified.is_some() {
            "rediss"
        } else {
            "redis"
        };
        for tries in 1.. {
            self.port = ports::free_port()?;
            self.configure()?;
            let login = if self.password.is_empty() {
                String::new()
            } else {
                format!(":{}@", self.password)
            };
            let host = self
                .setup
                .certified
                .as_ref()
                .and_then(|names| names.first());
            let host = host.map_or("127.0.0.1", String::as_str);
            self.url = format!("{scheme}://{login}{host}:{}/", self.port);
            match self.serve().await {
                Err(_) if tries < PORT_TRIES && self.lost_its_port() => {}
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// By a file, since everybody may read the arguments of a process.
    fn configure(&self) -> Result<()> {
        let path = self.configuration();
        if path.exists() {
            std::fs::remove_file(&path).step(|| format!("removing {}", path.display()))?;
        }
        let ports = (self.port, ports::free_port()?);
        let folder = self.folder.path();
        let text = self.setup.configuration(folder, ports, &self.password)?;
        write_secret(&path, &text, None)
    }

    async fn serve(&self) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg(self.configuration());
        if self.setup.is_sentinel {
            command.arg("--sentinel");
        }
        let log = self.folder.log("redis");
        let process = Process::spawn("redis", &command, &log, Lifetime::Bound)?;
        let serves = process.until_it_serves("a login to Redis", START_MAX, || async {
            let mut connection = self.connect().await?;
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

fn program() -> Result<PathBuf> {
    let given = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
    let folder_of = |name| match &given {
        Some(folder) => super::holds(folder, &[name]).then(|| folder.clone()),
        None => in_path(&[name]),
    };
    let found = PROGRAMS
        .into_iter()
        .find_map(|name| Some(folder_of(name)?.join(name)));
    found.ok_or_else(|| {
        let place = given.map_or_else(|| "PATH".to_owned(), |folder| folder.display().to_string());
        Error::new(format!(
            "found no {} in {place}; {INSTALL}",
            PROGRAMS.join(" or ")
        ))
    })
}
