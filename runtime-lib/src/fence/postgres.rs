//! Fences in Postgres, checked in the transaction of the write.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use leasehold_core::fence::{Claim, NotRaised, Refused, Stale};
use leasehold_core::id::{FencingToken, Revision};
use leasehold_core::partition::HashId;
use sqlx::postgres::{PgPool, PgTransaction};

use super::{FenceError, checked};
use crate::leadership::Fence;

/// Serialises what makes the table; any number of ours.
const MAKING: i64 = 0x6c65_6173_6568_6f6c;

/// Only raises take it, so their reads see every raise before them.
const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";

const HIGHEST: &str = "SELECT era, revision FROM leasehold_fences \
     WHERE service = $1 AND from_hash < $3 AND $2 < until_hash \
     ORDER BY era DESC, revision DESC LIMIT 1";

const CLOSE: &str = "UPDATE leasehold_fences SET closed_era = $4, closed_revision = $5 \
     WHERE service = $1 AND from_hash < $3 AND $2 < until_hash \
     AND (closed_era, closed_revision) < ($4, $5) AND (from_hash, until_hash) <> ($2, $3)";

const RAISE: &str = "INSERT INTO leasehold_fences (service, from_hash, until_hash, era, revision) \
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (service, from_hash, until_hash) \
     DO UPDATE SET era = excluded.era, revision = excluded.revision";

/// Removes what lies under rows with higher tokens everywhere: where it begins, and wherever one of
/// those ends, there must be another. Whatever they overlap, they refuse it in its place.
const FORGET: &str = "DELETE FROM leasehold_fences old \
     WHERE service = $1 AND from_hash < $3 AND $2 < until_hash AND (era, revision) < ($4, $5) \
     AND NOT EXISTS (SELECT FROM (SELECT old.from_hash AS hash UNION ALL \
         SELECT until_hash FROM leasehold_fences WHERE service = $1 \
         AND old.from_hash < until_hash AND until_hash < old.until_hash \
         AND (era, revision) > (old.era, old.revision)) edge \
         WHERE NOT EXISTS (SELECT FROM leasehold_fences above WHERE service = $1 \
             AND above.from_hash <= edge.hash AND edge.hash < above.until_hash \
             AND (above.era, above.revision) > (old.era, old.revision)))";

const CHECK: &str = "SELECT era, revision, closed_era, closed_revision FROM leasehold_fences \
     WHERE service = $1 AND from_hash = $2 AND until_hash = $3 FOR SHARE";

/// The positive control of the races: without the lock on the row. Only tests can choose it.
const CHECK_UNLOCKED: &str = "SELECT era, revision, closed_era, closed_revision \
     FROM leasehold_fences WHERE service = $1 AND from_hash = $2 AND until_hash = $3";

/// Fences in a table of the database that they guard.
///
/// ```no_run
/// use leasehold::PartitionGuard;
/// use leasehold::fence::PostgresFences;
/// use sqlx::postgres::PgPool;
///
/// # type Outcome = Result<(), Box<dyn std::error::Error>>;
/// async fn own(guard: &PartitionGuard, pool: &PgPool) -> Outcome {
///     let fences = PostgresFences::new(pool.clone(), "orders")?;
///     guard.raise(&fences).await?; // before the first read (H9)
///     loop {
///         let mut transaction = pool.begin().await?;
///         // First of all: from here on until its end no one later raises the fence.
///         fences.check(&mut transaction, guard.claim()?).await?;
///         sqlx::query("UPDATE orders SET …").execute(&mut *transaction).await?;
///         transaction.commit().await?;
/// #       return Ok(());
///     }
/// }
/// ```
///
/// # The table
///
/// [`create_table`](Self::create_table) makes it; [`TABLE`](Self::TABLE) is its SQL, for those who
/// have migrations:
///
/// ```sql
/// CREATE TABLE IF NOT EXISTS leasehold_fences (
///     service text COLLATE "C" NOT NULL,
///     from_hash text COLLATE "C" NOT NULL,
///     until_hash text COLLATE "C" NOT NULL,
///     era bigint NOT NULL,
///     revision bigint NOT NULL,
///     closed_era bigint NOT NULL DEFAULT 0,
///     closed_revision bigint NOT NULL DEFAULT 0,
///     PRIMARY KEY (service, from_hash, until_hash),
///     CHECK (from_hash ~ '^0[0-9a-f]{16}$' AND until_hash ~ '^[01][0-9a-f]{16}$'),
///     CHECK (from_hash < until_hash AND until_hash <= '10000000000000000')
/// )
/// ```
///
/// It is found by the `search_path`. A program needs SELECT, INSERT, UPDATE and DELETE on it.
/// A row is a range: its own token, and the highest that another range which overlaps it was raised
/// to since (`closed`). It is removed when later ones have been raised over all of it. So there are
/// as many rows as the layout has partitions, beside those of former layouts whose successors have
/// not all been raised yet.
///
/// # Why no late write gets through
///
/// [`check`](Self::check) takes a shared lock on the row of the claim, and keeps it until the
/// transaction of the write ends; a raise changes that row, if the ranges overlap. So either the
/// check comes first, and the raise waits for the end of the transaction: the new owner reads what
/// it wrote. Or the raise comes first, and the check waits for it and then reads the row anew, as
/// READ COMMITTED does with rows that it locks: the write is refused. In REPEATABLE READ and
/// SERIALIZABLE a row that was changed since the snapshot is a serialization failure instead
/// (`40001`), and the transaction may be tried again, to be refused. A reader with a snapshot must
/// begin it after its raise.
///
/// Raises of one service run one after the other, by an advisory lock. Otherwise two that overlap
/// could each look for the other's row before it is there, and both be taken.
///
/// A raise compares itself with the tokens of the rows that it overlaps, and not with what closed
/// them: of two partitions cut from one parent, the one with the lower token may raise last.
///
/// # How long a raise waits
///
/// As long as the transactions that have checked an overlapping claim. A process that is paused in
/// the middle of one would hold up the next owner: set `idle_in_transaction_session_timeout` for
/// the role of the service, to a few seconds, so that the server ends such a transaction and its
/// write with it. A raise inside a transaction that has checked would wait for itself. Transactions
/// that check several claims do so in the order of their ranges; otherwise they and a raise may
/// wait for each other, and Postgres ends one of them as a deadlock (`40P01`), to be tried again.
///
/// # What is not promised
///
/// A raise that was acknowledged is lost by a failover to a replica that had not received it, as
/// every transaction is. The database that is written must be the one that holds the fences.
#[derive(Clone)]
pub struct PostgresFences {
    pool: PgPool,
    service: Arc<str>,
    locks_row: bool,
    is_serial: bool,
}

