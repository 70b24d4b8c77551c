//! What all controllers have in common: each object once, then those that news concerns, until the
//! leadership ends.

use std::{convert::Infallible, sync::Arc};

use futures::{FutureExt, Stream, StreamExt, future, future::BoxFuture, stream};
use kube::Resource;
use kube_runtime::{
    controller::{self, Action, applier},
    reflector::{ObjectRef, Store},
};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{context::Context, error::Error};

/// One pass over one object.
pub type Pass = BoxFuture<'static, Result<Action, Error>>;

/// How a controller of one kind is driven.
pub struct Drive<K: Resource<DynamicType = ()>> {
    /// One namespace, or all.
    pub region: Option<String>,
    /// Whom news concerns.
    pub news: broadcast::Receiver<ObjectRef<K>>,
    /// How many objects are reconciled at the same time, and how long news is gathered.
    pub config: controller::Config,
}

impl<K> Drive<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    /// Reconciles until `ending` resolves; then finishes what runs and returns. Every trigger passes
    /// `noted` on its way.
    pub async fn run(
        self,
        context: Arc<Context>,
        store: Store<K>,
        noted: impl Fn(&ObjectRef<K>) + Send + 'static,
        reconcile: impl FnMut(Arc<K>, Arc<Context>) -> Pass,
        error_policy: impl Fn(Arc<K>, &Error, Arc<Context>) -> Action,
        ending: impl Future<Output = ()> + Send + 'static,
    ) {
        let region = self.region;
        let triggers = triggers(self.news, &store)
            .filter(move |trigger| {
                // Another controller serves the other namespaces.
                let is_elsewhere = region.is_some() && trigger.namespace != region;
                future::ready(!is_elsewhere)
            })
            .inspect(move |trigger| noted(trigger))
            .map(Ok::<_, Infallible>)
            .take_until(ending.boxed());
        applier(
            reconcile,
            error_policy,
            context,
            store,
            Box::pin(triggers),
            self.config,
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
fn triggers<K>(
    news: broadcast::Receiver<ObjectRef<K>>,
    store: &Store<K>,
) -> impl Stream<Item = ObjectRef<K>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let all = stream::iter(every_object(store));
    let later = stream::unfold((news, store.clone()), move |(mut news, store)| async move {
        let triggers = next_triggers(&mut news, &store).await?;
        Some((stream::iter(triggers), (news, store)))
    });
    all.chain(later.flatten())
}

fn every_object<K>(store: &Store<K>) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let objects = store.state();
    objects
        .iter()
        .map(|it| ObjectRef::from_obj(it.as_ref()))
        .collect()
}

async fn next_triggers<K>(
    news: &mut broadcast::Receiver<ObjectRef<K>>,
    store: &Store<K>,
) -> Option<Vec<ObjectRef<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    match news.recv().await {
        Ok(trigger) => Some(vec![trigger]),
        Err(RecvError::Lagged(_)) => Some(every_object(store)),
        Err(RecvError::Closed) => None,
    }
}
