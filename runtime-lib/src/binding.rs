//! How a program logs in to its Postgres and its Redis, and goes over to the next login without a
//! restart.
//!
//! ```no_run
//! # #[cfg(all(feature = "postgres", feature = "redis"))]
//! # mod example {
//! use leasehold::binding::{Binding, BindingKind};
//! use redis::aio::ConnectionManagerConfig;
//! use sqlx::postgres::PgPoolOptions;
//!
//! # pub type Outcome = Result<(), Box<dyn std::error::Error>>;
//! pub async fn serve() -> Outcome {
//!     let postgres = Binding::from_env(BindingKind::Postgres).await?;
//!     let pool = postgres.postgres_pool(PgPoolOptions::new().max_connections(10))?;
//!     let redis = Binding::from_env(BindingKind::Redis).await?;
//!     let mut connection = redis.redis(ConnectionManagerConfig::new())?;
//!
//!     // As with any pool and any connection, for as long as the process lives.
//!     sqlx::query("UPDATE orders SET …").execute(&pool).await?;
//!     let key = format!("{}orders", redis.current().key_prefix().unwrap_or_default());
//!     let _: i64 = redis::cmd("INCR").arg(key).query_async(&mut connection).await?;
//!     Ok(())
//! }
//! # }
//! ```
//!
//! # Where credentials come from
//!
//! | Source | Reloaded |
//! | --- | --- |
//! | the variable `LEASEHOLD_POSTGRES_URL` or `LEASEHOLD_REDIS_URL`, which wins | no: a process cannot see its environment change |
//! | the one folder under `SERVICE_BINDING_ROOT` whose file `type` says `postgresql` or `redis` | yes |
//! | a folder that is named in code ([`Binding::folder`]) | yes |
//!
//! A folder is a Secret mounted as a volume, in the form of the Service Binding specification:
//!
//! | File | Must be | If it is missing |
//! | --- | --- | --- |
//! | `type` | `postgresql` or `redis` | refused |
//! | `host` | a DNS name or an IP address | refused |
//! | `port` | 1 to 65535 | 5432, 6379 |
//! | `username` | text | refused; Redis: its `default` user |
//! | `password` | text | refused |
//! | `database` | text | Postgres: the server takes that of the user's name |
//! | `uri` | a URL of the same login; `rediss://` turns TLS on, its path is the number of the database | no TLS without `ca.crt` |
//! | `key-prefix` | text | `None` |
//! | `sslmode` | one of Postgres's six words | `verify-full` with `ca.crt`, else `PGSSLMODE` or `prefer` |
//! | `ca.crt` | certificates in PEM, no private key | Postgres and Redis: the system's roots |
//!
//! Every value is UTF-8, is not empty, and holds no control character: a trailing newline is refused
//! and not cut off, since nobody could say whether it belongs to a password. A file has at most
//! 1 MiB, as a whole Secret. Other files are ignored, so a rotation that is being prepared beside the
//! login in force changes nothing here.
//!
//! A mount with `subPath` is never updated by Kubernetes, so there nothing is ever reloaded.
//!
//! # How a change reaches connections
//!
//! 1. The folder is looked at every second. All files are of one version: those of the folder that
//!    Kubernetes puts in place as a whole (`..data`), or, in a folder without it, such as stood
//!    still for a second and agree with each other.
//! 2. What cannot be used is logged (`binding.refused`), and what was in force stays in force.
//! 3. A pool or connection goes over when logging in with the new credentials has worked. While it
//!    does not it stays with the old ones, unless for ten seconds neither of them has let in.
//! 4. Connections of the old login end. In the pool: those that are idle within a second or two, the
//!    others when they are given back, and one that was being opened meanwhile within the pool's
//!    `acquire_timeout` (30 s by default). In Redis: when the last command on the old connection has
//!    its answer. No request is cut off.
//!
//! So the old login must work until the kubelet has brought the new one (a minute or two with its
//! defaults) and for as long as one request holds a connection.

mod credentials;
mod folder;
mod follow;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub))] // public under `testing`
pub(crate) mod mounted;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod url;
mod watcher;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{Notify, watch};

use crate::clock::Clock;
use crate::error::StartError;
use crate::signal;

#[cfg(feature = "redis")]
pub use self::redis::RedisConnection;
pub use credentials::Credentials;

const ROOT: &str = "SERVICE_BINDING_ROOT";

/// Which server a binding is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindingKind {
    /// A Postgres.
    Postgres,
    /// A Redis, or what speaks as it does.
    Redis,
}

impl BindingKind {
    /// The word in the file `type`.
    fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgresql",
            Self::Redis => "redis",
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "LEASEHOLD_POSTGRES_URL",
            Self::Redis => "LEASEHOLD_REDIS_URL",
        }
    }
}

