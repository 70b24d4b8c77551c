//! What a partitioned service sees when nothing fails: joins, drains, leaving, panics.

#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{AssignmentKind, LostReason, PartitionGuard};
use tokio::time::Instant;

#[path = "support/pods.rs"]
mod pods;
#[path = "support/world.rs"]
mod world;

use pods::{KEY, Ledger, shared_out};
use world::{World, until};

#[tokio::test(start_paused = true)]
async fn one_member_gets_every_partition_and_each_has_a_token() {
    let world = World::new();
    let ledger = Ledger::new();
    let a = world.pod("a", &ledger).await;
    shared_out(&ledger, &[("a", 64)]).await;
    assert_eq!(ledger.begun(), 64, "each was started once");
    let status = a.handle.status();
    let partitions = status.partitions.unwrap();
    assert_eq!((partitions.total, partitions.owned), (Some(64), 64));
    assert_eq!((partitions.waiting, partitions.draining), (0, 0));
    assert_eq!((partitions.state, status.role), ("member", "leader"));
    let table = a.handle.table().unwrap();
    let own = a.handle.partition_for("order-1");
    assert_eq!(own, table.layout.partition_for_key(b"order-1"));
    assert_eq!(a.node.cluster.partition_for(KEY, "order-1"), Some(own));
    assert_eq!(a.node.cluster.partition_for("other", "order-1"), None);
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_second_member_takes_half_and_waits_for_each_drain() {
    let world = World::new();
    let ledger = Ledger::new();
    let drains = Duration::from_secs(3);
    let a = world
        .pod_with("a", &ledger, drains, |service| service)
        .await;
    shared_out(&ledger, &[("a", 64)]).await;
    let mut assignments = a.handle.assignments();
    let before = ledger.tokens();
    let b = world.pod("b", &ledger).await;
    until("a drains", || {
        a.handle.status().partitions.unwrap().draining == 32
    })
    .await;
    let asked = Instant::now();
    until("b waits", || {
        b.handle.status().partitions.unwrap().waiting == 32
    })
    .await;
    let status = b.handle.status().partitions.unwrap();
    assert!(status.waits_for_members[0].members[0].starts_with("a#"));
    assert_eq!(ledger.share("b"), 0);
    assert_eq!(ledger.share("a"), 64, "draining is owning");
    shared_out(&ledger, &[("a", 32), ("b", 32)]).await;
    assert!(
        asked.elapsed() >= Duration::from_millis(2_900),
        "{:?}",
        asked.elapsed()
    );
    assert!(
        asked.elapsed() <= Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    tokio::time::sleep(Duration::from_mins(5)).await;
    let waiting = |pod: &pods::Pod| pod.handle.status().partitions.unwrap().waiting;
    assert_eq!(
        (waiting(&a), waiting(&b)),
        (0, 0),
        "what runs waits for nobody"
    );
    let grown = ledger.tokens();
    let changed = grown.iter().filter(|(slot, token)| before[*slot] < **token);
    assert_eq!(
        changed.count(),
        32,
        "moved partitions only, and tokens only grow"
    );

    let mut seen = Vec::new();
    while seen.len() < 64 + 2 * 32 {
        seen.push(assignments.next().await.unwrap());
    }
    let of = |kind| seen.iter().filter(|change| change.kind == kind).count();
    assert_eq!(of(AssignmentKind::Assigned), 64);
    assert_eq!(of(AssignmentKind::Revoked), 32);
    assert_eq!(of(AssignmentKind::Released), 32);
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_shuts_down_hands_over_before_it_goes() {
    let world = World::new();
    let ledger = Ledger::new();
    let a = world.pod("a", &ledger).await;
    shared_out(&ledger, &[("a", 64)]).await;
    let b = world.pod("b", &ledger).await;
    shared_out(&ledger, &[("a", 32), ("b", 32)]).await;
    assert_eq!(a.handle.status().role, "leader");
    let guards = ledger.guards_of("a");

    let asked = Instant::now();
    a.node.cluster.shutdown();
    shared_out(&ledger, &[("b", 64)]).await;
    assert!(
        asked.elapsed() <= Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
    a.handle.finished().await.unwrap();
    a.node.cluster.closed().await;
    assert!(
        asked.elapsed() <= Duration::from_secs(2),
        "{:?}",
        asked.elapsed()
    );
    let lost = guards[0].check().unwrap_err();
    assert_eq!(lost.reason, LostReason::Reassigned);
    assert!(lost.to_string().starts_with("partition "), "{lost}");
    until("b leads", || b.handle.status().role == "leader").await;
    assert_eq!(world.holder(KEY).await.unwrap(), "b__00000001");
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn the_only_member_goes_as_soon_as_its_work_has_ended() {
    let world = World::new();
    let ledger = Ledger::new();
    let drains = Duration::from_secs(2);
    let a = world
        .pod_with("a", &ledger, drains, |service| service)
        .await;
    shared_out(&ledger, &[("a", 64)]).await;
    let asked = Instant::now();
    a.handle.shutdown();
    a.handle.finished().await.unwrap();
    assert!(asked.elapsed() >= drains, "release-after-drain");
    assert!(
        asked.elapsed() <= Duration::from_secs(4),
        "{:?}",
        asked.elapsed()
    );
    assert_eq!(world.holder(KEY).await, None, "released");
    assert_eq!(ledger.shares().len(), 0);

    let b = world.pod("b", &ledger).await;
    shared_out(&ledger, &[("b", 64)]).await;
    drop(b);
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_drain_of_the_whole_member_that_overruns_is_not_released() {
    let world = World::new();
    let ledger = Ledger::new();
    let never = Duration::from_hours(9);
    let a = world
        .pod_with("a", &ledger, never, |service| service.partitions(4))
        .await;
    shared_out(&ledger, &[("a", 4)]).await;
    a.handle.shutdown();
    let outcome = a.handle.finished().await.unwrap_err();
    assert!(outcome.is_drain_overrun(), "{outcome}");
    let holder = world.member_holder("a").await;
    assert!(holder.is_some(), "not released: release-after-drain");
    assert_eq!(ledger.shares().len(), 0, "the work was dropped");
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_is_started_again_after_a_pause_and_harms_no_other() {
    let world = World::new();
    let a = world.node("a").await;
    let (runs, others) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let work = {
        let (runs, others) = (Arc::clone(&runs), Arc::clone(&others));
        move |guard: PartitionGuard| {
            let (runs, others) = (Arc::clone(&runs), Arc::clone(&others));
            async move {
                match guard.partition().number() {
                    0 if runs.fetch_add(1, Ordering::SeqCst) % 2 == 0 => panic!("of the test"),
                    0 => {} // returns by itself
                    _ => {
                        others.fetch_add(1, Ordering::SeqCst);
                        guard.draining().await;
                    }
                }
            }
        }
    };
    let service = a.cluster.service(KEY).partitioned().partitions(8);
    let handle = service.spawn(work).unwrap();
    let runs = || runs.load(Ordering::SeqCst);
    until("it ran", || runs() == 1).await;
    let since = Instant::now();
    until("it ran again", || runs() == 2).await;
    assert!(
        since.elapsed() >= Duration::from_millis(900),
        "{:?}",
        since.elapsed()
    );
    until("the fifth run", || runs() == 5).await;
    let pauses = since.elapsed();
    assert!(
        pauses >= Duration::from_millis(14_900) && pauses <= Duration::from_secs(16),
        "1 + 2 + 4 + 8 s: {pauses:?}"
    );
    assert_eq!(others.load(Ordering::SeqCst), 7, "the others ran on");
    assert_eq!(handle.status().partitions.unwrap().owned, 8);
    handle.shutdown();
    handle.finished().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_gives_everything_back() {
    let world = World::new();
    let ledger = Ledger::new();
    let a = world.node("a").await;
    let service = a.cluster.service(KEY).partitioned().partitions(8);
    let run = tokio::spawn(service.run(ledger.work("a", Duration::ZERO)));
    shared_out(&ledger, &[("a", 8)]).await;
    run.abort();
    until("the works are dropped", || ledger.shares().is_empty()).await;
    a.cluster.close().await;
    assert_eq!(world.member_holder("a").await, None, "released");
    assert_eq!(world.holder(KEY).await, None, "released");
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn two_members_select_their_shards_of_what_the_api_server_has() {
    let world = World::new();
    let ledger = Ledger::new();
    let none = Duration::ZERO;
    let say = |service: leasehold::PartitionedBuilder| {
        service.partitions(2).hash(leasehold::HashId::K8sRange1)
    };
    let a = world.pod_with("a", &ledger, none, say).await;
    assert_eq!(a.handle.shard_selector(), Ok(None), "before it owns any");
    let b = world.pod_with("b", &ledger, none, say).await;
    shared_out(&ledger, &[("a", 1), ("b", 1)]).await;
    let mut selectors = [&a, &b].map(|pod| pod.handle.shard_selector().unwrap().unwrap());
    selectors.sort();
    assert_eq!(
        selectors,
        [
            "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')",
            "shardRange(object.metadata.uid,'0x8000000000000000','0x10000000000000000')",
        ]
    );
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_member_of_twice_the_weight_gets_twice_the_share() {
    let world = World::new();
    let ledger = Ledger::new();
    let none = Duration::ZERO;
    let say = |service: leasehold::PartitionedBuilder| service.partitions(60);
    let _a = world.pod_with("a", &ledger, none, say).await;
    let _b = world
        .pod_with("b", &ledger, none, |service| say(service).weight(2))
        .await;
    shared_out(&ledger, &[("a", 20), ("b", 40)]).await;
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn settled_members_write_renewals_and_nothing_else() {
    let world = World::new();
    let ledger = Ledger::new();
    let pods = [
        world.pod("a", &ledger).await,
        world.pod("b", &ledger).await,
        world.pod("c", &ledger).await,
    ];
    until("settled", || ledger.shares().len() == 3).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let count = || {
        pods.iter()
            .map(|pod| pod.node.store.requests())
            .sum::<usize>()
    };
    let renewals = || {
        pods.iter()
            .map(|pod| pod.node.store.renewals())
            .sum::<usize>()
    };
    let (requests, renewed) = (count(), renewals());
    tokio::time::sleep(Duration::from_mins(10)).await;
    let (requests, renewed) = (count() - requests, renewals() - renewed);
    assert_eq!(requests, renewed, "quiet-when-settled");
    assert!(
        (400..=500).contains(&renewed),
        "{renewed} renewals of 4 leases"
    );
    ledger.judge();
}

#[tokio::test]
async fn a_start_error_lists_every_problem_at_once() {
    let cluster = leasehold::Cluster::builder()
        .environment([("LEASEHOLD_NODE_ID", "Not.A-Name")])
        .signals(false)
        .build()
        .await
        .unwrap();
    let service = cluster
        .service("Bad_Name")
        .scope(leasehold::Scope::Node)
        .leader_elected()
        .partitioned()
        .partitions(4097)
        .weight(0);
    let refused = service.spawn(|_| async {}).err().unwrap();
    let text = refused.to_string();
    assert_eq!(refused.problems().len(), 4, "{text}");
    for part in [
        "leader_elected() and partitioned() contradict each other",
        "1 to 63 characters",
        "partitions: found 4097, allowed are 1 to 4096",
        "weight: found 0, allowed are 1 to 1000",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let service = cluster.service("orders").partitioned();
    let refused = service.spawn(|_| async {}).err().unwrap();
    let text = refused.to_string();
    assert!(text.contains("member name: found \"Not.A-Name\""), "{text}");
    assert!(text.contains("LEASEHOLD_NODE_ID"), "{text}");

    let refused = leasehold::Cluster::builder()
        .environment([
            ("LEASEHOLD_PARTITIONS", "0"),
            ("LEASEHOLD_WEIGHT", "-1"),
            ("LEASEHOLD_ZONE", ""),
        ])
        .signals(false)
        .build()
        .await
        .err()
        .unwrap();
    assert_eq!(refused.problems().len(), 3, "{refused}");
}
