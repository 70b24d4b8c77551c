//! Clients that read a Secret as a mounted folder, and never stop asking.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _};
use leasehold::binding::{Binding, RedisConnection};
use leasehold::testing::MountedSecret;
use leasehold_crds::BackendKind;
use leasehold_crds::keys::secret as key;
use redis::aio::ConnectionManagerConfig;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use crate::error::{Result, Step};
use crate::logins::working;

/// How often the Secret is looked at; a kubelet takes its time.
const MOUNT_EVERY: Duration = Duration::from_millis(200);
/// A client that failed waits this long.
const AGAIN: Duration = Duration::from_millis(5);
/// Until the first login is there.
const START_MAX: Duration = Duration::from_mins(1);

/// What the clients of one store saw so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests with an answer.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// What the last failure said.
    pub problem: Option<String>,
}

impl Tally {
    /// What happened since an earlier tally.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            answered: self.answered - before.answered,
            failed: self.failed - before.failed,
            problem: self.problem.clone().filter(|_| self.failed > before.failed),
        }
    }
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    failed: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl Counts {
    fn count(&self, outcome: std::result::Result<(), String>) -> bool {
        let Err(problem) = outcome else {
            self.answered.fetch_add(1, Ordering::Relaxed);
            return true;
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        false
    }

    fn tally(&self) -> Tally {
        Tally {
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            problem: self
                .problem
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }
}

/// Clients of one store, until it is dropped.
pub struct Load {
    counts: Arc<Counts>,
    _tasks: JoinSet<()>,
}

impl Load {
    /// Mounts the Secret of a service below `folder`, and starts so many clients that use it.
    pub async fn start(
        client: &Client,
        namespace: &str,
        service: &str,
        kind: BackendKind,
        folder: &Path,
        clients: u32,
    ) -> Result<Self> {
        let name = kind.secret_name(service);
        working(client, namespace, &name, START_MAX).await?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let folder: PathBuf = folder.join(&name);
        let mounting = || format!("mounting Secret {name} at {}", folder.display());
        let mut mount = MountedSecret::new(&folder).step(mounting)?;
        let mut shown = put(&mut mount, &secrets, &name, None)
            .await
            .step(mounting)?;
        let mut tasks = JoinSet::new();
        let mounted = name.clone();
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(MOUNT_EVERY).await;
                // What cannot be read now stays as it is, as in a pod.
                if let Ok(newer) = put(&mut mount, &secrets, &mounted, shown.as_deref()).await {
                    shown = newer;
                }
            }
        });
        let binding = Binding::folder(&folder).await;
        let binding = binding.step(|| "reading the mounted Secret")?;
        let counts = Arc::new(Counts::default());
        match kind {
            BackendKind::Postgres => {
                let options = PgPoolOptions::new().max_connections(clients);
                let pool = binding.postgres_pool(options).step(|| "making a pool")?;
                for _ in 0..clients {
                    tasks.spawn(ask_postgres(pool.clone(), counts.clone()));
                }
            }
            BackendKind::Redis => {
                let prefix = binding
                    .current()
                    .key_prefix()
                    .unwrap_or_default()
                    .to_owned();
                let connection = binding.redis(ConnectionManagerConfig::new());
                let connection = connection.step(|| "making a connection")?;
                for _ in 0..clients {
                    let key = format!("{prefix}load");
                    tasks.spawn(ask_redis(connection.clone(), key, counts.clone()));
                }
            }
        }
        Ok(Self {
            counts,
            _tasks: tasks,
        })
    }

    /// What they saw so far.
    pub fn tally(&self) -> Tally {
        self.counts.tally()
    }
}

async fn ask_postgres(pool: PgPool, counts: Arc<Counts>) {
    loop {
        let asked = sqlx::query("INSERT INTO visits VALUES (2)").execute(&pool);
        let outcome = asked.await.map(drop).map_err(|error| error.to_string());
        if !counts.count(outcome) {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

async fn ask_redis(mut connection: RedisConnection, key: String, counts: Arc<Counts>) {
    loop {
        let mut command = redis::cmd("INCR");
        let asked = command.arg(&key).query_async::<i64>(&mut connection).await;
        if !counts.count(asked.map(drop).map_err(|error| error.to_string())) {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Puts the Secret in place if it changed; its version.
async fn put(
    mount: &mut MountedSecret,
    secrets: &Api<Secret>,
    name: &str,
    shown: Option<&str>,
) -> Result<Option<String>> {
    let secret = secrets.get(name).await?;
    let version = secret.resource_version();
    let data = secret.data.unwrap_or_default();
    if version.as_deref() == shown || !data.contains_key(key::USERNAME) {
        return Ok(shown.map(str::to_owned));
    }
    let files = data
        .iter()
        .map(|(name, value)| (name.as_str(), value.0.as_slice()));
    mount.put(files)?;
    Ok(version)
}
