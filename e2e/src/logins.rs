//! A Postgres and a Redis on which the operator makes logins: their admins, their
//! classes, and clients that use what a Secret says.

mod load;

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use leasehold_crds::BackendKind;
use leasehold_crds::keys::secret as key;
use redis::AsyncCommands as _;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::error::{Error, Result, Step};
use crate::kubectl::Kubectl;
use crate::servers::{Postgres, Redis};
use crate::wait;
pub use load::{Load, Tally};

/// The role by which the operator works: no superuser.
pub const ADMIN: &str = "leasehold_admin";
/// How long one attempt of a client may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// Both servers.
pub struct Stores {
    /// With an admin who may make roles and databases, and nothing else.
    pub postgres: Postgres,
    /// Its admin is the default user.
    pub redis: Redis,
    admin_password: String,
}

impl Stores {
    /// Starts both.
    pub async fn start() -> Result<Self> {
        let both = Box::pin(async { tokio::try_join!(Postgres::start(), Redis::start()) });
        let (postgres, redis) = both.await?;
        let stores = Self {
            postgres,
            redis,
            admin_password: format!("{:032x}", rand::random::<u128>()),
        };
        stores
            .by_superuser(&format!(
                "CREATE ROLE {ADMIN} LOGIN CREATEROLE CREATEDB PASSWORD '{}'",
                stores.admin_password
            ))
            .await?;
        Ok(stores)
    }

    /// What somebody does by hand on Postgres.
    pub async fn by_superuser(&self, sql: &str) -> Result<()> {
        let mut client = PgConnection::connect(self.postgres.url()).await?;
        let done = sqlx::query(AssertSqlSafe(sql)).execute(&mut client).await;
        done.step(|| "a statement by hand")?;
        Ok(client.close().await?)
    }

    /// Rows of one text column, as a superuser sees them.
    pub async fn ask(&self, sql: &str) -> Result<Vec<String>> {
        let mut client = PgConnection::connect(self.postgres.url()).await?;
        let query = sqlx::query_scalar(AssertSqlSafe(sql));
        let rows = query
            .fetch_all(&mut client)
            .await
            .step(|| "a question by hand")?;
        client.close().await?;
        Ok(rows)
    }

    /// A connection of the admin of Redis.
    pub async fn redis_admin(&self) -> Result<redis::aio::MultiplexedConnection> {
        let client = redis::Client::open(self.redis.url())?;
        Ok(client.get_multiplexed_async_connection().await?)
    }

    /// The Secrets of the admins, for the namespace of the operator.
    pub fn admin_secrets(&self, prefix: &str) -> Result<Value> {
        let redis = redis_password(self.redis.url())?;
        let secret = |kind: &str, data: Value| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{prefix}-{kind}-admin")},
                "stringData": data,
            })
        };
        Ok(json!({"apiVersion": "v1", "kind": "List", "items": [
            secret("postgres", json!({"username": ADMIN, "password": self.admin_password})),
            secret("redis", json!({"username": "default", "password": redis})),
        ]}))
    }

    /// Both classes, `<prefix>-postgres` and `<prefix>-redis`, open to one namespace.
    pub fn classes(&self, prefix: &str, namespace: &str) -> Result<Value> {
        let postgres: PgConnectOptions = self.postgres.url().parse()?;
        let redis = self.redis.url().rsplit_once('@').map(|(_, place)| place);
        let redis = redis.unwrap_or_default().trim_end_matches('/');
        let class = |kind: BackendKind, mut server: Value| {
            let kind = kind.as_str();
            server["tls"] = json!({"mode": "disable"});
            server["adminSecretRef"] = json!({"name": format!("{prefix}-{kind}-admin")});
            json!({
                "apiVersion": "leasehold.dev/v1alpha1", "kind": "BackendClass",
                "metadata": {"name": format!("{prefix}-{kind}")},
                "spec": {
                    kind: server,
                    "allowedNamespaces": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                },
            })
        };
        Ok(json!({"apiVersion": "v1", "kind": "List", "items": [
            class(BackendKind::Postgres, json!({"host": "127.0.0.1", "port": postgres.get_port()})),
            class(BackendKind::Redis, json!({"nodes": [redis]})),
        ]}))
    }

    /// Applies admins and classes.
    pub async fn declare(
        &self,
        kubectl: &Kubectl,
        prefix: &str,
        operator_namespace: &str,
        namespace: &str,
    ) -> Result<()> {
        let apply = ["apply", "-f", "-"];
        let secrets = self.admin_secrets(prefix)?.to_string();
        let there = kubectl.clone().namespace(operator_namespace);
        there.run_with_input(&apply, &secrets).await?;
        let classes = self.classes(prefix, namespace)?.to_string();
        kubectl.run_with_input(&apply, &classes).await?;
        Ok(())
    }
}

