//! What tells this installation apart on servers that several Kubernetes clusters share.

use std::sync::OnceLock;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};

use crate::error::{Action, Error};

/// The namespace that lives as long as its cluster.
const LASTING: &str = "kube-system";
const GET_NAMESPACE: Action = Action {
    verb: "get",
    group: "",
    resource: "namespaces",
};

/// The id of this installation: given by a flag, else the uid of kube-system, read once.
pub struct Installation {
    client: Client,
    id: OnceLock<String>,
}

impl Installation {
    /// The given id, or one that is read when it is first needed.
    pub fn new(client: Client, given: Option<String>) -> Self {
        let id = OnceLock::new();
        if let Some(given) = given {
            id.get_or_init(|| given);
        }
        Self { client, id }
    }

    /// The id; reads until it succeeded once. Without it no name on a server can be known.
    pub async fn id(&self) -> Result<&str, Error> {
        if let Some(id) = self.id.get() {
            return Ok(id);
        }
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = api.get_metadata(LASTING).await;
        let found = found.map_err(|error| Error::from_kube(GET_NAMESPACE, LASTING, error))?;
        let uid = found.uid().unwrap_or_default();
        Ok(self.id.get_or_init(|| uid))
    }
}
