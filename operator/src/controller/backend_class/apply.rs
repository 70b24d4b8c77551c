//! Apply: the finalizer, then the status. Both may be repeated.

use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use leasehold_crds::{BackendClass, keys};
use serde_json::json;

use super::{observe::Facts, plan::Plan, status};
use crate::{
    context::Context,
    controller::cluster_service::status::patch,
    error::{Action, Error},
};

const PATCH_CLASS: Action = Action {
    verb: "patch",
    group: keys::GROUP,
    resource: "backendclasses",
};
const PATCH_STATUS: Action = Action {
    resource: "backendclasses/status",
    ..PATCH_CLASS
};

/// Performs the plan and writes the status if it changed.
pub async fn apply(context: &Context, facts: &Facts, plan: &Plan) -> Result<(), Error> {
    let api: Api<BackendClass> = Api::all(context.client.clone());
    let name = facts.name();
    let parameters = PatchParams {
        field_manager: Some(keys::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let mut revision = facts.class.resource_version();
    if let Some(finalizers) = &plan.finalizers {
        let change = json!({
            "apiVersion": BackendClass::api_version(&()),
            "kind": BackendClass::kind(&()),
            // Refused if others changed the list meanwhile: the next pass knows the newer one.
            "metadata": {"resourceVersion": revision, "uid": facts.class.uid(), "finalizers": finalizers},
        });
        let change = Patch::Merge(change);
        let call = api.patch(&name, &parameters, &change);
        // Perhaps it goes by the finalizer that is taken away here.
        match Error::gone_is_fine(context.write(PATCH_CLASS, "", call).await)? {
            Some(written) => revision = written.resource_version(),
            None => return Ok(()),
        }
    }
    let new = status::status(facts, jiff::Timestamp::now());
    let Some(difference) = patch(facts.class.status.as_ref(), &new) else {
        return Ok(());
    };
    let change = Patch::Merge(json!({
        "apiVersion": BackendClass::api_version(&()),
        "kind": BackendClass::kind(&()),
        "metadata": {"resourceVersion": revision, "uid": facts.class.uid()},
        "status": difference,
    }));
    let call = api.patch_status(&name, &parameters, &change);
    Error::gone_is_fine(context.write(PATCH_STATUS, "", call).await).map(drop)
}
