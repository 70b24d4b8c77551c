//! A Redis connection that goes over to another login while it is used.
//!
//! redis-rs gives up a connection for good when its login is refused once, so a user that is made
//! again a second later (a Redis that restarted empty) would never be used again. Here the
//! connection is made anew as well, and what was never sent waits for it.

use std::fmt;
use std::sync::{Arc, Weak};

use leasehold_core::time::Duration;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{
    Client as RedisClient, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo as _, Pipeline,
    RedisConnectionInfo, RedisError, RedisFuture, RedisResult, TlsCertificates, Value,
};
use secrecy::ExposeSecret as _;
use tokio::sync::{Notify, watch};

use super::credentials::Credentials;
use super::follow::{Client, follow};
use super::{Binding, BindingKind};
use crate::clock::Clock;
use crate::error::StartError;

/// How long what was never sent waits for a connection that takes it.
const UNSENT_MAX: Duration = Duration::from_secs(3);

/// From one connection that was refused to the next.
const PAUSE: Duration = Duration::from_millis(250);

impl Binding {
    /// A connection that always logs in with the newest credentials that let it in: see the
    /// [module](super). It connects when it is first used.
    ///
    /// `number_of_retries` of the configuration is not used: see [`RedisConnection`].
    pub fn redis(&self, config: ConnectionManagerConfig) -> Result<RedisConnection, StartError> {
        self.of_kind(BindingKind::Redis)?;
        let mut news = self.news.clone();
        // Marks the present as seen, so that whatever comes after it is followed.
        let credentials = news.borrow_and_update().clone();
        let config = config.set_number_of_retries(0);
        let _entered = self.runtime.enter(); // redis starts tasks of its own
        let line = Line::new(credentials.clone(), &config, 0)
            .map_err(|error| StartError::new(format!("{}: {}", self.place, said(&error))))?;
        let shared = Arc::new(Shared {
            line: watch::Sender::new(line),
            config,
            look: self.look.clone(),
            clock: self.clock.clone(),
        });
        let login = Login {
            shared: Arc::downgrade(&shared),
        };
        let following = follow(
            login,
            self.place.clone(),
            credentials,
            news,
            self.clock.clone(),
        );
        let mut lines = shared.line.subscribe();
        self.runtime.spawn(async move {
            tokio::select! {
                () = following => {}
                // Until the last connection is dropped.
                () = async { while lines.changed().await.is_ok() {} } => {}
            }
        });
        Ok(RedisConnection { shared })
    }
}

/// A connection to Redis that is shared by its clones, made again when it is lost, and goes over to
/// the next login of its [`Binding`]. It stands wherever redis-rs takes a `ConnectionLike`, and
/// [`RedisFences::new`](crate::fence::RedisFences::new) takes it too.
///
/// | What happens | What the caller sees |
/// | --- | --- |
/// | the login changes | nothing; commands on the old connection get their answers there, and with the last of them it is closed |
/// | the login is refused, or nobody listens | the command was never sent, so it waits and is tried again, for three seconds |
/// | the connection is lost | an error: the command may have been run. The next one finds a new connection |
///
/// Each command may go over another connection than the one before, so state of a connection is not
/// kept: no `SELECT`, no `WATCH` in a call of its own, no subscriptions. For these, connect with
/// [`Binding::watch`].
#[derive(Clone)]
pub struct RedisConnection {
    shared: Arc<Shared>,
}

struct Shared {
    line: watch::Sender<Line>,
    config: ConnectionManagerConfig,
    look: Arc<Notify>,
    clock: Clock,
}

/// One connection after the other under one login.
#[derive(Clone)]
struct Line {
    number: u64,
    credentials: Arc<Credentials>,
    manager: ConnectionManager,
    db: i64,
}

impl Line {
    /// Connects when it is first used.
    fn new(
        credentials: Arc<Credentials>,
        config: &ConnectionManagerConfig,
        number: u64,
    ) -> RedisResult<Self> {
        let client = client(&credentials)?;
        let db = client.get_connection_info().redis_settings().db();
        Ok(Self {
            number,
            credentials,
            manager: ConnectionManager::new_lazy_with_config(client, config.clone())?,
            db,
        })
    }
}

