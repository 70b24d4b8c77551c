//! Registration, settings, observers, and what is refused at the start.

#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

use std::time::Duration;

use leasehold::testing::{Declared, LeaseKey};
use leasehold::{ChangeKind, Cluster, LeaseTiming, Scope, ServiceHandle};
use tokio::sync::mpsc;

#[path = "support/world.rs"]
mod world;

use world::{Node, World, next, until, wait_for};

const KEY: &str = "orders";

/// Takes part until it is asked to finish.
fn lead(node: &Node) -> ServiceHandle {
    let service = node.cluster.service(KEY).leader_elected();
    let work = |leadership: leasehold::Leadership| async move { leadership.draining().await };
    service.spawn(work).unwrap()
}

#[tokio::test(start_paused = true)]
async fn node_scope_runs_at_once_and_touches_no_store() {
    let world = World::new();
    let a = world.node("a").await;
    let (begun, mut terms) = mpsc::unbounded_channel();
    let handle = a
        .cluster
        .service(KEY)
        .spawn(move |leadership| {
            let begun = begun.clone();
            async move {
                begun.send(leadership.clone()).unwrap();
                leadership.draining().await;
            }
        })
        .unwrap();
    let leadership = terms.recv().await.unwrap();
    assert!(leadership.check().is_ok());
    assert_eq!(handle.status().role, "node");
    a.cluster.shutdown();
    handle.finished().await.unwrap();
    assert!(leadership.check().is_err());
    assert_eq!(a.store.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn declared_timing_reaches_a_running_leader_without_a_new_term() {
    let world = World::new();
    let a = world.node("a").await;
    let key = LeaseKey::new(KEY).unwrap();
    let handle = lead(&a);
    let mut changes = handle.changes();
    wait_for(&mut changes, "a", &ChangeKind::Gained).await;
    assert_eq!(world.duration(KEY).await, Some(Duration::from_secs(15)));
    let declared = Declared {
        generation: 2,
        timing: LeaseTiming::CALM,
        drain_timeout: None,
        partitioned: None,
    };
    world.memory.declare(&key, Some(Ok(declared)));
    until("the new duration is in force", || {
        handle.status().lease_duration_s > 59.0
    })
    .await;
    until("it still leads", || handle.status().role == "leader").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(
        world.duration(KEY).await,
        Some(Duration::from_mins(1)),
        "published at once"
    );
    assert_eq!(handle.status().settings_generation, Some(2));
    let generation = world
        .memory
        .annotation(&key, "leasehold.dev/settings-generation");
    assert_eq!(generation.as_deref(), Some("2"));

    world
        .memory
        .declare(&key, Some(Err("lease.durationSeconds: found 0".to_owned())));
    until("the problem is shown", || {
        handle.status().settings_problem.is_some()
    })
    .await;
    assert_eq!(
        handle.status().settings_generation,
        Some(2),
        "the last good ones stay in force"
    );
    let late = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
    assert!(
        late.is_err(),
        "no change of leadership came of it: {late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn timing_fixed_in_code_wins_over_what_is_declared() {
    let world = World::new();
    let a = world.node("a").await;
    let declared = Declared {
        generation: 9,
        timing: LeaseTiming::CALM,
        drain_timeout: None,
        partitioned: None,
    };
    world
        .memory
        .declare(&LeaseKey::new(KEY).unwrap(), Some(Ok(declared)));
    let service = a
        .cluster
        .service(KEY)
        .leader_elected()
        .timing(LeaseTiming::FAST);
    let handle = service
        .spawn(|leadership| async move { leadership.draining().await })
        .unwrap();
    until("it leads", || handle.status().role == "leader").await;
    until("it follows", || {
        handle.status().settings_generation == Some(9)
    })
    .await;
    assert_eq!(world.duration(KEY).await, Some(Duration::from_secs(6)));
}

#[cfg(feature = "kubernetes")] // only there another program reads it
#[tokio::test(start_paused = true)]
async fn a_leader_says_that_its_code_has_the_other_strategy_than_the_declared_one() {
    let world = World::new();
    let a = world.node("a").await;
    let key = LeaseKey::new(KEY).unwrap();
    let handle = lead(&a);
    until("it leads", || handle.status().role == "leader").await;
    let fixed = || world.memory.annotation(&key, "leasehold.dev/fixed");
    let declared = |generation, partitioned| Declared {
        generation,
        timing: LeaseTiming::CALM,
        drain_timeout: None,
        partitioned,
    };
    let cut = leasehold::testing::DeclaredPartitions {
        count: 8,
        hash: leasehold::HashId::CsHash1,
    };
    world.memory.declare(&key, Some(Ok(declared(2, Some(cut)))));
    until("its Lease says so", || fixed().is_some()).await;
    assert_eq!(fixed().unwrap(), r#"{"strategy":"leader-elected"}"#);
    assert_eq!(handle.status().settings_generation, None);
    world.memory.declare(&key, Some(Ok(declared(3, None))));
    until("its Lease takes it back", || fixed().is_none()).await;
    assert_eq!(handle.status().settings_generation, Some(3));
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_every_change_in_order_and_never_campaigns() {
    let world = World::new();
    let (a, b, observer) = (
        world.node("a").await,
        world.node("b").await,
        world.node("observer").await,
    );
    let mut changes = observer.cluster.leadership_changes(KEY).unwrap();
    let first = lead(&a);
    let gained = next(&mut changes, "the first leader").await;
    assert_eq!(
        (gained.kind, &gained.holder[..1]),
        (ChangeKind::Gained, "a")
    );
    let second = lead(&b);
    a.cluster.shutdown();
    first.finished().await.unwrap();
    let resigned = next(&mut changes, "the end of the first").await;
    assert_eq!(
        (resigned.kind, resigned.term),
        (ChangeKind::Resigned, gained.term)
    );
    let gained_by_b = next(&mut changes, "the second leader").await;
    assert_eq!(
        (gained_by_b.kind, &gained_by_b.holder[..1]),
        (ChangeKind::Gained, "b")
    );
    assert!(gained_by_b.term > gained.term);
    assert_eq!(observer.store.requests(), 0);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_says_for_what_it_waits_and_until_when() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let work = |leadership: leasehold::Leadership| async move { leadership.draining().await };
    let first = a.cluster.service(KEY).leader_elected().spawn(work).unwrap();
    until("a leads", || first.status().role == "leader").await;
    let second = b.cluster.service(KEY).leader_elected().spawn(work).unwrap();
    until("b knows who leads", || second.status().holder.is_some()).await;
    let status = second.status();
    assert_eq!(status.role, "candidate");
    assert!(
        status
            .waits_for
            .starts_with("the lease to be vacant (held by a__"),
        "{}",
        status.waits_for
    );
    let until_s = status.until_s.unwrap();
    assert!(until_s > 0.0 && until_s < 15.1, "{until_s}");
    let view = serde_json::to_value(b.cluster.view()).unwrap();
    assert_eq!(view["services"][0]["cluster_id"], KEY);
}

#[tokio::test]
async fn a_start_error_lists_every_problem_at_once() {
    let error = Cluster::builder()
        .environment([
            ("LEASEHOLD_LEASES_DRIVER", "redis"),
            ("LEASEHOLD_TOKEN_ERA", "minus one"),
            ("LEASEHOLD_CLUSTRE", "true"),
        ])
        .signals(false)
        .build()
        .await
        .err()
        .unwrap();
    assert_eq!(error.problems().len(), 3, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("cannot start, 3 problems:"), "{text}");
}

#[tokio::test]
async fn memory_with_several_replicas_is_refused_only_when_it_is_used() {
    let cluster = Cluster::builder()
        .environment([
            ("LEASEHOLD_REPLICAS", "3"),
            ("LEASEHOLD_EXPECT_MULTI_NODE", "true"),
        ])
        .signals(false)
        .build()
        .await
        .unwrap();
    let node = cluster.service("per-node").spawn(|_| async {}).unwrap();
    node.finished().await.unwrap();
    let refused = cluster
        .service(KEY)
        .leader_elected()
        .spawn(|_| async {})
        .err()
        .unwrap();
    assert_eq!(refused.problems().len(), 2, "{refused}");
    assert!(
        refused
            .to_string()
            .contains("LEASEHOLD_LEASES_DRIVER=kubernetes")
    );
}

#[tokio::test]
async fn a_pod_without_a_readable_token_never_falls_back_to_memory() {
    let cluster = Cluster::builder()
        .environment([("KUBERNETES_SERVICE_HOST", "127.0.0.1")])
        .account("/nonexistent/account")
        .signals(false)
        .build()
        .await
        .unwrap();
    assert_eq!(cluster.driver(), "kubernetes");
    let refused = cluster
        .service(KEY)
        .leader_elected()
        .spawn(|_| async {})
        .err()
        .unwrap();
    let text = refused.to_string();
    assert!(
        text.contains("automountServiceAccountToken: true"),
        "{text}"
    );
}

#[tokio::test]
async fn contradictions_in_code_are_refused_with_what_to_change() {
    let cluster = Cluster::builder()
        .environment([("A", "b")])
        .signals(false)
        .build()
        .await
        .unwrap();
    let refused = cluster
        .service("Bad_Name")
        .scope(Scope::Cluster)
        .spawn(|_| async {})
        .err();
    let refused = refused.unwrap();
    assert_eq!(refused.problems().len(), 2, "{refused}");
    assert!(refused.to_string().contains("call leader_elected()"));
    assert!(refused.to_string().contains("1 to 63 characters"));
    let work = |leadership: leasehold::Leadership| async move { leadership.draining().await };
    let first = cluster.service(KEY).leader_elected().spawn(work).unwrap();
    let twice = cluster
        .service("other")
        .cluster_id(KEY)
        .leader_elected()
        .spawn(work)
        .err()
        .unwrap();
    assert!(
        twice
            .to_string()
            .contains("already used by service \"orders\""),
        "{twice}"
    );
    cluster.shutdown();
    first.finished().await.unwrap();
}
