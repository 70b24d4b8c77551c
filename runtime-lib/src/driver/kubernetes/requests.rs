//! Requests for Leases: one attempt each, one verdict each.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use leasehold_core::time::Duration;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::convert::shortened;
use super::dialer::Dialer;
use crate::driver::StoreError;

/// `leases.coordination.k8s.io`, as in a Role.
const RESOURCE: &str = "leases.coordination.k8s.io";

/// Requests under way at a time.
pub(super) const SLOTS: usize = 32;

/// Sends requests for the Leases of one namespace.
pub(super) struct Requests {
    kube: kube::Client,
    dialer: Arc<dyn Dialer>,
    namespace: String,
    /// A process with many leases must not open a connection for each of them at once.
    slots: Semaphore,
}

/// A watch event with the object as raw JSON.
pub(super) type Event = kube::core::WatchEvent<Value>;

/// How a compare-and-set request ended.
pub(super) enum PutAnswer {
    /// Stored.
    Stored(Value),
    /// The precondition failed.
    Conflict,
}

impl Requests {
    pub(super) fn new(kube: kube::Client, dialer: Arc<dyn Dialer>, namespace: String) -> Self {
        Self {
            kube,
            dialer,
            namespace,
            slots: Semaphore::new(SLOTS),
        }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A quorum read (no resourceVersion).
    pub(super) async fn get(
        &self,
        name: &str,
        limit: Duration,
    ) -> Result<Option<Value>, StoreError> {
        match self
            .attempt("get", Method::GET, &self.path(name), None, limit)
            .await?
        {
            Ok(object) => Ok(Some(object)),
            Err(refusal) if refusal.status == StatusCode::NOT_FOUND => Ok(None),
            Err(refusal) => Err(self.classify("get", &refusal)),
        }
    }

    /// E1: creates, or says that the name is taken.
    pub(super) async fn create(
        &self,
        object: &Value,
        limit: Duration,
    ) -> Result<PutAnswer, StoreError> {
        let path = self.path("");
        self.cas("create", Method::POST, &path, object, limit).await
    }

    /// E1: replaces the revision and life that `object` names.
    pub(super) async fn replace(
        &self,
        name: &str,
        object: &Value,
        limit: Duration,
    ) -> Result<PutAnswer, StoreError> {
        let path = self.path(name);
        self.cas("update", Method::PUT, &path, object, limit).await
    }

    async fn cas(
        &self,
        verb: &'static str,
        method: Method,
        path: &str,
        object: &Value,
        limit: Duration,
    ) -> Result<PutAnswer, StoreError> {
        match self
            .attempt(verb, method, path, Some(object), limit)
            .await?
        {
            Ok(stored) => Ok(PutAnswer::Stored(stored)),
            Err(refusal) if refusal.status == StatusCode::CONFLICT => Ok(PutAnswer::Conflict),
            // A Lease that is gone; a namespace that is gone says so.
            Err(refusal)
                if refusal.status == StatusCode::NOT_FOUND && !refusal.is_about_namespace() =>
            {
                Ok(PutAnswer::Conflict)
            }
            Err(refusal) => Err(self.classify(verb, &refusal)),
        }
    }

    /// A quorum list of a selection, with the revision to watch from.
    pub(super) async fn list(
        &self,
        selection: &str,
        limit: Duration,
    ) -> Result<(Vec<Value>, String), StoreError> {
        let path = format!("{}?{selection}", self.path(""));
        let mut answer = self
            .attempt("list", Method::GET, &path, None, limit)
            .await?
            .map_err(|refusal| self.classify("list", &refusal))?;
        let Some(revision) = answer["metadata"]["resourceVersion"]
            .as_str()
            .map(str::to_owned)
        else {
            return Err(StoreError::Malformed {
                detail: "a list without resourceVersion".to_owned(),
            });
        };
        match answer["items"].take() {
            Value::Array(items) => Ok((items, revision)),
            _ => Ok((Vec::new(), revision)),
        }
    }

    /// Opens a watch of a selection. The stream ends when the server closes it.
    pub(super) async fn watch(
        &self,
        selection: &str,
        revision: &str,
        server_limit: Duration,
        limit: Duration,
    ) -> Result<futures::stream::BoxStream<'static, kube::Result<Event>>, StoreError> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={revision}&{selection}",
            self.path(""),
            server_limit.as_secs(),
        );
        let request = build(Method::GET, &path, Vec::new())?;
        let opening = self.kube.request_events::<Value>(request);
        match tokio::time::timeout(limit, opening).await {
            Ok(Ok(stream)) => Ok(Box::pin(stream)),
            Ok(Err(error)) => Err(self.judge("watch", error)),
            Err(_) => Err(StoreError::TimedOut {
                verb: "watch",
                limit,
            }),
        }
    }

    /// Forgets all connections: the next request dials.
    pub(super) fn redial(&self) {
        self.dialer.redial();
    }

    /// One attempt. `Ok(Err(..))` is an answer that refuses.
    async fn attempt(
        &self,
        verb: &'static str,
        method: Method,
        path: &str,
        object: Option<&Value>,
        limit: Duration,
    ) -> Result<Result<Value, Refusal>, StoreError> {
        let body = match object.map(serde_json::to_vec) {
            None => Vec::new(),
            Some(Ok(body)) => body,
            Some(Err(error)) => {
                return Err(StoreError::Invalid {
                    detail: error.to_string(),
                });
            }
        };
        let request = build(method, path, body)?.map(kube::client::Body::from);
        let asked = tokio::time::Instant::now();
        let Ok(Ok(_slot)) = tokio::time::timeout(limit, self.slots.acquire()).await else {
            // Nothing was sent, so this is no unknown outcome.
            let detail = format!("{SLOTS} requests of this process are under way already");
            return Err(StoreError::Throttled {
                retry_after: None,
                detail,
            });
        };
        let left = limit.saturating_sub(asked.elapsed());
        let dialled = self.dialer.generation();
        let exchange = async {
            let response = self.kube.send(request).await?;
            let (parts, body) = response.into_parts();
            Ok::<_, kube::Error>((parts, body.collect_bytes().await?))
        };
        let outcome = match tokio::time::timeout(left, exchange).await {
            Ok(Ok((parts, body))) => return read_answer(parts.status, &parts.headers, &body),
            Ok(Err(error)) => self.judge(verb, error),
            Err(_) => StoreError::TimedOut { verb, limit },
        };
        if outcome.is_transport() {
            // Of many requests that fail together, the first redials.
            self.dialer.redial_if(dialled);
        }
        Err(outcome)
    }

    /// What an error of the client means.
    pub(super) fn judge(&self, verb: &'static str, error: kube::Error) -> StoreError {
        match error {
            kube::Error::Api(status) => self.classify(
                verb,
                &Refusal {
                    status: StatusCode::from_u16(status.code).unwrap_or_default(),
                    retry_after: status
                        .details
                        .as_ref()
                        .filter(|details| details.retry_after_seconds > 0)
                        .map(|details| Duration::from_secs(details.retry_after_seconds.into())),
                    kind: status
                        .details
                        .map(|details| details.kind)
                        .unwrap_or_default(),
                    message: shortened(&status.message),
                },
            ),
            kube::Error::Auth(error) => StoreError::Unauthorized {
                detail: error.to_string(),
            },
            kube::Error::SerdeError(error) => StoreError::Malformed {
                detail: error.to_string(),
            },
            other => StoreError::Unreachable {
                detail: chain(&other),
            },
        }
    }

    fn classify(&self, verb: &'static str, refusal: &Refusal) -> StoreError {
        let namespace = self.namespace.clone();
        let detail = refusal.message.clone();
        match refusal.status.as_u16() {
            401 => StoreError::Unauthorized { detail },
            403 | 404 if refusal.is_about_namespace() => {
                StoreError::NamespaceGone { namespace, detail }
            }
            403 => StoreError::Denied {
                verb,
                resource: RESOURCE,
                namespace,
                account: quoted_after(&refusal.message, "User "),
                detail,
            },
            410 => StoreError::Expired { detail },
            429 => StoreError::Throttled {
                retry_after: refusal.retry_after,
                detail,
            },
            status @ (400..=499) => StoreError::Invalid {
                detail: format!("status {status}: {detail}"),
            },
            status => StoreError::Server {
                status,
                retry_after: refusal.retry_after,
                detail,
            },
        }
    }

    fn path(&self, name: &str) -> String {
        let base = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            self.namespace
        );
        if name.is_empty() {
            base
        } else {
            format!("{base}/{name}")
        }
    }
}

