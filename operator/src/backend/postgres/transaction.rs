//! One change at a time: the kept connection is taken, a transaction begins with the lock of what it
//! changes (C5), and the connection is kept again only when all went well. Whoever drops a change at an
//! await, or fails, loses the connection, and with it the transaction and its lock.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use sqlx::postgres::PgRow;
use tokio::sync::{MutexGuard, SemaphorePermit};

use super::Server;
use super::quote::Sql;
use super::session::{Failure, Session};
use crate::backend::BackendError;

/// Whoever waited while a server did not answer is told the same for so long: they would otherwise wait
/// one after the other.
const REST: Duration = Duration::from_millis(500);

/// What is kept between two changes.
#[derive(Default)]
pub(super) struct Kept {
    session: Option<Session>,
    /// When the server was last out of reach, and why.
    unreachable: Option<(Instant, String)>,
}

/// A connection into a service's database; there are only so many at a time.
pub(super) struct Entered<'a> {
    session: Session,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Entered<'_> {
    /// Says goodbye.
    pub(super) async fn close(self) {
        self.session.close().await;
    }
}

impl Deref for Entered<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

/// The admin's connection, for as long as one change takes.
pub(super) struct Hold<'a> {
    server: &'a Server,
    kept: MutexGuard<'a, Kept>,
}

/// A connection that goes back when its work is done.
pub(super) struct Work<'a> {
    kept: MutexGuard<'a, Kept>,
    pub(super) session: Session,
}

impl Server {
    /// Waits for its turn.
    pub(super) async fn hold(&self) -> Hold<'_> {
        let kept = self.kept.lock().await;
        Hold { server: self, kept }
    }

    /// Logs in to another database as the admin.
    pub(super) async fn enter(&self, database: &str) -> Result<Entered<'_>, Failure> {
        let permit = self.logins.acquire().await.ok(); // it is never closed
        Ok(Entered {
            session: Session::open(&self.way(database)).await?,
            _permit: permit,
        })
    }

    /// Begins a transaction under the lock of `name`.
    pub(super) async fn begin(&self, name: &str) -> Result<Work<'_>, Failure> {
        let sql = Sql::new(
            "BEGIN; SELECT pg_advisory_xact_lock({})",
            &[&lock_key(name)],
        );
        let (work, _) = self.hold().await.start("taking the lock", sql).await?;
        Ok(work)
    }

    /// Takes the lock of `name` for what cannot be in a transaction.
    pub(super) async fn lock(&self, name: &str) -> Result<Work<'_>, Failure> {
        let sql = Sql::new(
            "SET statement_timeout = '120s'; SET idle_session_timeout = '30s'; SELECT pg_advisory_lock({})",
            &[&lock_key(name)],
        );
        let (work, _) = self.hold().await.start("taking the lock", sql).await?;
        Ok(work)
    }
}

impl<'a> Hold<'a> {
    /// Runs the first statements of a piece of work. A kept connection may have been cut since it was
    /// used: then it is tried once more on a new one.
    pub(super) async fn start(
        mut self,
        what: &str,
        sql: Sql,
    ) -> Result<(Work<'a>, Vec<PgRow>), Failure> {
        if let Some(mut session) = self.kept.session.take() {
            match session.rows(what, sql.clone()).await {
                Ok(rows) => return Ok((self.work(session), rows)),
                Err(failure) if failure.is_broken() => {}
                Err(failure) => return Err(failure),
            }
        }
        let mut session = self.open().await?;
        let rows = session.rows(what, sql).await?;
        Ok((self.work(session), rows))
    }

    async fn open(&mut self) -> Result<Session, Failure> {
        if let Some((since, problem)) = &self.kept.unreachable
            && since.elapsed() < REST
        {
            return Err(BackendError::Unreachable {
                server: self.server.endpoint.to_string(),
                problem: problem.clone(),
            }
            .into());
        }
        let way = self.server.way(&self.server.endpoint.database);
        let opened = Session::open(&way).await;
        self.kept.unreachable = match &opened {
            Err(failure) => failure.why_unreachable().map(|why| (Instant::now(), why)),
            Ok(_) => None,
        };
        opened
    }

    fn work(self, session: Session) -> Work<'a> {
        Work {
            kept: self.kept,
            session,
        }
    }
}

impl Work<'_> {
    /// Ends the transaction, and keeps the connection.
    pub(super) async fn commit(mut self) -> Result<(), Failure> {
        self.session.run("COMMIT", Sql::new("COMMIT", &[])).await?;
        self.keep();
        Ok(())
    }

    /// Ends the transaction without a change, and keeps the connection.
    pub(super) async fn roll_back(mut self) -> Result<(), Failure> {
        self.session
            .run("ROLLBACK", Sql::new("ROLLBACK", &[]))
            .await?;
        self.keep();
        Ok(())
    }

    /// Gives the lock of [`Server::lock`] back, and keeps the connection.
    pub(super) async fn unlock(mut self) -> Result<(), Failure> {
        let sql = "SELECT pg_advisory_unlock_all(); SET idle_session_timeout = 0; SET statement_timeout = '25s'";
        self.session
            .run("giving the lock back", Sql::new(sql, &[]))
            .await?;
        self.keep();
        Ok(())
    }

    /// Keeps the connection.
    pub(super) fn keep(self) {
        let Self { mut kept, session } = self;
        kept.session = Some(session);
    }
}

/// Does it again, once, if another change came between: Postgres says so of roles that two change at the
/// same time, whatever they change.
pub(super) async fn retried<T, F>(mut attempt: impl FnMut() -> F) -> Result<T, BackendError>
where
    F: Future<Output = Result<T, Failure>>,
{
    let outcome = match attempt().await {
        Err(failure) if failure.is_of_concurrency() => attempt().await,
        outcome => outcome,
    };
    outcome.map_err(Failure::into_error)
}

/// Half of a hash: two names that share a lock would only wait for each other.
fn lock_key(name: &str) -> i64 {
    let digest = Sha256::digest(format!("leasehold {name}").as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |key, byte| key << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_lock_of_its_own() {
        assert_eq!(lock_key("a"), lock_key("a"));
        assert_ne!(lock_key("a"), lock_key("b"));
    }
}
