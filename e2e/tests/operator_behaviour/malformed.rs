//! Leases that no candidate of ours writes: conditions, never a panic and never a fight.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use leasehold_e2e::proxy::malformed::Malformed;
use leasehold_e2e::proxy::{Action, FaultProxy, When};
use leasehold_e2e::{Cluster, Result};
use serde_json::json;

use super::stage::*;

/// What the condition must say of each; `None`: it does not concern the operator.
fn reason(malformed: Malformed) -> Option<&'static str> {
    match malformed {
        Malformed::NullHolder | Malformed::NullSpec => Some("Emptied"),
        Malformed::LongHolder | Malformed::NegativeTransitions | Malformed::ZeroDuration => {
            Some("LeaseMalformed")
        }
        // Times are never compared.
        Malformed::NullRenewTime | Malformed::FutureRenewTime => None,
        // A version that is no number gives no token; nobody can lead under it.
        Malformed::TextRevision => Some("LeaseMalformed"),
    }
}

#[tokio::test]
async fn a_malformed_lease_becomes_a_condition_and_the_operator_goes_on() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let Some(plane) = cluster.control_plane_or_skip("malformed Leases") else {
        return Ok(());
    };
    for malformed in Malformed::ALL {
        let namespace = namespace(&format!("malformed-{malformed}")).await?;
        let name = namespace.name();
        let proxy = FaultProxy::in_front_of(plane)?;
        let link = proxy.http().await?;
        let kubeconfig = operator_kubeconfig(cluster, name).await?;
        let behind = link.kubeconfig(&kubeconfig, "behind")?;
        // Its own election goes on undisturbed in the same namespace, under another name.
        let operator = Operator::start(cluster, &behind, name, &[name], name).await?;
        operator.wait_until_leading().await?;
        declare(&namespace, "billing", elected("billing")).await?;
        hold(&namespace, "billing", "billing-0", 0).await?;
        shown(&namespace, "billing", "a leader", |it| {
            is_led_by(it, "billing-0", 0)
        })
        .await?;

        let rewrite = move |lease: &mut serde_json::Value| {
            if lease["metadata"]["name"] == "billing.leader" {
                malformed.apply(lease);
            }
        };
        let rule = link.rule(
            When::any().path("/leases"),
            Action::Rewrite(std::sync::Arc::new(rewrite)),
        );
        link.cut(); // so that the watch is begun anew, under the rule
        hold(&namespace, "billing", "billing-0", 0).await?;
        if let Some(reason) = reason(malformed) {
            let status = shown(&namespace, "billing", reason, |it| {
                condition(it, "LeaderElected").1 == reason
            })
            .await?;
            assert_eq!(condition(&status, "Ready").0, "False", "{malformed}");
        } else {
            // Something must happen for the run to mean anything.
            hold(&namespace, "billing", "billing-1", 1).await?;
            shown(&namespace, "billing", "the next leader", |it| {
                is_led_by(it, "billing-1", 1)
            })
            .await?;
        }
        assert!(
            rule.matched() > 0,
            "{malformed}: no Lease was changed on its way"
        );
        rule.end();
        link.cut();
        hold(&namespace, "billing", "billing-2", 2).await?;
        shown(&namespace, "billing", "a sound Lease", |it| {
            is_led_by(it, "billing-2", 2)
        })
        .await?;
        assert_eq!(operator.process().ended(), None, "{malformed}");
        namespace.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn strangers_leases_are_left_alone_and_named_in_conditions() -> Result<()> {
    let namespace = namespace("strangers").await?;
    let leases: Api<Lease> = namespace.api();
    let stranger = |name: &str| -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app": "stranger"}},
            "spec": {"holderIdentity": "stranger", "leaseDurationSeconds": 15, "leaseTransitions": 1},
        }))
        .unwrap()
    };
    let params = PostParams::default();
    let leader = leases.create(&params, &stranger("billing.leader")).await?;
    let settings = leases
        .create(&params, &stranger("billing.settings"))
        .await?;
    let _operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", elected("billing")).await?;
    let status = shown(&namespace, "billing", "a stalled service", |it| {
        condition(it, "Stalled").0 == "True"
    })
    .await?;
    assert_eq!(condition(&status, "LeaderElected").1, "LeaseForeign");
    let message = condition(&status, "LeaderElected").2;
    assert!(message.contains("held by stranger"), "{message}");
    let message = condition(&status, "Ready").2;
    assert!(
        message.contains("billing.settings exists but lacks the labels"),
        "{message}"
    );
    assert_eq!(leases.get("billing.leader").await?, leader);
    assert_eq!(leases.get("billing.settings").await?, settings);
    // Gone, they make room without a restart.
    let kubectl = namespace.kubectl();
    kubectl
        .run(&["delete", "lease", "billing.leader", "billing.settings"])
        .await?;
    shown(&namespace, "billing", "room", |it| {
        condition(it, "Stalled").0 == "False"
    })
    .await?;
    namespace.finish().await
}
