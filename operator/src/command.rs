//! What the program prints instead of running: one read, one page, no watch and no write.

mod partitions;

use std::{path::Path, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::ListParams, core::DeserializeGuard};
use leasehold_crds::{ClusterService, keys};

use crate::{
    args::Command,
    belief::record::shortened,
    run::{self, RunError},
};

/// Somebody waits for the page.
const PATIENCE: Duration = Duration::from_secs(15);

/// The page that was asked for.
pub fn in_runtime(command: Command, kubeconfig: Option<&Path>) -> Result<String, RunError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?
        .block_on(page(command, kubeconfig))
}

async fn page(command: Command, kubeconfig: Option<&Path>) -> Result<String, RunError> {
    let Command::Partitions { name, namespace } = command;
    let config = run::config(kubeconfig).await?;
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let what = format!("ClusterService {name} in namespace {namespace}");
    let unread = |problem: String| RunError::Unread {
        what: what.clone(),
        problem,
    };
    let client = Client::try_from(config).map_err(|error| unread(error.to_string()))?;
    let reading = read(client, &namespace, &name);
    let (service, leases) = tokio::time::timeout(PATIENCE, reading)
        .await
        .map_err(|_elapsed| unread(format!("no answer within {} s", PATIENCE.as_secs())))?
        .map_err(unread)?;
    partitions::page(&service, &leases).map_err(unread)
}

type Leases = Vec<DeserializeGuard<Lease>>;

async fn read(
    client: Client,
    namespace: &str,
    name: &str,
) -> Result<(ClusterService, Leases), String> {
    let said = |error: kube::Error| shortened(&error.to_string());
    let services: Api<ClusterService> = Api::namespaced(client.clone(), namespace);
    let service = services.get(name).await.map_err(said)?;
    let id = service.cluster_id().map_err(|error| error.to_string())?;
    let ours = ListParams::default().labels(&format!(
        "{}={id},{} in ({}, {})",
        keys::LABEL_CLUSTER_ID,
        keys::LABEL_LEASE,
        keys::LEASE_MEMBER,
        keys::LEASE_ASSIGNMENT
    ));
    let leases: Api<DeserializeGuard<Lease>> = Api::namespaced(client, namespace);
    let leases = leases.list(&ours).await.map_err(said)?;
    Ok((service, leases.items))
}
