//! Real servers for guarded stores: they start empty behind a password, restart,
//! stand still, and leave nothing behind; and what the stores in them refuse. No
//! control plane is needed.

use leasehold::{Claim, FencingToken, KeyRange};
use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::ledger::Verdict;
use leasehold_e2e::partitions::check::{Demands, Run};
use leasehold_e2e::partitions::keys::{self, Slot};
use leasehold_e2e::partitions::ledger;
use leasehold_e2e::partitions::stores::{Shown, Store, Stores};
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

const KEY: &str = "order-1";

/// The partition of a layout that has our key.
fn shown(count: u16, revision: u64, writer: &str) -> Result<Shown> {
    let slots = (0..count).map(|partition| Slot {
        generation: u32::from(count),
        count,
        partition,
    });
    let mut slots = slots.filter(|slot| slot.holds(keys::hash(KEY)));
    let slot = slots
        .next()
        .ok_or_else(|| Error::new("no partition has the key"))?;
    let (from, until) = slot.range();
    let token: FencingToken = format!("0.{revision}").parse()?;
    Ok(Shown {
        slot,
        claim: Claim::new(KeyRange::new(u64::try_from(from)?, until)?, token),
        writer: writer.to_owned(),
    })
}

#[tokio::test]
async fn in_every_store_a_child_that_raised_shuts_out_the_owner_of_its_parent() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let stores = Stores::start(folder.path(), "orders", true).await?;
    let all = Store::all_in(&stores.urls(), "orders")?;
    assert_eq!(all.len(), 3);
    let (parent, child) = (shown(64, 5, "a")?, shown(96, 9, "b")?);
    for store in &all {
        let name = store.name();
        assert_eq!(store.raise(&parent).await?, Verdict::Accepted, "{name}");
        let taken = store.write(&parent, KEY, 1, true).await?;
        assert_eq!(taken, Verdict::Accepted, "{name}");
        assert_eq!(store.raise(&child).await?, Verdict::Accepted, "{name}");
        assert_eq!(store.read(KEY).await?, 1, "{name}");
        let late = store.write(&parent, KEY, 2, true).await?;
        assert!(matches!(late, Verdict::Refused(_)), "{name}: {late:?}");
        let raised = store.raise(&shown(64, 8, "a")?).await?;
        assert!(matches!(raised, Verdict::Refused(_)), "{name}: {raised:?}");
        let taken = store.write(&child, KEY, 2, true).await?;
        assert_eq!(taken, Verdict::Accepted, "{name}");
    }
    assert_eq!(broken(&stores).await?, [0, 0, 0]);
    // The positive control: without its fence it is taken, and the checker finds it.
    for store in &all {
        let taken = store.write(&parent, KEY, 2, false).await?;
        assert_eq!(taken, Verdict::Accepted, "{}", store.name());
    }
    assert_eq!(broken(&stores).await?, [2, 2, 2]);
    Ok(())
}

/// How many violations the histories of the stores show, each by itself.
async fn broken(stores: &Stores) -> Result<Vec<usize>> {
    let demands = Demands {
        trusted: std::time::Duration::ZERO,
        unowned_max: std::time::Duration::MAX,
        recovery_max: std::time::Duration::MAX,
        tables_min: 0,
    };
    stores.dump().await?;
    let mut run = Run::default();
    for name in stores.names() {
        run.entries(name, ledger::read(&stores.history(name))?);
    }
    let violations = run.judge(&[], &demands)?.violations;
    let of = |name: &&str| {
        let ours = violations.iter().filter(|one| one.store() == Some(name));
        ours.count()
    };
    Ok(stores.names().iter().map(of).collect())
}
