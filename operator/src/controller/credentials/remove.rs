//! The end of a service: under `Delete` a finalizer keeps it until server and Secret are clean; under
//! `Retain` nothing holds it, and nothing is asked of anybody.

use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use kube_runtime::{controller::Action, reflector::Store};
use leasehold_core::credential::{Deletion, Step, end};
use leasehold_crds::{ClusterService, DeletionPolicy, cluster_service::BackendKind, keys};
use serde_json::json;

use super::{
    account::Account,
    command, left,
    observe::{self, Ground},
    planned::planned,
    say::{self, Trouble},
    secret, tell, wait_after,
};
use crate::{
    backend::Removal,
    belief::{Guarded, key},
    context::Context,
    controller::cluster_service::status::credentials::wanted,
    credential::{secret::stored, state::Whom},
    error::{self, Error},
};

const PATCH_SERVICE: error::Action = error::Action {
    verb: "patch",
    group: keys::GROUP,
    resource: "clusterservices",
};

/// The finalizer is there if and only if a deletion has something to do: also at a store that the spec
/// does not name any more.
pub async fn keep_finalizer(
    service: &ClusterService,
    context: &Context,
    is_left: bool,
) -> Result<(), Error> {
    let is_wanted = service.spec.deletion_policy == DeletionPolicy::Delete
        && (is_left || wanted(&service.spec).next().is_some());
    if is_wanted == has_finalizer(service) {
        return Ok(());
    }
    if service.spec.paused {
        return Ok(());
    }
    set_finalizer(service, context, is_wanted).await
}

/// One pass over a service that is being deleted.
pub async fn pass(
    service: &ClusterService,
    context: &Context,
    store: &Store<Guarded>,
) -> Result<Action, Error> {
    if !has_finalizer(service) || service.spec.paused {
        return Ok(Action::await_change());
    }
    let key = key(service);
    let is_given_up =
        service.spec.deletion_policy == DeletionPolicy::Retain || command::is_forced(service);
    if !is_given_up {
        let ground = observe::ground(service, context, store).await;
        for kind in wanted(&service.spec) {
            let removed = match &ground {
                Ok(ground) => at(service, context, kind, ground).await,
                Err(trouble) => Err(trouble.clone()),
            };
            let Err(trouble) = removed else { continue };
            if trouble.is_not_leading() {
                return Err(Error::NotLeading);
            }
            let trouble = held(service, &trouble);
            let wait = wait_after(context, &key, &trouble);
            super::log(&key, kind, &trouble, wait);
            tell(
                context,
                &key,
                kind,
                say::trouble(service, context, kind, &trouble),
            );
            return Ok(Action::requeue(wait));
        }
        let left = left::pass(service, context, store).await?;
        if let Some(wait) = left.look_again {
            return Ok(Action::requeue(wait));
        }
    }
    set_finalizer(service, context, false).await?;
    for kind in BackendKind::ALL {
        context.credentials.forget(&key, kind);
        context.credentials.forget_tried(&Whom::new(service, kind));
    }
    context.credentials.failures.clear(&key);
    Ok(Action::await_change())
}

/// What holds a deletion up, with the way out.
fn held(service: &ClusterService, trouble: &Trouble) -> Trouble {
    if trouble.is_conflict() {
        return trouble.clone();
    }
    let message = format!(
        "The deletion waits: {trouble}. To let it go and leave on the server what is there, annotate it: {}",
        command::asked(service, keys::ANNOTATION_FORCE_DELETE)
    );
    match trouble {
        Trouble::PlanOnly(_) => Trouble::PlanOnly(message),
        _ => Trouble::Held(message),
    }
}

/// Server first, then the Secret: as long as it is there, something may be left.
async fn at(
    service: &ClusterService,
    context: &Context,
    kind: BackendKind,
    ground: &Ground,
) -> Result<(), Trouble> {
    let account = observe::account(service, context, kind, ground).await?;
    end_at(service, context, ground, &account).await
}

/// The same at a known place.
pub async fn end_at(
    service: &ClusterService,
    context: &Context,
    ground: &Ground,
    account: &Account,
) -> Result<(), Trouble> {
    let kind = account.kind;
    context.credentials.moves(&account.class, &key(service));
    let is_shared = ground
        .peers
        .iter()
        .any(|peer| wanted(&peer.spec).any(|it| it == kind));
    let deletion = Deletion::Delete {
        with_shared: !is_shared,
    };
    let whom = Whom::new(service, kind);
    let mut tried = context.credentials.tried(&whom);
    loop {
        let found = secret::read(service, context, account).await?;
        let step = end(&stored(found.as_ref(), &account.binding), deletion, &tried);
        if let Some(because) = &account.plans_only
            && let Some(next) = planned(&step, account)
        {
            let message = format!("{because} Next would be: {next}");
            return Err(Trouble::PlanOnly(message));
        }
        match step {
            Step::Remove { with_shared } => {
                remove(context, account, with_shared).await?;
                tried.removed();
                context
                    .credentials
                    .remember_tried(whom.clone(), tried.clone());
            }
            Step::DeleteSecret => {
                let found = found.ok_or(Trouble::Restless)?;
                secret::delete(context, account, &found).await?;
            }
            _ => return Ok(()),
        }
    }
}

async fn remove(context: &Context, account: &Account, with_shared: bool) -> Result<(), Trouble> {
    // Seen before it is asked whether we lead: whoever stands still after that removes nothing newer (C5).
    let sight = account.sight().await?;
    context.gate.check()?;
    let removed = account.remove(with_shared, &sight).await;
    context.credentials.effects.done();
    match removed? {
        Removal::Done => Ok(()),
        Removal::Held(what) => Err(Trouble::Held(what)),
    }
}

/// It was set before anything was made under `Delete`.
pub fn has_finalizer(service: &ClusterService) -> bool {
    service
        .finalizers()
        .iter()
        .any(|it| it == keys::FINALIZER_CREDENTIALS)
}

async fn set_finalizer(
    service: &ClusterService,
    context: &Context,
    is_wanted: bool,
) -> Result<(), Error> {
    let namespace = service.namespace().unwrap_or_default();
    let mut finalizers = service.finalizers().to_vec();
    finalizers.retain(|it| it != keys::FINALIZER_CREDENTIALS);
    if is_wanted {
        finalizers.push(keys::FINALIZER_CREDENTIALS.to_owned());
    }
    // Refused if it was computed from an older object.
    let patch = json!({"metadata": {
        "resourceVersion": service.resource_version(), "uid": service.uid(), "finalizers": finalizers,
    }});
    let api: Api<ClusterService> = Api::namespaced(context.client.clone(), &namespace);
    let parameters = PatchParams {
        field_manager: Some(keys::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let (name, patch) = (service.name_any(), Patch::Merge(patch));
    let call = api.patch(&name, &parameters, &patch);
    let patched = context.write(PATCH_SERVICE, &namespace, call).await;
    context.credentials.effects.done();
    Error::gone_is_fine(patched).map(drop)
}
