//! Which news concerns which ClusterService.

use leasehold_crds::keys;
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
    beliefs.note_lease(&lease("other.state", 1, ""), Heard::ByWatch, now);
    assert_eq!(drained(&mut triggers), Vec::<String>::new());
}

#[test]
fn credentials_are_looked_at_when_spec_commands_or_deletion_change_and_not_for_a_status() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    let mut wakes = beliefs.subscribe_credentials();
    let mut billing = service("billing", 1, &json!({}));
    let note = |it: &Guarded| beliefs.note_service(it, now);
    note(&billing);
    assert_eq!(drained(&mut wakes), ["billing"]);
    billing.0.as_mut().unwrap().status = Some(leasehold_crds::ClusterServiceStatus::default());
    note(&billing);
    assert_eq!(
        drained(&mut wakes),
        Vec::<String>::new(),
        "a status asks for nothing"
    );
    billing.meta_mut().annotations = Some([("example.com/x".to_owned(), "1".to_owned())].into());
    note(&billing);
    assert_eq!(drained(&mut wakes), Vec::<String>::new());
    billing.meta_mut().annotations =
        Some([("leasehold.dev/rotate".to_owned(), "1".to_owned())].into());
    note(&billing);
    assert_eq!(drained(&mut wakes), ["billing"]);
    billing.meta_mut().deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
    );
    note(&billing);
    assert_eq!(drained(&mut wakes), ["billing"]);
}

fn member(pod: &str, revision: u64) -> DeserializeGuard<Lease> {
    let mut lease = lease(&format!("billing.member.{pod}"), revision, pod);
    let labels = lease.labels_mut();
    labels.insert(keys::LABEL_CLUSTER_ID.to_owned(), "billing".to_owned());
    lease
}

#[test]
fn news_of_partitions_are_gathered_until_the_next_sweep() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    beliefs.note_service(&service("billing", 1, &json!({})), now);
    let mut triggers = beliefs.subscribe();
    for pod in 0..30 {
        beliefs.note_lease(&member(&format!("p-{pod}"), 1), Heard::ByWatch, now);
    }
    assert_eq!(drained(&mut triggers), Vec::<String>::new());
    beliefs.sweep(now);
    assert_eq!(drained(&mut triggers), ["billing"]);
    for pod in 0..30 {
        beliefs.note_lease(&member(&format!("p-{pod}"), 2), Heard::ByWatch, now);
    }
    beliefs.sweep(now);
    assert_eq!(
        drained(&mut triggers),
        Vec::<String>::new(),
        "renewals concern nobody"
    );
    assert_eq!(beliefs.counts(), (1, 30));
}

#[test]
fn members_that_a_list_does_not_show_are_gone_and_those_of_others_are_none() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    beliefs.note_service(&service("billing", 1, &json!({})), now);
    beliefs.note_lease(&member("a", 1), Heard::ByWatch, now);
    beliefs.note_lease(&member("b", 1), Heard::ByWatch, now);
    let mut foreign = member("c", 1);
    let labels = foreign.labels_mut();
    labels.insert(keys::LABEL_CLUSTER_ID.to_owned(), "other".to_owned());
    beliefs.note_lease(&foreign, Heard::ByWatch, now);
    let pods = |beliefs: &Beliefs| -> Vec<String> {
        let facts = beliefs.partitions("demo", "billing", now);
        facts.members.into_iter().map(|it| it.pod).collect()
    };
    assert_eq!(pods(&beliefs), ["a", "b"]);
    beliefs.note_members("demo", "billing", &[member("b", 1)], now);
    assert_eq!(pods(&beliefs), ["b"]);
    beliefs.retain_leases(Some("elsewhere"), &BTreeSet::new(), now);
    assert_eq!(pods(&beliefs), ["b"]);
    beliefs.retain_leases(Some("demo"), &BTreeSet::new(), now);
    assert_eq!(beliefs.counts(), (1, 0));
}

#[test]
fn a_silent_member_concerns_its_service_once_and_a_list_confirms_it() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    beliefs.note_service(&service("billing", 1, &json!({})), now);
    beliefs.note_lease(&member("a", 1), Heard::ByWatch, now);
    beliefs.sweep(now);
    let mut triggers = beliefs.subscribe();
    let later = now + std::time::Duration::from_secs(16);
    beliefs.sweep(later);
    beliefs.sweep(later);
    assert_eq!(drained(&mut triggers), ["billing"]);
    assert!(beliefs.is_member_suspected("demo", "billing"));
    beliefs.note_members("demo", "billing", &[member("a", 1)], later);
    assert!(!beliefs.is_member_suspected("demo", "billing"));
    let facts = beliefs.partitions("demo", "billing", later);
    assert_eq!(facts.members[0].life, partitions::Life::Silent);
    assert_eq!(facts.members[0].unchanged_for.as_secs(), 16);
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
