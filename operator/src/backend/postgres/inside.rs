//! What is inside the database of a service: its schema, and what the group roles may do with what the
//! owner makes. The owner may change all of it; what it took from a group role is granted again.

use sqlx::Row as _;

use super::catalog::Quoted;
use super::quote::{self, Sql};
use super::session::{Failure, Session};
use super::{Privileges, Server, Wants};
use crate::backend::{BackendError, Subject};
use crate::credential::names::PREFIX;

/// What the schema is, and what a group role lacks; of an owner's service only the first row matters.
const LOOK: &str = "WITH s AS (SELECT n.oid, n.nspowner FROM pg_namespace n WHERE n.nspname = {}), \
     o AS (SELECT oid FROM pg_roles WHERE rolname = {}), g AS (SELECT oid FROM pg_roles WHERE rolname = {}), \
     d AS (SELECT p.defaclobjtype AS kind, a.privilege_type AS right \
       FROM o, g, s, pg_default_acl p, aclexplode(p.defaclacl) a \
       WHERE p.defaclrole = o.oid AND p.defaclnamespace = s.oid AND a.grantee = g.oid) \
     SELECT 'schema' AS what, pg_get_userbyid(s.nspowner)::text AS name FROM s \
     UNION ALL SELECT 'usage', '' FROM s, g WHERE NOT has_schema_privilege(g.oid, s.oid, 'USAGE') \
     UNION ALL SELECT 'defaults', '' WHERE \
       (SELECT count(DISTINCT d.right) FROM d WHERE d.kind = 'r' AND d.right IN ({})) < {} OR \
       (SELECT count(DISTINCT d.right) FROM d WHERE d.kind = 'S' AND d.right IN ({})) < {} \
     UNION ALL (SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname::text \
       FROM s, o, g, pg_class c WHERE c.relnamespace = s.oid AND c.relowner = o.oid AND CASE \
         WHEN c.relkind IN ('r', 'p', 'v', 'm', 'f') THEN EXISTS (SELECT FROM unnest(ARRAY[{}]) p(name) \
           WHERE NOT has_table_privilege(g.oid, c.oid, p.name)) \
         WHEN c.relkind = 'S' THEN EXISTS (SELECT FROM unnest(ARRAY[{}]) p(name) \
           WHERE NOT has_sequence_privilege(g.oid, c.oid, p.name)) \
         ELSE false END LIMIT 1000)";

/// The schema's owner, and what is missing.
pub(super) struct Inside {
    schema_owner: Option<String>,
    lacks: Vec<(String, String)>,
}

/// Rights of a group role on tables and on sequences.
struct Rights {
    tables: &'static str,
    tables_quoted: &'static str,
    tables_count: i32,
    sequences: &'static str,
    sequences_quoted: &'static str,
    sequences_count: i32,
}

const READ: Rights = Rights {
    tables: "SELECT",
    tables_quoted: "'SELECT'",
    tables_count: 1,
    sequences: "SELECT",
    sequences_quoted: "'SELECT'",
    sequences_count: 1,
};

const WRITE: Rights = Rights {
    tables: "SELECT, INSERT, UPDATE, DELETE",
    tables_quoted: "'SELECT', 'INSERT', 'UPDATE', 'DELETE'",
    tables_count: 4,
    sequences: "SELECT, USAGE, UPDATE",
    sequences_quoted: "'SELECT', 'USAGE', 'UPDATE'",
    sequences_count: 3,
};

/// Names that are not for tenants: the server's own, and those that services get without asking.
pub fn may_name(field: &'static str, text: &str) -> Result<(), BackendError> {
    quote::name(field, text)?;
    let is_reserved = [
        "postgres",
        "template0",
        "template1",
        "public",
        "information_schema",
    ]
    .contains(&text)
        || text.starts_with("pg_")
        || text.starts_with(PREFIX);
    if is_reserved {
        return Err(BackendError::Invalid {
            field,
            problem: format!(
                "{text:?} is reserved: not postgres, template0, template1, public, information_schema, pg_… or {PREFIX}…"
            ),
        });
    }
    Ok(())
}

impl Wants {
    /// Whether there is anything of ours inside the database.
    pub(super) fn reach_inside(&self) -> bool {
        self.schema.is_some() || self.privileges != Privileges::Owner
    }
}

