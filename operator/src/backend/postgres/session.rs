//! One connection to a server: how it is opened, what it is told at its start, how long anything may
//! take, and what its errors mean. All statements go through here, by the simple protocol, so that a
//! pooler between changes nothing.

use std::fmt;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, Row as _};
use tokio::time::timeout;

use super::quote::Sql;
use super::{Endpoint, TlsMode};
use crate::backend::BackendError;

/// What servers show of who we are.
const APPLICATION: &str = "leasehold-operator";
/// For a connection, with its login.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(10);
/// For a statement: the server ends it before we stop to wait.
const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// For CREATE and DROP DATABASE, which copy and remove files.
const DATABASE_MAX: Duration = Duration::from_secs(150);
/// What a server says of an error is cut to so many characters.
const PROBLEM_MAX: usize = 240;

/// What every admin session is told before its first statement. An operator that stands still in the
/// middle of a change loses its session, and so its locks (C5).
const SETTINGS: [(&str, &str); 7] = [
    ("search_path", "pg_catalog,pg_temp"),
    ("statement_timeout", "25s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "30s"),
    ("default_transaction_isolation", "read committed"),
    ("standard_conforming_strings", "on"),
    ("client_min_messages", "error"),
];

/// The same for a connection through a pooler, which knows no such start.
const SETTINGS_LATER: &str = "SET search_path = pg_catalog, pg_temp; SET statement_timeout = '25s'; \
     SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s'; \
     SET default_transaction_isolation = 'read committed'; SET standard_conforming_strings = on; \
     SET client_min_messages = error";

/// Who logs in, and where.
pub(super) struct Way<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) user: &'a str,
    pub(super) password: &'a SecretString,
    pub(super) database: &'a str,
    /// How many times the usual time anything may take.
    pub(super) patience: u32,
}

/// An open connection.
pub(super) struct Session {
    connection: PgConnection,
    server: String,
    user: String,
    patience: u32,
    /// As in 150018.
    pub(super) version: i32,
}

impl Session {
    /// Logs in as the admin.
    pub(super) async fn open(way: &Way<'_>) -> Result<Self, Failure> {
        let later = way.endpoint.pooled;
        let mut session = Self::connect(way, !later).await?;
        let prefix = if later { SETTINGS_LATER } else { "" };
        let mut sql = Sql::new(prefix, &[]);
        sql.push(
            "; SELECT current_setting('server_version_num')::int4 AS version",
            &[],
        );
        let rows = session.rows("asking for its version", sql).await?;
        session.version = session.column(rows.first(), "version")?;
        Ok(session)
    }

    /// Logs in as a service does.
    pub(super) async fn open_plain(way: &Way<'_>) -> Result<Self, Failure> {
        Self::connect(way, false).await
    }

    async fn connect(way: &Way<'_>, with_settings: bool) -> Result<Self, Failure> {
        let server = way.endpoint.to_string();
        let mut options = options(way);
        if with_settings {
            options = options.options(SETTINGS);
        }
        let connecting = PgConnection::connect_with(&options);
        let max = CONNECT_MAX * way.patience;
        let connection = match timeout(max, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(Failure::of_login(&server, way.user, &error)),
            Err(_) => {
                let problem = format!("no login within {} s", max.as_secs());
                return Err(BackendError::Unreachable { server, problem }.into());
            }
        };
        Ok(Self {
            connection,
            server,
            user: way.user.to_owned(),
            patience: way.patience,
            version: 0,
        })
    }

    /// Host and port.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Runs statements; `what` says in words what they do.
    pub(super) async fn run(&mut self, what: &str, sql: Sql) -> Result<(), Failure> {
        self.within(STATEMENT_MAX * self.patience, what, sql)
            .await
            .map(drop)
    }

    /// Runs CREATE or DROP DATABASE.
    pub(super) async fn run_long(&mut self, what: &str, sql: Sql) -> Result<(), Failure> {
        self.within(DATABASE_MAX * self.patience, what, sql)
            .await
            .map(drop)
    }

    /// Runs statements and returns the rows of all.
    pub(super) async fn rows(&mut self, what: &str, sql: Sql) -> Result<Vec<PgRow>, Failure> {
        self.within(STATEMENT_MAX * self.patience, what, sql).await
    }

    async fn within(&mut self, max: Duration, what: &str, sql: Sql) -> Result<Vec<PgRow>, Failure> {
        // The only statement text in this crate that is not fixed; `Sql` holds quoted tokens alone.
        let running = sqlx::raw_sql(AssertSqlSafe(sql.into_text())).fetch_all(&mut self.connection);
        match timeout(max, running).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(Failure::of_statement(
                &self.server,
                &self.user,
                what,
                &error,
            )),
            Err(_) => Err(BackendError::Unreachable {
                server: self.server.clone(),
                problem: format!("{what} had no answer within {} s", max.as_secs()),
            }
            .into()),
        }
    }

    /// A column of a row that must be there.
    pub(super) fn column<'r, T>(&self, row: Option<&'r PgRow>, column: &str) -> Result<T, Failure>
    where
        T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let refused = |problem: String| BackendError::Refused {
            server: self.server.clone(),
            what: format!("reading {column}"),
            problem,
        };
        let row = row.ok_or_else(|| refused("no row came".to_owned()))?;
        let value = row.try_get(column);
        Ok(value.map_err(|error| refused(shortened(&error.to_string())))?)
    }

    /// Says goodbye, so that the server logs no broken connection.
    pub(super) async fn close(self) {
        let _ = timeout(CONNECT_MAX, self.connection.close()).await;
    }
}

