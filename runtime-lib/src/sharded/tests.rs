//! Sharded lists against an API server that shards, ignores the parameter, or refuses it, in virtual time.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use futures::channel::mpsc as frames;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use leasehold_core::id::{FencingToken, Revision};
use leasehold_core::partition::{HashId, Layout, Partition, Slot};
use leasehold_core::time::Duration;
use serde_json::{Value, json};

use super::*;
use crate::partitions::AssignmentKind;

type Body = UnsyncBoxBody<Bytes, tower::BoxError>;
type Frames = frames::UnboundedSender<Result<Frame<Bytes>, tower::BoxError>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    On,
    Off,
    /// The selector is not to its liking.
    Refuses,
}

struct Server {
    gate: Gate,
    uids: Vec<String>,
    queries: Vec<String>,
    watches: Vec<Frames>,
    /// So many lists fail before one is answered.
    failing: usize,
}

/// One process with its roster, and the server.
struct World {
    server: Arc<Mutex<Server>>,
    roster: Arc<Roster>,
    objects: Sharded<ConfigMap>,
}

const COUNT: u16 = 8;

fn slot(number: u16) -> Slot {
    Slot {
        layout: Layout::new(1, HashId::K8sRange1, COUNT).unwrap(),
        partition: Partition::new(number),
    }
}

/// As random as those of a server: the hash hardly spreads what differs in the last letters only.
fn uid(number: u64) -> String {
    let random = HashId::CsHash1.of(&number.to_le_bytes());
    format!("{random:016x}-{number}")
}

fn partition_of(uid: &str) -> u16 {
    slot(0).layout.partition_for_key(uid.as_bytes()).number()
}

fn token() -> FencingToken {
    FencingToken::new(0, Revision::new(9).unwrap())
}

impl World {
    fn new(gate: Gate) -> Self {
        let server = Arc::new(Mutex::new(Server {
            gate,
            uids: (0..200).map(uid).collect(),
            queries: Vec::new(),
            watches: Vec::new(),
            failing: 0,
        }));
        let service = tower::service_fn({
            let server = Arc::clone(&server);
            move |request: Request<kube::client::Body>| {
                let answer = server.lock().unwrap().answer(request.uri());
                async move { Ok::<_, tower::BoxError>(answer) }
            }
        });
        let client = kube::Client::new(service, "shop");
        let roster = Arc::new(Roster::default());
        let params = ListParams::default().limit(64).labels("app=x");
        Self {
            objects: Sharded::new(kube::Api::namespaced(client, "shop"), &params, &roster),
            server,
            roster,
        }
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap()
    }

    /// Uids of exactly those partitions.
    fn of(&self, partitions: &[u16]) -> BTreeSet<String> {
        let uids = self.server().uids.clone().into_iter();
        uids.filter(|uid| partitions.contains(&partition_of(uid)))
            .collect()
    }

