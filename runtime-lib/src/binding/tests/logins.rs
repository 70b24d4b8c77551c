//! When a client goes over to other credentials.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use leasehold_core::time::Duration;
use tokio::sync::watch;

use super::super::follow::{Client, follow};
use super::{CANARY, Credentials};
use crate::binding::BindingKind;
use crate::clock::Clock;

/// A server that lets some logins in.
#[derive(Clone, Default)]
struct Server {
    knows: Arc<Mutex<Vec<&'static str>>>,
    is_down: Arc<AtomicBool>,
    tries: Arc<AtomicU32>,
    in_use: Arc<Mutex<Vec<String>>>,
}

impl Client for Server {
    type Open = ();

    async fn try_login(&self, credentials: &Arc<Credentials>) -> Result<(), String> {
        self.tries.fetch_add(1, Ordering::Relaxed);
        let login = credentials.username().unwrap();
        let knows = self.knows.lock().unwrap().contains(&login);
        let is_in = knows && !self.is_down.load(Ordering::Relaxed);
        is_in.then_some(()).ok_or_else(|| "refused".to_owned())
    }

    fn go_over(&self, credentials: &Arc<Credentials>, _: Option<()>) {
        let login = credentials.username().unwrap().to_owned();
        self.in_use.lock().unwrap().push(login);
    }
}

impl Server {
    fn uses(&self) -> Vec<String> {
        self.in_use.lock().unwrap().clone()
    }

    async fn until_tried(&self, more: u32) {
        let before = self.tries.load(Ordering::Relaxed);
        while self.tries.load(Ordering::Relaxed) < before + more {
            tokio::time::sleep(Duration::from_millis(100)).await; // of a clock that stands
        }
    }

    async fn until_in_use(&self, login: &str) {
        while self.uses().last().is_none_or(|last| last != login) {
            tokio::time::sleep(Duration::from_millis(100)).await; // of a clock that stands
        }
    }
}

fn login(name: &str) -> Arc<Credentials> {
    let url = format!("postgres://{name}:{CANARY}@h/");
    Arc::new(Credentials::from_variable(BindingKind::Postgres, &url).unwrap())
}

/// A client that follows from login `a` on.
fn following(knows: &[&'static str]) -> (Server, watch::Sender<Arc<Credentials>>) {
    let server = Server::default();
    server.knows.lock().unwrap().extend(knows);
    let (sender, news) = watch::channel(login("a"));
    let in_force = login("a");
    tokio::spawn(follow(
        server.clone(),
        "x".into(),
        in_force,
        news,
        Clock::test(),
    ));
    (server, sender)
}

#[tokio::test(start_paused = true)]
async fn a_login_that_lets_in_is_used() {
    let (server, sender) = following(&["a", "b"]);
    sender.send_replace(login("b"));
    server.until_in_use("b").await;
    assert_eq!(server.uses(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_login_that_is_refused_leaves_the_old_one_in_use_until_it_lets_in() {
    let (server, sender) = following(&["a"]);
    sender.send_replace(login("b"));
    server.until_tried(120).await; // a minute
    assert!(server.uses().is_empty());
    server.knows.lock().unwrap().push("b");
    server.until_in_use("b").await;
}

#[tokio::test(start_paused = true)]
async fn a_login_that_is_refused_gives_way_to_the_next() {
    let (server, sender) = following(&["a", "c"]);
    sender.send_replace(login("b"));
    server.until_tried(4).await;
    sender.send_replace(login("c"));
    server.until_in_use("c").await;
    assert_eq!(server.uses(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn while_the_server_is_away_for_a_moment_nothing_changes() {
    let (server, sender) = following(&["a", "b"]);
    server.is_down.store(true, Ordering::Relaxed);
    sender.send_replace(login("b"));
    server.until_tried(6).await;
    assert!(server.uses().is_empty());
    server.is_down.store(false, Ordering::Relaxed);
    server.until_in_use("b").await;
}

#[tokio::test(start_paused = true)]
async fn if_neither_login_lets_in_for_ten_seconds_the_newest_is_used() {
    let (server, sender) = following(&["a", "b"]);
    server.is_down.store(true, Ordering::Relaxed);
    let begun = tokio::time::Instant::now();
    sender.send_replace(login("b"));
    server.until_in_use("b").await;
    assert!(begun.elapsed() >= Duration::from_secs(10));
}