impl Shared {
    async fn send<'a, T>(
        &self,
        request: impl Fn(ConnectionManager) -> RedisFuture<'a, T> + Send + Sync,
    ) -> RedisResult<T> {
        let mut until = None;
        loop {
            let line = self.line.borrow().clone();
            let (number, manager) = (line.number, line.manager);
            let error = match request(manager).await {
                Err(error) if was_never_sent(&error) => error,
                outcome => return outcome,
            };
            let now = self.clock.now();
            let until = *until.get_or_insert_with(|| now.after(UNSENT_MAX));
            if now >= until {
                return Err(error);
            }
            self.replaced(number).await?;
        }
    }

    /// Returns when another connection than this one is to be tried.
    async fn replaced(&self, number: u64) -> RedisResult<()> {
        self.look.notify_one(); // perhaps the next login is there already
        let mut lines = self.line.subscribe();
        let is_next = |line: &Line| line.number != number;
        tokio::select! {
            _ = lines.wait_for(is_next) => return Ok(()),
            () = self.clock.sleep(PAUSE) => {}
        }
        let mut failed = None;
        self.line.send_if_modified(|line| {
            if line.number != number {
                return false;
            }
            match Line::new(line.credentials.clone(), &self.config, number + 1) {
                Ok(next) => *line = next,
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        });
        failed.map_or(Ok(()), Err)
    }
}

/// Only what is certain: the connection was refused, or the login, before there was anything to send
/// on; or the server wanted a login before it would take the command.
fn was_never_sent(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || error.is_connection_refusal()
        || error.code() == Some("NOAUTH")
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.shared.send(move |mut manager| {
            Box::pin(async move { manager.send_packed_command(command).await })
        }))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.shared.send(move |mut manager| {
            Box::pin(async move { manager.send_packed_commands(pipeline, offset, count).await })
        }))
    }

    fn get_db(&self) -> i64 {
        self.shared.line.borrow().db
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credentials = self.shared.line.borrow().credentials.clone();
        f.debug_struct("RedisConnection")
            .field("credentials", &credentials)
            .finish_non_exhaustive()
    }
}

/// A client of these credentials, which has not connected yet.
fn client(credentials: &Credentials) -> RedisResult<RedisClient> {
    let (host, port) = (credentials.host().to_owned(), credentials.port());
    if let Some(url) = &credentials.url {
        return RedisClient::open(url.expose_secret());
    }
    let address = if credentials.tls {
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    let number = credentials.database().and_then(|db| db.parse().ok());
    let mut settings = RedisConnectionInfo::default().set_db(number.unwrap_or(0));
    if let Some(username) = credentials.username() {
        settings = settings.set_username(username);
    }
    if let Some(password) = credentials.password() {
        settings = settings.set_password(password.expose_secret());
    }
    let info = address.into_connection_info()?.set_redis_settings(settings);
    match &credentials.ca {
        Some(ca) => {
            let certificates = TlsCertificates {
                client_tls: None,
                root_cert: Some(ca.clone()),
            };
            RedisClient::build_with_tls(info, certificates)
        }
        None => RedisClient::open(info),
    }
}

/// An error, for people. Redis repeats no password.
fn said(error: &RedisError) -> String {
    error.to_string()
}

struct Login {
    shared: Weak<Shared>,
}

impl Client for Login {
    type Open = Option<ConnectionManager>;

    async fn try_login(&self, credentials: &Arc<Credentials>) -> Result<Self::Open, String> {
        let Some(shared) = self.shared.upgrade() else {
            return Ok(None); // nobody is left
        };
        let login = async {
            let client = client(credentials)?;
            ConnectionManager::new_with_config(client, shared.config.clone()).await
        };
        login.await.map(Some).map_err(|error| said(&error))
    }

    fn go_over(&self, credentials: &Arc<Credentials>, open: Option<Self::Open>) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        shared.line.send_if_modified(|line| {
            let Ok(mut next) = Line::new(credentials.clone(), &shared.config, line.number + 1)
            else {
                return false; // it was tried before
            };
            // Already open, so the next command need not wait for it.
            if let Some(manager) = open.flatten() {
                next.manager = manager;
            }
            *line = next;
            true
        });
    }
}