impl PostgresFences {
    /// The SQL of the table.
    pub const TABLE: &str = "\
CREATE TABLE IF NOT EXISTS leasehold_fences (
    service text COLLATE \"C\" NOT NULL,
    from_hash text COLLATE \"C\" NOT NULL,
    until_hash text COLLATE \"C\" NOT NULL,
    era bigint NOT NULL,
    revision bigint NOT NULL,
    closed_era bigint NOT NULL DEFAULT 0,
    closed_revision bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (service, from_hash, until_hash),
    CHECK (from_hash ~ '^0[0-9a-f]{16}$' AND until_hash ~ '^[01][0-9a-f]{16}$'),
    CHECK (from_hash < until_hash AND until_hash <= '10000000000000000')
)";

    /// The fences of a service in the database of this pool, in which they are raised.
    pub fn new(pool: PgPool, service: &str) -> Result<Self, FenceError> {
        Ok(Self {
            pool,
            service: checked(service)?,
            locks_row: true,
            is_serial: true,
        })
    }

    /// Makes the [table](Self::TABLE), unless it is there. Any number of processes may call it at
    /// once.
    pub async fn create_table(&self) -> Result<(), FenceError> {
        let creating = || "making the table leasehold_fences".to_owned();
        let making = async {
            let mut transaction = self.pool.begin().await?;
            let lock = sqlx::query(LOCK).bind(MAKING);
            lock.execute(&mut *transaction).await?;
            sqlx::query(Self::TABLE).execute(&mut *transaction).await?;
            transaction.commit().await
        };
        making.await.map_err(|error| self.failed(creating(), error))
    }

    /// Whether the transaction may write under this claim. It may until it ends: a later owner's
    /// raise waits for that. So check first, write soon, and do not raise meanwhile.
    ///
    /// The check counts for what is written to this database in this very transaction; a savepoint
    /// that is rolled back takes a check with it. One that refuses leaves the transaction usable.
    pub async fn check(
        &self,
        transaction: &mut PgTransaction<'_>,
        claim: Claim,
    ) -> Result<(), FenceError> {
        let checking = || format!("checking {claim} in Postgres");
        let failed = |error| self.failed(checking(), error);
        let statement = if self.locks_row {
            CHECK
        } else {
            CHECK_UNLOCKED
        };
        let found = sqlx::query_as::<_, (i64, i64, i64, i64)>(statement);
        let found = found
            .bind(&*self.service)
            .bind(hex(claim.range.first().into()))
            .bind(hex(claim.range.until()))
            .fetch_optional(&mut **transaction);
        let (raised, closed) = match found.await.map_err(failed)? {
            Some((era, revision, closed_era, closed)) => (
                self.token(era, revision).map(Some)?,
                match closed {
                    0 => None,
                    revision => Some(self.token(closed_era, revision)?),
                },
            ),
            // Later raises may have covered this range, and removed its row.
            None => (None, self.highest(transaction, claim).await?),
        };
        let refused = match raised.max(closed) {
            Some(highest) if highest > claim.token => Refused::Stale(Stale {
                shown: claim.token,
                highest,
            }),
            _ if raised == Some(claim.token) => return Ok(()),
            _ => Refused::NotRaised(NotRaised {
                shown: claim.token,
                raised,
            }),
        };
        Err(FenceError::refused(&self.service, claim, refused))
    }

    /// The highest token that an overlapping range was raised to.
    async fn highest(
        &self,
        transaction: &mut PgTransaction<'_>,
        claim: Claim,
    ) -> Result<Option<FencingToken>, FenceError> {
        let found = sqlx::query_as::<_, (i64, i64)>(HIGHEST)
            .bind(&*self.service)
            .bind(hex(claim.range.first().into()))
            .bind(hex(claim.range.until()))
            .fetch_optional(&mut **transaction);
        let reading = |error| self.failed(format!("reading what overlaps {claim}"), error);
        let found = found.await.map_err(reading)?;
        found
            .map(|(era, revision)| self.token(era, revision))
            .transpose()
    }

    async fn raise_now(&self, claim: Claim) -> Result<(), FenceError> {
        let failed = |error| self.failed(format!("raising {claim} in Postgres"), error);
        // A snapshot from before the lock would not see the raise that held it.
        let begun = self.pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED");
        let mut transaction = begun.await.map_err(failed)?;
        if self.is_serial {
            let lock = sqlx::query(LOCK).bind(lock_of(&self.service));
            lock.execute(&mut *transaction).await.map_err(failed)?;
        }
        let highest = self.highest(&mut transaction, claim).await?;
        if let Some(highest) = highest.filter(|highest| *highest > claim.token) {
            let shown = claim.token;
            let refused = Refused::Stale(Stale { shown, highest });
            // At once: others wait for the advisory lock.
            transaction.rollback().await.map_err(failed)?;
            return Err(FenceError::refused(&self.service, claim, refused));
        }
        let (era, revision) = parts(claim.token);
        for statement in [CLOSE, RAISE, FORGET] {
            let done = sqlx::query(statement)
                .bind(&*self.service)
                .bind(hex(claim.range.first().into()))
                .bind(hex(claim.range.until()))
                .bind(era)
                .bind(revision)
                .execute(&mut *transaction);
            done.await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    }

    /// A token as it stands in a row.
    fn token(&self, era: i64, revision: i64) -> Result<FencingToken, FenceError> {
        let parsed = u32::try_from(era).ok().zip(
            u64::try_from(revision)
                .ok()
                .and_then(|number| Revision::new(number).ok()),
        );
        let token = parsed.map(|(era, revision)| FencingToken::new(era, revision));
        token.ok_or_else(|| {
            let found = format!("found the token {era}.{revision}, which nobody has raised");
            self.failed("reading the table leasehold_fences".to_owned(), found)
        })
    }

    fn failed(&self, step: String, source: impl Into<Box<dyn Error + Send + Sync>>) -> FenceError {
        FenceError::Store {
            service: Arc::clone(&self.service),
            step,
            source: source.into(),
        }
    }
}

