//! The shared part of a service: owner role, group role, database.

use super::catalog::{Catalog, Quoted};
use super::mark::{self, Whose};
use super::quote::{self, Sql, Token};
use super::session::{Failure, Session};
use super::transaction::{Work, retried};
use super::{Server, Wants};
use crate::backend::Slot;
use crate::backend::{BackendError, ServerState, SharedState, Subject};

impl Server {
    /// What the server shows of a service: one message, and one more into its database if there is
    /// anything of ours in it.
    pub async fn look(&self, subject: &Subject<Wants>) -> Result<ServerState, BackendError> {
        Quoted::of(subject)?;
        self.look_at(subject).await.map_err(Failure::into_error)
    }

    async fn look_at(&self, subject: &Subject<Wants>) -> Result<ServerState, Failure> {
        let query = Catalog::query(subject)?;
        let (work, rows) = self.hold().await.start("looking", query).await?;
        let catalog = Catalog::of_rows(&work.session, &rows)?;
        work.keep();
        let mut shared = judge(subject, &catalog);
        if shared == SharedState::InShape && subject.wants.reach_inside() {
            shared = match self.look_inside(subject).await {
                Ok(inside) => match inside.foreign(subject) {
                    Some(owner) => {
                        SharedState::Foreign(format!("schema {}: {owner}", subject.wants.schema()))
                    }
                    None if inside.is_in_shape() => SharedState::InShape,
                    None => SharedState::Drifted,
                },
                Err(failure) if failure.has_code(&["3D000"]) => SharedState::Drifted, // dropped meanwhile
                Err(failure) => return Err(failure),
            };
        }
        Ok(ServerState {
            shared,
            logins: Slot::ALL.map(|slot| catalog.login(&subject.names, slot)),
        })
    }

    /// Makes or repairs the owner role, the database and, if wanted, the group role and the schema.
    pub async fn provision(&self, subject: &Subject<Wants>) -> Result<(), BackendError> {
        let quoted = Quoted::of(subject)?;
        // First the roles, then the database that needs one, then the rights on it.
        if !retried(|| self.repair_shared(subject, &quoted)).await? {
            retried(|| self.create_database(subject, &quoted)).await?;
            retried(|| self.repair_shared(subject, &quoted)).await?;
        }
        if subject.wants.reach_inside() {
            retried(|| self.provision_inside(subject, &quoted)).await?;
        }
        Ok(())
    }

    /// One transaction; false if there is no database yet.
    async fn repair_shared(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
    ) -> Result<bool, Failure> {
        let mut work = self.begin(&subject.names.owner()).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        refuse_foreign(&work.session, subject, &catalog)?;
        let mark = quote::text("clusterId", &subject.names.shared_mark())?;
        let mut sql = Sql::new("", &[]);
        for (name, token) in wanted_roles(subject, quoted) {
            match catalog.roles.get(&name) {
                None => {
                    sql.push("CREATE ROLE {} NOLOGIN;", &[token]);
                    sql.push("COMMENT ON ROLE {} IS {};", &[token, &mark]);
                    if !catalog.is_superuser {
                        join(&mut sql, &work.session, token);
                    }
                }
                Some(role) => {
                    if role.logs_in {
                        sql.push("ALTER ROLE {} NOLOGIN;", &[token]);
                    }
                    take_excess(&mut sql, token, &role.excess);
                    if !role.is_reachable {
                        join(&mut sql, &work.session, token);
                    }
                }
            }
        }
        if let Some(found) = &catalog.database
            && (!found.has_shape || found.comment != subject.names.shared_mark())
        {
            let Quoted {
                owner,
                role,
                database,
                ..
            } = quoted;
            sql.push("ALTER DATABASE {} ALLOW_CONNECTIONS true;", &[database]);
            sql.push("REVOKE ALL ON DATABASE {} FROM PUBLIC;", &[database]);
            sql.push("GRANT ALL ON DATABASE {} TO {};", &[database, owner]);
            if role != owner {
                sql.push(
                    "GRANT CONNECT, TEMPORARY ON DATABASE {} TO {};",
                    &[database, role],
                );
            }
            sql.push("COMMENT ON DATABASE {} IS {};", &[database, &mark]);
        }
        self.change(work, "making the owner role", sql).await?;
        Ok(catalog.database.is_some())
    }

