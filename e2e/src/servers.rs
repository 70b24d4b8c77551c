//! Real servers for stores that are guarded by tokens: Postgres and Redis, each
//! on a free port of the loopback interface, in a folder of its own, behind a
//! random password, and ended with whoever started it, also by a panic or a kill.

pub mod pgbouncer;
pub mod postgres;
pub mod redis;

use std::os::unix::fs::{OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::{Error, Result, Step};
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use redis::Redis;

/// Generous, as for the control plane: the machine may compile meanwhile.
const START_MAX: Duration = Duration::from_secs(90);

/// Ports can be lost to others between choosing and binding.
const PORT_TRIES: usize = 5;

/// What installs the servers.
const INSTALL: &str = "scripts/install-tools.sh installs it";

/// Nobody else on this machine logs in.
fn password() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// A file that only its owner reads: this process, or the account that is given.
fn write_secret(path: &Path, text: &str, account: Option<Account>) -> Result<()> {
    use std::io::Write as _;
    let writing = || format!("writing {}", path.display());
    let mut options = std::fs::File::options();
    let mut file = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .step(writing)?;
    file.write_all(text.as_bytes()).step(writing)?;
    account.map_or(Ok(()), |account| account.own(path))
}

/// The folder in `PATH` that holds all of these programs.
fn in_path(programs: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).find(|folder| holds(folder, programs))
}

fn holds(folder: &Path, programs: &[&str]) -> bool {
    programs.iter().all(|name| folder.join(name).is_file())
}

/// An account without rights, for a server that refuses to run as root.
#[derive(Clone, Copy, Debug)]
struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// None if this process is no root either.
    fn unless_unprivileged() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let accounts = std::fs::read_to_string("/etc/passwd").step(|| "reading /etc/passwd")?;
        let find = |name| Self::among(&accounts, name);
        let found = find("postgres").or_else(|| find("nobody"));
        let missing = || Error::new("/etc/passwd: found neither postgres nor nobody");
        Ok(Some(found.ok_or_else(missing)?))
    }

    fn among(accounts: &str, name: &str) -> Option<Self> {
        accounts.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next()? == name;
            let user = fields.nth(1)?.parse().ok()?;
            let group = fields.next()?.parse().ok()?;
            found.then_some(Self { user, group })
        })
    }

    fn own(self, path: &Path) -> Result<()> {
        chown(path, Some(self.user), Some(self.group))
            .step(|| format!("giving {} away", path.display()))
    }

    /// `program` as this account. The kernel forgets whose death ends a process
    /// when that process changes its user, so this is said once more afterwards.
    fn command(self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", self.user))
            .arg(format!("--regid={}", self.group))
            .args(["--clear-groups", "--"])
            .args(["setpriv", "--pdeathsig", "KILL", "--"])
            .arg(program);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, password};

    #[test]
    fn an_account_is_found_by_its_name() {
        let accounts = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65533::/:/bin/false\n";
        let nobody = Account::among(accounts, "nobody").unwrap();
        assert_eq!((nobody.user, nobody.group), (65534, 65533));
        assert!(Account::among(accounts, "postgres").is_none());
    }

    #[test]
    fn a_password_is_its_own_each_time() {
        assert_ne!(password(), password());
    }
}
