//! Each fault does what it says, seen from a client in front of a small server.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::malformed::Malformed;
use super::upstream::Upstream;
use super::{Action, FaultProxy, Link, When};
use crate::error::Result;
use crate::wait;

/// Long enough that an answer that can come has come.
const PATIENCE: Duration = Duration::from_millis(300);
const MINUTE: Duration = Duration::from_mins(1);

/// Counts what it carries out.
#[derive(Default)]
struct Server {
    written: AtomicUsize,
}

fn lease() -> Value {
    json!({
        "kind": "Lease",
        "metadata": { "name": "orders.leader", "resourceVersion": "7" },
        "spec": { "holderIdentity": "a", "leaseTransitions": 3, "leaseDurationSeconds": 15 },
    })
}

impl Server {
    fn answer(&self, request: &Request<Incoming>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        if request.method() == Method::PUT {
            self.written.fetch_add(1, Ordering::SeqCst);
        }
        if request.uri().query() != Some("watch=true") {
            return Response::new(Full::new(lease().to_string().into()).boxed_unsync());
        }
        let event = format!("{}\n", json!({ "type": "MODIFIED", "object": lease() }));
        // One event in two pieces, then silence.
        let (start, end) = event.split_at(20);
        let pieces =
            [start.to_owned(), end.to_owned()].map(|piece| Ok(Frame::data(Bytes::from(piece))));
        let events = futures::stream::iter(pieces);
        let silent = futures::stream::pending();
        Response::new(StreamBody::new(futures::StreamExt::chain(events, silent)).boxed_unsync())
    }

    async fn start() -> Result<(Arc<Self>, SocketAddr)> {
        let server = Arc::new(Self::default());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = Arc::clone(&serving);
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        std::future::ready(Ok::<_, Infallible>(server.answer(&request)))
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok((server, address))
    }
}

async fn http_link() -> Result<(Arc<Server>, Link)> {
    let (server, address) = Server::start().await?;
    let link = FaultProxy::in_front_of_plain(address).http().await?;
    Ok((server, link))
}

/// One request over a connection of its own.
async fn ask(link: &Link, method: Method, uri: &str) -> std::io::Result<(StatusCode, Value)> {
    let response = open(link, method, uri).await?;
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body.map_err(std::io::Error::other)?.to_bytes();
    Ok((status, serde_json::from_slice(&body)?))
}

async fn open(link: &Link, method: Method, uri: &str) -> std::io::Result<Response<Incoming>> {
    let request = Request::builder().method(method).uri(uri);
    let request = request
        .header("host", "proxy")
        .body(Full::new(Bytes::from_static(b"{}")))
        .map_err(std::io::Error::other)?;
    Upstream::plain(link.address).send(request).await
}

#[tokio::test]
async fn without_rules_a_link_changes_nothing_and_knows_every_request() -> Result<()> {
    let (server, link) = http_link().await?;
    let (status, body) = ask(&link, Method::PUT, "/leases/orders.leader").await?;
    assert_eq!((status, body), (StatusCode::OK, lease()));
    assert_eq!(server.written.load(Ordering::SeqCst), 1);
    let seen = link.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].uri, "/leases/orders.leader");
    assert_eq!(
        (seen[0].status, &seen[0].body),
        (Some(StatusCode::OK), &json!({}))
    );
    Ok(())
}

