//! The two logins of a service: set, and tried.

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
            patience: self.patience,
        };
        let mut session = Session::open_plain(&way).await?;
        let is_owner = wants.privileges == Privileges::Owner;
        let right = if is_owner { "CREATE" } else { "USAGE" };
        let role = quote::text("clusterId", &wants.role(names))?;
        let sql = Sql::new(
            "SELECT current_user::text AS role, \
             pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS is_read_only, \
             has_schema_privilege({}, {}, {}) AS may",
            &[
                &role,
                &quote::text("schema", wants.schema())?,
                &quote::text("privileges", right)?,
            ],
        );
        let what = format!("looking at what {login} may do");
        let rows = session.rows(&what, sql).await?;
        let row = rows.first();
        let role: String = session.column(row, "role")?;
        let is_right_role = role == wants.role(names);
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

    /// Generation and fingerprint of a login that is ours.
    pub(super) fn password_of(
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

    pub(super) fn newer(&self, login: &str, found: u64, ours: u64) -> BackendError {
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
