//! The namespaces of services: uid and labels, remembered for a moment.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use crate::{
    belief::Beliefs,
    error::{Action, Error},
};

const GET_NAMESPACE: Action = Action {
    verb: "get",
    group: "",
    resource: "namespaces",
};
/// A thousand new services in one namespace ask once; a changed label counts after this.
const MOMENT: Duration = Duration::from_secs(10);

/// A namespace that may have logins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Another namespace of the same name has another one (C7).
    pub uid: String,
    /// What `allowedNamespaces` selects by.
    pub labels: BTreeMap<String, String>,
    /// It is being deleted: nothing can be made in it.
    pub is_terminating: bool,
}

/// See the module. What was read before the newest service of a namespace was seen counts no more: the
/// namespace may have been deleted and made again in between, for somebody else.
pub struct Tenants {
    client: Client,
    beliefs: Arc<Beliefs>,
    limit: Duration,
    seen: Mutex<HashMap<String, Seen>>,
}

/// A namespace, or that there is none, as it was then.
#[derive(Clone)]
struct Seen {
    at: Instant,
    tenant: Option<Arc<Tenant>>,
}

impl Tenants {
    /// Reads take at most `limit`.
    pub fn new(client: Client, beliefs: Arc<Beliefs>, limit: Duration) -> Self {
        Self {
            client,
            beliefs,
            limit,
            seen: Mutex::default(),
        }
    }

    /// A namespace as it was at most ten seconds ago; none if there is none.
    pub async fn get(&self, namespace: &str) -> Result<Option<Arc<Tenant>>, Error> {
        if let Some(seen) = self.remembered(namespace) {
            return Ok(seen.tenant);
        }
        let asked = Instant::now();
        let api: Api<Namespace> = Api::all(self.client.clone());
        let read = tokio::time::timeout(self.limit, api.get_metadata_opt(namespace)).await;
        let found = read
            .map_err(|_elapsed| Error::Timeout {
                action: GET_NAMESPACE,
                limit: self.limit,
            })?
            .map_err(|error| Error::from_kube(GET_NAMESPACE, namespace, error))?;
        let tenant = found.map(|found| {
            Arc::new(Tenant {
                uid: found.uid().unwrap_or_default(),
                labels: found.labels().clone(),
                is_terminating: found.metadata.deletion_timestamp.is_some(),
            })
        });
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, seen| seen.at.elapsed() < MOMENT);
        let now = Seen {
            at: asked,
            tenant: tenant.clone(),
        };
        seen.insert(namespace.to_owned(), now);
        Ok(tenant)
    }

    fn remembered(&self, namespace: &str) -> Option<Seen> {
        let newest = self.beliefs.newest_service(namespace);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = seen.get(namespace)?;
        let is_late_enough = newest.is_none_or(|newest| seen.at > newest);
        (is_late_enough && seen.at.elapsed() < MOMENT).then(|| seen.clone())
    }
}