fn redis_password(url: &str) -> Result<String> {
    let rest = url
        .strip_prefix("redis://:")
        .and_then(|it| it.split_once('@'));
    let (password, _) = rest.ok_or_else(|| Error::new("the URL of Redis has no password"))?;
    Ok(password.to_owned())
}

/// The Secret of a login, as a workload reads it.
pub struct Login {
    secret: Secret,
}

impl Login {
    /// Reads it; none while there is none, or none in force.
    pub async fn read(client: &Client, namespace: &str, name: &str) -> Result<Option<Self>> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.get_opt(name).await?;
        let login = found.map(|secret| Self { secret });
        Ok(login.filter(|it| it.text(key::USERNAME).is_some()))
    }

    /// A value.
    pub fn text(&self, key: &str) -> Option<String> {
        let data = self.secret.data.as_ref()?;
        String::from_utf8(data.get(key)?.0.clone()).ok()
    }

    /// Every key of it.
    pub fn keys(&self) -> Vec<String> {
        self.secret
            .data
            .iter()
            .flat_map(|data| data.keys().cloned())
            .collect()
    }

    /// The object.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Logs in as its type says, and writes.
    pub async fn use_it(&self) -> Result<()> {
        let attempt = async {
            match self.text(key::TYPE).as_deref() {
                Some("postgresql") => self.use_postgres().await,
                Some("redis") => self.use_redis().await,
                other => Err(Error::new(format!("the Secret has the type {other:?}"))),
            }
        };
        let waited = tokio::time::timeout(ATTEMPT_MAX, attempt).await;
        waited.map_err(|_| Error::new("the server did not answer"))?
    }

    async fn use_postgres(&self) -> Result<()> {
        let mut client = self.postgres().await?;
        let sql = "CREATE TABLE IF NOT EXISTS visits (n bigint); INSERT INTO visits VALUES (1)";
        sqlx::raw_sql(sql).execute(&mut client).await?;
        Ok(client.close().await?)
    }

    async fn use_redis(&self) -> Result<()> {
        let mut client = self.redis().await?;
        let prefix = self.text(key::KEY_PREFIX).unwrap_or_default();
        let _: i64 = client.incr(format!("{prefix}visits"), 1).await?;
        Ok(())
    }

    /// A connection under it.
    pub async fn postgres(&self) -> Result<PgConnection> {
        let uri = self.text(key::URI).unwrap_or_default();
        Ok(PgConnection::connect(&uri).await?)
    }

    /// A connection under it.
    pub async fn redis(&self) -> Result<redis::aio::MultiplexedConnection> {
        let uri = self.text(key::URI).unwrap_or_default();
        let client = redis::Client::open(uri)?;
        Ok(client.get_multiplexed_async_connection().await?)
    }
}

/// Waits until a Secret has a login that works.
pub async fn working(
    client: &Client,
    namespace: &str,
    name: &str,
    within: Duration,
) -> Result<Login> {
    let what = format!("a login in Secret {name} that works");
    wait::until(&what, within, || async {
        let Some(login) = Login::read(client, namespace, name).await? else {
            return Ok(None);
        };
        Ok(login.use_it().await.is_ok().then_some(login))
    })
    .await
}
