//! A Lease that client-go made has none of our labels (E4).

use leasehold_crds::keys;
use leasehold_e2e::audit::{Filter, Request};
use leasehold_e2e::chaos::candidates::{ClientGo, ClientGoOptions, Workload};
use leasehold_e2e::cluster::lease_rules;
use leasehold_e2e::{Result, wait};

use crate::ground::{Ground, PATIENCE, demand, lease, transitions};

/// It is watched by name until our own write has labelled it, and by label from then on.
pub(crate) async fn a_lease_made_by_client_go_is_taken_over_and_then_watched_by_label(
    ground: &Ground,
) -> Result<()> {
    let (service, name) = ("from-client-go", lease("from-client-go"));
    let plane = ground.namespace.cluster().control_plane();
    let mark = plane.map(|plane| plane.audit_log().mark()).transpose()?;
    let rival = ClientGo::start(
        "client-go-maker",
        &ClientGoOptions {
            namespace: ground.namespace.name().to_owned(),
            kubeconfig: ground.account.kubeconfig.clone(),
            leases: vec![name.clone()],
            timing: ClientGoOptions::FAST,
            folder: ground.folder.clone(),
        },
    )?;
    rival.until("started", &name, 0, PATIENCE).await?;
    let made = ground.lease(service).await?;
    demand(made.metadata.labels.is_none(), || {
        format!("client-go set labels: {made:?}")
    })?;

    let ours = start_as(ground, "client-go-heir").await?;
    ours.until("its start", service, 0, PATIENCE, |_| true)
        .await?;
    rival.process().kill();
    let gained = ours.gained(service, 0, PATIENCE).await?;
    demand(
        gained.term.map(i64::from) == Some(i64::from(transitions(&made)) + 1),
        || format!("not the term after client-go's: {made:?}, then {gained:?}"),
    )?;
    let labels = ground
        .lease(service)
        .await?
        .metadata
        .labels
        .unwrap_or_default();
    demand(
        labels
            .get(keys::LABEL_CLUSTER_ID)
            .is_some_and(|id| id == service),
        || format!("the Lease was not labelled: {labels:?}"),
    )?;

    // Whoever comes later finds it by its label alone, and sees its end at once.
    let late = start_as(ground, "client-go-late").await?;
    late.until("its start", service, 0, PATIENCE, |_| true)
        .await?;
    if let (Some(plane), Some(mark)) = (plane, mark) {
        let watches = |account: &str| {
            let filter = Filter::default().account(ground.namespace.name(), account);
            plane.audit_log().since(mark, &filter.verbs(&["watch"]))
        };
        wait::until_true("a watch of the late one", PATIENCE, || async {
            Ok(!watches("client-go-late")?.is_empty())
        })
        .await?;
        let is_by_name = |request: &Request| request.uri.contains("fieldSelector");
        let (heir, late) = (watches("client-go-heir")?, watches("client-go-late")?);
        demand(heir.iter().any(is_by_name), || {
            format!("never watched by name: {heir:?}")
        })?;
        demand(!late.iter().any(is_by_name), || {
            format!("still watched by name: {late:?}")
        })?;
    }
    ours.terminate()?;
    late.gained(service, gained.t, PATIENCE).await?;
    Ok(())
}

/// With an account of its own, so that the audit log tells its requests.
async fn start_as(ground: &Ground, name: &str) -> Result<Workload> {
    let mut options = ground.options("from-client-go");
    options.kubeconfig = ground
        .namespace
        .account(name, lease_rules())
        .await?
        .kubeconfig;
    Workload::start(name, &options)
}
