//! What a partitioned service sees when something fails: crashes, pauses, lost Leases, bad input.

#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

use std::sync::Arc;
use std::time::Duration;

use leasehold::fence::{FenceError, MemoryFences};
use leasehold::testing::fault::Fault;
use leasehold::testing::{Declared, DeclaredPartitions};
use leasehold::{
    AssignmentKind, Claim, HashId, LeaseTiming, LostReason, OnDrainTimeout, PartitionGuard,
};
use leasehold_core::lease::Contents;
use tokio::time::Instant;

#[path = "support/pods.rs"]
mod pods;
#[path = "support/world.rs"]
mod world;

use pods::{KEY, Ledger, Pod, id, identity, member, shared_out};
use world::{World, until};

const D: Duration = Duration::from_secs(15);

/// A world in which these pods share 64 partitions; the first one leads.
async fn settled(ledger: &Arc<Ledger>, names: &[&str]) -> (World, Vec<Pod>) {
    let world = World::new();
    let mut pods = Vec::new();
    for name in names {
        pods.push(world.pod(name, ledger).await);
        let count = pods.len();
        until("its share", || {
            ledger.shares().len() == count && ledger.share(name) >= 64 / count
        })
        .await;
    }
    assert_eq!(pods[0].handle.status().role, "leader");
    (world, pods)
}

/// As after SIGKILL, seen from the others: nothing is heard of it any more.
fn crash(pod: &Pod) {
    pod.node.store.fail_writes(Some(Fault::Hang));
    pod.node.store.fail_reads(Some(Fault::Hang));
}

fn heal(pod: &Pod) {
    pod.node.store.fail_writes(None);
    pod.node.store.fail_reads(None);
}

