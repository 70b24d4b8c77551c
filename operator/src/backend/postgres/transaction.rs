//! One change at a time: the kept connection is taken, a transaction begins with the lock of what it
//! changes (C5), and the connection is kept again only when all went well. Whoever drops a change at an
//! await, or fails, loses the connection, and with it the transaction and its lock.

use sha2::{Digest as _, Sha256};
use sqlx::postgres::PgRow;
use tokio::sync::MutexGuard;

use super::Server;
use super::quote::Sql;
use super::session::{Failure, Session};
use crate::backend::BackendError;

/// The admin's connection, for as long as one change takes.
pub(super) struct Hold<'a> {
    server: &'a Server,
    kept: MutexGuard<'a, Option<Session>>,
}

/// A connection that goes back when its work is done.
pub(super) struct Work<'a> {
    kept: MutexGuard<'a, Option<Session>>,
    pub(super) session: Session,
}

impl Server {
    /// Waits for its turn.
    pub(super) async fn hold(&self) -> Hold<'_> {
        let kept = self.kept.lock().await;
        Hold { server: self, kept }
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
        if let Some(mut session) = self.kept.take() {
            match session.rows(what, sql.clone()).await {
                Ok(rows) => return Ok((self.work(session), rows)),
                Err(failure) if failure.is_broken() => {}
                Err(failure) => return Err(failure),
            }
        }
        let way = self.server.way(&self.server.endpoint.database);
        let mut session = Session::open(&way).await?;
        let rows = session.rows(what, sql).await?;
        Ok((self.work(session), rows))
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
        *kept = Some(session);
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
