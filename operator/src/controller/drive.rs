//! What the controllers of ClusterServices have in common: each object once, then those that news
//! concerns, until the leadership ends.

use std::{convert::Infallible, sync::Arc};

use futures::{FutureExt, Stream, StreamExt, future, future::BoxFuture, stream};
use kube_runtime::{
    controller::{self, Action, applier},
    reflector::Store,
};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{
    belief::{Guarded, Trigger},
    context::Context,
    error::Error,
};

/// One pass over one object.
pub type Pass = BoxFuture<'static, Result<Action, Error>>;

/// How a controller is driven.
pub struct Drive {
    /// One namespace, or all.
    pub region: Option<String>,
    /// Whom news concerns.
    pub news: broadcast::Receiver<Trigger>,
    /// How many objects are reconciled at the same time.
    pub concurrency: u16,
}

impl Drive {
    /// Reconciles until `ending` resolves; then finishes what runs and returns.
    pub async fn run(
        self,
        context: Arc<Context>,
        store: Store<Guarded>,
        reconcile: impl FnMut(Arc<Guarded>, Arc<Context>) -> Pass,
        error_policy: impl Fn(Arc<Guarded>, &Error, Arc<Context>) -> Action,
        ending: impl Future<Output = ()> + Send + 'static,
    ) {
        let region = self.region;
        let triggers = triggers(self.news, &store)
            .filter(move |trigger| {
                // Another controller serves the other namespaces.
                let is_elsewhere = |it: &Trigger| region.is_some() && it.namespace != region;
                future::ready(!trigger.as_ref().is_ok_and(is_elsewhere))
            })
            .take_until(ending.boxed());
        let config = controller::Config::default().concurrency(self.concurrency);
        applier(
            reconcile,
            error_policy,
            context,
            store,
            Box::pin(triggers),
            config,
        )
        .for_each(|result| async move {
            match result {
                // Errors of a pass are logged where they happen.
                Ok(_) | Err(controller::Error::ReconcilerFailed(..)) => {}
                // A trigger for an object that is gone.
                Err(error) => tracing::debug!(%error, "nothing to reconcile"),
            }
        })
        .await;
    }
}

/// Every object once, then those that news concerns.
fn triggers(
    news: broadcast::Receiver<Trigger>,
    store: &Store<Guarded>,
) -> impl Stream<Item = Result<Trigger, Infallible>> + Send + use<> {
    let all = stream::iter(every_object(store));
    let later = stream::unfold((news, store.clone()), move |(mut news, store)| async move {
        let triggers = next_triggers(&mut news, &store).await?;
        Some((stream::iter(triggers), (news, store)))
    });
    all.chain(later.flatten()).map(Ok)
}

fn every_object(store: &Store<Guarded>) -> Vec<Trigger> {
    let objects = store.state();
    objects
        .iter()
        .map(|it| Trigger::from_obj(it.as_ref()))
        .collect()
}

async fn next_triggers(
    news: &mut broadcast::Receiver<Trigger>,
    store: &Store<Guarded>,
) -> Option<Vec<Trigger>> {
    match news.recv().await {
        Ok(trigger) => Some(vec![trigger]),
        Err(RecvError::Lagged(_)) => Some(every_object(store)),
        Err(RecvError::Closed) => None,
    }
}
