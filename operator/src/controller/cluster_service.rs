//! The controller of ClusterServices.
//!
//! Triggers: any change of a ClusterService; a changed holder, term, setting or presence of its Leases
//! (renewals are no triggers); a changed table or member; a holder that fell silent; a back-off, a recheck
//! or a deadline of its own.

pub mod apply;
pub mod observe;
pub mod plan;
pub mod status;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use kube::ResourceExt as _;
use kube_runtime::{
    controller::{self, Action},
    reflector::Store,
};
use leasehold_crds::{ClusterScope, ClusterService, keys};

use super::drive::Drive;
use crate::{
    belief::{Guarded, key},
    context::Context,
    error::Error,
};
use observe::{Facts, SettingsFacts};

/// How many objects are reconciled at the same time.
const CONCURRENCY: u16 = 32;

/// Reconciles until `ending` resolves; then finishes what runs and returns.
pub async fn run(
    context: Arc<Context>,
    region: Option<String>,
    store: Store<Guarded>,
    ending: impl Future<Output = ()> + Send + 'static,
) {
    let reconciled = {
        let store = store.clone();
        move |service: Arc<Guarded>, context: Arc<Context>| -> BoxFuture<'static, _> {
            let store = store.clone();
            async move { reconcile(&service, &context, &store).await }.boxed()
        }
    };
    let news = context.beliefs.subscribe();
    let drive = Drive {
        region,
        news,
        config: controller::Config::default().concurrency(CONCURRENCY),
    };
    drive
        .run(context, store, |_| {}, reconciled, error_policy, ending)
        .await;
}

/// One pass over one object: observe, plan, apply with status.
async fn reconcile(
    service: &Guarded,
    context: &Context,
    store: &Store<Guarded>,
) -> Result<Action, Error> {
    let began = Instant::now();
    let result = match &service.0 {
        Ok(service) => pass(service, context, store).await,
        Err(invalid) => Err(unreadable(&invalid.error)),
    };
    context
        .metrics
        .reconciled(began.elapsed(), result.as_ref().err());
    if result.is_ok() {
        context.failures.clear(&key(service));
    }
    result
}

async fn pass(
    service: &ClusterService,
    context: &Context,
    store: &Store<Guarded>,
) -> Result<Action, Error> {
    // What holds a deletion up is still told.
    let is_held = service
        .finalizers()
        .iter()
        .any(|it| it == keys::FINALIZER_CREDENTIALS);
    if service.metadata.deletion_timestamp.is_some() && !is_held {
        return Ok(Action::await_change());
    }
    let id = service
        .cluster_id()
        .map_err(|error| unreadable(&error.to_string()))?;
    let facts = observe::observe(context, store, service, id).await;
    let plan = plan::plan(&facts);
    apply::apply(context, &facts, &plan).await?;
    Ok(next_look(&facts, context.timers.recheck))
}

fn unreadable(problem: &str) -> Error {
    Error::Unreadable {
        kind: "ClusterService",
        problem: problem.to_owned(),
    }
}

/// A Lease without our labels is in no watch, so its name is read now and then; handoffs and silent
/// members have deadlines.
fn next_look(facts: &Facts, recheck: Duration) -> Action {
    let is_elected = facts.service.spec.cluster_scope == ClusterScope::Cluster;
    let is_unwatched = facts.leader.reading.is_none()
        || facts.blind.is_some()
        || matches!(facts.settings, SettingsFacts::Foreign(_));
    let look = (is_elected && is_unwatched)
        // Without jitter all objects would wake together.
        .then(|| recheck.mul_f64(rand::random_range(0.8..1.2)));
    let deadline = plan::next_deadline(facts);
    look.into_iter()
        .chain(deadline)
        .min()
        .map_or_else(Action::await_change, Action::requeue)
}

#[allow(clippy::needless_pass_by_value)] // the shape that the runtime asks for
fn error_policy(service: Arc<Guarded>, error: &Error, context: Arc<Context>) -> Action {
    let (namespace, name) = key(service.as_ref());
    if matches!(error, Error::NotLeading) {
        return Action::await_change();
    }
    let (first, longest) = context.timers.backoff;
    // The news that a conflict speaks of is usually here within milliseconds.
    let first = if matches!(error, Error::Conflict { .. }) {
        first / 20
    } else {
        first
    };
    let wait = context
        .failures
        .next_wait((namespace.clone(), name.clone()), (first, longest));
    if let Error::Forbidden { action, .. } = error {
        let role = action.role(&namespace);
        tracing::error!(key = "permission.denied", namespace, name, %error, role, "apply this Role and bind it to the operator");
    } else if matches!(error, Error::Conflict { .. }) {
        tracing::debug!(namespace, name, %error, "looking again");
    } else {
        tracing::warn!(key = "reconcile.failed", namespace, name, %error, wait_ms = wait.as_millis(), "trying again");
    }
    Action::requeue(wait)
}

#[cfg(test)]
mod tests;
