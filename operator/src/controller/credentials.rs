//! The controller of credentials: for each ClusterService that names a class, one login there.
//!
//! It has a queue of its own, so that a slow server delays nobody's leader. What it finds goes into
//! [`Reports`](crate::credential::reports::Reports), from which the controller of ClusterServices, the
//! one writer of status, tells it.
//!
//! | Part | Does |
//! | --- | --- |
//! | [`observe`] | who the service is, and whether it may |
//! | [`account`] | one service at one server, whichever store it is |
//! | [`work`] | asks the machine of the core for the next step, and does it, until nothing is to be done |
//! | [`secret`] | reads and writes its Secret |
//! | [`remove`] | what a deletion needs |
//! | [`left`] | the same at a store that the spec names no more |
//! | [`command`] | annotations by which people command |
//! | [`planned`] | what would be done, in words |
//! | [`say`] | what is told of it |
//! | [`drift`] | looks whether a server still shows what was made |
//!
//! Triggers: a changed spec, command or deletion; a changed Secret or class; drift on a server; a time
//! that the machine named; a back-off; a server that is back.

pub mod account;
pub mod command;
pub mod drift;
pub mod left;
pub mod observe;
pub mod planned;
pub mod remove;
pub mod say;
pub mod secret;
pub mod work;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::join_all};
use kube_runtime::{
    controller::{self, Action},
    reflector::Store,
};
use leasehold_crds::{ClusterService, cluster_service::BackendKind};

use super::{
    cluster_service::status::credentials::wanted,
    drive::{Drive, Pass},
};
use crate::{
    belief::{Guarded, key},
    context::Context,
    credential::reports::Report,
    error::Error,
};
use observe::Ground;
use say::Trouble;

/// How many services are worked on at the same time; a server serialises its changes anyway.
const CONCURRENCY: u16 = 16;
/// First and longest wait after trouble that may pass by itself.
const BACKOFF_PASSING: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Works until `ending` resolves; then finishes what runs and returns.
pub async fn run(
    context: Arc<Context>,
    region: Option<String>,
    store: Store<Guarded>,
    ending: impl Future<Output = ()> + Send + 'static,
) {
    let reconciled = {
        let store = store.clone();
        move |service: Arc<Guarded>, context: Arc<Context>| -> Pass {
            let store = store.clone();
            async move {
                match &service.0 {
                    Ok(service) => pass(service, &context, &store).await,
                    Err(_invalid) => Ok(Action::await_change()), // the other controller says so
                }
            }
            .boxed()
        }
    };
    let drive = Drive {
        region,
        news: context.beliefs.subscribe_credentials(),
        config: controller::Config::default().concurrency(CONCURRENCY),
    };
    drive
        .run(context, store, |_| {}, reconciled, error_policy, ending)
        .await;
}

#[allow(clippy::needless_pass_by_value)] // the shape that the runtime asks for
fn error_policy(service: Arc<Guarded>, error: &Error, context: Arc<Context>) -> Action {
    if matches!(error, Error::NotLeading) {
        return Action::await_change();
    }
    let (namespace, name) = key(service.as_ref());
    let wait = context
        .credentials
        .failures
        .next_wait((namespace.clone(), name.clone()), context.timers.backoff);
    tracing::warn!(key = "credentials.failed", namespace, name, %error, wait_ms = wait.as_millis(), "trying again");
    Action::requeue(wait)
}

/// One pass over one service.
async fn pass(
    service: &ClusterService,
    context: &Context,
    store: &Store<Guarded>,
) -> Result<Action, Error> {
    let key = key(service);
    let wants: Vec<BackendKind> = wanted(&service.spec).collect();
    if service.metadata.deletion_timestamp.is_some() {
        return remove::pass(service, context, store).await;
    }
    let left = left::pass(service, context, store).await?;
    for kind in BackendKind::ALL {
        let is_known = wants.contains(&kind) || left.kinds.contains(&kind);
        if !is_known && context.credentials.forget(&key, kind) {
            context.beliefs.touch(&key.0, &key.1);
        }
    }
    remove::keep_finalizer(service, context, !left.kinds.is_empty()).await?;
    if wants.is_empty() || service.spec.paused {
        return Ok(left
            .look_again
            .map_or_else(Action::await_change, Action::requeue));
    }
    let ground = observe::ground(service, context, store).await;
    let works = wants
        .iter()
        .map(|kind| at(service, context, *kind, ground.as_ref()));
    let mut next: Option<Duration> = left.look_again;
    let mut is_stuck = next.is_some();
    for (kind, outcome) in wants.iter().zip(join_all(works).await) {
        let (report, wait) = match outcome {
            Ok(rest) => (say::rest(service, *kind, &rest), rest.look_again),
            Err(trouble) if trouble.is_not_leading() => return Err(Error::NotLeading),
            Err(trouble) => {
                is_stuck = true;
                let wait = wait_after(context, &key, &trouble);
                log(&key, *kind, &trouble, wait);
                (say::trouble(service, context, *kind, &trouble), Some(wait))
            }
        };
        tell(context, &key, *kind, report);
        next = next.into_iter().chain(wait).min();
    }
    if !is_stuck {
        context.credentials.failures.clear(&key);
    }
    Ok(next.map_or_else(Action::await_change, Action::requeue))
}

/// One service at one store.
async fn at(
    service: &ClusterService,
    context: &Context,
    kind: BackendKind,
    ground: Result<&Ground, &Trouble>,
) -> Result<work::Rest, Trouble> {
    let ground = ground.map_err(Clone::clone)?;
    let account = observe::account(service, context, kind, ground).await?;
    let worked = work::settle(service, context, &account).await;
    match &worked {
        Ok(_) => {
            for (namespace, name) in context.credentials.serves(&account.class) {
                context.beliefs.wake(&namespace, &name);
            }
        }
        Err(trouble) if trouble.is_passing() => {
            context.credentials.waits(&account.class, &key(service));
        }
        // Perhaps the admin has another password by now, and Secrets are not watched.
        Err(trouble) if trouble.is_refused_login() => context.servers.doubt(&account.class),
        Err(_) => {}
    }
    worked
}

fn tell(context: &Context, key: &(String, String), kind: BackendKind, report: Option<Report>) {
    let Some(report) = report else { return };
    if context.credentials.reports.note(key, kind, report) {
        context.beliefs.touch(&key.0, &key.1);
    }
}

fn wait_after(context: &Context, key: &(String, String), trouble: &Trouble) -> Duration {
    let (first, longest) = context.timers.backoff;
    let bounds = if trouble.is_conflict() {
        // The news that a conflict speaks of is usually here within milliseconds.
        (first / 20, longest)
    } else if trouble.is_passing() {
        (BACKOFF_PASSING.0.min(first), BACKOFF_PASSING.1.min(longest))
    } else {
        (first, longest)
    };
    context.credentials.failures.next_wait(key.clone(), bounds)
}

fn log(key: &(String, String), kind: BackendKind, trouble: &Trouble, wait: Duration) {
    let (namespace, name) = key;
    let (kind, wait_ms) = (kind.as_str(), wait.as_millis());
    if trouble.is_conflict() {
        tracing::debug!(namespace, name, kind, %trouble, "looking again");
    } else {
        tracing::warn!(key = "credentials.failed", namespace, name, kind, %trouble, wait_ms, "trying again");
    }
}
