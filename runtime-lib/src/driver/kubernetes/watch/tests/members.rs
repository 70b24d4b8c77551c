//! Members: followed by name, or all of a cluster id by one watch.

use super::*;
use crate::driver::{MemberFeed, MemberNews};

/// Part of the query that asks for all members.
const ALL: &str = "28member%29";
/// Part of the query that asks for leaders, assignments and settings.
const SHARED: &str = "28leader%2Cassignment%2Csettings%29";

fn member(name: &str, revision: u64) -> Value {
    json!({
        "metadata": {
            "name": format!("orders.member.{name}"), "uid": format!("uid-{name}"),
            "resourceVersion": revision.to_string(),
            "labels": {"leasehold.dev/cluster-id": "orders", "leasehold.dev/lease": "member"}
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 15, "leaseTransitions": 1}
    })
}

fn orders() -> LeaseKey {
    LeaseKey::new("orders").unwrap()
}

fn key(name: &str) -> LeaseKey {
    orders().member(name).unwrap()
}

async fn listed(feed: &mut MemberFeed) -> Vec<(String, u64)> {
    loop {
        if let MemberNews::Listed { members, .. } = feed.next().await.unwrap() {
            let members = members.iter();
            let shown = members.map(|(name, state)| (name.to_string(), state.revision.number()));
            return shown.collect();
        }
    }
}

async fn seen(feed: &mut MemberFeed) -> (String, u64) {
    loop {
        if let MemberNews::Seen(name, state) = feed.next().await.unwrap() {
            return (name.to_string(), state.revision.number());
        }
    }
}

/// Long enough for everything that is under way to have happened.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn all_members_are_told_again_after_a_forgotten_revision() {
    let foreign = json!({"metadata": {"name": "orders.other", "uid": "f", "resourceVersion": "3"}});
    let world = World::new(vec![
        member("a", 6),
        member("b", 7),
        foreign,
        lease("orders", 5, "a"),
    ]);
    let mut feed = world.store.watch_members(&orders());
    let both = [("a".to_owned(), 6), ("b".to_owned(), 7)];
    assert_eq!(listed(&mut feed).await, both);
    world
        .send(json!({"type": "MODIFIED", "object": member("a", 8)}))
        .await;
    assert_eq!(seen(&mut feed).await, ("a".to_owned(), 8));
    world.server().objects = vec![member("b", 9)];
    let gone = json!({"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"});
    world.send(json!({"type": "ERROR", "object": gone})).await;
    assert_eq!(listed(&mut feed).await, [("b".to_owned(), 9)]);
    world
        .send(json!({"type": "MODIFIED", "object": member("b", 10)}))
        .await;
    assert_eq!(seen(&mut feed).await, ("b".to_owned(), 10));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_all_members_that_is_down_says_so_and_lists_when_it_is_back() {
    let world = World::new(vec![member("a", 6)]);
    world.server().list_status = Some(503);
    let mut feed = world.store.watch_members(&orders());
    assert!(matches!(
        feed.next().await.unwrap(),
        MemberNews::Down(StoreError::Server { .. })
    ));
    world.server().list_status = None;
    assert_eq!(listed(&mut feed).await, [("a".to_owned(), 6)]);
    assert!(matches!(feed.next().await.unwrap(), MemberNews::Up));
}

