//! The end of a login: closed, its sessions ended, what it holds given up, dropped.

use std::time::{Duration, Instant};

use super::catalog::{Catalog, Quoted, Role};
use super::quote::{self, Sql};
use super::session::Failure;
use super::shared::join;
use super::transaction::retried;
use super::{Server, Wants};
use crate::backend::{BackendError, Sight, Slot, Subject};

/// How long ended sessions may take to go.
const SESSIONS_MAX: Duration = Duration::from_secs(10);

/// Which login is to end, so that whoever stood still ends no later one (C5).
#[derive(Clone, Copy)]
enum Only<'a> {
    /// Of a generation that was replaced.
    Generation(u64),
    /// The role that was seen, whatever its generation is.
    Seen(&'a Sight),
}

impl Server {
    /// Ends a login that was seen: the end of a service.
    pub async fn end_login(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        sight: &Sight,
    ) -> Result<(), BackendError> {
        self.end(subject, slot, Only::Seen(sight)).await
    }

    /// Ends the login of a generation that was replaced. Refuses if the login has a newer one: whoever
    /// stood still since would lock the service out (C5).
    pub async fn end_generation(
        &self,
        subject: &Subject<Wants>,
        generation: u64,
    ) -> Result<(), BackendError> {
        let only = Only::Generation(generation);
        self.end(subject, Slot::of_generation(generation), only)
            .await
    }

    async fn end(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        only: Only<'_>,
    ) -> Result<(), BackendError> {
        let quoted = Quoted::of(subject)?;
        if !retried(|| self.disable(subject, &quoted, slot, only)).await? {
            return Ok(());
        }
        let name = subject.names.login(slot);
        self.end_sessions(&name)
            .await
            .map_err(Failure::into_error)?;
        retried(|| self.give_up(subject, &quoted, slot)).await?;
        retried(|| self.drop_login(subject, &quoted, slot, only)).await
    }

    /// No new sessions; false if there is no such login.
    async fn disable(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
        slot: Slot,
        only: Only<'_>,
    ) -> Result<bool, Failure> {
        let name = subject.names.login(slot);
        let mut work = self.begin(&name).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        let Some(role) = catalog.roles.get(&name) else {
            work.roll_back().await?;
            return Ok(false);
        };
        self.refuse_other(subject, slot, role, only)?;
        let login = quoted.login(slot);
        let mut sql = Sql::new("", &[]);
        if !role.is_reachable {
            join(&mut sql, &work.session, login);
        }
        sql.push("ALTER ROLE {} NOLOGIN;", &[login]);
        let what = format!("closing the login {name}");
        self.change(work, &what, sql).await?;
        Ok(true)
    }

    fn refuse_other(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        role: &Role,
        only: Only<'_>,
    ) -> Result<(), BackendError> {
        let name = subject.names.login(slot);
        let (found, _) = self.password_of(subject, slot, &role.comment)?;
        match only {
            Only::Generation(ours) if found > ours => Err(self.newer(&name, found, ours)),
            Only::Generation(_) => Ok(()),
            Only::Seen(sight) => self.refuse_unseen(sight, "role", &name, role.id),
        }
    }

    /// Refuses what has another id than what was seen under its name.
    pub(super) fn refuse_unseen(
        &self,
        sight: &Sight,
        kind: &str,
        name: &str,
        id: i64,
    ) -> Result<(), BackendError> {
        if sight.0.get(name) == Some(&id) {
            return Ok(());
        }
        Err(BackendError::Anew {
            server: self.endpoint.to_string(),
            what: format!("{kind} {name}"),
        })
    }

    /// Ends the sessions of a login and waits until the server has forgotten them.
    async fn end_sessions(&self, login: &str) -> Result<(), Failure> {
        let name = quote::text("name", login)?;
        let started = Instant::now();
        loop {
            // The server itself waits for each of them.
            let sql = Sql::new(
                "SELECT pg_terminate_backend(a.pid, 1000) AS is_gone FROM pg_stat_activity a \
                 WHERE a.usename = {} AND a.pid <> pg_backend_pid()",
                &[&name],
            );
            let what = format!("ending the sessions of {login}");
            let (work, rows) = self.hold().await.start(&what, sql).await?;
            work.keep();
            if rows.is_empty() {
                return Ok(());
            }
            if started.elapsed() > SESSIONS_MAX {
                return Err(BackendError::Refused {
                    server: self.endpoint.to_string(),
                    what,
                    problem: format!("{} of them do not end", rows.len()),
                }
                .into());
            }
        }
    }

    /// What the login made while it was not the owner (after SET ROLE NONE) goes to the owner; what it was granted goes.
    async fn give_up(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
        slot: Slot,
    ) -> Result<(), Failure> {
        let (hold, login) = (self.hold().await, quoted.login(slot));
        let (mut work, _) = hold.start("looking", Sql::new("SELECT 1", &[])).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        let Some(role) = catalog.roles.get(&subject.names.login(slot)) else {
            work.keep();
            return Ok(());
        };
        let ours = catalog
            .database
            .as_ref()
            .filter(|found| found.owner == subject.names.owner());
        let holds = self.holds(&mut work.session, &[role.id]).await?;
        work.keep();
        let database = ours.map(|found| found.id);
        let concerned = |id: i64| holds.iter().any(|hold| hold.database_id == id);
        let inside = subject.wants.database(&subject.names);
        let place = match database {
            Some(id) if concerned(id) || concerned(0) => &inside,
            None if concerned(0) => &self.endpoint.database,
            _ => return Ok(()),
        };
        let mut session = self.enter(place).await?;
        let mut sql = Sql::new("BEGIN;", &[]);
        if catalog.roles.contains_key(&subject.names.owner()) {
            sql.push("REASSIGN OWNED BY {} TO {};", &[login, &quoted.owner]);
        }
        sql.push("DROP OWNED BY {}; COMMIT", &[login]);
        let what = format!("taking what {} was granted", subject.names.login(slot));
        session.run(&what, sql).await?;
        session.close().await;
        Ok(())
    }

    async fn drop_login(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
        slot: Slot,
        only: Only<'_>,
    ) -> Result<(), Failure> {
        let name = subject.names.login(slot);
        let mut work = self.begin(&name).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        let Some(role) = catalog.roles.get(&name) else {
            return work.roll_back().await;
        };
        self.refuse_other(subject, slot, role, only)?;
        let holds = self.holds(&mut work.session, &[role.id]).await?;
        if !holds.is_empty() {
            work.roll_back().await?;
            return Err(self.held(&name, &holds).into());
        }
        let sql = Sql::new("DROP ROLE {}", &[quoted.login(slot)]);
        let what = format!("dropping the login {name}");
        self.change(work, &what, sql).await
    }
}
