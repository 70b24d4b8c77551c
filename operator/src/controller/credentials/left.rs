//! A store that the spec names no more. Under `Delete` what was made there ends as with a deletion; its
//! Secret is the evidence that something is left, and names the class. Under `Retain` nothing is done.

use std::time::Duration;

use kube::ResourceExt as _;
use kube_runtime::reflector::Store;
use leasehold_crds::{ClusterService, DeletionPolicy, cluster_service::BackendKind, keys};

use super::{
    observe, remove,
    say::{self, Trouble},
    secret, tell, wait_after,
};
use crate::{
    belief::{Guarded, key},
    context::Context,
    controller::cluster_service::status::credentials::wanted,
    credential::{secret::SecretObject, state::Whom},
    error::Error,
};

/// What could not be ended yet.
#[derive(Debug, Default)]
pub struct Left {
    /// At which stores.
    pub kinds: Vec<BackendKind>,
    /// When to try again.
    pub look_again: Option<Duration>,
}

/// Ends what is left at stores that are not wanted.
pub async fn pass(
    service: &ClusterService,
    context: &Context,
    store: &Store<Guarded>,
) -> Result<Left, Error> {
    let mut left = Left::default();
    let is_held =
        service.spec.deletion_policy == DeletionPolicy::Delete && remove::has_finalizer(service);
    if !is_held || service.spec.paused {
        return Ok(left);
    }
    let wants: Vec<BackendKind> = wanted(&service.spec).collect();
    for kind in BackendKind::ALL {
        let whom = Whom::new(service, kind);
        if wants.contains(&kind) {
            context.credentials.may_leave(&whom);
            continue;
        }
        let Some(found) = find(service, context, kind).await? else {
            continue;
        };
        let ended = end(service, context, store, kind, &found).await;
        let Err(trouble) = ended else {
            context.credentials.forget_tried(&whom);
            continue;
        };
        if trouble.is_not_leading() {
            return Err(Error::NotLeading);
        }
        let (key, trouble) = (key(service), held(kind, service, &trouble));
        let wait = wait_after(context, &key, &trouble);
        super::log(&key, kind, &trouble, wait);
        tell(
            context,
            &key,
            kind,
            say::trouble(service, context, kind, &trouble),
        );
        left.kinds.push(kind);
        left.look_again = left.look_again.into_iter().chain([wait]).min();
    }
    Ok(left)
}

/// The Secret of a store that is not wanted, if it is to go with its service. The API server is asked as
/// long as one may be there.
async fn find(
    service: &ClusterService,
    context: &Context,
    kind: BackendKind,
) -> Result<Option<SecretObject>, Error> {
    let (namespace, whom) = (
        service.namespace().unwrap_or_default(),
        Whom::new(service, kind),
    );
    let name = kind.secret_name(&service.name_any());
    let is_seen = context
        .beliefs
        .secrets()
        .is_known(&(namespace.clone(), name.clone()));
    if !is_seen && context.credentials.left_nothing(&whom) {
        return Ok(None);
    }
    let uid = service.uid().unwrap_or_default();
    let found = secret::peek(context, &namespace, &name).await?;
    let found = found.filter(|it| it.goes_with(&uid));
    if found.is_none() {
        context.credentials.leaves_nothing(whom);
    }
    Ok(found)
}

async fn end(
    service: &ClusterService,
    context: &Context,
    store: &Store<Guarded>,
    kind: BackendKind,
    found: &SecretObject,
) -> Result<(), Trouble> {
    let place = found.place().ok_or_else(|| {
        let annotation = keys::ANNOTATION_CLASS;
        Trouble::Held(format!(
            "its annotation {annotation} is missing, so that the class is not known"
        ))
    })?;
    let ground = observe::ground(service, context, store).await?;
    let account = observe::former_account(service, context, kind, &ground, place).await?;
    remove::end_at(service, context, &ground, &account).await
}

/// What holds it up, with the way out.
fn held(kind: BackendKind, service: &ClusterService, trouble: &Trouble) -> Trouble {
    if trouble.is_conflict() {
        return trouble.clone();
    }
    let (store, secret) = (kind.as_str(), kind.secret_name(&service.name_any()));
    let message = format!(
        "The spec does not name {store} any more; what was made there is still to be removed: {trouble}. To \
         leave on the server what is there, delete Secret {secret}."
    );
    match trouble {
        Trouble::PlanOnly(_) => Trouble::PlanOnly(message),
        _ => Trouble::Held(message),
    }
}
