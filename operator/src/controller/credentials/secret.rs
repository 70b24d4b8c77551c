//! The Secret of a login at the API server. Always read live: a stale cache would make a new password.

use kube::{Api, Resource as _, ResourceExt as _, api::PostParams};
use leasehold_crds::{ClusterService, keys};

use super::{account::Account, command, say::Trouble};
use crate::{
    context::Context,
    controller::exactly,
    credential::secret::{SecretObject, Whose, whose},
    error::{Action, Error},
};

const SECRETS: Action = Action {
    verb: "get",
    group: "",
    resource: "secrets",
};

/// The Secret, if there is one; one that is not ours is trouble (C7).
pub async fn read(
    service: &ClusterService,
    context: &Context,
    account: &Account,
) -> Result<Option<SecretObject>, Trouble> {
    let (api, namespace, name) = place(context, account);
    let found = context
        .within(SECRETS, &namespace, api.get_opt(&name))
        .await?;
    let Some(found) = found else { return Ok(None) };
    let why = match whose(&found, &account.binding, account.adopts) {
        Whose::Ours => return Ok(Some(found)),
        Whose::Former { mark } => format!(
            "it was made for another owner ({mark}); to take it over, annotate the ClusterService with {}",
            command::asked(service, keys::ANNOTATION_ADOPT)
        ),
        Whose::Foreign { owner } => {
            format!("it is not ours ({owner}); delete or rename it, or rename the ClusterService")
        }
        Whose::Immutable => "it is immutable; delete it, and it is made anew".to_owned(),
    };
    Err(Trouble::Secret { name, why })
}

/// The Secret of a name, whosever it is.
pub async fn peek(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Option<SecretObject>, crate::error::Error> {
    let api: Api<SecretObject> = Api::namespaced(context.client.clone(), namespace);
    context.within(SECRETS, namespace, api.get_opt(name)).await
}

/// Creates or replaces exactly the version that was read, so that a race loses cleanly (C1).
pub async fn write(
    context: &Context,
    account: &Account,
    is_new: bool,
    secret: &SecretObject,
) -> Result<SecretObject, Trouble> {
    let (api, namespace, name) = place(context, account);
    let parameters = PostParams {
        field_manager: Some(keys::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let verb = if is_new { "create" } else { "update" };
    let action = Action { verb, ..SECRETS };
    let written = if is_new {
        let call = api.create(&parameters, secret);
        context.write(action, &namespace, call).await
    } else {
        let call = api.replace(&name, &parameters, secret);
        context.write(action, &namespace, call).await
    };
    context.credentials.effects.done();
    let written = written?;
    // Our own write is no news.
    let revision = written.resource_version().unwrap_or_default();
    context.beliefs.secrets().note((namespace, name), &revision);
    Ok(written)
}

/// Deletes exactly the Secret that was read.
pub async fn delete(
    context: &Context,
    account: &Account,
    secret: &SecretObject,
) -> Result<(), Trouble> {
    let (api, namespace, name) = place(context, account);
    let exactly_this = exactly(secret.meta().uid.clone(), None);
    let action = Action {
        verb: "delete",
        ..SECRETS
    };
    let call = api.delete(&name, &exactly_this);
    let deleted = context.write(action, &namespace, call).await;
    context.credentials.effects.done();
    Ok(Error::gone_is_fine(deleted).map(drop)?)
}

fn place(context: &Context, account: &Account) -> (Api<SecretObject>, String, String) {
    let namespace = account.binding.names.namespace.clone();
    let api = Api::namespaced(context.client.clone(), &namespace);
    (api, namespace, account.binding.secret_name())
}