#[tokio::test(start_paused = true)]
async fn the_share_of_a_crashed_member_is_given_away_after_its_lease() {
    let ledger = Ledger::new();
    let (_world, pods) = settled(&ledger, &["a", "b", "c"]).await;
    let since = Instant::now();
    crash(&pods[1]);
    shared_out(&ledger, &[("a", 32), ("c", 32)]).await;
    assert!(
        since.elapsed() <= D + Duration::from_secs(2),
        "{:?}",
        since.elapsed()
    );
    heal(&pods[1]);
    until("b is back", || ledger.share("b") >= 21).await;
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn when_the_leading_pod_crashes_its_share_is_given_away_as_fast() {
    let ledger = Ledger::new();
    let (_world, pods) = settled(&ledger, &["a", "b", "c"]).await;
    let since = Instant::now();
    crash(&pods[0]);
    shared_out(&ledger, &[("b", 32), ("c", 32)]).await;
    assert!(
        since.elapsed() <= D + Duration::from_secs(2),
        "H10: {:?}",
        since.elapsed()
    );
    heal(&pods[0]);
    until("a is back", || ledger.share("a") >= 21).await;
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_paused_beyond_its_lease_starts_a_new_life() {
    let ledger = Ledger::new();
    let (world, pods) = settled(&ledger, &["a", "b"]).await;
    let before = world.incarnation("b").await.unwrap();
    let guards = ledger.guards_of("b");
    assert_eq!(guards.len(), 32);
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    pods[1].node.clock.jump(Duration::from_secs(25)); // as SIGSTOP and SIGCONT
    assert!(
        guards.iter().all(|guard| guard.check().is_err()),
        "at once, before any timer or task ran (E9)"
    );
    let lost = guards[0].check().unwrap_err();
    assert_eq!(lost.reason, LostReason::TrustExpired);
    until("b has a new life", || {
        let status = pods[1].handle.status().partitions.unwrap();
        status.incarnation.is_some_and(|now| now > before) && status.owned == 32
    })
    .await;
    shared_out(&ledger, &[("a", 32), ("b", 32)]).await;
    assert!(
        guards.iter().all(|guard| guard.check().is_err()),
        "they stay lost"
    );
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_lost_in_the_middle_of_a_rebalance_leaves_it_to_the_next() {
    let ledger = Ledger::new();
    let world = World::new();
    let drains = Duration::from_secs(4);
    let a = world
        .pod_with("a", &ledger, drains, |service| service)
        .await;
    shared_out(&ledger, &[("a", 64)]).await;
    let b = world
        .pod_with("b", &ledger, drains, |service| service)
        .await;
    shared_out(&ledger, &[("a", 32), ("b", 32)]).await;
    let c = world
        .pod_with("c", &ledger, drains, |service| service)
        .await;
    until("c waits for some", || {
        c.handle.status().partitions.unwrap().waiting > 0
    })
    .await;
    assert_eq!(a.handle.status().role, "leader");
    crash(&a);
    shared_out(&ledger, &[("b", 32), ("c", 32)]).await;
    heal(&a);
    until("a is back", || ledger.share("a") >= 21).await;
    drop(b);
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_give_up_a_partition_holds_up_only_that_one() {
    let ledger = Ledger::new();
    let world = World::new();
    let never = Duration::from_hours(9);
    let stubborn = {
        let (slow, quick) = (ledger.work("a", never), ledger.work("a", Duration::ZERO));
        move |guard: PartitionGuard| match guard.partition().number() % 8 {
            0 => slow(guard),
            _ => quick(guard),
        }
    };
    let node = world.node("a").await;
    let service = node.cluster.service(KEY).partitioned().partitions(16);
    let a = service.spawn(stubborn).unwrap();
    shared_out(&ledger, &[("a", 16)]).await;
    // The order is the planner's: some of the two stubborn ones are likely among those that move.
    let service = |service: leasehold::PartitionedBuilder| service.partitions(16);
    let b = world.pod_with("b", &ledger, Duration::ZERO, service).await;
    until("all others moved", || {
        let status = b.handle.status().partitions.unwrap();
        status.owned + status.waiting == 8 && status.owned >= 6
    })
    .await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let (mine, theirs) = (
        a.status().partitions.unwrap(),
        b.handle.status().partitions.unwrap(),
    );
    assert_eq!(
        mine.draining, theirs.waiting,
        "who drains holds up who waits"
    );
    assert_eq!(mine.owned, 8);
    assert!(
        theirs
            .waits_for_members
            .iter()
            .all(|one| one.members == ["a#1"])
    );
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_member_may_choose_to_give_everything_up_instead_of_holding_one_up() {
    let ledger = Ledger::new();
    let world = World::new();
    let never = Duration::from_hours(9);
    let a = world
        .pod_with("a", &ledger, never, |service| {
            service.on_drain_timeout(OnDrainTimeout::FenceMember)
        })
        .await;
    shared_out(&ledger, &[("a", 64)]).await;
    let before = world.incarnation("a").await.unwrap();
    let mut assignments = a.handle.assignments();
    let b = world.pod("b", &ledger).await;
    shared_out(&ledger, &[("a", 32), ("b", 32)]).await;
    assert!(world.incarnation("a").await.unwrap() > before);
    let mut lost = 0;
    while lost < 64 {
        lost += usize::from(assignments.next().await.unwrap().kind == AssignmentKind::Lost);
    }
    drop(b);
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_member_lease_ends_that_life_and_a_higher_one_follows() {
    let ledger = Ledger::new();
    let (world, pods) = settled(&ledger, &["a", "b"]).await;
    let before = world.incarnation("b").await.unwrap();
    assert!(world.memory.edit(&member("b"), |_| None));
    until("b has a new life", || {
        let status = pods[1].handle.status().partitions.unwrap();
        status.incarnation.is_some_and(|now| now > before)
    })
    .await;
    until("shared out again", || {
        let shares = ledger.shares();
        shares.get("a") == Some(&32) && shares.get("b") == Some(&32)
    })
    .await;
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_assignment_is_made_anew_and_owners_go_on_meanwhile() {
    let ledger = Ledger::new();
    let (world, _pods) = settled(&ledger, &["a", "b"]).await;
    let before = ledger.tokens();
    assert!(world.memory.edit(&id().assignment(), |_| None));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ledger.tokens(), before, "owners go on");
    until("a new table", || {
        let now = ledger.tokens();
        now.len() == 64 && now.iter().all(|(slot, token)| before[slot] < *token)
    })
    .await;
    assert_eq!(world.table().await.unwrap().parts.len(), 64);
    shared_out(&ledger, &[("a", 32), ("b", 32)]).await;
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn garbage_for_a_table_is_refused_and_replaced_and_owners_go_on() {
    for newer in [false, true] {
        let ledger = Ledger::new();
        let (world, pods) = settled(&ledger, &["a", "b"]).await;
        let before = ledger.tokens();
        let key = id().assignment();
        assert!(world.memory.edit(&key, |mut record| {
            let reason = "version: found 9, allowed is 1".into();
            record.contents = Contents::Unreadable { newer, reason };
            Some(record)
        }));
        until("it is shown", || {
            let status = pods[1].handle.status().partitions.unwrap();
            status
                .table_problem
                .is_some_and(|problem| problem.contains("found 9"))
        })
        .await;
        assert_eq!(ledger.tokens(), before, "owners go on");
        tokio::time::sleep(Duration::from_mins(2)).await;
        let (now, table) = (ledger.tokens(), world.table().await);
        if newer {
            assert!(table.is_none(), "what a later version wrote is not touched");
            assert_eq!(now, before);
        } else {
            assert!(table.is_some(), "made anew (H7)");
            assert!(now.iter().all(|(slot, token)| before[slot] < *token));
            assert_eq!(now.len(), 64);
        }
        ledger.judge();
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_processes_with_one_name_only_one_is_a_member() {
    let ledger = Ledger::new();
    let world = World::new();
    let a = world.pod("a", &ledger).await;
    shared_out(&ledger, &[("a", 64)]).await;
    let twin_node = world.node_as(identity("a__00000002")).await;
    let service = twin_node.cluster.service(KEY).partitioned();
    let twin = service.spawn(ledger.work("twin", Duration::ZERO)).unwrap();
    tokio::time::sleep(Duration::from_mins(5)).await;
    shared_out(&ledger, &[("a", 64)]).await;
    let status = twin.status().partitions.unwrap();
    assert_eq!((status.state, status.owned), ("candidate", 0));
    assert!(
        status.waits_for.contains("held by a__00000001"),
        "{}",
        status.waits_for
    );
    let before = world.incarnation("a").await.unwrap();
    a.handle.shutdown();
    a.handle.finished().await.unwrap();
    shared_out(&ledger, &[("twin", 64)]).await;
    assert!(world.incarnation("a").await.unwrap() > before);
    ledger.judge();
}

fn declare(world: &World, generation: i64, count: u16) {
    let declared = Declared {
        generation,
        timing: LeaseTiming::DEFAULT,
        drain_timeout: None,
        partitioned: Some(DeclaredPartitions {
            count,
            hash: HashId::CsHash1,
        }),
    };
    world.memory.declare(&id(), Some(Ok(declared)));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_partitions_changes_while_members_work() {
    let ledger = Ledger::new();
    let world = World::new();
    let drains = Duration::from_secs(2);
    declare(&world, 1, 64);
    let a = world
        .pod_with("a", &ledger, drains, |service| service)
        .await;
    let b = world
        .pod_with("b", &ledger, drains, |service| service)
        .await;
    shared_out(&ledger, &[("a", 32), ("b", 32)]).await;
    let fences = MemoryFences::new(KEY).unwrap();
    let mut former: Vec<Claim> = Vec::new();
    for (generation, count) in [(1, 64), (2, 96), (3, 48)] {
        declare(&world, generation, count);
        let half = usize::from(count) / 2;
        shared_out(&ledger, &[("a", half), ("b", half)]).await;
        let table = world.table().await.unwrap();
        assert_eq!(table.layout.count(), count);
        until("both saw it", || {
            [&a, &b]
                .iter()
                .all(|pod| pod.handle.table().unwrap().layout == table.layout)
        })
        .await;
        let mut claims = Vec::new();
        for guard in [ledger.guards_of("a"), ledger.guards_of("b")].concat() {
            guard.raise(&fences).await.unwrap();
            claims.push(guard.claim().unwrap());
        }
        assert_eq!(claims.len(), usize::from(count));
        // H9: the owners of every former layout are shut out.
        for late in &former {
            let refused = fences.write(*late, || ());
            assert!(
                matches!(refused, Err(FenceError::Stale { .. })),
                "{refused:?}"
            );
        }
        for claim in &claims {
            fences.write(*claim, || ()).unwrap();
        }
        former.extend(claims);
    }
    ledger.judge();
}

#[tokio::test(start_paused = true)]
async fn a_number_that_code_fixes_stays_whatever_is_declared() {
    let ledger = Ledger::new();
    let world = World::new();
    declare(&world, 1, 64);
    let a = world
        .pod_with("a", &ledger, Duration::ZERO, |service| {
            service.partitions(10)
        })
        .await;
    shared_out(&ledger, &[("a", 10)]).await;
    assert_eq!(a.handle.table().unwrap().layout.count(), 10);
    ledger.judge();
}
