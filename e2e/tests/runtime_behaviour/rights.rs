//! What candidates make of missing rights and of a missing namespace: they say what is wrong, stay
//! alive, and go on when it is mended.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use leasehold::Identity;
use leasehold_e2e::cluster::{Account, lease_rules};
use leasehold_e2e::{Result, TestNamespace, wait};
use serde_json::json;

use crate::ground::{Ground, PATIENCE, demand, spawn, until_error, until_role};

/// The message names verb, resource and namespace, and prints the Role that would help.
pub(crate) async fn missing_rights_are_named_and_used_once_given_back(
    ground: &Ground,
) -> Result<()> {
    let namespace = ground.namespace.name();
    let account = ground.namespace.account("rightless", Vec::new()).await?;
    let member = ground
        .member_as(&account, namespace, Identity::of_node("rightless", 1)?)
        .await?;
    let handle = spawn(member.service("rightless"))?;
    let said = until_error(&handle, "no right to").await?;
    for part in [
        "leases.coordination.k8s.io",
        &format!("in namespace {namespace:?}"),
        "kind: Role\n",
        "verbs: [get, list, watch, create, update]",
        &format!("{{kind: ServiceAccount, name: rightless, namespace: {namespace}}}"),
    ] {
        demand(said.contains(part), || format!("no {part:?} in: {said}"))?;
    }

    let without = |verb: &str| {
        let mut rules = lease_rules();
        for rule in &mut rules {
            rule.verbs.retain(|other| other != verb);
        }
        rules
    };
    grant(ground, "rightless", without("create")).await?;
    until_error(&handle, "no right to create leases.coordination.k8s.io").await?;
    grant(ground, "rightless", lease_rules()).await?;
    until_role(&handle, "leader").await?;
    demand(handle.status().last_error.is_none(), || {
        format!("{:?}", handle.status())
    })?;

    grant(ground, "rightless", without("update")).await?;
    until_role(&handle, "candidate").await?;
    until_error(&handle, "no right to update leases.coordination.k8s.io").await?;
    grant(ground, "rightless", lease_rules()).await?;
    until_role(&handle, "leader").await?;
    member.close().await;
    Ok(())
}

async fn grant(ground: &Ground, account: &str, rules: Vec<PolicyRule>) -> Result<()> {
    let roles: Api<Role> = ground.namespace.api();
    let patch = Patch::Merge(json!({ "rules": rules }));
    roles
        .patch(account, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// The namespace is deleted under its leader, and made again.
pub(crate) async fn a_namespace_that_is_gone_is_said_and_its_return_is_used(
    ground: &Ground,
) -> Result<()> {
    let doomed = TestNamespace::on(ground.namespace.cluster(), "doomed").await?;
    let name = doomed.name().to_owned();
    // Its rights lie outside the namespace, or they would go with it.
    let account = ground.namespace.account("everywhere", Vec::new()).await?;
    let everywhere = Everywhere::grant(ground, &format!("{name}-leases"), &account).await?;
    let member = ground
        .member_as(&account, &name, Identity::of_node("everywhere", 1)?)
        .await?;
    let handle = spawn(member.service("doomed"))?;
    until_role(&handle, "leader").await?;

    doomed.finish().await?;
    let said = until_error(&handle, "is gone or being deleted").await?;
    demand(said.contains(&format!("{name:?}")), || {
        format!("it does not name it: {said}")
    })?;
    until_role(&handle, "candidate").await?;
    let namespaces: Api<Namespace> = Api::all(ground.namespace.client());
    wait::until_true("the end of the namespace", PATIENCE, || async {
        Ok(namespaces.get_opt(&name).await?.is_none())
    })
    .await?;
    until_error(&handle, "is gone or being deleted").await?;

    let again: Namespace = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { (leasehold_e2e::cluster::TEST_LABEL): "test" } },
    }))?;
    namespaces.create(&PostParams::default(), &again).await?;
    until_role(&handle, "leader").await?;
    member.close().await;
    namespaces
        .delete(&name, &DeleteParams::background())
        .await?;
    everywhere.revoke().await
}

/// Lease rights in every namespace.
struct Everywhere {
    name: String,
    roles: Api<ClusterRole>,
    bindings: Api<ClusterRoleBinding>,
}

impl Everywhere {
    async fn grant(ground: &Ground, name: &str, account: &Account) -> Result<Self> {
        let client = ground.namespace.client();
        let (roles, bindings) = (Api::all(client.clone()), Api::all(client));
        let role: ClusterRole = serde_json::from_value(json!({
            "metadata": { "name": name },
            "rules": lease_rules(),
        }))?;
        roles.create(&PostParams::default(), &role).await?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name,
            },
            "subjects": [{
                "kind": "ServiceAccount",
                "name": account.name,
                "namespace": ground.namespace.name(),
            }],
        }))?;
        bindings.create(&PostParams::default(), &binding).await?;
        Ok(Self {
            name: name.to_owned(),
            roles,
            bindings,
        })
    }

    async fn revoke(self) -> Result<()> {
        self.bindings
            .delete(&self.name, &DeleteParams::default())
            .await?;
        self.roles
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}