/// For the positive controls of tests: what these protections prevent, happens without them.
#[cfg(any(test, feature = "testing"))]
impl PostgresFences {
    /// Checks lock no row.
    #[must_use]
    pub fn without_row_lock(self) -> Self {
        Self {
            locks_row: false,
            ..self
        }
    }

    /// Raises do not wait for each other.
    #[must_use]
    pub fn without_serial_raises(self) -> Self {
        Self {
            is_serial: false,
            ..self
        }
    }
}

impl Fence for PostgresFences {
    type Error = FenceError;

    /// One short transaction in a connection of the pool. It waits for the transactions that have
    /// checked an older claim which overlaps this one, and for nothing else but other raises.
    fn raise(&self, claim: Claim) -> impl Future<Output = Result<(), FenceError>> + Send {
        self.raise_now(claim)
    }
}

/// Without the pool, which knows how to log in.
impl fmt::Debug for PostgresFences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresFences")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

/// A hash as it stands in the table: of 17 digits, because a range may end with 2⁶⁴, so that the
/// order of the texts is that of the numbers.
fn hex(hash: u128) -> String {
    format!("{hash:017x}")
}

/// A token as two columns; both halves fit (E7).
fn parts(token: FencingToken) -> (i64, i64) {
    let revision = i64::try_from(token.revision().number()).unwrap_or(i64::MAX);
    (token.era().into(), revision)
}

/// The number of a service's advisory lock. That two share one costs them a moment.
fn lock_of(service: &str) -> i64 {
    let hash = HashId::CsHash1.of(format!("leasehold_fences/{service}").as_bytes());
    hash.cast_signed()
}