#[tokio::test(start_paused = true)]
async fn a_member_is_followed_by_its_name_until_nobody_asks() {
    let world = World::new(vec![member("a", 6)]);
    let mut feed = world.store.watch(&key("a"));
    assert_eq!(next_revision(&mut feed).await, 6);
    world
        .send_on(
            "orders.member.a",
            json!({"type": "MODIFIED", "object": member("a", 7)}),
        )
        .await;
    assert_eq!(next_revision(&mut feed).await, 7);
    drop(feed);
    settle().await;
    assert!(world.server().open().is_empty());
    let mut feed = world.store.watch(&key("a"));
    assert_eq!(next_revision(&mut feed).await, 6, "it is listed anew");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_there_is_said_after_a_list_by_its_name() {
    let world = World::new(Vec::new());
    let mut feed = world.store.watch(&key("a"));
    assert!(matches!(
        feed.next().await.unwrap(),
        News::Listed { state: None, .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_single_member_needs_no_watch_while_all_are_watched() {
    let world = World::new(vec![member("a", 6)]);
    let mut before = world.store.watch(&key("a"));
    assert_eq!(next_revision(&mut before).await, 6);
    let mut all = world.store.watch_members(&orders());
    listed(&mut all).await;
    settle().await;
    assert_eq!(
        world.server().open().len(),
        1,
        "{:?}",
        world.server().open()
    );
    let gets = world.server().gets;
    let mut later = world.store.watch(&key("a"));
    assert_eq!(next_revision(&mut later).await, 6);
    assert_eq!(world.server().gets, gets + 1, "one read for who came later");
    world
        .send_on(ALL, json!({"type": "MODIFIED", "object": member("a", 7)}))
        .await;
    assert_eq!(seen(&mut all).await, ("a".to_owned(), 7));
    for feed in [&mut before, &mut later] {
        while next_revision(feed).await != 7 {}
    }
    drop(all);
    world.server().objects = vec![member("a", 8)];
    while next_revision(&mut later).await != 8 {}
    settle().await;
    let server = world.server();
    let open = server.open();
    assert!(
        open.len() == 1 && open[0].contains("orders.member.a"),
        "followed by name again: {open:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn many_single_members_share_one_watch() {
    let names: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    let world = World::new(names.iter().map(|name| member(name, 6)).collect());
    let mut feeds: Vec<Feed> = names
        .iter()
        .map(|name| world.store.watch(&key(name)))
        .collect();
    for feed in &mut feeds {
        assert_eq!(next_revision(feed).await, 6);
    }
    settle().await;
    let open: Vec<String> = world
        .server()
        .open()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(open.len() == 1 && open[0].contains(ALL), "{open:?}");
    world
        .send_on(ALL, json!({"type": "MODIFIED", "object": member("m7", 7)}))
        .await;
    while next_revision(&mut feeds[7]).await != 7 {}
    feeds.truncate(2);
    settle().await;
    let server = world.server();
    let open = server.open();
    assert!(
        open.len() == 2 && open.iter().all(|query| query.contains("fieldSelector")),
        "few are followed by name: {open:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn following_members_costs_the_shared_watch_nothing() {
    let world = World::new(vec![lease("orders", 6, "a"), member("a", 6)]);
    let mut leader = world.follow("orders");
    assert_eq!(next_revision(&mut leader).await, 6);
    settle().await;
    let mut by_name = world.store.watch(&key("a"));
    assert_eq!(next_revision(&mut by_name).await, 6);
    let mut all = world.store.watch_members(&orders());
    listed(&mut all).await;
    drop((by_name, all));
    settle().await;
    assert_eq!(world.server().lists_of(SHARED), 1);
    let mut assignment = world.store.watch(&orders().assignment());
    assert!(matches!(assignment.next().await.unwrap(), News::Gone));
    assert_eq!(world.server().lists_of(SHARED), 2, "it has to be told");
}

#[tokio::test(start_paused = true)]
async fn silence_of_an_assignment_is_what_one_expects() {
    let mut assignment = lease("orders", 6, "a");
    assignment["metadata"]["name"] = json!("orders.assignment");
    let world = World::new(vec![assignment]);
    let mut feed = world.store.watch(&orders().assignment());
    feed.expect_heartbeat(Duration::from_secs(5));
    assert_eq!(next_revision(&mut feed).await, 6);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.server().gets, 0, "nobody renews it");
}

#[tokio::test(start_paused = true)]
async fn an_assignment_without_labels_is_followed_by_name_once_it_was_read() {
    let named = |revision| {
        let mut assignment = lease("orders", revision, "a");
        assignment["metadata"]["name"] = json!("orders.assignment");
        assignment["metadata"]["labels"] = json!({});
        assignment
    };
    let world = World::new(vec![named(6)]);
    let key = orders().assignment();
    let mut feed = world.store.watch(&key);
    assert_eq!(next_revision(&mut feed).await, 6);
    world
        .store
        .read(&key, Duration::from_secs(2))
        .await
        .unwrap();
    settle().await;
    world
        .send_on(
            "orders.assignment",
            json!({"type": "MODIFIED", "object": named(7)}),
        )
        .await;
    while next_revision(&mut feed).await != 7 {}
}

#[tokio::test(start_paused = true)]
async fn silence_of_a_member_is_judged_by_the_heartbeat_of_its_cluster_id() {
    let world = World::new(vec![lease("orders", 6, "a"), member("a", 6)]);
    let leader = world.follow("orders");
    leader.expect_heartbeat(Duration::from_secs(20));
    let mut by_name = world.store.watch(&key("a"));
    assert_eq!(next_revision(&mut by_name).await, 6);
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(world.server().gets, 0, "a calm holder renews every 20 s");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.server().gets, 2, "each watch is looked after");
}
