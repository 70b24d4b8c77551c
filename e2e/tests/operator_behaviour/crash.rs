//! A crash after the k-th write, for every k of a story, ends in the same objects and Events as no crash.
//!
//! All writes of the operator about the test's namespace go through a proxy that lets k of them pass.
//! When the next one arrives, the k-th was answered and nothing else is under way: the operator is killed
//! there, and another one, behind no proxy, goes on with the story.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use leasehold_crds::{ClusterService, keys};
use leasehold_e2e::control_plane::ControlPlane;
use leasehold_e2e::proxy::{Action, FaultProxy, Link, RuleHandle, When};
use leasehold_e2e::{Cluster, Result, TestNamespace, wait};
use serde_json::{Value, json};

use super::stage::*;

/// Everything that the operator left behind, without what differs from run to run.
#[derive(Debug, PartialEq)]
struct Outcome {
    settings: Value,
    status: Value,
    events: Vec<(String, String)>,
    after_deletion: Vec<String>,
}

/// Counts the writes through a link, and holds up every one after the k-th.
struct Gate<'a> {
    link: &'a Link,
    namespace: String,
    rule: RuleHandle,
}

impl<'a> Gate<'a> {
    fn closed(link: &'a Link, namespace: &str) -> Self {
        let rule = Self::rule(link, namespace);
        Self {
            link,
            namespace: namespace.to_owned(),
            rule,
        }
    }

    fn rule(link: &Link, namespace: &str) -> RuleHandle {
        link.rule(
            When::writes().path(&format!("/namespaces/{namespace}/")),
            Action::Hold,
        )
    }

    /// A write waits at the gate.
    fn is_knocked_at(&self) -> bool {
        self.rule.matched() > 0
    }

    /// Lets the waiting write pass, and stops the next one.
    fn let_one_pass(&mut self) {
        let next = Self::rule(self.link, &self.namespace);
        std::mem::replace(&mut self.rule, next).end();
    }
}

/// Plays the story; `crash_after` writes the first operator is killed. The number of writes it had made.
async fn play(plane: &ControlPlane, crash_after: usize) -> Result<(Outcome, usize)> {
    let cluster = Cluster::shared().await?;
    let namespace = namespace(&format!("crash-{crash_after}")).await?;
    let elections = super::stage::namespace(&format!("crash-{crash_after}-elections")).await?;
    fast_election(&elections).await?;
    let name = namespace.name();
    let kubeconfig = operator_kubeconfig(cluster, name).await?;
    let proxy = FaultProxy::in_front_of(plane)?;
    let link = proxy.http().await?;
    let behind = link.kubeconfig(&kubeconfig, "behind")?;
    let mut gate = Gate::closed(&link, name);
    let first = Operator::start(cluster, &behind, name, &[name], elections.name()).await?;
    first.wait_until_leading().await?;

    let mut passed = 0;
    let mut story = Box::pin(tell(&namespace));
    // The story and the gate run side by side until the crash, or until the story is over.
    let outcome = loop {
        tokio::select! {
            outcome = &mut story => break outcome?,
            () = until_knocked(&gate) => {
                if passed == crash_after {
                    first.process().kill();
                    let second_name = format!("{name}-second");
                    let second = Operator::start(cluster, &kubeconfig, &second_name, &[name], elections.name()).await?;
                    let outcome = story.as_mut().await?;
                    second.process().stop(MINUTE);
                    break outcome;
                }
                gate.let_one_pass();
                passed += 1;
            }
        }
    };
    drop((story, first));
    elections.finish().await?;
    namespace.finish().await?;
    Ok((outcome, passed))
}

