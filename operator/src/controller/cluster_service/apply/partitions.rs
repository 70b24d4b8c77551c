//! Applies what a plan wants for the partitions: collects member Leases and writes Events.

use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use kube::{Api, ResourceExt, core::DeserializeGuard};
use leasehold_crds::condition;
use tokio::time::Instant;

use super::{DELETE_LEASE, Facts, Plan, create_event, status};
use crate::{
    belief::Heard,
    context::Context,
    controller::{cluster_service::observe::read_lease, exactly},
    error::Error,
    object::partition_event::{build_rebalanced, build_stuck},
};

/// Deletes stale member Leases (H6). The preconditions leave alone whatever was renewed or made anew
/// since we looked; the first problem does not keep the others from being collected.
pub(super) async fn collect(
    context: &Context,
    facts: &Facts,
    plan: &Plan,
    namespace: &str,
) -> Result<(), Error> {
    let api: Api<DeserializeGuard<Lease>> = Api::namespaced(context.client.clone(), namespace);
    let mut problem = None;
    for stale in &plan.stale {
        let name = facts.cluster_id.member_lease_name(&stale.pod);
        let this = exactly(Some(stale.uid.clone()), Some(stale.revision.clone()));
        let deleted = context
            .write(DELETE_LEASE, namespace, api.delete(&name, &this))
            .await;
        match deleted {
            Ok(_) => {
                context.metrics.members_collected.inc();
                let pod = &stale.pod;
                tracing::info!(key = "member.collected", namespace, cluster_id = %facts.cluster_id, pod, "a vanished pod's Lease was deleted");
                let beliefs = &context.beliefs;
                beliefs.note_reading(namespace, &name, None, Heard::ByList, Instant::now());
            }
            // Renewed or gone meanwhile, and the watch did not say so yet: what is there now counts.
            Err(error) if is_other_now(&error) => look(context, namespace, &name).await?,
            Err(Error::NotLeading) => return Err(Error::NotLeading),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    problem.map_or(Ok(()), Err)
}

fn is_other_now(error: &Error) -> bool {
    match error {
        Error::Conflict { .. } => true,
        Error::Api { source, .. } => {
            matches!(&**source, kube::Error::Api(status) if status.is_not_found())
        }
        _ => false,
    }
}

async fn look(context: &Context, namespace: &str, name: &str) -> Result<(), Error> {
    let found = read_lease(context, namespace, name).await?;
    let reading = found.as_ref().map(crate::belief::LeaseReading::of);
    let beliefs = &context.beliefs;
    beliefs.note_reading(namespace, name, reading, Heard::ByList, Instant::now());
    Ok(())
}

/// Writes the Events; the condition says the same, so a lost one costs little.
pub(super) async fn announce(
    context: &Context,
    facts: &Facts,
    plan: &Plan,
    namespace: &str,
) -> Result<(), Error> {
    let api: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    let now = jiff::Timestamp::now();
    if let Some(rebalanced) = &plan.rebalanced {
        let event = build_rebalanced(&facts.service, rebalanced, &context.instance, now);
        create_event(context, &api, namespace, &event).await?;
        context.metrics.rebalances.inc();
        tracing::info!(
            key = "partitions.rebalanced",
            namespace,
            cluster_service = facts.service.name_any(),
            epoch = rebalanced.epoch,
            moves = rebalanced.moves,
            least = rebalanced.least,
            reason = rebalanced.reason,
            "partitions were rebalanced"
        );
    }
    if let Some(stuck) = &plan.stuck {
        let said = status::status(facts, plan, Vec::new(), None, now);
        let mut conditions = said.conditions.into_iter();
        let found = conditions.find(|it| it.type_ == condition::HANDOFF_STUCK);
        let message = found.map(|it| it.message).unwrap_or_default();
        let event = build_stuck(&facts.service, stuck, &message, &context.instance, now);
        create_event(context, &api, namespace, &event).await?;
        let cluster_service = facts.service.name_any();
        tracing::warn!(
            key = "handoff.stuck",
            namespace,
            cluster_service,
            message,
            "a handoff does not end"
        );
    }
    Ok(())
}
