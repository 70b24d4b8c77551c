//! The two logins of a service: set, tried, ended.

use std::time::{Duration, Instant};

use crate::backend::Slot;
use secrecy::{ExposeSecret as _, SecretString};

use super::catalog::{Catalog, Quoted, connection_limit};
use super::mark::{self, Whose};
use super::quote::{self, Sql, Token};
use super::session::{Failure, Session, Way};
use super::shared::{join, membership_options, refuse_foreign, take_excess};
use super::transaction::retried;
use super::{Privileges, Server, Wants};
use crate::backend::{BackendError, Subject, Verifier, fingerprint};

/// What a verifier begins with; Postgres would take any other text for a password, and log it.
const SCRAM: &str = "SCRAM-SHA-256$";
/// How long ended sessions may take to go.
const SESSIONS_MAX: Duration = Duration::from_secs(10);

impl Server {
    /// Creates or alters the login whose turn it is with the password of this generation: attributes,
    /// membership, settings and verifier. Refuses if the login has a newer generation, or another
    /// password of the same one (C5).
    pub async fn set_login(
        &self,
        subject: &Subject<Wants>,
        generation: u64,
        verifier: &Verifier,
    ) -> Result<(), BackendError> {
        let quoted = Quoted::of(subject)?;
        retried(|| self.try_set_login(subject, &quoted, generation, verifier)).await
    }

    async fn try_set_login(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
        generation: u64,
        verifier: &Verifier,
    ) -> Result<(), Failure> {
        let slot = Slot::of_generation(generation);
        let name = subject.names.login(slot);
        let password = password(verifier)?;
        let fingerprint = fingerprint(verifier.0.expose_secret());
        let limit = connection_limit(&subject.wants)?;
        let mut work = self.begin(&name).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        refuse_foreign(&work.session, subject, &catalog)?;
        let login = quoted.login(slot);
        let mut sql = Sql::new("", &[]);
        match catalog.roles.get(&name) {
            None => {
                sql.push(
                    "CREATE ROLE {} LOGIN INHERIT CONNECTION LIMIT {} PASSWORD {};",
                    &[login, &limit, &password],
                );
                if !catalog.is_superuser {
                    join(&mut sql, &work.session, login);
                }
            }
            Some(role) => {
                let (found, former) = self.password_of(subject, slot, &role.comment)?;
                if found > generation || found == generation && former != fingerprint {
                    let error = self.newer(&name, found, generation);
                    work.roll_back().await?;
                    return Err(error.into());
                }
                sql.push(
                    "ALTER ROLE {} LOGIN INHERIT CONNECTION LIMIT {} VALID UNTIL 'infinity' PASSWORD {};",
                    &[login, &limit, &password],
                );
                take_excess(&mut sql, login, &role.excess);
                for other in role
                    .other_roles
                    .split(' ')
                    .filter(|other| !other.is_empty())
                {
                    let other = quote::name("clusterId", other)?;
                    sql.push("REVOKE {} FROM {};", &[&other, login]);
                }
                if !role.is_reachable {
                    join(&mut sql, &work.session, login);
                }
            }
        }
        sql.push("GRANT {} TO {}", &[&quoted.role, login]);
        sql.push(membership_options(&work.session), &[]);
        sql.push("ALTER ROLE {} SET role = {};", &[login, &quoted.role]);
        sql.push(
            "ALTER ROLE {} SET search_path = {};",
            &[login, &quoted.schema],
        );
        let mark = mark::of_login(&subject.names, generation, &fingerprint);
        let mark = quote::text("name", &mark)?;
        sql.push("COMMENT ON ROLE {} IS {};", &[login, &mark]);
        let what = format!("setting the login {name}");
        self.change(work, &what, sql).await.map_err(|failure| {
            let (user, version) = (&self.admin.username, "16");
            failure.with_remedy(format!(
                "ALTER ROLE {user} CREATEROLE; from version {version} on, if another role made {name}: \
                 GRANT {login}, {} TO {user} WITH ADMIN OPTION",
                quoted.role
            ))
        })
    }

    /// Logs in as the service would, at the class's endpoint, and looks at what it may do there. Nothing
    /// is written.
    pub async fn verify(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        password: &SecretString,
    ) -> Result<(), BackendError> {
        Quoted::of(subject)?;
        self.try_login(subject, slot, password)
            .await
            .map_err(Failure::into_error)
    }

    async fn try_login(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        password: &SecretString,
    ) -> Result<(), Failure> {
        let Subject { names, wants } = subject;
        let _turn = self.logins.acquire().await;
        let login = names.login(slot);
        let database = wants.database(names);
        let way = Way {
            endpoint: &self.endpoint,
            user: &login,
            password,
            database: &database,
        };
        let mut session = Session::open_plain(&way).await?;
        let is_owner = wants.privileges == Privileges::Owner;
        let right = if is_owner { "CREATE" } else { "USAGE" };
        let role = quote::text("clusterId", &wants.role(names))?;
        let sql = Sql::new(
            "SELECT current_user::text AS role, pg_has_role({}, 'MEMBER') AS is_member, \
             pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS is_read_only, \
             has_schema_privilege({}, {}, {}) AS may",
            &[
                &role,
                &role,
                &quote::text("schema", wants.schema())?,
                &quote::text("privileges", right)?,
            ],
        );
        let what = format!("looking at what {login} may do");
        let rows = session.rows(&what, sql).await?;
        let row = rows.first();
        let role: String = session.column(row, "role")?;
        let is_member: bool = session.column(row, "is_member")?;
        // A pooler that clears its sessions also forgets whose they are.
        let is_right_role =
            role == wants.role(names) || self.endpoint.pooled && role == login && is_member;
        let writes = wants.privileges != Privileges::ReadOnly;
        let problem = if !is_right_role {
            Some(format!(
                "its sessions are {role}, not {}",
                wants.role(names)
            ))
        } else if !session.column::<bool>(row, "may")? {
            Some(format!(
                "{role} has no {right} on schema {}",
                wants.schema()
            ))
        } else if writes && session.column::<bool>(row, "is_read_only")? {
            Some("25006: the server is read-only, a standby for example".to_owned())
        } else {
            None
        };
        session.close().await;
        match problem {
            None => Ok(()),
            Some(problem) => Err(BackendError::Refused {
                server: self.endpoint.to_string(),
                what: format!("the login of {login}"),
                problem,
            }
            .into()),
        }
    }

