//! One service at one server: the same words for both stores.

use std::sync::Arc;

use leasehold_core::credential::{Policy, ServerState, Slot};
use leasehold_crds::cluster_service::BackendKind;
use secrecy::SecretString;

use crate::{
    backend::{BackendError, Removal, Sight, Subject, Verifier, postgres, redis},
    credential::{
        secret::Binding,
        servers::{Served, Server},
    },
};

/// Who asks for what, and where.
pub struct Account {
    /// Which store.
    pub kind: BackendKind,
    /// Name of its class.
    pub class: String,
    /// Where it is, for people.
    pub address: String,
    /// The server.
    pub served: Arc<Served>,
    /// What is wanted there.
    pub asks: Asks,
    /// For whom its Secret is made.
    pub binding: Binding,
    /// By which rules it rotates.
    pub policy: Policy,
    /// What a namespace of the same name left may be taken over (C7).
    pub adopts: bool,
    /// Why nothing is changed, if so; what would be is said instead.
    pub plans_only: Option<String>,
}

/// What is wanted of a server.
#[derive(Clone, Debug)]
pub enum Asks {
    /// Of a Postgres.
    Postgres(Subject<postgres::Wants>),
    /// Of a Redis.
    Redis(Subject<redis::Wants>),
}

/// Calls the same method of whichever store it is.
macro_rules! ask {
    ($account:expr, $method:ident $(, $argument:expr)*) => {
        match (&$account.served.server, &$account.asks) {
            (Server::Postgres(server), Asks::Postgres(subject)) => {
                server.$method(subject $(, $argument)*).await
            }
            (Server::Redis(server), Asks::Redis(subject)) => {
                server.$method(subject $(, $argument)*).await
            }
            _ => Err($account.is_of_the_other_kind()),
        }
    };
}

impl Account {
    /// What the server shows of the service.
    pub async fn look(&self) -> Result<ServerState, BackendError> {
        ask!(self, look)
    }

    /// Makes or mends the shared part.
    pub async fn provision(&self) -> Result<(), BackendError> {
        ask!(self, provision)
    }

    /// Gives a login its verifier.
    pub async fn set_login(
        &self,
        generation: u64,
        verifier: &Verifier,
    ) -> Result<(), BackendError> {
        ask!(self, set_login, generation, verifier)
    }

    /// Logs in as a client would.
    pub async fn verify(&self, slot: Slot, password: &SecretString) -> Result<(), BackendError> {
        ask!(self, verify, slot, password)
    }

    /// Ends a former login; a later one under the same name is left alone where the server can tell (C5).
    pub async fn end_previous(&self, slot: Slot, generation: u64) -> Result<(), BackendError> {
        match (&self.served.server, &self.asks) {
            (Server::Postgres(server), Asks::Postgres(subject)) => {
                server.end_generation(subject, generation).await
            }
            (Server::Redis(server), Asks::Redis(subject)) => server.end_login(subject, slot).await,
            _ => Err(self.is_of_the_other_kind()),
        }
    }

    /// What there is to remove now.
    pub async fn sight(&self) -> Result<Sight, BackendError> {
        match (&self.served.server, &self.asks) {
            (Server::Postgres(server), Asks::Postgres(subject)) => server.sight(subject).await,
            _ => Ok(Sight::default()),
        }
    }

    /// Removes both logins, and the shared part if nobody else needs it; nothing that was not seen, where
    /// the server can tell (C5).
    pub async fn remove(&self, with_shared: bool, sight: &Sight) -> Result<Removal, BackendError> {
        match (&self.served.server, &self.asks) {
            (Server::Postgres(server), Asks::Postgres(subject)) => {
                server.remove(subject, with_shared, sight).await
            }
            (Server::Redis(server), Asks::Redis(subject)) => server.remove(subject).await,
            _ => Err(self.is_of_the_other_kind()),
        }
    }

    /// Names under which a survey shows what belongs to it.
    pub fn survey_names(&self) -> Vec<String> {
        match &self.asks {
            Asks::Postgres(subject) => postgres::Server::survey_names(subject),
            Asks::Redis(subject) => Slot::ALL
                .into_iter()
                .map(|slot| subject.names.login(slot))
                .collect(),
        }
    }

    fn is_of_the_other_kind(&self) -> BackendError {
        BackendError::Invalid {
            field: "className",
            problem: format!(
                "found {}, which is no {} class; allowed: one that is",
                self.class,
                self.kind.as_str()
            ),
        }
    }
}
