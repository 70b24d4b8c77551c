//! Logins of services on a Postgres that somebody else runs.
//!
//! | On the server | For |
//! | --- | --- |
//! | owner role, NOLOGIN | owns the database and all that the service makes; one for each cluster id (C4) |
//! | group roles `…_w` and `…_r`, NOLOGIN | what `ReadWrite` and `ReadOnly` may do; made when first wanted |
//! | two logins | take turns (C2); each is a member of one of these roles, and its sessions start as that role, so what they make belongs to the owner whichever login made it |
//! | a database owned by the owner role | PUBLIC may not connect to it; optionally with a schema of its own |
//!
//! Whose a role is, its COMMENT says, which no tenant can write; a database is its owner's. Every change
//! is one transaction under an advisory lock (C5), and the lock is taken in the class's database, for
//! such locks are per database. Nothing here needs a superuser: CREATEROLE and CREATEDB are enough.
//!
//! The password of a login that was changed by hand is seen by no catalogue, only by logging in
//! ([`Server::verify`]).

mod catalog;
mod ending;
mod idle;
mod inside;
mod login;
mod mark;
mod preflight;
mod quote;
mod removal;
mod session;
mod shared;
mod survey;
mod transaction;

use std::fmt;

use secrecy::SecretString;
use tokio::sync::{Mutex, Semaphore};

pub use inside::may_name;

use self::session::Way;
use self::transaction::Kept;
use super::Subject;
use crate::credential::names::Names;

/// Logins that are tried at the same time, beside the one connection of the admin.
const LOGINS_MAX: usize = 4;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address; a certificate is checked against it.
    pub host: String,
    /// Usually 5432.
    pub port: u16,
    /// The admin's database, in which all locks are taken (C5).
    pub database: String,
    /// How the connection is protected.
    pub tls: Tls,
    /// A pooler stands before it: open sessions prove nothing (C6). It must pool the admin's
    /// connections by session.
    pub pooled: bool,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// How a connection is protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// What is checked.
    pub mode: TlsMode,
    /// PEM of an authority that is trusted beside those of the system.
    pub ca: Option<String>,
}

/// What is checked of a server; its names are those of `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS: whoever listens reads everything.
    Disable,
    /// TLS with anybody.
    Require,
    /// The certificate's authority.
    VerifyCa,
    /// The authority and the name.
    #[default]
    VerifyFull,
}

impl TlsMode {
    /// The value of `sslmode`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    /// Whether the server has proved who it is.
    pub const fn is_verified(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

/// A role with CREATEROLE and CREATEDB; no superuser is needed.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Its name.
    pub username: String,
    /// Its password.
    pub password: SecretString,
}

/// What the sessions of a service may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privileges {
    /// Everything in its database.
    #[default]
    Owner,
    /// Read and write the owner's tables.
    ReadWrite,
    /// Read the owner's tables.
    ReadOnly,
}

/// What a service wants of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Its database; without it one that is named like the owner role.
    pub database: Option<String>,
    /// A schema that is made in it and is all of its `search_path`; without it `public`.
    pub schema: Option<String>,
    /// What its sessions may do.
    pub privileges: Privileges,
    /// Open sessions of one login at most; while a password is rotated there are two logins.
    pub connection_limit: Option<u32>,
}

impl Wants {
    /// The database of a service.
    pub fn database(&self, names: &Names) -> String {
        self.database.clone().unwrap_or_else(|| names.owner())
    }

    /// The schema in which its tables are.
    pub fn schema(&self) -> &str {
        self.schema.as_deref().unwrap_or("public")
    }

    /// The role that its sessions are.
    pub fn role(&self, names: &Names) -> String {
        match self.privileges {
            Privileges::Owner => names.owner(),
            Privileges::ReadWrite => group(names, 'w'),
            Privileges::ReadOnly => group(names, 'r'),
        }
    }
}

/// The owner's name with another last letter: as long, and as unlike all others.
fn group(names: &Names, letter: char) -> String {
    let mut name = names.owner();
    name.pop();
    name.push(letter);
    name
}

/// Every role of a cluster id that is no login.
fn shared_roles(names: &Names) -> [String; 3] {
    [names.owner(), group(names, 'w'), group(names, 'r')]
}

/// A server, as the operator works with it: one admin connection, used by one change at a time.
pub struct Server {
    endpoint: Endpoint,
    admin: Admin,
    kept: Mutex<Kept>,
    logins: Semaphore,
    patience: u32,
}

impl Server {
    /// Connects to nothing yet.
    pub fn new(endpoint: Endpoint, admin: Admin) -> Self {
        Self {
            endpoint,
            admin,
            kept: Mutex::default(),
            logins: Semaphore::new(LOGINS_MAX),
            patience: 1,
        }
    }

    /// Waits so many times as long as usual for connections and answers: for a server on a machine that
    /// has much else to do.
    #[must_use]
    pub fn patient(mut self, times: u32) -> Self {
        self.patience = times.max(1);
        self
    }

    /// Where it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Names under which the [survey](Server::survey) shows what belongs to a service.
    pub fn survey_names(subject: &Subject<Wants>) -> Vec<String> {
        use crate::backend::Slot;
        let mut names: Vec<_> = Slot::ALL.map(|slot| subject.names.login(slot)).into();
        names.push(subject.names.owner());
        let role = subject.wants.role(&subject.names);
        if !names.contains(&role) {
            names.push(role);
        }
        names
    }

    fn way<'a>(&'a self, database: &'a str) -> Way<'a> {
        Way {
            endpoint: &self.endpoint,
            user: &self.admin.username,
            password: &self.admin.password,
            database,
            patience: self.patience,
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("endpoint", &self.endpoint.to_string())
            .field("admin", &self.admin.username)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_of_a_server_holds_no_password() {
        let endpoint = Endpoint {
            host: "::1".to_owned(),
            port: 5432,
            database: "postgres".to_owned(),
            tls: Tls::default(),
            pooled: false,
        };
        let admin = Admin {
            username: "keeper".to_owned(),
            password: "canary".to_owned().into(),
        };
        let shown = format!("{admin:?} {:?}", Server::new(endpoint, admin.clone()));
        assert!(
            shown.contains("[::1]:5432") && shown.contains("keeper"),
            "{shown}"
        );
        assert!(!shown.contains("canary"), "{shown}");
    }
}
