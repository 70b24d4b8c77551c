//! The http side of a link: one request, what the rules do to it, one answer.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode, request};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::rules::{Action, Rules, is_watch};
use super::upstream::Upstream;
use crate::history;

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// One request as the link saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When it arrived, in nanoseconds of the boot-time clock.
    pub t: u64,
    /// Its method.
    pub method: Method,
    /// Its path and query.
    pub uri: String,
    /// Whether it asks for a watch.
    pub is_watch: bool,
    /// What it wanted to store; null for a read.
    pub body: Value,
    /// The server's answer, if it was forwarded and answered.
    pub status: Option<StatusCode>,
}

/// Everything that goes over one http link.
pub(super) struct Exchanges {
    upstream: Upstream,
    acceptor: Option<TlsAcceptor>,
    rules: Rules,
    seen: Mutex<Vec<Seen>>,
}

impl Exchanges {
    pub(super) fn new(upstream: Upstream, acceptor: Option<TlsAcceptor>) -> Self {
        Self {
            upstream,
            acceptor,
            rules: Rules::default(),
            seen: Mutex::default(),
        }
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Serves one connection of the client.
    pub(super) async fn serve<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match self.acceptor.clone() {
            None => self.serve_over(stream).await,
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    self.serve_over(stream).await;
                }
            }
        }
    }

    async fn serve_over<S>(self: Arc<Self>, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(move |request| Arc::clone(&self).answer(request));
        // Clients that go away in the middle are what this proxy is for.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        // A task of its own: what a client sent may arrive after it gave up.
        let exchange = tokio::spawn(self.exchange(parts, body));
        exchange.await.map_err(io::Error::other)?
    }

    async fn exchange(
        self: Arc<Self>,
        parts: request::Parts,
        body: Bytes,
    ) -> io::Result<Response<Body>> {
        let number = self.note(&parts, &body);
        let rules = self.rules.matching(&parts, &body);
        for rule in &rules {
            match &rule.action {
                Action::Refuse(status, retry_after) => {
                    return Ok(refusal(*status, retry_after.map(|time| time.as_secs())));
                }
                Action::Delay(time) => tokio::time::sleep(*time).await,
                Action::Hold => rule.until_ended().await,
                Action::Swallow => std::future::pending().await,
                Action::LoseAnswer | Action::DelayAnswer(_) | Action::Rewrite(_) => {}
            }
        }
        let response = self.upstream.send(self.forwarded(&parts, body)).await?;
        self.note_status(number, response.status());
        if is_watch(&parts) && response.status().is_success() {
            return Ok(self.stream(parts, response));
        }
        let (head, body) = response.into_parts();
        let mut body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        for rule in &rules {
            match &rule.action {
                Action::LoseAnswer => return Err(io::Error::other("the answer was lost")),
                Action::DelayAnswer(time) => tokio::time::sleep(*time).await,
                Action::Rewrite(rewrite) => body = rewritten(&body, rewrite.as_ref()),
                _ => {}
            }
        }
        let mut response = Response::from_parts(head, full(body));
        response.headers_mut().remove(CONTENT_LENGTH);
        Ok(response)
    }

    /// A watch goes through event by event; rules made meanwhile apply.
    fn stream(
        self: Arc<Self>,
        parts: request::Parts,
        response: Response<Incoming>,
    ) -> Response<Body> {
        let mut pending: Vec<u8> = Vec::new();
        response.map(|body| {
            let events = body.map_frame(move |frame| {
                let Ok(data) = frame.into_data() else {
                    return Frame::data(Bytes::new());
                };
                pending.extend_from_slice(&data);
                let end = pending.iter().rposition(|&byte| byte == b'\n');
                let mut events: Vec<u8> = pending.drain(..end.map_or(0, |end| end + 1)).collect();
                for rule in self.rules.rewrites(&parts) {
                    events = events
                        .split_inclusive(|&byte| byte == b'\n')
                        .flat_map(|line| {
                            let mut line = rewritten(line.trim_ascii(), rule.as_ref()).to_vec();
                            line.push(b'\n');
                            line
                        })
                        .collect();
                }
                Frame::data(events.into())
            });
            events.boxed_unsync()
        })
    }

    fn forwarded(&self, parts: &request::Parts, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = parts.uri.clone();
        *request.headers_mut() = parts.headers.clone();
        // The server's answer has to be readable here.
        request.headers_mut().remove(ACCEPT_ENCODING);
        if let Ok(host) = HeaderValue::from_str(&self.upstream.address().to_string()) {
            request.headers_mut().insert(HOST, host);
        }
        request
    }

    fn note(&self, parts: &request::Parts, body: &[u8]) -> usize {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(Seen {
            t: history::now(),
            method: parts.method.clone(),
            uri: parts.uri.to_string(),
            is_watch: is_watch(parts),
            body: serde_json::from_slice(body).unwrap_or_default(),
            status: None,
        });
        seen.len() - 1
    }

    fn note_status(&self, number: usize, status: StatusCode) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = seen.get_mut(number) {
            seen.status = Some(status);
        }
    }
}

/// An answer in the words of an API server.
fn refusal(status: StatusCode, retry_after: Option<u64>) -> Response<Body> {
    let reason = match status {
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::GATEWAY_TIMEOUT => "Timeout",
        _ => "InternalError",
    };
    let text = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": format!("the fault proxy answers {status}"),
        "reason": reason,
        "code": status.as_u16(),
    });
    let mut response = Response::new(full(text.to_string().into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The answer with every Lease in it changed: a Lease, a list, or an event.
fn rewritten(text: &[u8], rewrite: &dyn Fn(&mut Value)) -> Bytes {
    let Ok(mut answer) = serde_json::from_slice::<Value>(text) else {
        return Bytes::copy_from_slice(text);
    };
    match answer["kind"].as_str() {
        Some("Lease") => rewrite(&mut answer),
        Some("LeaseList") => {
            for item in answer["items"].as_array_mut().into_iter().flatten() {
                rewrite(item);
            }
        }
        _ if answer["object"]["kind"] == "Lease" && answer["type"] != "BOOKMARK" => {
            rewrite(&mut answer["object"]);
        }
        _ => {}
    }
    answer.to_string().into()
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}
