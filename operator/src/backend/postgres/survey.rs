//! One statement that shows whether anything has changed (`quiet-when-settled`).

use super::Server;
use super::quote::Sql;
use super::session::Failure;
use crate::backend::{BackendError, Survey};

/// A digest for every role with a mark of Leasehold, of every installation that uses the server: the
/// caller knows its names. Members of a role are not part of it, for they change with each rotation;
/// what a role is a member of is. Default rights of a group role stand in its database, but who holds
/// them is known to the whole server.
const SURVEY: &str = "SELECT r.rolname::text AS name, left(encode(sha256(convert_to(concat_ws('|', \
       r.oid, c.description, r.rolcanlogin, r.rolinherit, r.rolsuper, r.rolcreaterole, r.rolcreatedb, \
       r.rolreplication, r.rolbypassrls, r.rolconnlimit, coalesce(r.rolvaliduntil::text, 'infinity'), \
       array_to_string(r.rolconfig, ','), pg_has_role(r.oid, 'USAGE'), m.roles, d.databases, s.rights), \
       'UTF8')), 'hex'), 16) AS digest \
     FROM pg_roles r \
     JOIN pg_shdescription c ON c.objoid = r.oid AND c.classoid = 'pg_authid'::regclass \
       AND starts_with(c.description, 'leasehold installation=') \
     LEFT JOIN (SELECT a.member, string_agg(concat_ws(':', a.roleid, a.admin_option, \
         to_jsonb(a) ->> 'inherit_option', to_jsonb(a) ->> 'set_option'), ',' ORDER BY a.roleid, a.grantor) AS roles \
       FROM pg_auth_members a GROUP BY 1) m ON m.member = r.oid \
     LEFT JOIN (SELECT b.datdba, string_agg(concat_ws(':', b.datname, b.datallowconn, b.datacl::text, \
         shobj_description(b.oid, 'pg_database')), ',' ORDER BY b.oid) AS databases \
       FROM pg_database b GROUP BY 1) d ON d.datdba = r.oid \
     LEFT JOIN (SELECT p.refobjid, count(*) AS rights FROM pg_shdepend p \
       WHERE p.refclassid = 'pg_authid'::regclass AND p.classid = 'pg_default_acl'::regclass \
       AND p.deptype = 'a' GROUP BY 1) s ON s.refobjid = r.oid";

impl Server {
    /// Asks for all services at once.
    pub async fn survey(&self) -> Result<Survey, BackendError> {
        self.ask_for_all().await.map_err(Failure::into_error)
    }

    async fn ask_for_all(&self) -> Result<Survey, Failure> {
        let (work, rows) = self
            .hold()
            .await
            .start("looking at all roles", Sql::new(SURVEY, &[]))
            .await?;
        let mut survey = Survey::new();
        for row in &rows {
            let row = Some(row);
            let name = work.session.column(row, "name")?;
            survey.insert(name, work.session.column(row, "digest")?);
        }
        work.keep();
        Ok(survey)
    }
}