    /// CREATE DATABASE can be in no transaction: the lock is the session's, the check comes after it
    /// (C5). The template is the one that nobody can be connected to.
    async fn create_database(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
    ) -> Result<(), Failure> {
        let mut work = self.lock(&subject.names.owner()).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        refuse_foreign(&work.session, subject, &catalog)?;
        if catalog.database.is_none() {
            let Quoted {
                owner, database, ..
            } = quoted;
            let sql = Sql::new(
                "CREATE DATABASE {} OWNER {} TEMPLATE template0",
                &[database, owner],
            );
            let what = "creating the database";
            match work.session.run_long(what, sql).await {
                Err(failure) if failure.has_code(&["42P04"]) => {} // it is looked at again
                outcome => outcome?,
            }
        }
        work.unlock().await
    }

    /// Runs what a transaction is to change, if anything.
    pub(super) async fn change(
        &self,
        mut work: Work<'_>,
        what: &str,
        sql: Sql,
    ) -> Result<(), Failure> {
        if sql == Sql::new("", &[]) {
            return work.roll_back().await;
        }
        work.session.run(what, sql).await?;
        work.commit().await
    }
}

/// Without a look into the database.
fn judge(subject: &Subject<Wants>, catalog: &Catalog) -> SharedState {
    if let Some((what, owner)) = foreign(subject, catalog) {
        return SharedState::Foreign(format!("{what}: {owner}"));
    }
    let Subject { names, wants } = subject;
    let role_is_in_shape = |name: &String| {
        let role = catalog.roles.get(name);
        role.is_some_and(|role| !role.logs_in && role.excess.is_empty() && role.is_reachable)
    };
    let database = catalog.database.as_ref();
    let is_in_shape = role_is_in_shape(&names.owner())
        && role_is_in_shape(&wants.role(names))
        && database
            .is_some_and(|database| database.has_shape && database.comment == names.shared_mark());
    if is_in_shape {
        SharedState::InShape
    } else {
        SharedState::Drifted
    }
}

/// What has a name that we need and is not ours, and whose it is.
fn foreign(subject: &Subject<Wants>, catalog: &Catalog) -> Option<(String, String)> {
    let Subject { names, wants } = subject;
    for name in [names.owner(), wants.role(names)] {
        if let Some(role) = catalog.roles.get(&name)
            && let Whose::Foreign(owner) = mark::read_shared(names, &role.comment)
        {
            return Some((format!("role {name}"), owner));
        }
    }
    let database = catalog.database.as_ref()?;
    let is_foreign = database.owner != names.owner() || !catalog.roles.contains_key(&names.owner());
    is_foreign.then(|| {
        let what = format!("database {}", wants.database(names));
        (what, format!("its owner is {}", database.owner))
    })
}

pub(super) fn refuse_foreign(
    session: &Session,
    subject: &Subject<Wants>,
    catalog: &Catalog,
) -> Result<(), BackendError> {
    match foreign(subject, catalog) {
        None => Ok(()),
        Some((what, owner)) => Err(BackendError::Foreign {
            server: session.server().to_owned(),
            what,
            owner,
        }),
    }
}

fn wanted_roles<'a>(subject: &Subject<Wants>, quoted: &'a Quoted) -> Vec<(String, &'a Token)> {
    let Subject { names, wants } = subject;
    let mut roles = vec![(names.owner(), &quoted.owner)];
    if quoted.role != quoted.owner {
        roles.push((wants.role(names), &quoted.role));
    }
    roles
}

/// The admin joins a role, to make databases for it and to end its sessions. From version 16 on whoever
/// makes a role may grant it, but has none of its rights until then.
pub(super) fn join(sql: &mut Sql, session: &Session, role: &Token) {
    sql.push("GRANT {} TO CURRENT_USER", &[role]);
    sql.push(membership_options(session), &[]);
}

/// What ends a GRANT of a role.
pub(super) fn membership_options(session: &Session) -> &'static str {
    if session.version >= 160_000 {
        " WITH INHERIT TRUE, SET TRUE;"
    } else {
        ";"
    }
}

/// Takes attributes that somebody gave by hand. Only those that are there: to name some of them, even to
/// take them, needs a superuser.
pub(super) fn take_excess(sql: &mut Sql, role: &Token, excess: &str) {
    for letter in excess.chars() {
        let template = match letter {
            's' => "ALTER ROLE {} NOSUPERUSER;",
            'r' => "ALTER ROLE {} NOCREATEROLE;",
            'd' => "ALTER ROLE {} NOCREATEDB;",
            'p' => "ALTER ROLE {} NOREPLICATION;",
            _ => "ALTER ROLE {} NOBYPASSRLS;",
        };
        sql.push(template, &[role]);
    }
}
