//! A Postgres of one's own. It may lose its data with the machine, so it need
//! not wait for the disk; a restart keeps them.

mod standby;

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use sqlx::{Connection as _, PgConnection};

use super::{Account, INSTALL, PORT_TRIES, START_MAX, holds, in_path, password, write_secret};
use crate::control_plane::certificates::CertificateFiles;
use crate::control_plane::folder::Folder;
use crate::control_plane::ports;
use crate::error::{Error, Result, Step};
use crate::process::{Lifetime, Process, ProcessRecord};
use crate::wait;

/// Its superuser, and the user of its URL.
const USER: &str = "leasehold";
const PROGRAMS: [&str; 2] = ["initdb", "postgres"];
/// Environment variable that names the folder of another version's programs.
const BIN: &str = "POSTGRES_BIN";
/// How long a shutdown may take before the server is killed.
const STOP_MAX: Duration = Duration::from_secs(20);
/// What is killed, and what is stopped where it stands, obeys at once.
const OBEY_MAX: Duration = Duration::from_secs(5);

/// Reads pids until its input ends, which comes when the pause is over or its
/// owner dies, and then wakes them: a server process that is stopped would
/// never see that the owner has gone.
const WAKER: &str = r#"pids=
while read -r pid; do pids="$pids $pid"; done
[ -z "$pids" ] || kill -CONT $pids 2>/dev/null"#;

/// A running Postgres.
pub struct Postgres {
    // The server ends before its folder goes.
    running: Mutex<Option<Running>>,
    folder: Folder,
    programs: PathBuf,
    account: Option<Account>,
    port: u16,
    url: String,
}

struct Running {
    process: Process,
    paused: Option<Standstill>,
}

impl Postgres {
    /// Makes an empty one, and waits until its superuser can log in.
    pub async fn start() -> Result<Self> {
        let mut server = Self {
            running: Mutex::default(),
            folder: Folder::temporary()?,
            programs: programs()?,
            account: Account::unless_unprivileged()?,
            port: 0,
            url: String::new(),
        };
        let started = server.start_empty().await;
        if started.is_err() {
            server.folder.keep();
        }
        let path = server.folder.path().to_owned();
        started.step(|| format!("starting Postgres in {}", path.display()))?;
        Ok(server)
    }

