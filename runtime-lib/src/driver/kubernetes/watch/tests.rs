//! The watch against an API server that plays what real ones do on bad days, in virtual time.

use std::sync::Mutex;

use futures::channel::mpsc;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};

use super::*;
use crate::driver::kubernetes::KubernetesStore;
use crate::driver::kubernetes::dialer::Dialer;
use crate::driver::{Feed, LeaseStore};

mod members;

type Body = UnsyncBoxBody<Bytes, tower::BoxError>;
type Frames = mpsc::UnboundedSender<Result<Frame<Bytes>, tower::BoxError>>;

/// What the server holds and how it behaves.
#[derive(Default)]
struct Server {
    objects: Vec<Value>,
    list_status: Option<u16>,
    lists: usize,
    gets: usize,
    /// With what was asked for.
    watches: Vec<(String, Frames)>,
    queries: Vec<String>,
}

impl Server {
    /// Watches that somebody still reads.
    fn open(&self) -> Vec<&str> {
        let open = self
            .watches
            .iter()
            .filter(|(_, frames)| !frames.is_closed());
        open.map(|(query, _)| query.as_str()).collect()
    }

    /// True if there was a watch to send it on.
    fn send(&self, part: &str, line: &Bytes) -> bool {
        let mut watches = self.watches.iter().rev();
        let found = watches.find(|(query, frames)| query.contains(part) && !frames.is_closed());
        found.is_some_and(|(_, frames)| {
            let frame = Frame::data(line.clone());
            frames.unbounded_send(Ok(frame)).is_ok()
        })
    }

    fn lists_of(&self, part: &str) -> usize {
        self.queries
            .iter()
            .filter(|query| query.contains(part))
            .count()
    }
}

struct NoConnections;

impl Dialer for NoConnections {
    fn generation(&self) -> u64 {
        0
    }
    fn redial_if(&self, _: u64) {}
}

struct World {
    server: Arc<Mutex<Server>>,
    store: KubernetesStore,
}

impl World {
    fn new(objects: Vec<Value>) -> Self {
        let server = Arc::new(Mutex::new(Server {
            objects,
            ..Server::default()
        }));
        let subscriptions = Arc::new(Subscriptions::default());
        let service = tower::service_fn({
            let server = Arc::clone(&server);
            move |request: Request<kube::client::Body>| {
                let answer = answer(&mut server.lock().unwrap(), request.uri());
                async move { Ok::<_, tower::BoxError>(answer) }
            }
        });
        let client = kube::Client::new(service, "shop");
        let requests = Requests::new(client, Arc::new(NoConnections), "shop".to_owned());
        let requests = Arc::new(requests);
        let watch = Watch {
            requests: Arc::clone(&requests),
            subscriptions: Arc::clone(&subscriptions),
            clock: Clock::test(),
        };
        let store = KubernetesStore {
            requests,
            subscriptions,
            watch: Arc::new(watch),
            tasks: Mutex::default(),
        };
        Self { server, store }
    }

    fn follow(&self, key: &str) -> Feed {
        let feed = self.store.watch(&LeaseKey::new(key).unwrap());
        feed.expect_heartbeat(Duration::from_secs(5));
        feed
    }

    fn server(&self) -> std::sync::MutexGuard<'_, Server> {
        self.server.lock().unwrap()
    }

    /// Sends an event on the newest watch.
    async fn send(&self, event: Value) {
        self.send_on("", event).await;
    }

    /// Sends an event on the newest open watch that asked for this.
    async fn send_on(&self, part: &str, event: Value) {
        let line = Bytes::from(format!("{event}\n"));
        for _ in 0..1000 {
            if self.server().send(part, &line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no watch was opened");
    }
}

fn answer(server: &mut Server, uri: &http::Uri) -> Response<Body> {
    let query = uri.query().unwrap_or_default();
    if query.contains("watch=true") {
        let (frames, body) = mpsc::unbounded();
        server.watches.push((query.to_owned(), frames));
        return Response::new(StreamBody::new(body).boxed_unsync());
    }
    if uri.path().ends_with("/leases") {
        server.lists += 1;
        server.queries.push(query.to_owned());
        if let Some(status) = server.list_status {
            return respond(
                status,
                &json!({"kind": "Status", "code": status, "message": "no"}),
            );
        }
        let items = server.objects.clone();
        return respond(
            200,
            &json!({"metadata": {"resourceVersion": "100"}, "items": items}),
        );
    }
    server.gets += 1;
    let name = uri.path().rsplit('/').next().unwrap_or_default();
    match server
        .objects
        .iter()
        .find(|object| object["metadata"]["name"] == name)
    {
        Some(object) => respond(200, object),
        None => respond(
            404,
            &json!({"kind": "Status", "code": 404, "message": "not found"}),
        ),
    }
}

fn respond(status: u16, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string()))
        .map_err(Into::into)
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn lease(key: &str, revision: u64, holder: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("{key}.leader"), "namespace": "shop", "uid": format!("uid-{key}"),
            "resourceVersion": revision.to_string(),
            "labels": {"leasehold.dev/cluster-id": key, "leasehold.dev/lease": "leader"}
        },
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1}
    })
}

