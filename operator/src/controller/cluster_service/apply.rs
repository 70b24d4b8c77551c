//! Apply: performs a plan. Every step may be repeated: after a crash between any two writes the next
//! pass ends in the same objects and Events. Order: settings, stale members, Events, status.

mod partitions;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace, events::v1::Event};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use leasehold_crds::{
    ClusterService, LeadershipTerm, Settings,
    condition::{self, reason},
    keys,
};
use serde_json::json;

use super::{
    observe::{Facts, GET_LEASE, SettingsFacts, settings_facts},
    plan::{Plan, SettingsStep, history_after},
    status,
};
use crate::{
    belief::{LeaseReading, record::shortened},
    context::Context,
    controller::exactly,
    error::{Action, Error},
    object::{event::build_events, settings_lease::build_settings_lease},
};

const LEASES: Action = Action {
    verb: "create",
    group: "coordination.k8s.io",
    resource: "leases",
};
const DELETE_LEASE: Action = Action {
    verb: "delete",
    ..LEASES
};
const CREATE_EVENT: Action = Action {
    verb: "create",
    group: "events.k8s.io",
    resource: "events",
};
const GET_NAMESPACE: Action = Action {
    verb: "get",
    group: "",
    resource: "namespaces",
};
const PATCH_STATUS: Action = Action {
    verb: "patch",
    group: keys::GROUP,
    resource: "clusterservices/status",
};

/// Performs the plan; the first problem is in the status, and is returned for the back-off.
pub async fn apply(context: &Context, facts: &Facts, plan: &Plan) -> Result<(), Error> {
    let namespace = facts.service.namespace().unwrap_or_default();
    let mut problem = apply_settings(context, facts, plan, &namespace).await.err();
    problem = problem.or(partitions::collect(context, facts, plan, &namespace)
        .await
        .err());
    let (announced, trouble) = announce(context, facts, plan, &namespace).await;
    problem = problem.or(trouble);
    let trouble = partitions::announce(context, facts, plan, &namespace).await;
    problem = problem.or(trouble.err());
    if matches!(problem, Some(Error::NotLeading)) {
        return Err(Error::NotLeading);
    }
    let history = history_after(&plan.history, announced);
    let said = problem.as_ref().filter(|problem| is_worth_saying(problem));
    let status = status::status(facts, plan, history, said, jiff::Timestamp::now());
    write_status(context, facts, &namespace, &status).await?;
    problem.map_or(Ok(()), Err)
}

/// A conflict resolves itself with the next news; saying it would only make status flicker.
fn is_worth_saying(problem: &Error) -> bool {
    !matches!(problem, Error::Conflict { .. } | Error::NotLeading)
}

async fn apply_settings(
    context: &Context,
    facts: &Facts,
    plan: &Plan,
    namespace: &str,
) -> Result<(), Error> {
    let api: Api<Lease> = Api::namespaced(context.client.clone(), namespace);
    let name = facts.cluster_id.settings_lease_name();
    match &plan.settings {
        SettingsStep::Keep => match &facts.settings {
            SettingsFacts::Foreign(why) if facts.service.spec.leader_strategy.is_some() => {
                Err(Error::Foreign {
                    lease: name,
                    why: why.clone(),
                })
            }
            SettingsFacts::Foreign(_) | SettingsFacts::Absent | SettingsFacts::Ours { .. } => {
                Ok(())
            }
        },
        SettingsStep::Write { settings, owners } => {
            if facts.settings == SettingsFacts::Absent && !was_foreign(facts) {
                // Most often it is really absent; a Lease without our labels shows as a conflict.
                match write_settings(context, facts, &api, None, settings, owners).await {
                    Err(Error::Conflict { .. }) => {}
                    result => return result,
                }
            }
            // Read now, so that a stranger's Lease is left alone and a PUT names the revision that
            // it replaces.
            let found = context
                .within(GET_LEASE, namespace, api.get_opt(&name))
                .await?;
            write_settings(context, facts, &api, found, settings, owners).await
        }
        SettingsStep::Delete => {
            let Some(found) = context
                .within(GET_LEASE, namespace, api.get_opt(&name))
                .await?
            else {
                return Ok(());
            };
            if foreign(&found, facts).is_some() {
                return Ok(());
            }
            let exactly_this = exactly(found.uid(), found.resource_version());
            context
                .write(DELETE_LEASE, namespace, api.delete(&name, &exactly_this))
                .await
                .map(drop)
        }
    }
}

/// A stranger's Lease was met before: look first instead of trying again and again.
fn was_foreign(facts: &Facts) -> bool {
    let status = facts.service.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| &status.conditions);
    conditions.any(|it| it.type_ == condition::STALLED && it.reason == reason::LEASE_FOREIGN)
}