    /// The next list, and whether the server sent only that.
    async fn listed(&mut self) -> (BTreeSet<String>, bool) {
        match self.objects.next().await {
            Some(ShardedEvent::Listed { objects, by_server }) => {
                let uids = objects.into_iter().filter_map(|it| it.metadata.uid);
                (uids.collect(), by_server)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Sends an event on the newest watch.
    async fn send(&self, kind: &str, uid: &str) {
        let event = json!({"type": kind, "object": object(uid)});
        let line = Bytes::from(format!("{event}\n"));
        for _ in 0..1000 {
            let sent = match self.server().watches.last() {
                Some(watch) => watch.unbounded_send(Ok(Frame::data(line.clone()))).is_ok(),
                None => false,
            };
            if sent {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no watch was opened");
    }
}

fn object(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": uid, "uid": uid, "resourceVersion": "7"},
    })
}

impl Server {
    fn answer(&mut self, uri: &http::Uri) -> Response<Body> {
        let query = uri.query().unwrap_or_default().to_owned();
        self.queries.push(query.clone());
        if query.contains("watch=true") {
            let (sender, body) = frames::unbounded();
            self.watches.push(sender);
            return Response::new(StreamBody::new(body).boxed_unsync());
        }
        if self.failing > 0 {
            self.failing -= 1;
            return status(500);
        }
        let selector = parameter(&query, "shardSelector");
        let sharded = selector.filter(|_| self.gate != Gate::Off);
        if sharded.is_some() && self.gate == Gate::Refuses {
            return status(400);
        }
        let selected: Vec<&String> = self
            .uids
            .iter()
            .filter(|uid| sharded.as_ref().is_none_or(|text| matches(text, uid)))
            .collect();
        // Pages, as a real server makes them.
        let from = parameter(&query, "continue").map_or(0, |it| it.parse().unwrap());
        let limit: usize = parameter(&query, "limit").unwrap().parse().unwrap();
        let until = selected.len().min(from + limit);
        let page: Vec<Value> = selected[from..until].iter().map(|it| object(it)).collect();
        let mut metadata = json!({"resourceVersion": "100"});
        if until < selected.len() {
            metadata["continue"] = json!(until.to_string());
        }
        if let Some(text) = sharded {
            metadata["shardInfo"] = json!({"selector": text.replace(',', ", ")});
        }
        respond(
            200,
            &json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": page}),
        )
    }
}

/// The decoded value of a parameter.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    let mut parts = value.split('%');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        text.push(char::from(u8::from_str_radix(&part[..2], 16).unwrap()));
        text.push_str(&part[2..]);
    }
    Some(text)
}

/// The ranges stand between quotes.
fn matches(selector: &str, uid: &str) -> bool {
    let hash = u128::from(HashId::K8sRange1.of(uid.as_bytes()));
    let numbers = selector.split('\'').filter_map(|it| it.strip_prefix("0x"));
    let numbers: Vec<u128> = numbers
        .map(|digits| u128::from_str_radix(digits, 16).unwrap())
        .collect();
    let mut ranges = numbers.chunks(2);
    ranges.any(|range| (range[0]..range[1]).contains(&hash))
}

fn status(code: u16) -> Response<Body> {
    respond(
        code,
        &json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"}),
    )
}

fn respond(status: u16, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string()));
    let mut response = Response::new(body.map_err(Into::into).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

#[tokio::test(start_paused = true)]
async fn with_nothing_owned_nothing_is_asked() {
    let mut world = World::new(Gate::On);
    assert_eq!(world.listed().await, (BTreeSet::new(), true));
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.server().queries, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_owned_slice_is_the_same_whether_the_server_cuts_it_ignores_it_or_refuses() {
    for gate in [Gate::On, Gate::Off, Gate::Refuses] {
        let mut world = World::new(gate);
        for number in [1, 2, 5] {
            world.roster.assigned(slot(number), token());
        }
        let (uids, by_server) = world.listed().await;
        assert_eq!(uids, world.of(&[1, 2, 5]), "{gate:?}");
        assert!(!uids.is_empty() && uids.len() < 150);
        assert_eq!(by_server, gate == Gate::On, "{gate:?}");
        let queries = world.server().queries.clone();
        assert!(
            queries
                .iter()
                .all(|it| it.contains("labelSelector=app%3Dx"))
        );
        assert!(queries.len() > 1, "more than one page: {queries:?}");
        world.send("ADDED", &uid(1000)).await;
        // What else comes on the watch is left out.
        let (ours, foreign) = (uids.first().unwrap(), world.of(&[0]));
        world.send("MODIFIED", foreign.first().unwrap()).await;
        world.send("DELETED", ours).await;
        loop {
            match world.objects.next().await.unwrap() {
                ShardedEvent::Applied(found) => {
                    assert!([1, 2, 5].contains(&partition_of(&found.metadata.uid.unwrap())));
                }
                ShardedEvent::Deleted(found) => {
                    assert_eq!(found.metadata.uid.as_ref(), Some(ours));
                    break;
                }
                other => panic!("{gate:?}: {other:?}"),
            }
        }
        let asked = world
            .server()
            .queries
            .last()
            .unwrap()
            .contains("shardSelector");
        assert_eq!(asked, gate != Gate::Refuses);
    }
}

#[tokio::test(start_paused = true)]
async fn partitions_that_come_and_go_change_the_slice_at_once() {
    let mut world = World::new(Gate::On);
    world.roster.assigned(slot(1), token());
    assert_eq!(world.listed().await, (world.of(&[1]), true));
    world.roster.assigned(slot(3), token());
    world.roster.assigned(slot(4), token());
    assert_eq!(world.listed().await, (world.of(&[1, 3, 4]), true));
    // Its work may act until it has finished, so it is still ours.
    world.roster.changed(slot(3), AssignmentKind::Revoked);
    let kept = world.of(&[3]);
    world.send("MODIFIED", kept.first().unwrap()).await;
    assert!(matches!(
        world.objects.next().await,
        Some(ShardedEvent::Applied(_))
    ));
    // An event that waits for the controller does not come after the loss.
    world.send("MODIFIED", kept.first().unwrap()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    world.roster.changed(slot(3), AssignmentKind::Released);
    assert_eq!(world.listed().await, (world.of(&[1, 4]), true));
    world.roster.changed(slot(1), AssignmentKind::Lost);
    world.roster.changed(slot(4), AssignmentKind::Lost);
    assert_eq!(world.listed().await, (BTreeSet::new(), true));
    world.roster.close();
    assert!(world.objects.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_again_and_then_all_is_listed() {
    let mut world = World::new(Gate::On);
    world.server().failing = 2;
    world.roster.assigned(slot(6), token());
    for _ in 0..2 {
        let event = world.objects.next().await;
        assert!(
            matches!(event, Some(ShardedEvent::Interrupted(_))),
            "{event:?}"
        );
    }
    assert_eq!(world.listed().await.0, world.of(&[6]));
    let gone =
        json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}});
    tokio::time::sleep(Duration::from_secs(5)).await;
    let line = Bytes::from(format!("{gone}\n"));
    let watch = world.server().watches.last().unwrap().clone();
    watch.unbounded_send(Ok(Frame::data(line))).unwrap();
    assert_eq!(world.listed().await.0, world.of(&[6]), "listed anew");
}
