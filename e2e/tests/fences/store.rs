//! A guarded value in each store, and how the stores are reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use leasehold::fence::{Commands, FenceError, MemoryFences, PostgresFences, RedisFences};
use leasehold::{Claim, Fence};
use leasehold_e2e::error::Result;
use leasehold_e2e::servers::{Postgres, Redis};
use redis::aio::ConnectionManager;
use sqlx::postgres::{PgPool, PgPoolOptions};

/// A store with fences and one value, which all claims of a test share.
pub(crate) trait Store: Fence<Error = FenceError> {
    /// Sets the value if the claim may write.
    async fn write(&self, claim: Claim, value: i64) -> Result<(), FenceError>;

    /// The value; 0 at first.
    async fn value(&self) -> i64;
}

pub(crate) struct InMemory {
    fences: MemoryFences,
    value: AtomicI64,
}

impl InMemory {
    pub(crate) fn new(service: &str) -> Self {
        Self {
            fences: MemoryFences::new(service).unwrap(),
            value: AtomicI64::new(0),
        }
    }
}

impl Fence for InMemory {
    type Error = FenceError;

    async fn raise(&self, claim: Claim) -> Result<(), FenceError> {
        self.fences.raise(claim).await
    }
}

impl Store for InMemory {
    async fn write(&self, claim: Claim, value: i64) -> Result<(), FenceError> {
        let write = || self.value.store(value, Ordering::Relaxed);
        self.fences.write(claim, write)
    }

    async fn value(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }
}

/// A pool of a fresh database, with the table of fences and one of values.
pub(crate) async fn pool(server: &Postgres) -> Result<PgPool> {
    let pool = PgPoolOptions::new().max_connections(8);
    let pool = pool.connect(server.url()).await?;
    // All that start at once make it once.
    let fences = PostgresFences::new(pool.clone(), "any")?;
    let made = futures::future::join_all((0..4).map(|_| fences.create_table())).await;
    made.into_iter().collect::<Result<Vec<()>, _>>()?;
    let table = "CREATE TABLE guarded (service text PRIMARY KEY, value bigint NOT NULL)";
    sqlx::query(table).execute(&pool).await?;
    Ok(pool)
}

pub(crate) struct InPostgres {
    pub(crate) fences: PostgresFences,
    pool: PgPool,
    service: Arc<str>,
}

impl InPostgres {
    pub(crate) fn new(pool: &PgPool, service: &str) -> Self {
        Self {
            fences: PostgresFences::new(pool.clone(), service).unwrap(),
            pool: pool.clone(),
            service: service.into(),
        }
    }
}

impl Fence for InPostgres {
    type Error = FenceError;

    async fn raise(&self, claim: Claim) -> Result<(), FenceError> {
        self.fences.raise(claim).await
    }
}

/// Writes the value of a service.
pub(crate) const WRITE: &str = "INSERT INTO guarded VALUES ($1, $2) \
     ON CONFLICT (service) DO UPDATE SET value = excluded.value";

impl Store for InPostgres {
    async fn write(&self, claim: Claim, value: i64) -> Result<(), FenceError> {
        let mut transaction = self.pool.begin().await.unwrap();
        self.fences.check(&mut transaction, claim).await?;
        let write = sqlx::query(WRITE).bind(&*self.service).bind(value);
        write.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        Ok(())
    }

    async fn value(&self) -> i64 {
        value_in_postgres(&self.pool, &self.service).await.unwrap()
    }
}

pub(crate) async fn value_in_postgres(pool: &PgPool, service: &str) -> Result<i64> {
    let read = sqlx::query_scalar("SELECT value FROM guarded WHERE service = $1").bind(service);
    Ok(read.fetch_optional(pool).await?.unwrap_or(0))
}

pub(crate) async fn connection(server: &Redis) -> Result<ConnectionManager> {
    Ok(ConnectionManager::new(redis::Client::open(server.url())?).await?)
}

pub(crate) struct InRedis {
    pub(crate) fences: RedisFences,
    connection: ConnectionManager,
    key: String,
}

impl InRedis {
    pub(crate) fn new(connection: &ConnectionManager, service: &str) -> Self {
        Self {
            fences: RedisFences::new(connection.clone(), service).unwrap(),
            connection: connection.clone(),
            key: format!("{{{service}}}:value"),
        }
    }

    pub(crate) fn without_check(mut self) -> Self {
        self.fences = self.fences.without_check();
        self
    }
}

impl Fence for InRedis {
    type Error = FenceError;

    async fn raise(&self, claim: Claim) -> Result<(), FenceError> {
        self.fences.raise(claim).await
    }
}

impl Store for InRedis {
    async fn write(&self, claim: Claim, value: i64) -> Result<(), FenceError> {
        let set = Commands::new().command("SET", &[&self.key], &[value.to_string()]);
        self.fences.write(claim, &set).await
    }

    async fn value(&self) -> i64 {
        let mut get = redis::cmd("GET");
        let get = get.arg(&self.key);
        let value = get.query_async(&mut self.connection.clone()).await;
        value.unwrap_or(None).unwrap_or(0)
    }
}
