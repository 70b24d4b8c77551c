//! Real servers for guarded stores: they start empty behind a password, restart,
//! stand still, and leave nothing behind. No control plane is needed.

use leasehold_e2e::error::Result;
use leasehold_e2e::process::ProcessRecord;
use leasehold_e2e::servers::{Postgres, Redis};
use sqlx::{Connection as _, PgConnection};

fn are_gone(processes: &[ProcessRecord]) -> bool {
    processes.iter().all(|process| !process.is_running())
}

async fn scalar(client: &mut PgConnection, query: &'static str) -> Result<i32> {
    Ok(sqlx::query_scalar(query).fetch_one(client).await?)
}

async fn get(url: &str, key: &str) -> Result<Option<String>> {
    let client = redis::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut get = redis::cmd("GET");
    Ok(get.arg(key).query_async(&mut connection).await?)
}

#[tokio::test]
async fn a_restarted_postgres_has_its_rows_and_a_stopped_one_leaves_no_process() -> Result<()> {
    let server = Postgres::start().await?;
    let mut client = PgConnection::connect(server.url()).await?;
    for statement in ["CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)"] {
        sqlx::query(statement).execute(&mut client).await?;
    }
    server.restart().await?;
    let mut client = PgConnection::connect(server.url()).await?;
    assert_eq!(scalar(&mut client, "SELECT n FROM kept").await?, 7);
    let processes = server.processes()?;
    assert!(processes.len() > 1, "{processes:?}");
    server.stop();
    assert!(are_gone(&processes));
    assert!(PgConnection::connect(server.url()).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_paused_postgres_stands_still_as_a_whole_and_ends_with_its_owner() -> Result<()> {
    let server = Postgres::start().await?;
    let wrong = server.url().replacen("leasehold:", "leasehold:x", 1);
    assert!(PgConnection::connect(&wrong).await.is_err());
    let mut client = PgConnection::connect(server.url()).await?;
    server.pause()?;
    let processes = server.processes()?;
    assert!(processes.iter().all(ProcessRecord::is_stopped));
    server.resume();
    assert_eq!(scalar(&mut client, "SELECT 1").await?, 1);
    server.pause()?;
    let folder = server.path().to_owned();
    drop(server);
    assert!(are_gone(&processes));
    assert!(!folder.exists());
    Ok(())
}

#[tokio::test]
async fn a_restarted_redis_is_empty_and_a_stopped_one_leaves_no_process() -> Result<()> {
    let server = Redis::start().await?;
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut set = redis::cmd("SET");
    set.arg("key").arg("value");
    let _: String = set.query_async(&mut connection).await?;
    assert_eq!(get(server.url(), "key").await?.as_deref(), Some("value"));
    server.restart().await?;
    assert_eq!(get(server.url(), "key").await?, None);
    let process: Vec<_> = server.process().into_iter().collect();
    server.stop();
    assert!(process.len() == 1 && are_gone(&process));
    assert!(get(server.url(), "key").await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_redis_asks_for_its_password_and_ends_with_its_owner_also_when_paused() -> Result<()> {
    let server = Redis::start().await?;
    let (_, address) = server.url().split_once('@').unwrap();
    assert!(get(&format!("redis://{address}"), "key").await.is_err());
    server.pause()?;
    let process: Vec<_> = server.process().into_iter().collect();
    assert!(process.iter().all(ProcessRecord::is_stopped));
    server.resume()?;
    assert_eq!(get(server.url(), "key").await?, None);
    server.pause()?;
    let folder = server.path().to_owned();
    drop(server);
    assert!(process.len() == 1 && are_gone(&process));
    assert!(!folder.exists());
    Ok(())
}
