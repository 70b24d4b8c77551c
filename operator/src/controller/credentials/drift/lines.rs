//! Idle connections whose end tells that a server went away. Nothing is sent over them, so they cost a
//! settled server nothing.

use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};

use tokio::{io::AsyncReadExt as _, net::TcpStream, sync::mpsc, task::AbortHandle};

use crate::{backend::redis::Address, context::Context, credential::servers::Server};

/// How often a server that went away is knocked at.
const KNOCK_EVERY: Duration = Duration::from_millis(200);
/// How often one that wants a login first is.
const LOG_IN_EVERY: Duration = Duration::from_millis(500);
/// How long one knock may take.
const KNOCK_MAX: Duration = Duration::from_secs(2);

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whom {
    /// A node of a Redis, by TCP alone, so that it learns nothing.
    Node(Address),
    /// A Postgres, which soon closes a connection that does not log in.
    Session,
}

/// All of one class; closed when dropped.
pub(super) struct Lines {
    context: Arc<Context>,
    class: String,
    stirs: mpsc::UnboundedSender<()>,
    open: BTreeMap<Whom, AbortHandle>,
}

impl Lines {
    pub(super) fn new(
        context: Arc<Context>,
        class: String,
        stirs: mpsc::UnboundedSender<()>,
    ) -> Self {
        Self {
            context,
            class,
            stirs,
            open: BTreeMap::new(),
        }
    }

    /// One for each of these, and no others.
    pub(super) fn keep(&mut self, wanted: &[Whom]) {
        self.open.retain(|whom, line| {
            let is_wanted = wanted.contains(whom);
            if !is_wanted {
                line.abort();
            }
            is_wanted
        });
        for whom in wanted {
            if !self.open.contains_key(whom) {
                let stirs = self.stirs.clone();
                let line = match whom {
                    Whom::Node(node) => tokio::spawn(to_node(node.to_string(), stirs)),
                    Whom::Session => {
                        tokio::spawn(to_postgres(self.context.clone(), self.class.clone(), stirs))
                    }
                };
                self.open.insert(whom.clone(), line.abort_handle());
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.open.values().for_each(AbortHandle::abort);
    }
}

/// Tells when a node goes, since its group may fail over, and when it is there again.
async fn to_node(address: String, stirs: mpsc::UnboundedSender<()>) {
    let mut was_away = false;
    loop {
        let knocked = tokio::time::timeout(KNOCK_MAX, TcpStream::connect(&address)).await;
        if let Ok(Ok(mut stream)) = knocked {
            if was_away && stirs.send(()).is_err() {
                return;
            }
            let mut byte = [0];
            // Whatever it says, only its end matters.
            while stream.read(&mut byte).await.is_ok_and(|read| read > 0) {}
        }
        was_away = true;
        tokio::time::sleep(KNOCK_EVERY).await;
    }
}

/// Tells each time a Postgres is there again: who was promoted may lack the last changes.
async fn to_postgres(context: Arc<Context>, class: String, stirs: mpsc::UnboundedSender<()>) {
    let mut was_away = false;
    loop {
        let Some((namespace, _)) = context.credentials.somebody(&class) else {
            return pending().await;
        };
        if let Ok(served) = context.servers.get(&class, &namespace).await
            && let Server::Postgres(server) = &served.server
            && let Ok(idle) = server.idle().await
        {
            if was_away && stirs.send(()).is_err() {
                return;
            }
            idle.ended().await;
        }
        was_away = true;
        tokio::time::sleep(LOG_IN_EVERY).await;
    }
}