/// An answer that is no success.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    retry_after: Option<Duration>,
    kind: String,
    message: String,
}

impl Refusal {
    /// The namespace is missing, or being deleted (then creating is forbidden).
    fn is_about_namespace(&self) -> bool {
        let missing = self.status == StatusCode::NOT_FOUND && self.kind == "namespaces";
        let ending = self.status == StatusCode::FORBIDDEN
            && self.message.contains("because it is being terminated");
        missing || ending
    }
}

fn build(method: Method, path: &str, body: Vec<u8>) -> Result<Request<Vec<u8>>, StoreError> {
    let request = Request::builder().method(method).uri(path);
    request
        .header(http::header::ACCEPT, "application/json")
        .header(
            http::header::USER_AGENT,
            concat!("leasehold/", env!("CARGO_PKG_VERSION")),
        )
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(|error| StoreError::Invalid {
            detail: error.to_string(),
        })
}

fn read_answer(
    status: StatusCode,
    headers: &http::HeaderMap,
    body: &[u8],
) -> Result<Result<Value, Refusal>, StoreError> {
    let object = serde_json::from_slice::<Value>(body);
    if status.is_success() {
        return match object {
            Ok(object) => Ok(Ok(object)),
            // E2: it may have been carried out.
            Err(error) => Err(StoreError::Malformed {
                detail: format!("no JSON: {error}"),
            }),
        };
    }
    let object = object.unwrap_or(Value::Null);
    let details = &object["details"];
    let header = headers
        .get(http::header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let seconds = header
        .and_then(|text| text.trim().parse().ok())
        .or_else(|| details["retryAfterSeconds"].as_u64());
    let message = match object["message"].as_str() {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(body).into_owned(),
    };
    Ok(Err(Refusal {
        status,
        retry_after: seconds.map(Duration::from_secs),
        kind: details["kind"].as_str().unwrap_or_default().to_owned(),
        message: message.chars().take(1000).collect(),
    }))
}

/// The quoted word that follows `before`.
fn quoted_after(text: &str, before: &str) -> Option<String> {
    let rest = &text[text.find(before)? + before.len()..];
    rest.split('"').nth(1).map(str::to_owned)
}

/// An error with its causes: a bare "connection error" helps nobody.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    shortened(&text)
}

#[cfg(test)]
mod tests;
