//! A pool of Postgres connections that goes over to another login while it is used.
//!
//! sqlx can change what its pool connects with, and asks before a connection goes back into the pool
//! whether it may. What was opened before the change may not; and what was being opened meanwhile is
//! caught by a second cut, after the longest time that opening may take.

use std::str::FromStr as _;
use std::sync::Arc;

use leasehold_core::time::{Duration, Instant};
use secrecy::ExposeSecret as _;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::watch;

use super::credentials::Credentials;
use super::follow::{Client, follow};
use super::{Binding, BindingKind};
use crate::clock::Clock;
use crate::error::StartError;

/// From one sweep of idle connections to the next.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Sweeps after the second cut: some connections may just be going back into the pool.
const LAST_SWEEPS: usize = 3;

/// How long one try of a login may take.
const LOGIN_MAX: Duration = Duration::from_secs(10);

impl Binding {
    /// A pool that always connects with the newest credentials that let it in: see the
    /// [module](super). It connects when it is first used.
    ///
    /// `after_release` of the options is replaced; everything else in them is kept. The pool goes on
    /// following the binding until it is closed, with [`PgPool::close`].
    ///
    /// A connection that is never given back (a listener, a transaction without end) keeps its
    /// login. So does one of a database whose login is the same and whose password alone has
    /// changed, until it is given back.
    pub fn postgres_pool(&self, options: PgPoolOptions) -> Result<PgPool, StartError> {
        self.of_kind(BindingKind::Postgres)?;
        let mut news = self.news.clone();
        // Marks the present as seen, so that whatever comes after it is followed.
        let credentials = news.borrow_and_update().clone();
        let connect = connect_options(&credentials)
            .map_err(|problem| StartError::new(format!("{}: {problem}", self.place)))?;
        let opening_max = options.get_acquire_timeout();
        let (cuts, cut) = watch::channel(None);
        let clock = self.clock.clone();
        let options = if self.retires {
            options.after_release(move |_, connection| {
                let keeps = !is_older(connection.age, *cut.borrow(), &clock);
                Box::pin(async move { Ok(keeps) })
            })
        } else {
            options
        };
        let _entered = self.runtime.enter(); // sqlx starts tasks of its own
        let pool = options.connect_lazy_with(connect);
        let clock = self.clock.clone();
        let client = Login {
            pool: pool.clone(),
            cuts: cuts.clone(),
            clock: clock.clone(),
        };
        let following = follow(client, self.place.clone(), credentials, news, clock.clone());
        let sweeping = sweep(pool.clone(), cuts, opening_max, clock);
        let mut closed = pool.close_event();
        self.runtime.spawn(async move {
            let both = async { tokio::join!(following, sweeping) };
            let _ = Box::pin(closed.do_until(both)).await;
        });
        Ok(pool)
    }
}

/// What a pool connects with.
pub(super) fn connect_options(credentials: &Credentials) -> Result<PgConnectOptions, String> {
    if let Some(url) = &credentials.url {
        let options = PgConnectOptions::from_str(url.expose_secret());
        // Its own words may repeat a value.
        return options.map_err(|_| "has a parameter whose value is not allowed".to_owned());
    }
    let mut options = PgConnectOptions::new_without_pgpass()
        .host(credentials.host())
        .port(credentials.port());
    if let Some(username) = credentials.username() {
        options = options.username(username);
        options = options.database(credentials.database().unwrap_or(username));
    }
    if let Some(password) = credentials.password() {
        options = options.password(password.expose_secret());
    }
    if let Some(mode) = &credentials.ssl_mode {
        let mode = PgSslMode::from_str(mode);
        options = options.ssl_mode(mode.map_err(|_| "sslmode is not allowed".to_owned())?);
    }
    if let Some(ca) = &credentials.ca {
        options = options.ssl_root_cert_from_pem(ca.clone());
    }
    Ok(options)
}

/// A connection of this age was opened before the cut.
fn is_older(age: Duration, cut: Option<Instant>, clock: &Clock) -> bool {
    cut.is_some_and(|cut| age > clock.now().since(cut))
}

struct Login {
    pool: PgPool,
    cuts: watch::Sender<Option<Instant>>,
    clock: Clock,
}

impl Client for Login {
    type Open = ();

    async fn try_login(&self, credentials: &Arc<Credentials>) -> Result<(), String> {
        let options = connect_options(credentials)?;
        let login = async {
            let connection = options.connect().await.map_err(|error| error.to_string())?;
            let _ = connection.close().await;
            Ok(())
        };
        tokio::select! {
            outcome = login => outcome,
            () = self.clock.sleep(LOGIN_MAX) => Err("no answer to a login".to_owned()),
        }
    }

    fn go_over(&self, credentials: &Arc<Credentials>, _: Option<()>) {
        let Ok(options) = connect_options(credentials) else {
            return; // it was tried before
        };
        self.pool.set_connect_options(options);
        self.cuts.send_replace(Some(self.clock.now()));
    }
}

/// Ends idle connections that are older than the cut, and makes the second cut. Runs for ever.
async fn sweep(
    pool: PgPool,
    cuts: watch::Sender<Option<Instant>>,
    opening_max: Duration,
    clock: Clock,
) {
    let mut cut = cuts.subscribe();
    loop {
        if cut.changed().await.is_err() {
            return;
        }
        let Some(first) = *cut.borrow_and_update() else {
            continue;
        };
        let mut left = LAST_SWEEPS;
        let mut is_second = false;
        while left > 0 {
            give_back_all(&pool);
            if is_second {
                left -= 1;
            } else if clock.now().since(first) > opening_max {
                cuts.send_replace(Some(clock.now()));
                cut.mark_unchanged();
                is_second = true;
            }
            tokio::select! {
                () = clock.sleep(SWEEP_EVERY) => {}
                // Another change: from the beginning.
                _ = cut.changed() => {
                    cut.mark_changed();
                    break;
                }
            }
        }
    }
}

/// Takes each idle connection out of the pool and gives it back, upon which it is judged.
fn give_back_all(pool: &PgPool) {
    for _ in 0..pool.num_idle() {
        let Some(connection) = pool.try_acquire() else {
            return;
        };
        drop(connection);
    }
}