/// How to connect. It prints its password: it must not live longer than that takes.
pub(super) fn options(way: &Way<'_>) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .host(&way.endpoint.host)
        .port(way.endpoint.port)
        .username(way.user)
        .password(way.password.expose_secret())
        .database(way.database)
        .application_name(APPLICATION)
        .extra_float_digits(None) // poolers refuse it
        .ssl_mode(way.endpoint.tls.mode.of_sqlx())
        .ssl_root_cert_from_pem(way.endpoint.tls.ca.clone().unwrap_or_default().into_bytes())
        .disable_statement_logging() // they hold verifiers
}

/// An error, and the code that the server gave it.
pub(super) struct Failure {
    code: Option<String>,
    error: BackendError,
}

impl Failure {
    /// Another change came between; the same may work now.
    pub(super) fn is_of_concurrency(&self) -> bool {
        self.has_code(&["XX000", "23505", "40001", "40P01"])
    }

    /// The connection is of no use any more.
    pub(super) fn is_broken(&self) -> bool {
        self.why_unreachable().is_some()
    }

    pub(super) fn why_unreachable(&self) -> Option<String> {
        match &self.error {
            BackendError::Unreachable { problem, .. } => Some(problem.clone()),
            _ => None,
        }
    }

    pub(super) fn has_code(&self, codes: &[&str]) -> bool {
        self.code
            .as_deref()
            .is_some_and(|code| codes.contains(&code))
    }

    pub(super) fn into_error(self) -> BackendError {
        self.error
    }

    fn of_login(server: &str, login: &str, error: &sqlx::Error) -> Self {
        let server = server.to_owned();
        let problem = problem(error);
        let Some(code) = code(error) else {
            return BackendError::Unreachable { server, problem }.into();
        };
        // A pooler has one code for everything.
        let pooler = code == "08P01"
            && ["auth", "password", "user"]
                .iter()
                .any(|word| problem.contains(word));
        let error = if code.starts_with("28") || pooler {
            BackendError::LoginRefused {
                server,
                login: login.to_owned(),
                problem,
            }
        } else if is_of_connection(&code) {
            BackendError::Unreachable { server, problem }
        } else {
            BackendError::Refused {
                server,
                what: format!("the login of {login}"),
                problem,
            }
        };
        Self {
            code: Some(code),
            error,
        }
    }

    fn of_statement(server: &str, login: &str, what: &str, error: &sqlx::Error) -> Self {
        let server = server.to_owned();
        let what = what.to_owned();
        let problem = problem(error);
        let code = code(error);
        let error = match code.as_deref() {
            None => BackendError::Unreachable { server, problem },
            Some(code) if is_of_connection(code) => BackendError::Unreachable { server, problem },
            Some("42501") => BackendError::NotAllowed {
                server,
                login: login.to_owned(),
                what: format!("do this: {what} ({problem})"),
                remedy: format!("ALTER ROLE {login} CREATEROLE CREATEDB INHERIT"),
            },
            Some(_) => BackendError::Refused {
                server,
                what,
                problem,
            },
        };
        Self { code, error }
    }

    /// With what would permit it, if it was a matter of rights.
    pub(super) fn with_remedy(mut self, statement: impl fmt::Display) -> Self {
        if let BackendError::NotAllowed { remedy, .. } = &mut self.error {
            *remedy = statement.to_string();
        }
        self
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self { code: None, error }
    }
}

/// The server shuts down, starts, or cut the connection.
fn is_of_connection(code: &str) -> bool {
    matches!(code, "57P01" | "57P02" | "57P03" | "57P05" | "25P03") || code.starts_with("08")
}

fn code(error: &sqlx::Error) -> Option<String> {
    let error = error.as_database_error()?;
    error.code().map(std::borrow::Cow::into_owned)
}

/// Code and message, without the detail, which can hold what is in rows.
fn problem(error: &sqlx::Error) -> String {
    let of_server = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    match of_server {
        Some(error) => shortened(&format!("{}: {}", error.code(), error.message())),
        None => shortened(&error.to_string()),
    }
}

fn shortened(text: &str) -> String {
    let text = text.chars().take(PROBLEM_MAX);
    text.map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

impl TlsMode {
    fn of_sqlx(self) -> sqlx::postgres::PgSslMode {
        use sqlx::postgres::PgSslMode as Mode;
        match self {
            Self::Disable => Mode::Disable,
            Self::Require => Mode::Require,
            Self::VerifyCa => Mode::VerifyCa,
            Self::VerifyFull => Mode::VerifyFull,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_cut_and_on_one_line() {
        let said = shortened(&format!("a\nb{}", "é".repeat(500)));
        assert!(said.starts_with("a bé"));
        assert_eq!(said.chars().count(), PROBLEM_MAX);
    }

    #[test]
    fn a_cut_connection_and_a_failed_statement_are_told_apart() {
        for code in ["57P01", "57P03", "08006"] {
            assert!(is_of_connection(code), "{code}");
        }
        for code in ["23505", "XX000", "53300", "25006"] {
            assert!(!is_of_connection(code), "{code}");
        }
    }
}
