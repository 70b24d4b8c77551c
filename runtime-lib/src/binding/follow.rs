//! When a client goes over to other credentials: once they have let it in.
//!
//! A Secret may hold what does not work, edited by hand or half of a rotation. The old login, which
//! works, is worth more than the newest one.

use std::future::Future;
use std::sync::Arc;

use leasehold_core::time::Duration;
use tokio::sync::watch;

use super::credentials::Credentials;
use crate::clock::Clock;
use crate::signal;

/// Between two tries of a login.
const PAUSE: Duration = Duration::from_secs(1);

/// How long neither the new nor the old login must work until the new one is taken untried: what is
/// wrong is then not the login (no server, no free connection), and the newest is the best guess.
const NEITHER_MAX: Duration = Duration::from_secs(10);

/// What has connections under some credentials.
pub(super) trait Client: Send + Sync {
    /// What a login leaves behind.
    type Open: Send;

    /// Logs in once, and says why that failed. Never with a password.
    fn try_login(
        &self,
        credentials: &Arc<Credentials>,
    ) -> impl Future<Output = Result<Self::Open, String>> + Send;

    /// From now on connects under these; with what the try has left, if one has worked.
    fn go_over(&self, credentials: &Arc<Credentials>, open: Option<Self::Open>);
}

/// Follows the binding until it can change no more. What is in force is the last that was seen in
/// the news.
pub(super) async fn follow(
    client: impl Client,
    place: Arc<str>,
    mut in_force: Arc<Credentials>,
    mut news: watch::Receiver<Arc<Credentials>>,
    clock: Clock,
) {
    while news.changed().await.is_ok() {
        let mut wanted = news.borrow_and_update().clone();
        let mut neither_since = None;
        let mut told = false;
        let open = loop {
            let problem = match client.try_login(&wanted).await {
                Ok(open) => break Some(open),
                Err(problem) => problem,
            };
            if client.try_login(&in_force).await.is_ok() {
                neither_since = None;
            } else {
                let since = *neither_since.get_or_insert_with(|| clock.now());
                if clock.now().since(since) >= NEITHER_MAX {
                    break None;
                }
            }
            refused(&place, &problem, !told);
            told = true;
            tokio::select! {
                () = clock.sleep(PAUSE) => {}
                Ok(()) = news.changed() => {
                    wanted = news.borrow_and_update().clone();
                    told = false;
                }
            }
        };
        client.go_over(&wanted, open);
        signal::count(signal::BINDING_CHANGED);
        tracing::info!(
            key = signal::BINDING_CHANGED,
            binding = &*place,
            username = wanted.username().unwrap_or_default(),
            "new connections use other credentials"
        );
        in_force = wanted;
    }
}

fn refused(binding: &str, problem: &str, is_first: bool) {
    signal::count(signal::BINDING_REFUSED);
    let (key, message) = (
        signal::BINDING_REFUSED,
        "the credentials of a binding do not let in; what was in force stays in force",
    );
    if is_first {
        tracing::warn!(key, binding, problem, "{message}");
    } else {
        tracing::debug!(key, binding, problem, "{message}");
    }
}
