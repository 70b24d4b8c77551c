//! Names from resources are names, whatever they hold.

use leasehold_e2e::error::Result;
use leasehold_operator::backend::{BackendError, Removal, SharedState, Slot};

use crate::ground::{Ground, code, error, remove, run, subject, text};

#[tokio::test]
async fn odd_names_of_databases_and_schemas_are_made_as_they_are() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let odd = [
        ("plain", "tables"),
        ("Upper Case", "Größe"),
        ("quo\"te", "semi; DROP ROLE x; --"),
        ("it's", "back\\slash'"),
        ("$$", "/* */"),
        ("日本", "new\nline"),
    ];
    for (index, (database, schema)) in odd.into_iter().enumerate() {
        let mut subject = subject(&format!("odd-{index}"));
        subject.wants.database = Some(database.to_owned());
        subject.wants.schema = Some(schema.to_owned());
        let pair = ground.settle(&operator, &subject).await?;
        let state = operator.look(&subject).await?;
        assert_eq!(state.shared, SharedState::InShape, "{database} {schema}");
        assert!(
            crate::ground::ours(&state.logins[0]).1,
            "{database} {schema}"
        );
        let mut client = ground.client(&subject, Slot::A, &pair).await?;
        assert_eq!(
            text(&mut client, "SELECT current_database()::text").await?,
            database
        );
        run(&mut client, "CREATE TABLE here (n int8)").await?;
        let place =
            "SELECT relnamespace::regnamespace::oid::text FROM pg_class WHERE relname = 'here'";
        let place = text(&mut client, place).await?;
        let schema_id = text(&mut client, "SELECT current_schema()::text").await?;
        assert_eq!(schema_id, schema);
        assert!(!place.is_empty());
        drop(client);
        assert_eq!(remove(&operator, &subject, true).await?, Removal::Done);
    }
    assert_eq!(
        ground.ask("SELECT count(*)::text FROM pg_database").await?,
        "3"
    );
    Ok(())
}

#[tokio::test]
async fn a_dropped_schema_is_seen_and_made_again() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let mut subject = subject("billing");
    subject.wants.schema = Some("tables".to_owned());
    let pair = ground.settle(&operator, &subject).await?;
    let mut client = ground.client(&subject, Slot::A, &pair).await?;
    run(&mut client, "DROP SCHEMA tables").await?;
    assert_eq!(operator.look(&subject).await?.shared, SharedState::Drifted);
    operator.provision(&subject).await?;
    assert_eq!(
        code(run(&mut client, "CREATE TABLE tables.t (n int)").await),
        "none"
    );
    Ok(())
}

#[tokio::test]
async fn names_that_no_server_could_hold_are_refused_before_any_statement() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    for bad in [
        "",
        "postgres",
        "template1",
        "pg_x",
        "lh_x",
        "a\0b",
        &"x".repeat(64),
        &"é".repeat(32),
    ] {
        let mut subject = subject("billing");
        subject.wants.database = Some(bad.to_owned());
        let refused = error(operator.provision(&subject).await);
        assert!(
            matches!(
                refused,
                BackendError::Invalid {
                    field: "database",
                    ..
                }
            ),
            "{refused}"
        );
    }
    let count = "SELECT count(*)::text FROM pg_roles WHERE rolname LIKE 'lh!_%' ESCAPE '!'";
    assert_eq!(ground.ask(count).await?, "0");
    Ok(())
}
