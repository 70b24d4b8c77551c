//! A PgBouncer of one's own in front of a Postgres. Whoever may log in there may log in here: it asks the
//! server for verifiers, and so holds copies of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use super::{Account, INSTALL, PORT_TRIES, Postgres, START_MAX, holds, in_path, write_secret};
use crate::control_plane::folder::Folder;
use crate::control_plane::ports;
use crate::error::{Error, Result, Step};
use crate::process::{Lifetime, Process};

const PROGRAM: &str = "pgbouncer";

/// How long a server's connection belongs to one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// As long as the client stays.
    Session,
    /// For one transaction; in the database `postgres` as long as the client stays.
    Transaction,
}

/// A running PgBouncer.
pub struct PgBouncer {
    // It ends before its folder goes.
    _process: Process,
    folder: Folder,
    port: u16,
}

impl PgBouncer {
    /// Starts one, and waits until the server's superuser can log in through it.
    pub async fn start(server: &Postgres, pooling: Pooling) -> Result<Self> {
        let program = program()?;
        let account = Account::unless_unprivileged()?;
        let folder = Folder::temporary()?;
        for tries in 1.. {
            let port = ports::free_port()?;
            let configuration = configure(server, pooling, port, &folder, account)?;
            let mut command = match account {
                Some(account) => account.command(&program),
                None => Command::new(&program),
            };
            command.current_dir("/").arg(&configuration);
            let log = folder.log("pgbouncer");
            let process = Process::spawn("pgbouncer", &command, &log, Lifetime::Bound)?;
            let options = upstream(server)?.port(port).extra_float_digits(None);
            let serves = process.until_it_serves("a login to PgBouncer", START_MAX, || async {
                PgConnection::connect_with(&options).await?.close().await?;
                Ok(true)
            });
            match serves.await {
                Err(_) if tries < PORT_TRIES && process.lost_its_port() => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    return Ok(Self {
                        _process: process,
                        folder,
                        port,
                    });
                }
            }
        }
        Err(Error::new("PgBouncer found no port"))
    }

    /// Where it listens, on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder: configuration and log.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn upstream(server: &Postgres) -> Result<PgConnectOptions> {
    Ok(server.url().parse()?)
}

/// By files, since everybody may read the arguments of a process.
fn configure(
    server: &Postgres,
    pooling: Pooling,
    port: u16,
    folder: &Folder,
    account: Option<Account>,
) -> Result<PathBuf> {
    let options = upstream(server)?;
    let (user, upstream_port) = (options.get_username(), options.get_port());
    let url = server.url();
    let password = url.split(['@', ':']).nth(2).unwrap_or_default();
    let (users, main) = (
        folder.path().join("users"),
        folder.path().join("pgbouncer.ini"),
    );
    for old in [&users, &main] {
        if old.exists() {
            std::fs::remove_file(old).step(|| format!("removing {}", old.display()))?;
        }
    }
    write_secret(&users, &format!("\"{user}\" \"{password}\"\n"), account)?;
    let mode = match pooling {
        Pooling::Session => "session",
        Pooling::Transaction => "transaction",
    };
    let text = format!(
        "[databases]\n\
         postgres = host=127.0.0.1 port={upstream_port} pool_mode=session\n\
         * = host=127.0.0.1 port={upstream_port} pool_mode={mode}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = scram-sha-256\nauth_file = {}\nauth_user = {user}\n\
         auth_query = SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = $1\n\
         server_check_delay = 0\n",
        users.display()
    );
    write_secret(&main, &text, account)?;
    Ok(main)
}

/// In `PATH`, or where Debian has it.
fn program() -> Result<PathBuf> {
    let debian = || {
        let folder = PathBuf::from("/usr/sbin");
        holds(&folder, &[PROGRAM]).then_some(folder)
    };
    let found = in_path(&[PROGRAM]).or_else(debian);
    let missing = || {
        Error::new(format!(
            "found no {PROGRAM} in PATH or /usr/sbin; {INSTALL}"
        ))
    };
    Ok(found.ok_or_else(missing)?.join(PROGRAM))
}