/// The revision of the next state that is told.
async fn next_revision(feed: &mut Feed) -> u64 {
    let limit = Duration::from_mins(2);
    loop {
        match tokio::time::timeout(limit, feed.next())
            .await
            .expect("news")
            .unwrap()
        {
            News::Watched(state)
            | News::Listed {
                state: Some(state), ..
            } => {
                return state.revision.number();
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_stops_nothing() {
    let mut broken = lease("broken", 5, "x");
    broken["metadata"]["resourceVersion"] = json!("no number");
    let world = World::new(vec![
        broken.clone(),
        json!({"metadata": 7}),
        lease("orders", 6, "a"),
    ]);
    let _broken = world.follow("broken");
    let mut orders = world.follow("orders");
    assert_eq!(next_revision(&mut orders).await, 6);
    world
        .send(json!({"type": "MODIFIED", "object": broken}))
        .await;
    world
        .send(json!({"type": "MODIFIED", "object": {"spec": []}}))
        .await;
    world
        .send(json!({"type": "MODIFIED", "object": lease("orders", 7, "a")}))
        .await;
    assert_eq!(next_revision(&mut orders).await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_revision_is_listed_anew() {
    let world = World::new(vec![lease("orders", 6, "a")]);
    let mut orders = world.follow("orders");
    assert_eq!(next_revision(&mut orders).await, 6);
    world.server().objects = vec![lease("orders", 9, "b")];
    let gone = json!({"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"});
    world.send(json!({"type": "ERROR", "object": gone})).await;
    assert_eq!(next_revision(&mut orders).await, 9);
    assert_eq!(world.server().lists, 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_although_there_is_news_is_replaced_within_seconds() {
    let world = World::new(vec![lease("orders", 6, "a")]);
    let mut orders = world.follow("orders");
    assert_eq!(next_revision(&mut orders).await, 6);
    let since = tokio::time::Instant::now();
    world.server().objects = vec![lease("orders", 9, "a")]; // the event never comes
    assert_eq!(next_revision(&mut orders).await, 9);
    assert!(
        since.elapsed() <= Duration::from_secs(12),
        "{:?}",
        since.elapsed()
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.server().lists, 2, "and the watch is made anew");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_because_nothing_happens_is_kept() {
    let world = World::new(vec![lease("orders", 6, "a")]);
    let mut orders = world.follow("orders");
    assert_eq!(next_revision(&mut orders).await, 6);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let server = world.server();
    assert_eq!((server.lists, server.watches.len()), (1, 1));
    assert!(
        (3..=7).contains(&server.gets),
        "it is looked after: {} reads",
        server.gets
    );
}

#[tokio::test(start_paused = true)]
async fn the_back_off_grows_while_the_server_is_down() {
    let world = World::new(Vec::new());
    world.server().list_status = Some(503);
    let _orders = world.follow("orders");
    tokio::time::sleep(Duration::from_mins(10)).await;
    let lists = world.server().lists;
    assert!((60..=170).contains(&lists), "{lists} lists in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn reads_by_name_stand_in_where_lists_are_refused() {
    let world = World::new(vec![lease("orders", 6, "a")]);
    world.server().list_status = Some(403);
    let mut orders = world.follow("orders");
    assert_eq!(next_revision(&mut orders).await, 6);
    world.server().objects = vec![lease("orders", 7, "a")];
    while next_revision(&mut orders).await != 7 {}
}

#[tokio::test(start_paused = true)]
async fn all_keys_of_a_process_share_one_list_and_one_watch() {
    let keys: Vec<String> = (0..150).map(|n| format!("k{n}")).collect();
    let world = World::new(keys.iter().map(|key| lease(key, 6, "a")).collect());
    let mut feeds: Vec<Feed> = keys.iter().map(|key| world.follow(key)).collect();
    for feed in &mut feeds {
        assert_eq!(next_revision(feed).await, 6);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let server = world.server();
    assert_eq!((server.lists, server.watches.len()), (1, 1));
    assert!(
        !server.queries[0].contains("cluster-id"),
        "too many for a selector (H10)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_later_subscriber_of_the_same_key_is_told_the_state_as_well() {
    let world = World::new(vec![lease("orders", 6, "a")]);
    let mut first = world.follow("orders");
    assert_eq!(next_revision(&mut first).await, 6);
    let mut second = world.follow("orders");
    assert_eq!(next_revision(&mut second).await, 6);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_leaves_the_selection_is_gone_until_a_read_tells_more() {
    let world = World::new(vec![lease("orders", 6, "a")]);
    let mut orders = world.follow("orders");
    assert_eq!(next_revision(&mut orders).await, 6);
    world
        .send(json!({"type": "DELETED", "object": lease("orders", 7, "a")}))
        .await;
    loop {
        match orders.next().await.unwrap() {
            News::Gone => return,
            News::Watched(state) => panic!("{state:?}"),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn settings_come_through_the_same_watch() {
    let text = r#"{"version":1,"generation":7,"strategy":"leader-elected","lease":{"durationSeconds":60,"heartbeatSeconds":20,"attemptTimeoutSeconds":5,"stopBudgetSeconds":5}}"#;
    let settings = |text: &str| {
        json!({"metadata": {
            "name": "orders.settings", "uid": "s", "resourceVersion": "8",
            "labels": {"leasehold.dev/cluster-id": "orders", "leasehold.dev/lease": "settings"},
            "annotations": {"leasehold.dev/settings": text}
        }})
    };
    let world = World::new(vec![settings(text)]);
    let mut orders = world.follow("orders");
    let declared = next_settings(&mut orders).await.unwrap().unwrap();
    assert_eq!(declared.generation, 7);
    world
        .send(json!({"type": "MODIFIED", "object": settings("{}")}))
        .await;
    assert!(next_settings(&mut orders).await.unwrap().is_err());
    world
        .send(json!({"type": "DELETED", "object": settings("{}")}))
        .await;
    assert!(next_settings(&mut orders).await.is_none());
}

async fn next_settings(feed: &mut Feed) -> Option<Result<crate::settings::Declared, String>> {
    loop {
        if let News::Settings(declared) = feed.next().await.unwrap() {
            return declared;
        }
    }
}