impl Inside {
    /// Asks in the service's database.
    pub(super) async fn read(
        session: &mut Session,
        subject: &Subject<Wants>,
    ) -> Result<Self, Failure> {
        let Subject { names, wants } = subject;
        let rights = rights(wants.privileges);
        let sql = Sql::new(
            LOOK,
            &[
                &quote::text("schema", wants.schema())?,
                &quote::text("clusterId", &names.owner())?,
                &quote::text("clusterId", &wants.role(names))?,
                &Sql::new(rights.tables_quoted, &[]),
                &rights.tables_count,
                &Sql::new(rights.sequences_quoted, &[]),
                &rights.sequences_count,
                &Sql::new(rights.tables_quoted, &[]),
                &Sql::new(rights.sequences_quoted, &[]),
            ],
        );
        let rows = session.rows("looking into the database", sql).await?;
        let mut inside = Self {
            schema_owner: None,
            lacks: Vec::new(),
        };
        for row in &rows {
            let (what, name): (String, String) =
                (session.column(Some(row), "what")?, row.get("name"));
            match what.as_str() {
                "schema" => inside.schema_owner = Some(name),
                _ if wants.privileges == Privileges::Owner => {}
                _ => inside.lacks.push((what, name)),
            }
        }
        Ok(inside)
    }

    /// Who else owns the schema.
    pub(super) fn foreign(&self, subject: &Subject<Wants>) -> Option<String> {
        subject
            .wants
            .schema
            .as_deref()
            .filter(|schema| *schema != "public")?;
        let owner = self.schema_owner.as_ref()?;
        (*owner != subject.names.owner()).then(|| format!("its owner is {owner}"))
    }

    pub(super) fn is_in_shape(&self) -> bool {
        self.schema_owner.is_some() && self.lacks.is_empty()
    }

    fn repair(&self, subject: &Subject<Wants>, quoted: &Quoted) -> Result<Sql, BackendError> {
        let Quoted {
            owner,
            role,
            schema,
            ..
        } = quoted;
        let rights = rights(subject.wants.privileges);
        let tables = Sql::new(rights.tables, &[]);
        let sequences = Sql::new(rights.sequences, &[]);
        let mut sql = Sql::new("BEGIN;", &[]);
        if self.schema_owner.is_none() {
            sql.push(
                "CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {};",
                &[schema, owner],
            );
        }
        if subject.wants.privileges != Privileges::Owner {
            sql.push("GRANT USAGE ON SCHEMA {} TO {};", &[schema, role]);
            sql.push(
                "ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} GRANT {} ON TABLES TO {};",
                &[owner, schema, &tables, role],
            );
            sql.push(
                "ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} GRANT {} ON SEQUENCES TO {};",
                &[owner, schema, &sequences, role],
            );
        }
        for (what, name) in &self.lacks {
            let name = || quote::name("a table's name", name);
            match what.as_str() {
                "table" => sql.push(
                    "GRANT {} ON TABLE {}.{} TO {};",
                    &[&tables, schema, &name()?, role],
                ),
                "sequence" => sql.push(
                    "GRANT {} ON SEQUENCE {}.{} TO {};",
                    &[&sequences, schema, &name()?, role],
                ),
                _ => {}
            }
        }
        sql.push("COMMIT", &[]);
        Ok(sql)
    }
}

impl Server {
    /// Looks into the database of a service, on a connection of its own.
    pub(super) async fn look_inside(&self, subject: &Subject<Wants>) -> Result<Inside, Failure> {
        let database = subject.wants.database(&subject.names);
        let mut session = self.enter(&database).await?;
        let inside = Inside::read(&mut session, subject).await?;
        session.close().await;
        Ok(inside)
    }

    /// Makes what is missing in the database of a service.
    pub(super) async fn provision_inside(
        &self,
        subject: &Subject<Wants>,
        quoted: &Quoted,
    ) -> Result<(), Failure> {
        let database = subject.wants.database(&subject.names);
        let mut session = self.enter(&database).await?;
        // A thousand tables at a time.
        for _ in 0..100 {
            let inside = Inside::read(&mut session, subject).await?;
            if let Some(owner) = inside.foreign(subject) {
                return Err(BackendError::Foreign {
                    server: session.server().to_owned(),
                    what: format!("schema {}", subject.wants.schema()),
                    owner,
                }
                .into());
            }
            if inside.is_in_shape() {
                break;
            }
            let sql = inside.repair(subject, quoted)?;
            session.run("giving the group role its rights", sql).await?;
        }
        session.close().await;
        Ok(())
    }
}

fn rights(privileges: Privileges) -> &'static Rights {
    match privileges {
        Privileges::ReadOnly => &READ,
        Privileges::ReadWrite | Privileges::Owner => &WRITE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_server_and_of_services_are_not_for_tenants() {
        for reserved in [
            "postgres",
            "pg_catalog",
            "template1",
            "lh_a_b_0_o",
            "public",
        ] {
            assert!(may_name("database", reserved).is_err(), "{reserved}");
        }
        for free in ["shop", "Shop \"2\"; --", "größe"] {
            assert!(may_name("database", free).is_ok(), "{free}");
        }
    }
}
