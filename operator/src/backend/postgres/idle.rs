//! A connection that does nothing but end with its server.

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::time::timeout;

use super::{Server, session};
use crate::backend::BackendError;

/// See the module.
pub struct Idle(PgListener);

impl Server {
    /// Logs in as the admin, and asks nothing.
    pub async fn idle(&self) -> Result<Idle, BackendError> {
        let way = self.way(&self.endpoint.database);
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(session::CONNECT_MAX)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(session::options(&way));
        let opened = timeout(session::CONNECT_MAX, PgListener::connect_with(&pool)).await;
        let unreachable = |problem: &str| BackendError::Unreachable {
            server: self.endpoint.to_string(),
            problem: problem.to_owned(),
        };
        match opened {
            Ok(Ok(mut listener)) => {
                listener.eager_reconnect(false);
                Ok(Idle(listener))
            }
            // Whoever has work to do there says why.
            Ok(Err(_)) => Err(unreachable("no login")),
            Err(_) => Err(unreachable("no login in time")),
        }
    }
}

impl Idle {
    /// Waits until the server closes it, or is gone.
    pub async fn ended(mut self) {
        while let Ok(Some(_)) = self.0.try_recv().await {}
    }
}
