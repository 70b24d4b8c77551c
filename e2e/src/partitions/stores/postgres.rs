//! Counters in a Postgres, guarded by the library's fences in the same database.

use leasehold::Fence as _;
use leasehold::fence::PostgresFences;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{PgConnection, Row as _};

use super::{RAISE_MAX, Shown, verdict};
use crate::error::{Error, Result, Step};
use crate::ledger::Verdict;
use crate::partitions::keys::Slot;
use crate::partitions::ledger::Entry;

/// Of each pod: there are many pods.
const CONNECTIONS_MAX: u32 = 4;

/// What the tests keep beside the fences. Whoever stands still in the middle of a transaction holds
/// its locks, which the next owner's raise waits for; so the server ends such a transaction.
const SCHEMA: [&str; 3] = [
    "CREATE TABLE counters (key text PRIMARY KEY, value bigint NOT NULL)",
    "CREATE TABLE history (id bigserial PRIMARY KEY, t bigint NOT NULL, \
     generation bigint NOT NULL, count int NOT NULL, partition int NOT NULL, \
     token text NOT NULL, writer text NOT NULL, key text, value bigint)",
    "ALTER ROLE CURRENT_USER SET idle_in_transaction_session_timeout = '1s'",
];

const READ: &str = "SELECT value FROM counters WHERE key = $1";

const SET: &str = "INSERT INTO counters (key, value) VALUES ($1, $2) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value";

const NOTE: &str = "INSERT INTO history \
     (t, generation, count, partition, token, writer, key, value) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

const HISTORY: &str = "SELECT t, generation, count, partition, token, writer, key, value \
     FROM history ORDER BY id";

/// A client with a few connections.
pub struct Client {
    pool: PgPool,
    fences: PostgresFences,
}

impl Client {
    /// A client of the Postgres with this URL.
    pub fn to(url: &str, service: &str) -> Result<Self> {
        let options: PgConnectOptions = url.parse()?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(RAISE_MAX)
            .connect_lazy_with(options);
        let fences = PostgresFences::new(pool.clone(), service)?;
        Ok(Self { pool, fences })
    }

    /// Makes the tables.
    pub async fn create(&self) -> Result<()> {
        for statement in SCHEMA {
            let made = sqlx::query(statement).execute(&self.pool).await;
            made.step(|| statement)?;
        }
        Ok(self.fences.create_table().await?)
    }

    pub(super) async fn raise(&self, shown: &Shown) -> Result<Verdict> {
        let verdict = verdict(self.fences.raise(shown.claim).await)?;
        if verdict == Verdict::Accepted {
            // Later than the raise: whatever follows it here came after it.
            let mut connection = self.pool.acquire().await?;
            note(&mut connection, &shown.entry(None)).await?;
        }
        Ok(verdict)
    }

    pub(super) async fn read(&self, key: &str) -> Result<u64> {
        let found: Option<i64> = sqlx::query_scalar(READ)
            .bind(key)
            .fetch_optional(&self.pool)
            .await?;
        Ok(u64::try_from(found.unwrap_or_default())?)
    }

    /// The history gets its number only when the key's row is locked, which it is until the commit:
    /// so the order of the numbers of a key is the order in which its writes took effect.
    pub(super) async fn write(
        &self,
        shown: &Shown,
        key: &str,
        value: u64,
        fenced: bool,
    ) -> Result<Verdict> {
        let mut transaction = self.pool.begin().await?;
        if fenced {
            let checked = self.fences.check(&mut transaction, shown.claim).await;
            let verdict = verdict(checked)?;
            if verdict != Verdict::Accepted {
                return Ok(verdict);
            }
        }
        let set = sqlx::query(SET).bind(key).bind(i64::try_from(value)?);
        set.execute(&mut *transaction).await?;
        let entry = shown.entry(Some((key, value)));
        note(&mut transaction, &entry).await?;
        transaction.commit().await?;
        Ok(Verdict::Accepted)
    }

    /// Everything it took, in its own order.
    pub async fn history(&self) -> Result<Vec<Entry>> {
        let rows = sqlx::query(HISTORY).fetch_all(&self.pool).await?;
        let entries = rows.iter().map(|row| {
            let key: Option<String> = row.try_get("key")?;
            let value: Option<i64> = row.try_get("value")?;
            let set = match key.zip(value) {
                Some((key, value)) => Some((key, u64::try_from(value)?)),
                None => None,
            };
            Ok::<_, Error>(Entry {
                t: u64::try_from(row.try_get::<i64, _>("t")?)?,
                slot: Slot {
                    generation: u32::try_from(row.try_get::<i64, _>("generation")?)?,
                    count: u16::try_from(row.try_get::<i32, _>("count")?)?,
                    partition: u16::try_from(row.try_get::<i32, _>("partition")?)?,
                },
                token: row.try_get("token")?,
                writer: row.try_get("writer")?,
                set,
            })
        });
        entries.collect()
    }
}

async fn note(connection: &mut PgConnection, entry: &Entry) -> Result<()> {
    let (key, value) = entry.set.clone().unzip();
    let value = value.map(i64::try_from).transpose()?;
    sqlx::query(NOTE)
        .bind(i64::try_from(entry.t)?)
        .bind(i64::from(entry.slot.generation))
        .bind(i32::from(entry.slot.count))
        .bind(i32::from(entry.slot.partition))
        .bind(&entry.token)
        .bind(&entry.writer)
        .bind(key)
        .bind(value)
        .execute(connection)
        .await?;
    Ok(())
}
