//! Whether a server can serve at all, and what would help if not.

use sqlx::postgres::PgRow;

use super::Server;
use super::quote::{self, Sql};
use super::session::{Failure, Session};
use crate::backend::{BackendError, Finding};

/// Versions that are tested.
const VERSIONS: std::ops::RangeInclusive<i32> = 15..=18;

const LOOK: &str = "SELECT current_setting('server_version') AS version, current_user::text AS user, \
     pg_is_in_recovery() AS is_standby, current_setting('transaction_read_only')::bool AS is_read_only, \
     r.rolsuper, r.rolcreaterole, r.rolcreatedb, r.rolinherit, \
     EXISTS (SELECT FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a \
       WHERE d.datname = current_database() AND a.grantee = 0 AND a.privilege_type = 'CONNECT') AS is_open \
     FROM pg_roles r WHERE r.rolname = current_user";

impl Server {
    /// Looks at the server and the admin's rights; changes nothing.
    pub async fn preflight(&self) -> Vec<Finding> {
        match self.look_at_server().await {
            Ok(findings) => findings,
            Err(failure) => self.not_reachable(&failure.into_error()),
        }
    }

    async fn look_at_server(&self) -> Result<Vec<Finding>, Failure> {
        let hold = self.hold().await;
        let (work, rows) = hold
            .start("looking at the server", Sql::new(LOOK, &[]))
            .await?;
        let findings = self.findings(&work.session, rows.first());
        work.keep();
        findings
    }

    fn findings(&self, session: &Session, row: Option<&PgRow>) -> Result<Vec<Finding>, Failure> {
        let is = |column: &str| session.column::<bool>(row, column);
        let user: String = session.column(row, "user")?;
        let version: String = session.column(row, "version")?;
        let mut findings = vec![
            met(
                "Reachable",
                "LoggedIn",
                format!("{} answers as {user}", session.server()),
            ),
            self.tls(),
            of_version(session.version, &version),
        ];
        findings.push(if is("is_standby")? {
            let help = "point the class at the primary";
            unmet(
                "Writable",
                "Standby",
                format!("{} is a standby; {help}", session.server()),
            )
        } else if is("is_read_only")? {
            let help = format!(
                "ALTER ROLE {} RESET default_transaction_read_only, or the same ALTER SYSTEM",
                quote::name("admin", &user)?
            );
            unmet(
                "Writable",
                "ReadOnly",
                format!("transactions are read-only; {help}"),
            )
        } else {
            met(
                "Writable",
                "Primary",
                format!("{} takes writes", session.server()),
            )
        });
        let mut missing = Vec::new();
        for (column, right) in [
            ("rolcreaterole", "CREATEROLE"),
            ("rolcreatedb", "CREATEDB"),
            ("rolinherit", "INHERIT"),
        ] {
            if !is(column)? {
                missing.push(right);
            }
        }
        let role = quote::name("admin", &user)?;
        let note = if is("is_open")? {
            "; every login of the server may connect to this database and read its catalogues, unless: \
             REVOKE CONNECT ON DATABASE … FROM PUBLIC"
        } else {
            ""
        };
        findings.push(if is("rolsuper")? {
            let help = format!("a role with only CREATEROLE and CREATEDB would do{note}");
            met(
                "AdminRights",
                "Superuser",
                format!("{user} is a superuser; {help}"),
            )
        } else if missing.is_empty() {
            met(
                "AdminRights",
                "Sufficient",
                format!("{user} has CREATEROLE and CREATEDB{note}"),
            )
        } else {
            let statement = format!("ALTER ROLE {role} {}", missing.join(" "));
            unmet(
                "AdminRights",
                "RightsMissing",
                format!("run as a superuser: {statement}"),
            )
        });
        Ok(findings)
    }

    fn tls(&self) -> Finding {
        let mode = self.endpoint.tls.mode;
        if mode.is_verified() {
            met(
                "TlsVerified",
                "Verified",
                format!("sslmode={}", mode.as_str()),
            )
        } else {
            let problem =
                "anybody on the way can read the admin's password or pretend to be the server";
            unmet(
                "TlsVerified",
                "NotVerified",
                format!("sslmode={}: {problem}", mode.as_str()),
            )
        }
    }

    fn not_reachable(&self, error: &BackendError) -> Vec<Finding> {
        let problem = error.to_string();
        let is_of_tls = problem.contains("certificate") || problem.contains("TLS");
        let (reason, reached) = match error {
            BackendError::LoginRefused { .. } => ("LoginRefused", true),
            BackendError::Refused { .. } if problem.contains("53300") => {
                ("TooManyConnections", true)
            }
            BackendError::Refused { .. } => ("Refused", true),
            _ if is_of_tls => ("TlsFailed", true),
            _ => ("Unreachable", false),
        };
        let mut findings = vec![unmet("Reachable", reason, problem.clone())];
        if reached && is_of_tls && self.endpoint.tls.mode.is_verified() {
            findings.push(unmet("TlsVerified", "Refused", problem));
        } else {
            findings.push(unknown("TlsVerified"));
        }
        findings.extend(["VersionSupported", "Writable", "AdminRights"].map(unknown));
        findings
    }
}

fn of_version(number: i32, version: &str) -> Finding {
    let major = number / 10_000;
    let tested = format!("{} to {} are tested", VERSIONS.start(), VERSIONS.end());
    if major < *VERSIONS.start() {
        unmet(
            "VersionSupported",
            "TooOld",
            format!("version {version}; {tested}"),
        )
    } else if major > *VERSIONS.end() {
        met(
            "VersionSupported",
            "Untested",
            format!("version {version}; {tested}"),
        )
    } else {
        met(
            "VersionSupported",
            "Supported",
            format!("version {version}"),
        )
    }
}

fn met(condition: &'static str, reason: &'static str, message: String) -> Finding {
    Finding {
        condition,
        is_met: Some(true),
        reason,
        message,
    }
}

fn unmet(condition: &'static str, reason: &'static str, message: String) -> Finding {
    Finding {
        condition,
        is_met: Some(false),
        reason,
        message,
    }
}

fn unknown(condition: &'static str) -> Finding {
    Finding {
        condition,
        is_met: None,
        reason: "NotFoundOut",
        message: "the server could not be asked".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_refused_and_new_ones_noted() {
        let found = |number| of_version(number, "x").reason;
        assert_eq!(
            [
                found(140_009),
                found(150_018),
                found(180_006),
                found(190_000)
            ],
            ["TooOld", "Supported", "Supported", "Untested"]
        );
    }
}
