//! A standby: a copy that follows its primary and takes no writes. Made over SQL, because not every package
//! of a server has `pg_basebackup`.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Mutex;

use sqlx::{Connection as _, PgConnection};

use super::{Account, Postgres, USER};
use crate::control_plane::folder::Folder;
use crate::control_plane::ports;
use crate::error::{Result, Step};

impl Postgres {
    /// A copy of it that follows its changes, on a port of its own.
    pub async fn standby(&self) -> Result<Self> {
        let port = ports::free_port()?;
        let (ours, theirs) = (format!(":{}/", self.port), format!(":{port}/"));
        let standby = Self {
            running: Mutex::default(),
            folder: Folder::temporary()?,
            programs: self.programs.clone(),
            account: self.account,
            port,
            url: self.url.replace(&ours, &theirs),
        };
        let mut client = PgConnection::connect(&self.url).await?;
        sqlx::query("SELECT pg_backup_start('standby', fast => true)")
            .execute(&mut client)
            .await?;
        copy(&self.data(), &standby.data(), self.account)?;
        let label: String =
            sqlx::query_scalar("SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)")
                .fetch_one(&mut client)
                .await?;
        client.close().await?;
        let password = self.url.split([':', '@']).nth(2).unwrap_or_default();
        let primary = format!(
            "primary_conninfo = 'host=127.0.0.1 port={} user={USER} password={password}'\n",
            self.port
        );
        for (name, text) in [
            ("backup_label", label.as_str()),
            ("standby.signal", ""),
            ("postgresql.auto.conf", &primary),
        ] {
            standby.append(name, text)?;
        }
        standby.serve(port, &standby.url).await?;
        Ok(standby)
    }

    /// A standby takes the place of its primary, as a standby: it can be logged in to and read.
    pub async fn take_over(&mut self, primary: &Self) -> Result<()> {
        primary.stop();
        self.stop();
        self.port = primary.port;
        self.url.clone_from(&primary.url);
        self.serve(self.port, &self.url).await
    }

    /// From now on it takes writes.
    pub async fn promote(&self) -> Result<()> {
        let mut client = PgConnection::connect(&self.url).await?;
        sqlx::query("SELECT pg_promote()")
            .execute(&mut client)
            .await?;
        Ok(client.close().await?)
    }

    fn append(&self, name: &str, text: &str) -> Result<()> {
        let path = self.data().join(name);
        let mut file = fs::File::options();
        let file = file.create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .step(|| format!("writing {}", path.display()))?;
        self.account.map_or(Ok(()), |account| account.own(&path))
    }
}

/// All files of a running server; those that vanish meanwhile are not needed.
fn copy(from: &Path, to: &Path, account: Option<Account>) -> Result<()> {
    let copying = || format!("copying {}", from.display());
    fs::DirBuilder::new().mode(0o700).create(to).step(copying)?;
    account.map_or(Ok(()), |account| account.own(to))?;
    for entry in fs::read_dir(from).step(copying)? {
        let entry = entry.step(copying)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().step(copying)?.is_dir() {
            copy(&source, &target, account)?;
        } else if entry.file_name() != "postmaster.pid" {
            match fs::copy(&source, &target) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                copied => {
                    copied.step(copying)?;
                    account.map_or(Ok(()), |account| account.own(&target))?;
                }
            }
        }
    }
    Ok(())
}
