//! Fences of guarded stores: memory, a real Postgres and a real Redis keep the same rules, which
//! are those of the core; and what makes them safe beside each other is needed.
//!
//! No control plane is started.

#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

#[path = "fences/in_postgres.rs"]
mod in_postgres;
#[path = "fences/in_redis.rs"]
mod in_redis;
#[path = "fences/random.rs"]
mod random;
#[path = "fences/store.rs"]
mod store;
#[path = "fences/stories.rs"]
mod stories;

use leasehold_e2e::error::Result;
use leasehold_e2e::servers::{Postgres, Redis};

use store::{InMemory, InPostgres, InRedis};

#[tokio::test]
async fn memory_keeps_the_rules_of_fences() -> Result<()> {
    stories::all(InMemory::new).await;
    random::stories_end_as_in_the_core(InMemory::new).await;
    Ok(())
}

#[tokio::test]
async fn postgres_keeps_the_rules_of_fences() -> Result<()> {
    let server = Postgres::start().await?;
    let pool = store::pool(&server).await?;
    stories::all(|service: &str| InPostgres::new(&pool, service)).await;
    random::stories_end_as_in_the_core(|service: &str| InPostgres::new(&pool, service)).await;
    in_postgres::rows_of_former_layouts_are_removed(&pool).await?;
    Ok(())
}

#[tokio::test]
async fn redis_keeps_the_rules_of_fences() -> Result<()> {
    let server = Redis::start().await?;
    let connection = store::connection(&server).await?;
    stories::all(|service: &str| InRedis::new(&connection, service)).await;
    random::stories_end_as_in_the_core(|service: &str| InRedis::new(&connection, service)).await;
    in_redis::the_check_is_needed(&connection).await?;
    in_redis::edges_of_former_layouts_are_removed(&connection).await?;
    in_redis::commands_are_run_in_order_and_answered(&server).await?;
    Ok(())
}

#[tokio::test]
async fn a_raise_in_postgres_waits_for_a_write_under_way_and_reads_it() -> Result<()> {
    let server = Postgres::start().await?;
    let pool = store::pool(&server).await?;
    let fences = in_postgres::fences(&pool, "waits")?;
    let (read, stored) = in_postgres::write_under_way(&pool, &fences).await?;
    assert_eq!(
        (read, stored),
        (1, 1),
        "the new owner has not read the last write"
    );
    // The positive control: without the lock on the row the raise does not wait.
    let fences = in_postgres::fences(&pool, "control")?.without_row_lock();
    let (read, stored) = in_postgres::write_under_way(&pool, &fences).await?;
    assert_eq!((read, stored), (0, 1), "the lock on the row is not needed");
    in_postgres::a_transaction_that_stands_still_is_ended(&pool).await?;
    Ok(())
}

#[tokio::test]
async fn a_write_in_postgres_that_waited_for_a_raise_is_refused() -> Result<()> {
    let server = Postgres::start().await?;
    let pool = store::pool(&server).await?;
    let fences = in_postgres::fences(&pool, "waits")?;
    assert!(in_postgres::raise_under_way_refuses(&pool, &fences).await?);
    let fences = in_postgres::fences(&pool, "control")?.without_row_lock();
    assert!(
        !in_postgres::raise_under_way_refuses(&pool, &fences).await?,
        "the lock on the row is not needed"
    );
    in_postgres::snapshots_from_before_a_raise_are_refused(&pool).await?;
    Ok(())
}

#[tokio::test]
async fn raises_in_postgres_that_overlap_do_not_miss_each_other() -> Result<()> {
    let server = Postgres::start().await?;
    let pool = store::pool(&server).await?;
    let fences = in_postgres::fences(&pool, "waits")?;
    assert_eq!(in_postgres::overlapping_raises(&pool, &fences).await?, 1);
    // The positive control: both own the hashes that they share.
    let fences = in_postgres::fences(&pool, "control")?.without_serial_raises();
    assert_eq!(
        in_postgres::overlapping_raises(&pool, &fences).await?,
        2,
        "the advisory lock is not needed"
    );
    Ok(())
}
