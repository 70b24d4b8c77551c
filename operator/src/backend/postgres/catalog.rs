//! What the server's catalogues say of one service: one message, whatever is looked for.

use std::collections::BTreeMap;

use crate::backend::Slot;
use sqlx::postgres::PgRow;

use super::mark::{self, Whose};
use super::quote::{self, Sql, Token};
use super::session::{Failure, Session};
use super::{Wants, shared_roles};
use crate::backend::{BackendError, LoginState, Subject};
use crate::credential::names::Names;

/// Every role that may have one of our names. Before version 16 a membership has no options.
const ROLES: &str = "SELECT 'role' AS kind, r.rolname::text AS name, r.oid::int8 AS id, \
     coalesce(shobj_description(r.oid, 'pg_authid'), '') AS comment, r.rolcanlogin AS logs_in, \
     r.rolinherit AND (r.rolvaliduntil IS NULL OR r.rolvaliduntil = 'infinity') AND r.rolconnlimit = {} \
       AND coalesce(r.rolconfig @> ARRAY['role=' || {}, 'search_path=' || quote_ident({})], false) \
       AND EXISTS (SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid \
         WHERE m.member = r.oid AND g.rolname = {} \
         AND coalesce((to_jsonb(m) ->> 'inherit_option')::bool, true) \
         AND coalesce((to_jsonb(m) ->> 'set_option')::bool, true)) AS has_shape, \
     coalesce((SELECT string_agg(DISTINCT g.rolname::text, ' ') FROM pg_auth_members m \
       JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid \
       AND g.rolname IN ({}) AND g.rolname <> {}), '') AS other_roles, \
     concat(CASE WHEN r.rolsuper THEN 's' END, CASE WHEN r.rolcreaterole THEN 'r' END, \
       CASE WHEN r.rolcreatedb THEN 'd' END, CASE WHEN r.rolreplication THEN 'p' END, \
       CASE WHEN r.rolbypassrls THEN 'b' END) AS excess, \
     pg_has_role(r.oid, 'USAGE') AS is_reachable, \
     (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid = r.oid) AS sessions \
     FROM pg_roles r WHERE r.rolname IN ({});";

const DATABASE: &str = " SELECT 'database' AS kind, d.oid::int8 AS id, o.rolname::text AS owner, \
     d.datallowconn AND EXISTS (SELECT FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a \
         JOIN pg_roles g ON g.oid = a.grantee WHERE g.rolname = {} AND a.privilege_type = 'CONNECT') \
       AND NOT EXISTS (SELECT FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a \
         WHERE a.grantee = 0) AS has_shape, \
     coalesce(shobj_description(d.oid, 'pg_database'), '') AS comment \
     FROM pg_database d JOIN pg_roles o ON o.oid = d.datdba WHERE d.datname = {};";

const ADMIN: &str =
    " SELECT 'admin' AS kind, current_setting('is_superuser') = 'on' AS is_superuser";

/// The names of one service, quoted.
pub(super) struct Quoted {
    pub(super) owner: Token,
    pub(super) role: Token,
    pub(super) database: Token,
    pub(super) schema: Token,
    pub(super) logins: [Token; 2],
}

/// A role as the server shows it.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) id: i64,
    pub(super) comment: String,
    pub(super) logs_in: bool,
    /// Of a login: settings, limit and membership are as wanted.
    pub(super) has_shape: bool,
    /// Roles of ours that it is a member of and should not be.
    pub(super) other_roles: String,
    /// Attributes that none of ours has, one letter each.
    pub(super) excess: String,
    /// The admin has its rights, and so may end its sessions and what it was granted.
    pub(super) is_reachable: bool,
    pub(super) sessions: i64,
}

/// A database as the server shows it.
#[derive(Clone, Debug)]
pub(super) struct Database {
    pub(super) id: i64,
    pub(super) owner: String,
    /// Closed to PUBLIC and open to the role that is wanted.
    pub(super) has_shape: bool,
    pub(super) comment: String,
}

/// All of one service that can be seen without entering its database.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) roles: BTreeMap<String, Role>,
    pub(super) database: Option<Database>,
    pub(super) is_superuser: bool,
}

