//! What a service sees of an election: on the memory store, in virtual time, with faults.

#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leasehold::testing::fault::Fault;
use leasehold::testing::{LeaseKey, StoreError};
use leasehold::{
    ChangeKind, FencingToken, Leadership, LeaseTiming, LostReason, RunError, ServiceBuilder,
    ServiceHandle,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

#[path = "support/world.rs"]
mod world;

use world::{Node, World, next, until, wait_for};

const KEY: &str = "orders";

/// Work that says when it began, and runs until it is asked to finish.
fn announce(begun: mpsc::UnboundedSender<Leadership>) -> impl FnMut(Leadership) -> Work + Send {
    move |leadership| {
        let begun = begun.clone();
        Box::pin(async move {
            begun.send(leadership.clone()).unwrap();
            leadership.draining().await;
        })
    }
}

/// The service of this node, one of those that elect a leader.
fn elected(node: &Node) -> ServiceBuilder {
    node.cluster.service(KEY).leader_elected()
}

/// Takes part with work that says when it began.
fn campaign(node: &Node, begun: mpsc::UnboundedSender<Leadership>) -> ServiceHandle {
    elected(node).spawn(announce(begun)).unwrap()
}

/// Tells when the work's future was dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

#[tokio::test(start_paused = true)]
async fn of_three_candidates_one_leads_and_hands_over_at_once_when_it_shuts_down() {
    let world = World::new();
    let (begun, mut terms) = mpsc::unbounded_channel();
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        let node = world.node(name).await;
        let handle = campaign(&node, begun.clone());
        nodes.push((name, node, handle));
        tokio::task::yield_now().await;
    }
    let mut tokens: Vec<FencingToken> = Vec::new();
    while !nodes.is_empty() {
        let leadership = terms.recv().await.unwrap();
        tokens.push(leadership.check().unwrap());
        let holder = world.holder(KEY).await.unwrap();
        let leaders = nodes
            .iter()
            .filter(|(_, _, handle)| handle.status().role == "leader");
        assert_eq!(leaders.count(), 1, "one-term-one-leader");
        let position = nodes
            .iter()
            .position(|(name, ..)| holder.starts_with(name))
            .unwrap();
        let (_, node, handle) = nodes.remove(position);
        let asked = Instant::now();
        node.cluster.shutdown();
        handle.finished().await.unwrap();
        node.cluster.closed().await;
        assert_eq!(leadership.check().unwrap_err().reason, LostReason::Resigned);
        assert!(
            asked.elapsed() < Duration::from_millis(100),
            "{:?}",
            asked.elapsed()
        );
    }
    assert_eq!(tokens.len(), 3);
    assert!(
        tokens.is_sorted_by(|a, b| a < b),
        "tokens-only-grow: {tokens:?}"
    );
    assert_eq!(world.holder(KEY).await, None, "released at the end");
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_while_it_drains_and_releases_when_the_work_has_ended() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let (begun, mut terms) = mpsc::unbounded_channel();
    let service = elected(&a).drain_timeout(Duration::from_secs(55));
    let handle = service
        .spawn(move |leadership| {
            let begun = begun.clone();
            async move {
                begun.send(()).unwrap();
                leadership.draining().await;
                for _ in 0..30 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    assert!(leadership.check().is_ok(), "draining is leading (E10)");
                }
            }
        })
        .unwrap();
    terms.recv().await.unwrap();
    let other = elected(&b).spawn(|_| async {}).unwrap();
    let mut changes = other.changes();
    let before = a.store.renewals();
    a.cluster.shutdown();
    until("draining", || handle.status().role == "draining").await;
    assert_eq!(handle.status().waits_for, "the work to end (draining)");
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(
        world.holder(KEY).await.unwrap().starts_with('a'),
        "holder unchanged while draining"
    );
    assert!(a.store.renewals() >= before + 4, "renewals go on");
    handle.finished().await.unwrap();
    wait_for(&mut changes, "b", &ChangeKind::Gained).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_overruns_is_cut_off_and_its_lease_is_left_to_lapse() {
    let world = World::new();
    let a = world.node("a").await;
    let (begun, mut terms) = mpsc::unbounded_channel();
    let service = elected(&a).drain_timeout(Duration::from_secs(3));
    let handle = service
        .spawn(move |_| {
            begun.send(()).unwrap();
            std::future::pending()
        })
        .unwrap();
    terms.recv().await.unwrap();
    a.cluster.shutdown();
    let outcome = handle.finished().await.unwrap_err();
    assert!(outcome.is_drain_overrun(), "{outcome}");
    assert!(
        world.holder(KEY).await.is_some(),
        "not released: release-after-drain"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewals_fail_is_told_within_its_trust_and_its_work_is_dropped() {
    let world = World::new();
    let a = world.node("a").await;
    let dropped = Arc::new(AtomicBool::new(false));
    let (begun, mut terms) = mpsc::unbounded_channel();
    let handle = elected(&a)
        .spawn({
            let dropped = Arc::clone(&dropped);
            move |leadership| {
                let (begun, dropped) = (begun.clone(), SetOnDrop(Arc::clone(&dropped)));
                async move {
                    let _dropped = dropped;
                    begun.send(leadership).unwrap();
                    std::future::pending::<()>().await;
                }
            }
        })
        .unwrap();
    let leadership = terms.recv().await.unwrap();
    let trusted = leadership.remaining();
    a.store.fail_writes(Some(Fault::Hang));
    let since = Instant::now();
    assert_eq!(leadership.lost().await.reason, LostReason::TrustExpired);
    assert!(
        since.elapsed() <= trusted,
        "{:?} of {trusted:?}",
        since.elapsed()
    );
    until("the work is dropped", || dropped.load(Ordering::SeqCst)).await;
    until("the error is shown", || {
        handle.status().last_error.is_some()
    })
    .await;
    let shown = handle.status().last_error.unwrap();
    assert!(shown.contains("did not answer"), "{shown}");

    a.store.fail_writes(None);
    let again = terms.recv().await.unwrap();
    assert!(
        again.token() > leadership.token(),
        "lost and regained is two terms (E6)"
    );
    assert!(leadership.check().is_err(), "the old leadership stays lost");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_is_lost_is_found_by_its_stamp() {
    let world = World::new();
    let a = world.node("a").await;
    a.store.fail_writes(Some(Fault::LoseAnswer));
    let (begun, mut terms) = mpsc::unbounded_channel();
    let started = Instant::now();
    let _handle = campaign(&a, begun);
    let leadership = terms.recv().await.unwrap();
    let limit = LeaseTiming::DEFAULT.trusted();
    assert!(
        leadership.remaining() <= limit,
        "trust counts from the send (E2)"
    );
    assert!(
        started.elapsed() < LeaseTiming::DEFAULT.lease_duration(),
        "no need to wait it out"
    );
    tokio::time::sleep(limit).await;
    assert!(
        leadership.check().is_ok(),
        "renewals whose answers are lost are found as well"
    );
}

#[tokio::test(start_paused = true)]
async fn an_emptied_holder_ends_the_term_at_once() {
    let world = World::new();
    let a = world.node("a").await;
    let (begun, mut terms) = mpsc::unbounded_channel();
    let handle = campaign(&a, begun);
    let leadership = terms.recv().await.unwrap();
    let mut changes = handle.changes();
    assert_eq!(
        next(&mut changes, "the present leadership").await.kind,
        ChangeKind::Gained
    );
    let since = Instant::now();
    assert!(
        world
            .memory
            .edit(&LeaseKey::new(KEY).unwrap(), |mut record| {
                record.holder = None;
                Some(record)
            })
    );
    assert_eq!(leadership.lost().await.reason, LostReason::Emptied);
    assert_eq!(since.elapsed(), Duration::ZERO, "E6");
    assert_eq!(next(&mut changes, "the loss").await.kind, ChangeKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_paused_beyond_its_lease_has_lost_it_when_it_wakes() {
    let world = World::new();
    let a = world.node("a").await;
    let (begun, mut terms) = mpsc::unbounded_channel();
    let handle = campaign(&a, begun);
    let leadership = terms.recv().await.unwrap();
    assert!(leadership.check().is_ok());
    a.clock.jump(Duration::from_secs(25)); // as SIGSTOP and SIGCONT: nothing ran meanwhile
    assert!(
        leadership.check().is_err(),
        "at once, before any timer or task ran (E9)"
    );
    let again = terms.recv().await.unwrap();
    assert!(again.token() > leadership.token());
    assert_eq!(handle.status().role, "leader");
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_leader_steps_down_and_another_takes_over() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let healthy = Arc::new(AtomicBool::new(true));
    let veto = {
        let healthy = Arc::clone(&healthy);
        move || healthy.load(Ordering::SeqCst)
    };
    let (begun, mut terms) = mpsc::unbounded_channel();
    let service = elected(&a).healthy(veto);
    let first = service.spawn(announce(begun.clone())).unwrap();
    terms.recv().await.unwrap();
    let second = campaign(&b, begun);
    let mut changes = second.changes();
    healthy.store(false, Ordering::SeqCst);
    let since = Instant::now();
    wait_for(&mut changes, "b", &ChangeKind::Gained).await;
    assert!(
        since.elapsed() <= LeaseTiming::DEFAULT.heartbeat(),
        "{:?}",
        since.elapsed()
    );
    until("the first waits", || {
        first.status().waits_for == "the work to be healthy again"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn work_that_hangs_is_replaced_within_the_lease_and_a_heartbeat() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let (begun, mut terms) = mpsc::unbounded_channel();
    let service = elected(&a).progress_timeout(Duration::from_secs(4));
    let _first = service
        .spawn({
            let begun = begun.clone();
            move |leadership| {
                let begun = begun.clone();
                async move {
                    for _ in 0..20 {
                        leadership.progress();
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    begun.send(leadership).unwrap();
                    std::future::pending::<()>().await; // hangs from here on
                }
            }
        })
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = campaign(&b, begun);
    let mut changes = second.changes();
    let hung = terms.recv().await.unwrap();
    assert!(
        hung.check().is_ok(),
        "positive control: it led for longer than its progress timeout"
    );
    let since = Instant::now();
    wait_for(&mut changes, "b", &ChangeKind::Gained).await;
    let timing = LeaseTiming::DEFAULT;
    assert!(since.elapsed() <= timing.lease_duration() + timing.heartbeat());
    assert_eq!(hung.check().unwrap_err().reason, LostReason::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn step_down_lets_another_lead() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let (begun, mut terms) = mpsc::unbounded_channel();
    let first = campaign(&a, begun.clone());
    terms.recv().await.unwrap();
    let second = campaign(&b, begun);
    let (mut own, mut seen) = (first.changes(), second.changes());
    first.step_down();
    wait_for(&mut own, "a", &ChangeKind::SteppedDown).await;
    wait_for(&mut seen, "b", &ChangeKind::Gained).await;
    assert_eq!(first.status().role, "candidate");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_wish_for_another_holder_is_honoured() {
    let world = World::new();
    let (a, b) = (world.node("a").await, world.node("b").await);
    let (begun, mut terms) = mpsc::unbounded_channel();
    let _first = campaign(&a, begun.clone());
    terms.recv().await.unwrap();
    let second = campaign(&b, begun);
    let mut changes = second.changes();
    assert!(
        world
            .memory
            .edit(&LeaseKey::new(KEY).unwrap(), |mut record| {
                record.preferred_holder = Some("b__00000001".to_owned());
                Some(record)
            })
    );
    wait_for(&mut changes, "b", &ChangeKind::Gained).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_ends_the_service_and_frees_the_lease() {
    let world = World::new();
    let a = world.node("a").await;
    let handle = elected(&a)
        .spawn(|_| async { panic!("of the test") })
        .unwrap();
    match handle.finished().await {
        Err(RunError::WorkPanicked(text)) => assert_eq!(text, "of the test"),
        other => panic!("{other:?}"),
    }
    a.cluster.close().await;
    assert_eq!(
        world.holder(KEY).await,
        None,
        "nothing of the work runs on: released"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_gives_the_lease_back() {
    let world = World::new();
    let a = world.node("a").await;
    let service = elected(&a);
    let run = service.run(|_| std::future::pending());
    assert!(
        tokio::time::timeout(Duration::from_secs(30), run)
            .await
            .is_err()
    );
    a.cluster.close().await;
    assert_eq!(world.holder(KEY).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_everything_is_asked_again_and_again_but_not_in_a_hurry() {
    let world = World::new();
    let a = world.node("a").await;
    let refusal = StoreError::Unauthorized {
        detail: "expired".to_owned(),
    };
    a.store.fail_writes(Some(Fault::Refuse(refusal.clone())));
    a.store.fail_reads(Some(Fault::Refuse(refusal)));
    let (begun, mut terms) = mpsc::unbounded_channel();
    let handle = campaign(&a, begun);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let requests = a.store.requests();
    assert!(
        (10..80).contains(&requests),
        "{requests} requests in a minute"
    );
    let status = handle.status();
    assert!(status.last_error.unwrap().contains("renew the kubeconfig"));
    assert!(status.failures > 0 && status.role == "candidate");
    a.store.fail_writes(None);
    a.store.fail_reads(None);
    terms.recv().await.unwrap();
    assert_eq!(handle.status().last_error, None);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_losses_and_returns_leave_no_task_behind() {
    let world = World::new();
    let a = world.node("a").await;
    let (count, running) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let handle = elected(&a)
        .spawn({
            let (count, running) = (Arc::clone(&count), Arc::clone(&running));
            move |leadership| {
                let (count, running) = (Arc::clone(&count), Arc::clone(&running));
                async move {
                    count.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                    tokio::select! {
                        () = leadership.draining() => {}
                        () = tokio::time::sleep(Duration::from_millis(1)) => {}
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                }
            }
        })
        .unwrap();
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    for _ in 0..10_000 {
        tokio::time::sleep(Duration::from_secs(1)).await; // a term that ended by itself waits I
        if count.load(Ordering::SeqCst) >= 1_000 {
            break;
        }
    }
    assert!(count.load(Ordering::SeqCst) >= 1_000, "a thousand terms");
    let after = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    assert!(after <= tasks + 1, "{tasks} tasks became {after}");
    a.cluster.shutdown();
    handle.finished().await.unwrap();
}