/// Credentials of one server, as they are now: see the [module](self).
///
/// Clones see the same. A folder is watched for as long as somebody uses it: a binding, a
/// [`watch`](Self::watch), a pool or a connection.
#[derive(Clone)]
pub struct Binding {
    place: Arc<str>,
    kind: BindingKind,
    news: watch::Receiver<Arc<Credentials>>,
    #[cfg_attr(not(feature = "redis"), allow(dead_code))] // Redis asks for a look
    look: Arc<Notify>,
    clock: Clock,
    runtime: tokio::runtime::Handle,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))] // a pool of Postgres does
    retires: bool,
}

impl Binding {
    /// From the variable of this kind, or the folder under `SERVICE_BINDING_ROOT`. Lists every
    /// problem at once, and never what a file or variable holds.
    pub async fn from_env(kind: BindingKind) -> Result<Self, StartError> {
        let names = [kind.variable(), ROOT];
        let variables = names.into_iter().filter_map(|name| {
            let value = std::env::var_os(name)?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Self::from_variables(kind, variables.collect(), Clock::boot()).await
    }

    /// From a folder in the form of the Service Binding specification. Lists every problem at once,
    /// and never what a file holds.
    pub async fn folder(path: impl Into<PathBuf>) -> Result<Self, StartError> {
        Self::watched(path.into(), None, Clock::boot()).await
    }

    /// Which server it is of.
    pub fn kind(&self) -> BindingKind {
        self.kind
    }

    /// The credentials as they are now.
    pub fn current(&self) -> Arc<Credentials> {
        self.news.borrow().clone()
    }

    /// The credentials as they are now and whenever they change, for clients other than those that
    /// this library has. It ends at once if they can never change.
    pub fn watch(&self) -> watch::Receiver<Arc<Credentials>> {
        self.news.clone()
    }

    /// Whether connections of an old login are ended. The positive control of the tests.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn retiring(mut self, retires: bool) -> Self {
        self.retires = retires;
        self
    }

    async fn from_variables(
        kind: BindingKind,
        variables: BTreeMap<&str, String>,
        clock: Clock,
    ) -> Result<Self, StartError> {
        if let Some(text) = variables.get(kind.variable()) {
            let credentials = Credentials::from_variable(kind, text)?;
            return Ok(Self::fixed(credentials, clock));
        }
        let Some(root) = variables.get(ROOT).map(PathBuf::from) else {
            return Err(StartError::new(format!(
                "{}: not set; allowed is a URL there, or in {ROOT} the folder where bindings are \
                 mounted",
                kind.variable()
            )));
        };
        let folder = blocking(move || folder::of_kind(&root, kind)).await?;
        Self::watched(folder, Some(kind), clock).await
    }

    fn fixed(credentials: Credentials, clock: Clock) -> Self {
        let kind = credentials.kind();
        let variable = kind.variable();
        signal::count(signal::BINDING_FIXED);
        tracing::info!(
            key = signal::BINDING_FIXED,
            binding = variable,
            "credentials come from a variable: a change needs a restart"
        );
        Self {
            place: variable.into(),
            kind,
            news: watch::Sender::new(Arc::new(credentials)).subscribe(),
            look: Arc::default(),
            clock,
            runtime: tokio::runtime::Handle::current(),
            retires: true,
        }
    }

    async fn watched(
        path: PathBuf,
        wanted: Option<BindingKind>,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let place: Arc<str> = path.display().to_string().into();
        let (version, credentials) = blocking(move || {
            let files = folder::read(&path).map_err(StartError::new)?;
            let credentials = Credentials::from_files(&files)?;
            Ok(((path, files.version), credentials))
        })
        .await?;
        let kind = credentials.kind();
        if wanted.is_some_and(|wanted| wanted != kind) {
            return Err(StartError::new(format!("{place}/type: has changed")));
        }
        let (sender, news) = watch::channel(Arc::new(credentials));
        let look = Arc::new(Notify::new());
        let runtime = tokio::runtime::Handle::current();
        runtime.spawn(watcher::watch(version, sender, look.clone(), clock.clone()));
        Ok(Self {
            place,
            kind,
            news,
            look,
            clock,
            runtime,
            retires: true,
        })
    }

    /// For a client of this kind alone.
    fn of_kind(&self, kind: BindingKind) -> Result<(), StartError> {
        if self.kind == kind {
            return Ok(());
        }
        Err(StartError::new(format!(
            "{}: is of {}, and not of {}",
            self.place,
            self.kind.word(),
            kind.word()
        )))
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding")
            .field("place", &self.place)
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}

/// Files of a mount are small, but the mount may hang.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StartError> + Send + 'static,
) -> Result<T, StartError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(outcome) => outcome,
        Err(error) => Err(StartError::new(format!("reading a binding: {error}"))),
    }
}

/// The name of a file in a folder, for people.
fn file(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[cfg(test)]
mod tests;