impl Quoted {
    /// Refuses what no server could hold, and what is not a tenant's to name.
    pub(super) fn of(subject: &Subject<Wants>) -> Result<Self, BackendError> {
        let Subject { names, wants } = subject;
        let owner = names.owner();
        if let Some(database) = wants.database.as_deref().filter(|given| **given != *owner) {
            super::may_name("database", database)?;
        }
        if let Some(schema) = wants.schema.as_deref().filter(|given| *given != "public") {
            super::may_name("schema", schema)?;
        }
        let login = |slot| quote::name("name", &names.login(slot));
        Ok(Self {
            owner: quote::name("clusterId", &owner)?,
            role: quote::name("clusterId", &wants.role(names))?,
            database: quote::name("database", &wants.database(names))?,
            schema: quote::name("schema", wants.schema())?,
            logins: [login(Slot::A)?, login(Slot::B)?],
        })
    }

    pub(super) fn login(&self, slot: Slot) -> &Token {
        let [a, b] = &self.logins;
        match slot {
            Slot::A => a,
            Slot::B => b,
        }
    }
}

impl Catalog {
    /// The statements whose rows [`Catalog::of_rows`] understands.
    pub(super) fn query(subject: &Subject<Wants>) -> Result<Sql, BackendError> {
        let Subject { names, wants } = subject;
        let shared = texts(shared_roles(names))?;
        let role = quote::text("clusterId", &wants.role(names))?;
        let mut all = shared.clone();
        all.extend(texts(Slot::ALL.map(|slot| names.login(slot)))?);
        let schema = quote::text("schema", wants.schema())?;
        let database = quote::text("database", &wants.database(names))?;
        let limit = connection_limit(wants)?;
        let mut sql = Sql::new(
            ROLES,
            &[
                &limit,
                &role,
                &schema,
                &role,
                &Sql::list(&shared),
                &role,
                &Sql::list(&all),
            ],
        );
        sql.push(DATABASE, &[&role, &database]);
        sql.push(ADMIN, &[]);
        Ok(sql)
    }

    /// Asks.
    pub(super) async fn read(
        session: &mut Session,
        subject: &Subject<Wants>,
    ) -> Result<Self, Failure> {
        let rows = session.rows("looking", Self::query(subject)?).await?;
        Self::of_rows(session, &rows)
    }

    pub(super) fn of_rows(session: &Session, rows: &[PgRow]) -> Result<Self, Failure> {
        let mut catalog = Self {
            roles: BTreeMap::new(),
            database: None,
            is_superuser: false,
        };
        for row in rows {
            let row = Some(row);
            match session.column::<String>(row, "kind")?.as_str() {
                "role" => {
                    let role = Role {
                        id: session.column(row, "id")?,
                        comment: session.column(row, "comment")?,
                        logs_in: session.column(row, "logs_in")?,
                        has_shape: session.column(row, "has_shape")?,
                        other_roles: session.column(row, "other_roles")?,
                        excess: session.column(row, "excess")?,
                        is_reachable: session.column(row, "is_reachable")?,
                        sessions: session.column(row, "sessions")?,
                    };
                    catalog.roles.insert(session.column(row, "name")?, role);
                }
                "database" => {
                    catalog.database = Some(Database {
                        id: session.column(row, "id")?,
                        owner: session.column(row, "owner")?,
                        has_shape: session.column(row, "has_shape")?,
                        comment: session.column(row, "comment")?,
                    });
                }
                _ => catalog.is_superuser = session.column(row, "is_superuser")?,
            }
        }
        Ok(catalog)
    }

    /// A login as the rotation sees it.
    pub(super) fn login(&self, names: &Names, slot: Slot) -> LoginState {
        let Some(role) = self.roles.get(&names.login(slot)) else {
            return LoginState::Absent;
        };
        match mark::read_login(names, &role.comment) {
            Whose::Foreign(who) => LoginState::Foreign(who),
            Whose::Ours(generation, fingerprint) => LoginState::Ours {
                generation,
                fingerprint,
                is_in_shape: role.logs_in
                    && role.has_shape
                    && role.other_roles.is_empty()
                    && role.excess.is_empty()
                    && role.is_reachable,
                sessions: u64::try_from(role.sessions).unwrap_or_default(),
            },
        }
    }
}

/// As Postgres counts: -1 is no limit.
pub(super) fn connection_limit(wants: &Wants) -> Result<i32, BackendError> {
    let Some(limit) = wants.connection_limit else {
        return Ok(-1);
    };
    i32::try_from(limit).map_err(|_| BackendError::Invalid {
        field: "connectionLimit",
        problem: format!("{limit}; at most {} is allowed", i32::MAX),
    })
}

fn texts(names: impl IntoIterator<Item = String>) -> Result<Vec<Token>, BackendError> {
    let names = names.into_iter();
    names.map(|name| quote::text("name", &name)).collect()
}