async fn write_settings(
    context: &Context,
    facts: &Facts,
    api: &Api<Lease>,
    found: Option<Lease>,
    settings: &Settings,
    owners: &[(String, String)],
) -> Result<(), Error> {
    let namespace = facts.service.namespace().unwrap_or_default();
    let name = facts.cluster_id.settings_lease_name();
    if let Some(why) = found.as_ref().and_then(|found| foreign(found, facts)) {
        return Err(Error::Foreign { lease: name, why });
    }
    let parameters = PostParams {
        field_manager: Some(keys::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let is_new = found.is_none();
    if is_new {
        refuse_if_terminating(context, &namespace).await?;
    }
    let before = found.clone();
    let lease = build_settings_lease(found, &namespace, &facts.cluster_id, settings, owners);
    if is_new {
        return context
            .write(LEASES, &namespace, api.create(&parameters, &lease))
            .await
            .map(drop);
    }
    let is_same = before.is_some_and(|mut before| {
        before.metadata.managed_fields = None;
        before == lease
    });
    if is_same {
        return Ok(()); // our belief was older than the object
    }
    let action = Action {
        verb: "update",
        ..LEASES
    };
    context
        .write(action, &namespace, api.replace(&name, &parameters, &lease))
        .await
        .map(drop)
}

fn foreign(found: &Lease, facts: &Facts) -> Option<String> {
    match settings_facts(&LeaseReading::of_lease(found), &facts.cluster_id) {
        SettingsFacts::Foreign(why) => Some(why),
        SettingsFacts::Ours { .. } | SettingsFacts::Absent => None,
    }
}

/// Nothing is made in a namespace that is going away; a missing permission to read it is no reason
/// to stop, since the API server refuses such a write itself.
async fn refuse_if_terminating(context: &Context, namespace: &str) -> Result<(), Error> {
    if context.namespaces.is_known_alive(namespace) {
        return Ok(());
    }
    let api: Api<Namespace> = Api::all(context.client.clone());
    let call = api.get_metadata_opt(namespace);
    match context.within(GET_NAMESPACE, namespace, call).await {
        Ok(Some(found)) if found.metadata.deletion_timestamp.is_none() => {
            context.namespaces.note_alive(namespace);
            Ok(())
        }
        Ok(_) => Err(Error::Terminating {
            namespace: namespace.to_owned(),
        }),
        Err(Error::Forbidden { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes the Events in order; returns the terms that are announced, and why it stopped.
async fn announce(
    context: &Context,
    facts: &Facts,
    plan: &Plan,
    namespace: &str,
) -> (Vec<LeadershipTerm>, Option<Error>) {
    let api: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    let mut announced = Vec::new();
    for announcement in &plan.announcements {
        let now = jiff::Timestamp::now();
        for event in build_events(&facts.service, announcement, &context.instance, now) {
            if let Err(error) = create_event(context, &api, namespace, &event).await {
                return (announced, Some(error));
            }
        }
        context.metrics.leadership_changes.inc();
        tracing::info!(
            key = "leadership.changed",
            namespace,
            cluster_service = facts.service.name_any(),
            term = announcement.entry.term,
            holder = announcement.entry.holder,
            from = announcement.from.as_deref().unwrap_or("nobody"),
            ended = announcement
                .entry
                .previous_ended
                .as_deref()
                .unwrap_or("none"),
            missed = announcement.entry.missed,
            "leadership changed"
        );
        announced.push(announcement.entry.clone());
    }
    (announced, None)
}

/// Writes one Event; that it is there already is a success.
pub async fn create_event(
    context: &Context,
    api: &Api<Event>,
    namespace: &str,
    event: &Event,
) -> Result<(), Error> {
    let parameters = PostParams::default();
    match context
        .write(CREATE_EVENT, namespace, api.create(&parameters, event))
        .await
    {
        // A name says object, Lease and term: whoever wrote it, the change is announced. In a
        // namespace that goes away nobody reads it.
        Ok(_) | Err(Error::Conflict { .. } | Error::Terminating { .. }) => Ok(()),
        Err(Error::Api { source, .. }) if is_refused_for_good(&source) => {
            // An Event that the server finds invalid would block all later ones.
            let source = shortened(&source.to_string());
            tracing::error!(key = "event.refused", namespace, source, "event refused");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn is_refused_for_good(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_invalid())
}

async fn write_status(
    context: &Context,
    facts: &Facts,
    namespace: &str,
    status: &leasehold_crds::ClusterServiceStatus,
) -> Result<(), Error> {
    let Some(difference) = status::patch(facts.service.status.as_ref(), status) else {
        return Ok(());
    };
    let api: Api<ClusterService> = Api::namespaced(context.client.clone(), namespace);
    let patch = json!({
        "apiVersion": ClusterService::api_version(&()),
        "kind": ClusterService::kind(&()),
        // Refused if it was computed from an older object: the next pass knows the newer one.
        "metadata": {"resourceVersion": facts.service.resource_version(), "uid": facts.service.uid()},
        "status": difference,
    });
    let name = facts.service.name_any();
    let parameters = PatchParams {
        field_manager: Some(keys::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    let call = api.patch_status(&name, &parameters, &patch);
    Error::gone_is_fine(context.write(PATCH_STATUS, namespace, call).await).map(drop)
}
