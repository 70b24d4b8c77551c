//! Races in Postgres. Who waits for whom is read from the server, not guessed from the time.

use std::time::Duration;

use leasehold::fence::{FenceError, PostgresFences};
use leasehold::{Claim, Fence as _};
use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::wait;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgPool, PgTransaction};
use tokio::task::JoinHandle;

use crate::store::{WRITE, value_in_postgres};
use crate::stories::{claim, owners};

/// Generous: the machine may compile meanwhile.
const WAIT_MAX: Duration = Duration::from_mins(1);

pub(crate) fn fences(pool: &PgPool, service: &str) -> Result<PostgresFences> {
    Ok(PostgresFences::new(pool.clone(), service)?)
}

fn raising(fences: &PostgresFences, claim: Claim) -> JoinHandle<Result<(), FenceError>> {
    let fences = fences.clone();
    tokio::spawn(async move { fences.raise(claim).await })
}

/// Until that many statements wait for locks of others, or the task has ended.
async fn until_waiting<T>(pool: &PgPool, count: i64, task: &JoinHandle<T>) -> Result<()> {
    wait::until_true("a statement to wait for a lock", WAIT_MAX, || async {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: i64 = sqlx::query_scalar(waiting).fetch_one(pool).await?;
        Ok(task.is_finished() || waiting >= count)
    })
    .await
}

async fn write(transaction: &mut PgTransaction<'_>, service: &str, value: i64) -> Result<()> {
    let write = sqlx::query(WRITE).bind(service).bind(value);
    write.execute(&mut **transaction).await?;
    Ok(())
}

/// A child raises while its parent's owner has checked and written, but not committed. Answers
/// what the child reads after its raise, and what is stored in the end.
pub(crate) async fn write_under_way(pool: &PgPool, fences: &PostgresFences) -> Result<(i64, i64)> {
    let (parent, child) = (claim(0, 20, "5"), claim(10, 30, "9"));
    fences.raise(parent).await?;
    let mut late = pool.begin().await?;
    fences.check(&mut late, parent).await?;
    write(&mut late, "under-way", 1).await?;
    let raise = raising(fences, child);
    until_waiting(pool, 1, &raise).await?;
    let read = if raise.is_finished() {
        raise.await??;
        let read = value_in_postgres(pool, "under-way").await?;
        late.commit().await?;
        read
    } else {
        late.commit().await?;
        raise.await??;
        value_in_postgres(pool, "under-way").await?
    };
    let stored = value_in_postgres(pool, "under-way").await?;
    sqlx::query("DELETE FROM guarded").execute(pool).await?;
    Ok((read, stored))
}

/// An owner that stands still within its transaction: the server ends it, and its write with it.
pub(crate) async fn a_transaction_that_stands_still_is_ended(pool: &PgPool) -> Result<()> {
    let fences = fences(pool, "still")?;
    let (parent, child) = (claim(0, 20, "5"), claim(10, 30, "9"));
    fences.raise(parent).await?;
    let mut late = pool.begin().await?;
    fences.check(&mut late, parent).await?;
    write(&mut late, "still", 1).await?;
    let limit = sqlx::query("SET LOCAL idle_in_transaction_session_timeout = '100ms'");
    limit.execute(&mut *late).await?;
    fences.raise(child).await?;
    assert!(late.commit().await.is_err());
    assert_eq!(value_in_postgres(pool, "still").await?, 0);
    Ok(())
}

/// A parent's owner checks while its child's raise is under way. Answers whether it is refused.
pub(crate) async fn raise_under_way_refuses(
    pool: &PgPool,
    fences: &PostgresFences,
) -> Result<bool> {
    let (parent, before, child) = (claim(0, 20, "5"), claim(10, 30, "6"), claim(10, 30, "9"));
    fences.raise(before).await?;
    fences.raise(claim(0, 20, "6")).await?;
    let parent = Claim::new(parent.range, "0.6".parse()?);
    // Somebody's check of the child's own row, which the raise comes to last, holds the raise up.
    let mut holding = pool.begin().await?;
    let hold = "SELECT FROM leasehold_fences WHERE from_hash = '00000000a00000000' FOR SHARE";
    sqlx::query(hold).execute(&mut *holding).await?;
    let raise = raising(fences, child);
    until_waiting(pool, 1, &raise).await?;
    assert!(!raise.is_finished(), "nothing held the raise up");
    let late = tokio::spawn({
        let (pool, fences) = (pool.clone(), fences.clone());
        async move {
            let mut late = pool.begin().await?;
            let checked = fences.check(&mut late, parent).await;
            Ok::<_, Error>(checked)
        }
    });
    until_waiting(pool, 2, &late).await?;
    holding.rollback().await?;
    raise.await??;
    match late.await?? {
        Ok(()) => Ok(false),
        Err(FenceError::Stale { highest, .. }) => Ok(highest == child.token),
        Err(other) => Err(other.into()),
    }
}