#[tokio::test]
async fn a_refused_request_never_reaches_the_server() -> Result<()> {
    let (server, link) = http_link().await?;
    let wish = Some(Duration::from_secs(3));
    let rule = link.rule(
        When::writes(),
        Action::Refuse(StatusCode::TOO_MANY_REQUESTS, wish),
    );
    let response = open(&link, Method::PUT, "/x").await?;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "3");
    assert_eq!(ask(&link, Method::GET, "/x").await?.0, StatusCode::OK);
    rule.end();
    assert_eq!(ask(&link, Method::PUT, "/x").await?.0, StatusCode::OK);
    assert_eq!(rule.matched(), 1);
    assert_eq!(server.written.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_leaves_the_write_done() -> Result<()> {
    let (server, link) = http_link().await?;
    link.rule(When::any(), Action::LoseAnswer);
    assert!(ask(&link, Method::PUT, "/x").await.is_err());
    assert_eq!(server.written.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn a_held_request_arrives_after_its_client_gave_up() -> Result<()> {
    let (server, link) = http_link().await?;
    let rule = link.rule(When::writes(), Action::Hold);
    let given_up = tokio::time::timeout(PATIENCE, ask(&link, Method::PUT, "/x")).await;
    assert!(given_up.is_err());
    assert_eq!(server.written.load(Ordering::SeqCst), 0);
    rule.end();
    wait::until_true("the late request", MINUTE, || async {
        Ok(server.written.load(Ordering::SeqCst) == 1)
    })
    .await?;
    assert_eq!(rule.matched(), 1);
    Ok(())
}

#[tokio::test]
async fn a_lease_is_rewritten_in_answers_and_in_events_cut_in_two() -> Result<()> {
    let (_server, link) = http_link().await?;
    let rule = link.rule(
        When::any(),
        Action::Rewrite(Malformed::NegativeTransitions.rewrite()),
    );
    let (_, body) = ask(&link, Method::GET, "/x").await?;
    assert_eq!(body["spec"]["leaseTransitions"], -7);

    let mut events = open(&link, Method::GET, "/x?watch=true").await?.into_body();
    let mut text = Vec::new();
    while text.last() != Some(&b'\n') {
        let Some(frame) = events.frame().await else {
            break;
        };
        text.extend(frame?.into_data().unwrap_or_default());
    }
    let event: Value = serde_json::from_slice(&text)?;
    assert_eq!(event["object"]["spec"]["leaseTransitions"], -7);
    rule.end();
    assert_eq!(ask(&link, Method::GET, "/x").await?.1, lease());
    Ok(())
}

/// A client that keeps one connection.
struct Kept {
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
}

impl Kept {
    async fn open(link: &Link) -> Result<Self> {
        let stream = TcpStream::connect(link.address).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    async fn ask(&mut self) -> Result<StatusCode> {
        let request = Request::builder().header("host", "proxy").uri("/x");
        let request = request.body(Full::new(Bytes::new()))?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        response.into_body().collect().await?;
        Ok(status)
    }

    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(PATIENCE, self.ask()).await.is_err()
    }
}

#[tokio::test]
async fn half_open_silences_old_connections_and_serves_new_ones() -> Result<()> {
    for link in both_kinds().await? {
        let mut old = Kept::open(&link).await?;
        assert_eq!(old.ask().await?, StatusCode::OK);
        link.half_open();
        assert!(old.is_silent().await, "an old connection answered or ended");
        assert_eq!(Kept::open(&link).await?.ask().await?, StatusCode::OK);
    }
    Ok(())
}

#[tokio::test]
async fn a_black_hole_accepts_and_never_answers() -> Result<()> {
    for link in both_kinds().await? {
        let mut old = Kept::open(&link).await?;
        assert_eq!(old.ask().await?, StatusCode::OK);
        link.black_hole();
        assert!(old.is_silent().await);
        assert!(Kept::open(&link).await?.is_silent().await);
        link.let_go();
        assert_eq!(Kept::open(&link).await?.ask().await?, StatusCode::OK);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_held_on_the_wire_is_delivered_late() -> Result<()> {
    for link in both_kinds().await? {
        let mut kept = Kept::open(&link).await?;
        assert_eq!(kept.ask().await?, StatusCode::OK);
        link.hold();
        let mut asking = std::pin::pin!(kept.ask());
        assert!(tokio::time::timeout(PATIENCE, &mut asking).await.is_err());
        link.let_go();
        assert_eq!(asking.await?, StatusCode::OK);
    }
    Ok(())
}

#[tokio::test]
async fn a_cut_connection_ends() -> Result<()> {
    for link in both_kinds().await? {
        let mut kept = Kept::open(&link).await?;
        assert_eq!(kept.ask().await?, StatusCode::OK);
        link.cut();
        wait::until_true("the end of the connection", MINUTE, || {
            std::future::ready(Ok(kept.sender.is_closed()))
        })
        .await?;
        assert_eq!(link.connections(), 1);
    }
    Ok(())
}

async fn both_kinds() -> Result<[Link; 2]> {
    let (_, address) = Server::start().await?;
    let proxy = FaultProxy::in_front_of_plain(address);
    Ok([proxy.pass_through().await?, proxy.http().await?])
}

#[test]
fn each_malformed_lease_differs_from_the_sound_one() {
    for malformed in Malformed::ALL {
        let mut changed = lease();
        malformed.apply(&mut changed);
        assert_ne!(changed, lease(), "{malformed}");
    }
}
