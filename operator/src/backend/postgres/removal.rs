//! The end of a service on the server: its logins, then its database and the roles that own it, and what
//! on the server holds them.

use crate::backend::Slot;

use super::catalog::{Catalog, Quoted};
use super::mark::{self, Whose};
use super::quote::{self, Sql};
use super::session::{Failure, Session};
use super::transaction::retried;
use super::{Server, Wants, shared_roles};
use crate::backend::{BackendError, Removal, Sight, Subject};

/// What depends on roles, in which database: everything but the membership that ends with them.
const HOLDS: &str = "SELECT s.dbid::int8 AS id, coalesce(d.datname::text, 'the server') AS name, \
     count(*) FILTER (WHERE s.deptype = 'o') AS owned, count(*) FILTER (WHERE s.deptype <> 'o') AS granted \
     FROM pg_shdepend s LEFT JOIN pg_database d ON d.oid = s.dbid \
     WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid IN ({}) \
     AND s.classid <> 'pg_auth_members'::regclass \
     AND NOT (s.classid = 'pg_database'::regclass AND s.objid = {}) \
     GROUP BY 1, 2 ORDER BY 2";

/// Members of the shared roles that are not the admin.
const MEMBERS: &str = "SELECT DISTINCT m.rolname::text AS name FROM pg_auth_members a \
     JOIN pg_roles m ON m.oid = a.member JOIN pg_roles g ON g.oid = a.roleid \
     WHERE g.oid IN ({}) AND a.member NOT IN ({}) AND m.rolname <> current_user ORDER BY 1";

/// Objects in one database that hold a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    /// 0 for what belongs to the server as a whole, such as a database.
    pub(super) database_id: i64,
    pub(super) database: String,
    pub(super) owned: i64,
    pub(super) granted: i64,
}

/// How far the shared part is.
enum Shared {
    Gone,
    Held(String),
    /// Its database can go.
    Free,
}

impl Server {
    /// What there is to remove now.
    pub async fn sight(&self, subject: &Subject<Wants>) -> Result<Sight, BackendError> {
        retried(|| self.look_for_ids(subject)).await
    }

    async fn look_for_ids(&self, subject: &Subject<Wants>) -> Result<Sight, Failure> {
        let query = Catalog::query(subject)?;
        let (work, rows) = self.hold().await.start("looking", query).await?;
        let catalog = Catalog::of_rows(&work.session, &rows)?;
        work.keep();
        let roles = catalog.roles.into_iter();
        Ok(Sight(roles.map(|(name, role)| (name, role.id)).collect()))
    }

    /// Ends both logins and, with the last service of a cluster id, drops database and roles. What is
    /// not ours is passed over: nothing of ours is left there. What was not seen before the decision is
    /// refused: it was made since, for somebody who is new (C5).
    pub async fn remove(
        &self,
        subject: &Subject<Wants>,
        with_shared: bool,
        sight: &Sight,
    ) -> Result<Removal, BackendError> {
        let quoted = Quoted::of(subject)?;
        for slot in Slot::ALL {
            match self.end_login(subject, slot, sight).await {
                Ok(()) | Err(BackendError::Foreign { .. }) => {}
                Err(BackendError::Refused { problem, what, .. })
                    if problem.starts_with("2BP01") =>
                {
                    return Ok(Removal::Held(format!("{what}: {problem}")));
                }
                Err(error) => return Err(error),
            }
        }
        if !with_shared {
            return Ok(Removal::Done);
        }
        match retried(|| self.look_at_shared(subject, sight)).await? {
            Shared::Gone => return Ok(Removal::Done),
            Shared::Held(why) => return Ok(Removal::Held(why)),
            Shared::Free => {}
        }
        if let Some(why) = retried(|| self.drop_database(subject, &quoted, sight)).await? {
            return Ok(Removal::Held(why));
        }
        retried(|| self.drop_shared(subject, sight)).await
    }

    async fn look_at_shared(
        &self,
        subject: &Subject<Wants>,
        sight: &Sight,
    ) -> Result<Shared, Failure> {
        let query = Catalog::query(subject)?;
        let (mut work, rows) = self.hold().await.start("looking", query).await?;
        let catalog = Catalog::of_rows(&work.session, &rows)?;
        let ids = self.ours(subject, &catalog, sight)?;
        if ids.is_empty() {
            work.keep();
            return Ok(Shared::Gone);
        }
        let database = catalog
            .database
            .as_ref()
            .filter(|found| found.owner == subject.names.owner());
        let database = database.map(|found| found.id);
        let members = self.members(&mut work.session, &ids).await?;
        let mut holds = self.holds_beside(&mut work.session, &ids, database).await?;
        work.keep();
        holds.retain(|hold| Some(hold.database_id) != database);
        Ok(if !members.is_empty() {
            Shared::Held(format!(
                "{} is still granted to {members}",
                subject.names.owner()
            ))
        } else if holds.is_empty() {
            Shared::Free
        } else {
            Shared::Held(said(&subject.names.owner(), &holds))
        })
    }