async fn until_knocked(gate: &Gate<'_>) {
    while !gate.is_knocked_at() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Create, elect, change, fail over, delete; each step begins when the one before is fully shown.
async fn tell(namespace: &TestNamespace<'_>) -> Result<Outcome> {
    declare(namespace, "billing", elected("billing")).await?;
    shown(namespace, "billing", "a first status", |it| {
        it.history.is_some()
    })
    .await?;
    hold(namespace, "billing", "billing-0", 0).await?;
    shown(namespace, "billing", "term 0", |it| {
        is_led_by(it, "billing-0", 0)
    })
    .await?;
    let services: Api<ClusterService> = namespace.api();
    let change = json!({"spec": {"lease": {"durationSeconds": 30}}});
    let changed = services
        .patch("billing", &PatchParams::default(), &Patch::Merge(&change))
        .await?;
    shown(namespace, "billing", "the change", |it| {
        it.observed_generation == changed.metadata.generation
    })
    .await?;
    release(namespace, "billing").await?;
    shown(namespace, "billing", "no leader", |it| it.leader.is_none()).await?;
    hold(namespace, "billing", "billing-1", 1).await?;
    shown(namespace, "billing", "term 1", |it| {
        is_led_by(it, "billing-1", 1)
    })
    .await?;
    hold(namespace, "billing", "billing-2", 2).await?;
    let status = shown(namespace, "billing", "term 2", |it| {
        is_led_by(it, "billing-2", 2)
    })
    .await?;

    let leases: Api<Lease> = namespace.api();
    let settings = leases.get("billing.settings").await?;
    let text = settings.metadata.annotations.unwrap_or_default();
    let announced = events(namespace, "billing").await?;
    let named = names_without_uid(&announced);
    let reasons = announced
        .iter()
        .map(|it| it.reason.clone().unwrap_or_default());

    services.delete("billing", &DeleteParams::default()).await?;
    // The garbage collector takes the settings; the leader Lease belongs to the pods.
    wait::until_true("no settings Lease", MINUTE, || async {
        Ok(leases.get_opt("billing.settings").await?.is_none())
    })
    .await?;
    let left = leases.list(&ListParams::default()).await?;
    Ok(Outcome {
        settings: json!([text[keys::ANNOTATION_SETTINGS], settings.metadata.labels]),
        status: comparable(&json!(status)),
        events: named.into_iter().zip(reasons).collect(),
        after_deletion: left
            .items
            .into_iter()
            .filter_map(|it| it.metadata.name)
            .collect(),
    })
}

/// Times differ, and whoever was down saw less of how a leadership ended; nothing else may differ.
fn comparable(status: &Value) -> Value {
    let mut status = status.clone();
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = json!(null);
    }
    status["leader"]["since"] = json!(null);
    for term in status["history"].as_array_mut().unwrap() {
        term["since"] = json!(null);
        term["leaseUid"] = json!(null);
        term["previousEnded"] = json!(null);
    }
    status
}

#[tokio::test]
async fn a_crash_after_any_write_changes_nothing_in_the_end() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let Some(plane) = cluster.control_plane_or_skip("crashes between writes") else {
        return Ok(());
    };
    let (undisturbed, writes) = play(plane, usize::MAX).await?;
    assert_eq!(undisturbed.events.len(), 3, "{undisturbed:?}");
    assert!(writes >= 8, "the story has only {writes} writes");
    let plays = (0..writes).map(|crash_after| async move {
        let (outcome, passed) = play(plane, crash_after).await?;
        Ok::<_, leasehold_e2e::Error>((crash_after, passed, outcome))
    });
    let outcomes: Vec<_> = stream::iter(plays).buffer_unordered(5).collect().await;
    let mut crashes = 0;
    for outcome in outcomes {
        let (crash_after, passed, outcome) = outcome?;
        crashes += usize::from(passed == crash_after);
        assert_eq!(
            outcome, undisturbed,
            "after a crash behind write {crash_after} of {writes}"
        );
    }
    // A slow operator makes one write of two, and a story that ended early has no last crash.
    assert!(crashes + 2 >= writes, "{crashes} crashes in {writes} plays");
    Ok(())
}