/// A snapshot from before the raise cannot see it: it must fail, not pass.
pub(crate) async fn snapshots_from_before_a_raise_are_refused(pool: &PgPool) -> Result<()> {
    let levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
    for (number, level) in levels.into_iter().enumerate() {
        let fences = fences(pool, &format!("snapshot-{number}"))?;
        let (parent, child) = (claim(0, 20, "5"), claim(10, 30, "9"));
        fences.raise(parent).await?;
        let mut late = pool.begin().await?;
        for statement in [
            format!("SET TRANSACTION ISOLATION LEVEL {level}"),
            "SELECT 1".into(),
        ] {
            let statement = sqlx::query(sqlx::AssertSqlSafe(statement));
            statement.execute(&mut *late).await?;
        }
        fences.raise(child).await?;
        match fences.check(&mut late, parent).await {
            Err(FenceError::Stale { highest, .. }) => {
                assert_eq!((level, highest), ("READ COMMITTED", child.token));
            }
            Err(FenceError::Store { source, .. }) => {
                let error = source.downcast_ref::<sqlx::Error>().unwrap();
                let code = error.as_database_error().and_then(DatabaseError::code);
                assert_eq!(code.as_deref(), Some("40001"), "{level}: {error}");
                assert_ne!(level, "READ COMMITTED");
            }
            other => panic!("{level}: {other:?}"),
        }
        late.rollback().await?;
        // Tried again, it is refused.
        let mut again = pool.begin().await?;
        let refused = fences.check(&mut again, parent).await;
        assert!(
            matches!(refused, Err(FenceError::Stale { .. })),
            "{level}: {refused:?}"
        );
    }
    Ok(())
}

/// Two children of one parent that overlap, whose raises are under way at once: both wait for a
/// write of the parent's owner. Answers how many of them may write afterwards.
pub(crate) async fn overlapping_raises(pool: &PgPool, fences: &PostgresFences) -> Result<usize> {
    let (parent, one, other) = (claim(0, 100, "5"), claim(0, 60, "9"), claim(40, 100, "7"));
    fences.raise(parent).await?;
    let mut late = pool.begin().await?;
    fences.check(&mut late, parent).await?;
    let first = raising(fences, one);
    until_waiting(pool, 1, &first).await?;
    let second = raising(fences, other);
    until_waiting(pool, 2, &second).await?;
    assert!(
        !first.is_finished() && !second.is_finished(),
        "they did not wait"
    );
    late.commit().await?;
    let raised = [first.await?, second.await?];
    let mut owners = 0;
    for (claim, raised) in [one, other].into_iter().zip(raised) {
        let mut transaction = pool.begin().await?;
        let may = fences.check(&mut transaction, claim).await.is_ok();
        assert_eq!(may, raised.is_ok(), "{claim}: {raised:?}");
        owners += usize::from(may);
    }
    Ok(owners)
}

/// The table holds the present layout, and what is left of those before until all have raised.
pub(crate) async fn rows_of_former_layouts_are_removed(pool: &PgPool) -> Result<()> {
    let fences = fences(pool, "rows")?;
    let rows = "SELECT count(*) FROM leasehold_fences WHERE service = 'rows'";
    for (count, first) in [
        (12, 100),
        (18, 200),
        (9, 300),
        (18, 400),
        (1, 500),
        (12, 600),
    ] {
        for owner in owners(count, first, count) {
            fences.raise(owner).await?;
        }
        let found: i64 = sqlx::query_scalar(rows).fetch_one(pool).await?;
        assert_eq!(found, i64::from(count));
    }
    let late = owners(18, 200, 1)[0];
    let mut transaction = pool.begin().await?;
    let refused = fences.check(&mut transaction, late).await;
    assert!(
        matches!(refused, Err(FenceError::Stale { .. })),
        "{refused:?}"
    );
    Ok(())
}