    /// Under the session's lock, after the same look (C5); what holds it, if anything does.
    async fn drop_database(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
        sight: &Sight,
    ) -> Result<Option<String>, Failure> {
        let mut work = self.lock(&subject.names.owner()).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        let name = subject.wants.database(&subject.names);
        let is_ours = !self.ours(subject, &catalog, sight)?.is_empty();
        let database = catalog
            .database
            .filter(|found| is_ours && found.owner == subject.names.owner());
        if database.is_none() {
            work.unlock().await?;
            return Ok(None);
        }
        // Not WITH (FORCE): it refuses a non-superuser while an autovacuum worker is in the database,
        // which a plain DROP ends by itself.
        let closing = Sql::new(
            "ALTER DATABASE {} ALLOW_CONNECTIONS false",
            &[&quoted.database],
        );
        let ending = Sql::new(
            "SELECT pg_terminate_backend(a.pid, 1000) AS is_gone FROM pg_stat_activity a \
             WHERE a.datname = {} AND a.backend_type = 'client backend'",
            &[&quote::text("database", &name)?],
        );
        let dropping = Sql::new("DROP DATABASE IF EXISTS {}", &[&quoted.database]);
        for (what, sql) in [
            ("closing the database", closing),
            ("ending the sessions in the database", ending),
            ("dropping the database", dropping),
        ] {
            match work.session.run_long(what, sql).await {
                Ok(()) => {}
                Err(failure) if failure.has_code(&["3D000"]) => break,
                // Sessions that only others may end, a replication slot, a prepared transaction.
                Err(failure) if failure.has_code(&["55006", "42501"]) => {
                    let admin = quote::name("admin", &self.admin.username)?;
                    let failure =
                        failure.with_remedy(format!("GRANT pg_signal_backend TO {admin}"));
                    work.unlock().await?;
                    return Ok(Some(format!("database {name}: {}", failure.into_error())));
                }
                Err(failure) => return Err(failure),
            }
        }
        work.unlock().await?;
        Ok(None)
    }

    async fn drop_shared(
        &self,
        subject: &Subject<Wants>,
        sight: &Sight,
    ) -> Result<Removal, Failure> {
        let owner = subject.names.owner();
        let mut work = self.begin(&owner).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        let ids = self.ours(subject, &catalog, sight)?;
        let members = self.members(&mut work.session, &ids).await?;
        let holds = self.holds(&mut work.session, &ids).await?;
        if !members.is_empty() || !holds.is_empty() {
            work.roll_back().await?;
            return Ok(Removal::Held(said(&owner, &holds)));
        }
        let mut sql = Sql::new("", &[]);
        for name in shared_roles(&subject.names).iter().rev() {
            if catalog
                .roles
                .get(name)
                .is_some_and(|role| ids.contains(&role.id))
            {
                sql.push("DROP ROLE {};", &[&quote::name("clusterId", name)?]);
            }
        }
        self.change(work, "dropping the owner role", sql).await?;
        Ok(Removal::Done)
    }

    /// What depends on these roles.
    pub(super) async fn holds(
        &self,
        session: &mut Session,
        ids: &[i64],
    ) -> Result<Vec<Holding>, Failure> {
        self.holds_beside(session, ids, None).await
    }

    async fn holds_beside(
        &self,
        session: &mut Session,
        ids: &[i64],
        database: Option<i64>,
    ) -> Result<Vec<Holding>, Failure> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let sql = Sql::new(HOLDS, &[&numbers(ids), &database.unwrap_or(0)]);
        let rows = session.rows("looking for what holds a role", sql).await?;
        let holding = |row| {
            Ok(Holding {
                database_id: session.column(Some(row), "id")?,
                database: session.column(Some(row), "name")?,
                owned: session.column(Some(row), "owned")?,
                granted: session.column(Some(row), "granted")?,
            })
        };
        rows.iter().map(holding).collect()
    }

    async fn members(&self, session: &mut Session, ids: &[i64]) -> Result<String, Failure> {
        if ids.is_empty() {
            return Ok(String::new());
        }
        let sql = Sql::new(MEMBERS, &[&numbers(ids), &numbers(ids)]);
        let rows = session.rows("looking for members", sql).await?;
        let names: Result<Vec<String>, Failure> = rows
            .iter()
            .map(|row| session.column(Some(row), "name"))
            .collect();
        Ok(names?.join(", "))
    }

    /// Ids of the shared roles that are ours; one that was not seen is somebody's who is new.
    fn ours(
        &self,
        subject: &Subject<Wants>,
        catalog: &Catalog,
        sight: &Sight,
    ) -> Result<Vec<i64>, BackendError> {
        let mut ids = Vec::new();
        for name in shared_roles(&subject.names) {
            let Some(role) = catalog.roles.get(&name) else {
                continue;
            };
            let whose = mark::read_shared(&subject.names, &role.comment);
            if matches!(whose, Whose::Ours(..)) {
                self.refuse_unseen(sight, "role", &name, role.id)?;
                ids.push(role.id);
            }
        }
        Ok(ids)
    }

    pub(super) fn held(&self, role: &str, holds: &[Holding]) -> BackendError {
        BackendError::Refused {
            server: self.endpoint.to_string(),
            what: format!("dropping the login {role}"),
            problem: format!("2BP01: {}", said(role, holds)),
        }
    }
}

fn numbers(ids: &[i64]) -> Sql {
    let mut sql = Sql::new("", &[]);
    for (index, id) in ids.iter().enumerate() {
        sql.push(if index == 0 { "{}" } else { ", {}" }, &[id]);
    }
    sql
}

fn said(role: &str, holds: &[Holding]) -> String {
    let each = |hold: &Holding| {
        format!(
            "{}: owner of {} objects, {} grants",
            hold.database, hold.owned, hold.granted
        )
    };
    let all: Vec<_> = holds.iter().map(each).collect();
    format!(
        "{role} is held in other places ({}); there, as a superuser: REASSIGN OWNED or DROP OWNED",
        all.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_role_is_said_with_its_database_and_counts() {
        let hold = Holding {
            database_id: 5,
            database: "other".to_owned(),
            owned: 2,
            granted: 1,
        };
        let said = said("lh_x", &[hold]);
        assert!(said.contains("lh_x") && said.contains("other: owner of 2 objects, 1 grants"));
    }

    #[test]
    fn a_list_of_ids_is_one_piece_of_sql() {
        assert_eq!(numbers(&[1, 2]).into_text(), "1, 2");
    }
}
