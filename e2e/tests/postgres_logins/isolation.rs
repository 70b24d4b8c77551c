//! One tenant against another on one server.
//!
//! Known leaks, which no right of ours closes: catalogues that all databases share show names of other
//! tenants' roles and databases (`pg_roles`, `pg_database`), who is connected (`pg_stat_activity`, without
//! what they run), memberships (`pg_auth_members`), and COMMENTs of roles (`pg_shdescription`), which hold
//! namespaces, service names and generations, never a verifier. The class's own database stays open to
//! PUBLIC unless its administrator closes it; the preflight says so.

use leasehold_e2e::error::Result;
use leasehold_operator::backend::Slot;

use crate::ground::{Ground, code, number, run};

#[tokio::test]
async fn a_tenant_cannot_reach_another() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (a, password) = ground.service(&operator, "attacker").await?;
    let (b, victim) = ground.service(&operator, "victim").await?;
    let mut client = ground.client(&b, Slot::A, &victim).await?;
    run(&mut client, "CREATE TABLE secrets (n int8)").await?;
    let login = a.names.login(Slot::A);

    // Its database.
    let entered = ground
        .client_in(&b.names.owner(), &login, &password.password)
        .await;
    assert_eq!(code(entered), "42501");

    let mut attacker = ground.client(&a, Slot::A, &password).await?;
    let (owner, other) = (b.names.owner(), b.names.login(Slot::A));
    let mine = a.names.owner();
    let refused = [
        format!("SET ROLE \"{owner}\""),
        format!("SET ROLE \"{other}\""),
        format!("SET SESSION AUTHORIZATION \"{other}\""),
        format!("GRANT \"{owner}\" TO \"{mine}\""),
        format!("ALTER ROLE \"{other}\" NOLOGIN"),
        format!("ALTER ROLE \"{other}\" PASSWORD NULL"),
        format!("ALTER ROLE \"{other}\" SET search_path = x"),
        format!("DROP ROLE \"{other}\""),
        format!("COMMENT ON ROLE \"{other}\" IS 'mine'"),
        format!("COMMENT ON ROLE \"{mine}\" IS 'mine'"),
        format!("DROP DATABASE \"{owner}\""),
        format!("ALTER DATABASE \"{owner}\" ALLOW_CONNECTIONS false"),
        format!("ALTER DATABASE \"{mine}\" OWNER TO \"{owner}\""),
        format!("ALTER DATABASE \"{mine}\" RENAME TO stolen"),
        format!("CREATE DATABASE \"{mine}2\""),
        "CREATE ROLE more".to_owned(),
        "SELECT rolpassword FROM pg_catalog.pg_authid".to_owned(),
        "SELECT pg_catalog.pg_read_file('postgresql.conf')".to_owned(),
        "COPY (SELECT 1) TO PROGRAM 'true'".to_owned(),
        "CREATE TABLESPACE t LOCATION '/tmp'".to_owned(),
        "ALTER SYSTEM SET work_mem = '1GB'".to_owned(),
        "CREATE EXTENSION file_fdw".to_owned(),
    ];
    for statement in refused {
        let code = code(run(&mut attacker, &statement).await);
        assert!(
            ["42501", "0A000", "58P01"].contains(&code.as_str()),
            "{statement}: {code}"
        );
    }
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{other}'"
    );
    assert_eq!(code(number(&mut attacker, &end).await), "42501");
    // What it runs is hidden.
    let query = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{other}' AND query LIKE '%secrets%'"
    );
    assert_eq!(number(&mut attacker, &query).await?, 0);
    operator.verify(&b, Slot::A, &victim.password).await?;
    Ok(())
}

#[tokio::test]
async fn without_the_revoked_rights_of_public_a_tenant_enters_the_database_of_another() -> Result<()>
{
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (a, password) = ground.service(&operator, "attacker").await?;
    let (b, _victim) = ground.service(&operator, "victim").await?;
    let owner = b.names.owner();
    ground
        .by_superuser(&format!("GRANT CONNECT ON DATABASE \"{owner}\" TO PUBLIC"))
        .await?;
    ground
        .client_in(&owner, &a.names.login(Slot::A), &password.password)
        .await?;
    Ok(())
}