    /// How its superuser logs in. It holds the password: not to be printed.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its folder: data and logs.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A new folder in its folder, of the account that it runs as.
    pub fn own_folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        std::fs::create_dir(&path).step(|| format!("making {}", path.display()))?;
        self.account.map_or(Ok(()), |account| account.own(&path))?;
        Ok(path)
    }

    /// The server and all processes that it started.
    pub fn processes(&self) -> Result<Vec<ProcessRecord>> {
        match &*self.lock() {
            Some(running) => all_of(&running.process),
            None => Ok(Vec::new()),
        }
    }

    /// Stops all of its processes where they stand, as a hung machine would:
    /// connections stay open and nothing answers.
    pub fn pause(&self) -> Result<()> {
        let mut running = self.lock();
        let running = running
            .as_mut()
            .ok_or_else(|| Error::new("Postgres does not run"))?;
        if running.paused.is_none() {
            running.paused = Some(Standstill::of(running.process.record())?);
        }
        Ok(())
    }

    /// Lets it go on.
    pub fn resume(&self) {
        if let Some(running) = &mut *self.lock() {
            running.paused = None;
        }
    }

    /// Shuts it down: transactions are rolled back, clients lose their
    /// connections, and no process is left. Blocks.
    pub fn stop(&self) {
        self.end(Signal::INT);
    }

    /// Starts it again on its port, with its data, and waits until it can be
    /// logged in to; stops it before if it still runs.
    pub async fn restart(&self) -> Result<()> {
        self.stop();
        self.serve(self.port, &self.url).await
    }

    /// Offers TLS with this certificate to new connections, beside plain ones.
    pub async fn offer_tls(&self, files: &CertificateFiles) -> Result<()> {
        for (from, name) in [
            (&files.certificate, "server.crt"),
            (&files.key, "server.key"),
        ] {
            let reading = || format!("reading {}", from.display());
            let text = std::fs::read_to_string(from).step(reading)?;
            let path = self.data().join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => write_secret(&path, &text, self.account)?,
            }
        }
        let mut client = PgConnection::connect(&self.url).await?;
        for statement in ["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"] {
            sqlx::query(statement).execute(&mut client).await?;
        }
        client.close().await?;
        // A server process learns of it some time later.
        let is_on = || async {
            let mut client = PgConnection::connect(&self.url).await?;
            let on: String = sqlx::query_scalar("SHOW ssl")
                .fetch_one(&mut client)
                .await?;
            Ok((on == "on").then_some(()))
        };
        wait::until("TLS to be on", START_MAX, is_on).await
    }

    async fn start_empty(&mut self) -> Result<()> {
        let data = self.data();
        std::fs::create_dir(&data).step(|| format!("making {}", data.display()))?;
        if let Some(account) = self.account {
            account.own(&data)?;
        }
        let password = password();
        self.make(&data, &password).await?;
        for tries in 1.. {
            self.port = ports::free_port()?;
            let port = self.port;
            self.url = format!("postgres://{USER}:{password}@127.0.0.1:{port}/postgres");
            match self.serve(port, &self.url).await {
                Err(_) if tries < PORT_TRIES && self.lost_its_port() => {}
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// Makes the files of an empty database.
    async fn make(&self, data: &Path, password: &str) -> Result<()> {
        let secret = self.folder.path().join("password");
        write_secret(&secret, password, self.account)?;
        let mut command = self.command("initdb");
        command
            .arg("--pgdata")
            .arg(data)
            .arg(format!("--username={USER}"))
            .arg(format!("--pwfile={}", secret.display()))
            .args(["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"])
            .arg("--no-sync");
        let log = self.folder.log("initdb");
        let process = Process::spawn("initdb", &command, &log, Lifetime::Bound)?;
        let ended = wait::until("initdb to end", START_MAX, || {
            let ended = process.ended();
            async move { Ok(ended) }
        });
        let ended = ended.await?;
        std::fs::remove_file(&secret).step(|| format!("removing {}", secret.display()))?;
        if ended != "exit status: 0" {
            let said = process.last_lines(12);
            return Err(Error::new(format!("initdb ended ({ended}):\n{said}")));
        }
        Ok(())
    }

    async fn serve(&self, port: u16, url: &str) -> Result<()> {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        let settings = [
            "listen_addresses=127.0.0.1",
            &format!("port={port}"),
            "unix_socket_directories=", // a path to it may be too long
            "max_connections=200",
            "shared_buffers=16MB",
            "fsync=off",
            "full_page_writes=off",
            "max_wal_senders=4", // for standbys
        ];
        for setting in settings {
            command.args(["-c", setting]);
        }
        let log = self.folder.log("postgres");
        let process = Process::spawn("postgres", &command, &log, Lifetime::Bound)?;
        let serves = process.until_it_serves("a login to Postgres", START_MAX, || async {
            PgConnection::connect(url).await?.close().await?;
            Ok(true)
        });
        let outcome = serves.await;
        *self.lock() = Some(Running {
            process,
            paused: None,
        });
        outcome
    }

    fn lost_its_port(&self) -> bool {
        let running = self.lock();
        let running = running.as_ref();
        running.is_some_and(|running| running.process.lost_its_port())
    }

    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match self.account {
            Some(account) => account.command(&program),
            None => Command::new(&program),
        };
        // It must be able to read the folder that it starts in.
        command.current_dir(self.data()).env("LC_ALL", "C");
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn end(&self, signal: Signal) {
        let Some(running) = self.lock().take() else {
            return;
        };
        drop(running.paused);
        let all = all_of(&running.process).unwrap_or_default();
        running.process.stop_by(signal, STOP_MAX);
        // They end by themselves when they miss the first of them.
        let gone = || all.iter().all(|process| !process.is_running());
        if !wait::blocking(OBEY_MAX, gone) {
            for process in &all {
                let _ = process.signal(Signal::KILL);
            }
            wait::blocking(OBEY_MAX, gone);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once: nobody will start it again.
        self.end(Signal::QUIT);
    }
}

/// Each of them has a process group of its own.
fn all_of(process: &Process) -> Result<Vec<ProcessRecord>> {
    let first = process.record();
    let mut all = first.children()?;
    all.push(first.clone());
    Ok(all)
}

/// The folder of the server's programs: the one that is given, in `PATH`, or where
/// Debian has them, where the newest version is taken.
fn programs() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os(BIN).filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        let missing = || {
            Error::new(format!(
                "{BIN}: found no initdb and postgres in {}",
                folder.display()
            ))
        };
        return holds(&folder, &PROGRAMS)
            .then_some(folder.clone())
            .ok_or_else(missing);
    }
    if let Some(folder) = in_path(&PROGRAMS) {
        return Ok(folder);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let versions = versions.into_iter().flatten().flatten();
    let found = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path().join("bin");
        holds(&folder, &PROGRAMS).then_some((version, folder))
    });
    let newest = found.max().map(|(_, folder)| folder);
    newest.ok_or_else(|| {
        Error::new(format!(
            "found no initdb and postgres in PATH or /usr/lib/postgresql/*/bin; {INSTALL}"
        ))
    })
}

/// Processes that stand still until it is dropped.
struct Standstill {
    waker: Child,
}

impl Standstill {
    /// The first process before the others, so that none is started meanwhile.
    fn of(first: &ProcessRecord) -> Result<Self> {
        let waker = Command::new("sh")
            .args(["-c", WAKER, "waker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0) // an interrupt at the terminal is not for it
            .spawn()
            .step(|| "starting what wakes Postgres")?;
        let mut still = Self { waker };
        still.stop(first)?;
        for child in first.children()? {
            still.stop(&child)?;
        }
        Ok(still)
    }

    fn stop(&mut self, process: &ProcessRecord) -> Result<()> {
        let input = self.waker.stdin.as_mut();
        let input = input.ok_or_else(|| Error::new("what wakes Postgres has ended"))?;
        writeln!(input, "{}", process.pid).step(|| "telling what to wake")?;
        if process.signal(Signal::STOP).is_err() && !process.is_running() {
            return Ok(()); // it has ended by itself
        }
        wait::blocking(OBEY_MAX, || process.is_stopped() || !process.is_running());
        Ok(())
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        drop(self.waker.stdin.take());
        let _ = self.waker.wait();
    }
}
