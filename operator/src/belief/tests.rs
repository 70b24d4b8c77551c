//! Which news concerns which ClusterService.

use serde_json::{Value, json};

use super::*;

fn service(name: &str, generation: i64, spec: &Value) -> Guarded {
    serde_json::from_value(json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "ClusterService",
        "metadata": {"name": name, "namespace": "demo", "uid": name, "generation": generation},
        "spec": spec,
    }))
    .unwrap()
}

fn lease(name: &str, revision: u64, holder: &str) -> DeserializeGuard<Lease> {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "demo", "uid": "u", "resourceVersion": revision.to_string()},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }))
    .unwrap()
}

fn drained(triggers: &mut broadcast::Receiver<Trigger>) -> Vec<String> {
    let mut names = Vec::new();
    while let Ok(trigger) = triggers.try_recv() {
        names.push(trigger.name);
    }
    names
}

#[test]
fn a_lease_concerns_every_service_of_its_cluster_and_no_other() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    beliefs.note_service(&service("old", 1, &json!({"clusterId": "billing"})), now);
    beliefs.note_service(&service("new", 1, &json!({"clusterId": "billing"})), now);
    beliefs.note_service(&service("other", 1, &json!({})), now);
    let mut triggers = beliefs.subscribe();
    beliefs.note_lease(&lease("billing.leader", 1, "a"), Heard::ByWatch, now);
    assert_eq!(drained(&mut triggers), ["new", "old"]);
    beliefs.note_lease(&lease("billing.leader", 2, "a"), Heard::ByWatch, now);
    assert_eq!(
        drained(&mut triggers),
        Vec::<String>::new(),
        "a renewal concerns nobody"
    );
    beliefs.note_lease(&lease("other.settings", 1, ""), Heard::ByWatch, now);
    assert_eq!(drained(&mut triggers), ["other"]);
    beliefs.note_lease(&lease("billing.assignment", 1, ""), Heard::ByWatch, now);
    assert_eq!(drained(&mut triggers), Vec::<String>::new());
}

#[test]
fn a_changed_or_deleted_service_concerns_those_that_share_its_cluster() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    beliefs.note_service(&service("old", 1, &json!({"clusterId": "billing"})), now);
    beliefs.note_service(&service("new", 1, &json!({"clusterId": "billing"})), now);
    let mut triggers = beliefs.subscribe();
    beliefs.note_service(&service("old", 1, &json!({"clusterId": "billing"})), now);
    assert_eq!(
        drained(&mut triggers),
        ["old"],
        "a changed status concerns itself only"
    );
    beliefs.note_service(&service("old", 2, &json!({"clusterId": "billing"})), now);
    assert_eq!(drained(&mut triggers), ["new", "old"]);
    beliefs.forget_service("demo", "old");
    assert_eq!(drained(&mut triggers), ["new"]);
    assert_eq!(
        beliefs.sharing("demo", "billing"),
        BTreeSet::from(["new".to_owned()])
    );
}

#[test]
fn what_a_complete_list_does_not_show_is_gone_within_its_region_only() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    beliefs.note_service(&service("billing", 1, &json!({})), now);
    beliefs.note_lease(&lease("billing.leader", 1, "a"), Heard::ByWatch, now);
    beliefs.retain_leases(Some("elsewhere"), &BTreeSet::new(), now);
    let state = |beliefs: &Beliefs| beliefs.lease("demo", "billing.leader").unwrap().state();
    assert_eq!(state(&beliefs), LeaseState::Held);
    let mut triggers = beliefs.subscribe();
    beliefs.retain_leases(Some("demo"), &BTreeSet::new(), now);
    assert_eq!(state(&beliefs), LeaseState::Absent);
    assert_eq!(drained(&mut triggers), ["billing"]);
    beliefs.retain_services(None, &BTreeSet::new());
    assert_eq!(beliefs.counts().0, 0);
}

#[test]
fn the_sweep_names_silent_holders_once() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    beliefs.note_service(&service("billing", 1, &json!({})), now);
    beliefs.note_lease(&lease("billing.leader", 1, "a"), Heard::ByWatch, now);
    let mut triggers = beliefs.subscribe();
    let later = now + std::time::Duration::from_secs(16);
    beliefs.sweep(later);
    beliefs.sweep(later);
    assert_eq!(drained(&mut triggers), ["billing"]);
}

#[test]
fn what_concerns_nobody_any_more_is_forgotten() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    beliefs.note_service(&service("billing", 1, &json!({})), now);
    beliefs.note_lease(&lease("billing.leader", 1, "a"), Heard::ByWatch, now);
    beliefs.note_reading("demo", "billing.leader", None, Heard::ByWatch, now);
    assert_eq!(beliefs.counts(), (1, 1), "its terms may still be announced");
    beliefs.forget_service("demo", "billing");
    assert_eq!(beliefs.counts(), (0, 0));
    beliefs.note_lease(&lease("other.leader", 1, "a"), Heard::ByWatch, now);
    beliefs.note_reading("demo", "other.leader", None, Heard::ByWatch, now);
    assert_eq!(beliefs.counts(), (0, 0));
}