    /// Ends a login whatever its generation is: the end of a service.
    pub async fn end_login(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
    ) -> Result<(), BackendError> {
        self.end(subject, slot, None).await
    }

    /// Ends the login of a generation that was replaced. Refuses if the login has a newer one: whoever
    /// stood still since would lock the service out (C5).
    pub async fn end_generation(
        &self,
        subject: &Subject<Wants>,
        generation: u64,
    ) -> Result<(), BackendError> {
        self.end(subject, Slot::of_generation(generation), Some(generation))
            .await
    }

    async fn end(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        generation: Option<u64>,
    ) -> Result<(), BackendError> {
        let quoted = Quoted::of(subject)?;
        if !retried(|| self.disable(subject, &quoted, slot, generation)).await? {
            return Ok(());
        }
        let name = subject.names.login(slot);
        self.end_sessions(&name)
            .await
            .map_err(Failure::into_error)?;
        retried(|| self.give_up(subject, &quoted, slot)).await?;
        retried(|| self.drop_login(subject, &quoted, slot, generation)).await
    }

    /// No new sessions; false if there is no such login.
    async fn disable(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
        slot: Slot,
        generation: Option<u64>,
    ) -> Result<bool, Failure> {
        let name = subject.names.login(slot);
        let mut work = self.begin(&name).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        let Some(role) = catalog.roles.get(&name) else {
            work.roll_back().await?;
            return Ok(false);
        };
        self.refuse_newer(subject, slot, &role.comment, generation)?;
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

    /// What the login made while it was not the owner (after SET ROLE NONE, or behind a pooler that
    /// clears its sessions) goes to the owner; what it was granted goes.
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
        let mut session = Session::open(&self.way(place)).await?;
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
        generation: Option<u64>,
    ) -> Result<(), Failure> {
        let name = subject.names.login(slot);
        let mut work = self.begin(&name).await?;
        let catalog = Catalog::read(&mut work.session, subject).await?;
        let Some(role) = catalog.roles.get(&name) else {
            return work.roll_back().await;
        };
        self.refuse_newer(subject, slot, &role.comment, generation)?;
        let holds = self.holds(&mut work.session, &[role.id]).await?;
        if !holds.is_empty() {
            work.roll_back().await?;
            return Err(self.held(&name, &holds).into());
        }
        let sql = Sql::new("DROP ROLE {}", &[quoted.login(slot)]);
        let what = format!("dropping the login {name}");
        self.change(work, &what, sql).await
    }

    /// Generation and fingerprint of a login that is ours.
    fn password_of(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        comment: &str,
    ) -> Result<(u64, String), BackendError> {
        match mark::read_login(&subject.names, comment) {
            Whose::Ours(generation, fingerprint) => Ok((generation, fingerprint)),
            Whose::Foreign(owner) => Err(BackendError::Foreign {
                server: self.endpoint.to_string(),
                what: format!("role {}", subject.names.login(slot)),
                owner,
            }),
        }
    }

    fn refuse_newer(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        comment: &str,
        generation: Option<u64>,
    ) -> Result<(), BackendError> {
        let (found, _) = self.password_of(subject, slot, comment)?;
        match generation {
            Some(ours) if found > ours => Err(self.newer(&subject.names.login(slot), found, ours)),
            _ => Ok(()),
        }
    }

    fn newer(&self, login: &str, found: u64, ours: u64) -> BackendError {
        BackendError::Newer {
            server: self.endpoint.to_string(),
            login: login.to_owned(),
            found,
            ours,
        }
    }
}

/// A verifier, and nothing that Postgres could take for a password.
fn password(verifier: &Verifier) -> Result<Token, BackendError> {
    let text = verifier.0.expose_secret();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-$:+/=".contains(letter);
    if !text.starts_with(SCRAM) || !text.chars().all(is_plain) {
        return Err(BackendError::Invalid {
            field: "verifier",
            problem: format!(
                "it does not begin with {SCRAM}, or holds letters that no verifier has"
            ),
        });
    }
    quote::text("verifier", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_taken_for_a_verifier() {
        let verifier = |text: &str| password(&Verifier(text.to_owned().into()));
        assert!(verifier("SCRAM-SHA-256$4096:c2FsdA==$a+/=:b").is_ok());
        for bad in ["secret", "SCRAM-SHA-256$'; DROP", "md5abc", ""] {
            let error = verifier(bad).err().expect("it is refused").to_string();
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
    }
}
