//! The controller of BackendClasses: says in conditions what a server lacks, and holds a class that is in
//! use back from deletion.
//!
//! Triggers: any change of a class; a changed or missing Secret that it names; a ClusterService that names
//! it or no longer does; a back-off, and a slow look of its own. It never stands between a service and
//! its server: whoever needs one asks the registry, whatever the conditions say.

pub mod apply;
pub mod observe;
pub mod plan;
pub mod status;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use kube_runtime::{
    controller::{self, Action},
    reflector::Store,
};

use super::drive::{Drive, Pass};
use crate::{
    belief::{
        classes::{ClassTrigger, GuardedClass},
        key,
    },
    context::Context,
    error::Error,
};
use observe::Looks;

/// How many classes are looked at at the same time: a server that hangs holds up no other.
const CONCURRENCY: u16 = 16;

/// Reconciles until `ending` resolves; then finishes what runs and returns.
pub async fn run(
    context: Arc<Context>,
    store: Store<GuardedClass>,
    ending: impl Future<Output = ()> + Send + 'static,
) {
    let looks = Arc::new(Looks::default());
    let forget = {
        let (context, store, looks) = (context.clone(), store.clone(), looks.clone());
        move |class: &ClassTrigger| {
            if store.get(class).is_none() {
                looks.forget(&class.name);
                context.servers.forget(&class.name);
                wake_users(&context, &class.name);
            }
        }
    };
    let reconciled = move |class: Arc<GuardedClass>, context: Arc<Context>| -> Pass {
        let looks = looks.clone();
        async move { reconcile(&class, &context, &looks).await }.boxed()
    };
    let drive = Drive {
        region: None,
        news: context.beliefs.classes().subscribe(),
        config: controller::Config::default()
            .concurrency(CONCURRENCY)
            // A hundred services made at once are one change of their class.
            .debounce(context.timers.settle),
    };
    drive
        .run(context, store, forget, reconciled, error_policy, ending)
        .await;
}

/// The credentials of everybody who names a class may go on, or may no longer.
fn wake_users(context: &Context, class: &str) {
    for (namespace, name) in context.beliefs.classes().users(class) {
        context.beliefs.wake(&namespace, &name);
    }
}

/// One pass over one class: observe, plan, apply with status.
async fn reconcile(
    class: &GuardedClass,
    context: &Context,
    looks: &Looks,
) -> Result<Action, Error> {
    let began = Instant::now();
    let result = match &class.0 {
        Ok(class) => pass(class, context, looks).await,
        Err(invalid) => Err(Error::Unreadable {
            kind: "BackendClass",
            problem: invalid.error.clone(),
        }),
    };
    context
        .metrics
        .reconciled(began.elapsed(), result.as_ref().err());
    result
}

async fn pass(
    class: &leasehold_crds::BackendClass,
    context: &Context,
    looks: &Looks,
) -> Result<Action, Error> {
    let facts = observe::observe(context, looks, class).await;
    if facts.is_elsewhere {
        // Where Secrets are not watched nothing else would tell that it has come.
        return Ok(Action::requeue(context.timers.class_look));
    }
    let plan = plan::plan(&facts);
    apply::apply(context, &facts, &plan).await?;
    if facts.is_changed {
        wake_users(context, &facts.name());
    }
    let failures = key_of(&facts.name());
    if facts.is_well() {
        context.failures.clear(&failures);
        // Without jitter all classes would be looked at together.
        let wait = context
            .timers
            .class_look
            .mul_f64(rand::random_range(0.8..1.2));
        return Ok(Action::requeue(wait));
    }
    let (first, _) = context.timers.backoff;
    let bounds = (first, context.timers.recheck);
    Ok(Action::requeue(
        context.failures.next_wait(failures, bounds),
    ))
}

/// Classes have no namespace, so their back-off never meets that of a service.
fn key_of(class: &str) -> (String, String) {
    (String::new(), class.to_owned())
}

#[allow(clippy::needless_pass_by_value)] // the shape that the runtime asks for
fn error_policy(class: Arc<GuardedClass>, error: &Error, context: Arc<Context>) -> Action {
    let (_, name) = key(class.as_ref());
    if matches!(error, Error::NotLeading) {
        return Action::await_change();
    }
    let (first, longest): (Duration, Duration) = context.timers.backoff;
    let first = if matches!(error, Error::Conflict { .. }) {
        first / 20
    } else {
        first
    };
    let wait = context.failures.next_wait(key_of(&name), (first, longest));
    if matches!(error, Error::Conflict { .. }) {
        tracing::debug!(class = name, %error, "looking again");
    } else {
        tracing::warn!(key = "reconcile.failed", class = name, %error, wait_ms = wait.as_millis(), "trying again");
    }
    Action::requeue(wait)
}

#[cfg(test)]
mod tests;
