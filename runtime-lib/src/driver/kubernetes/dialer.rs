//! Connections of the lease client: its own, so that nothing else delays a renewal, and replaced
//! as soon as one is in doubt (a half-open connection otherwise holds back every later request).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use leasehold_core::time::Duration;

use super::requests::SLOTS;

/// Dead peers are found by the kernel after this long, on every connection.
const KEEPALIVE: Duration = Duration::from_secs(3);
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Idle connections are dropped soon: a lease renewal needs one, a burst of many leases more.
const IDLE_LIMIT: Duration = Duration::from_mins(1);

/// Can forget its connections.
pub(super) trait Dialer: Send + Sync {
    /// Number of the present set of connections.
    fn generation(&self) -> u64;
    /// Forgets the connections of `generation`, unless that has been done.
    fn redial_if(&self, generation: u64);
    /// Forgets the present connections.
    fn redial(&self) {
        self.redial_if(self.generation());
    }
}

/// A client without retries and without the connections of anybody else, and its dialer.
pub(super) fn connect(config: &kube::Config) -> kube::Result<(kube::Client, Arc<dyn Dialer>)> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(KEEPALIVE));
    http.set_keepalive_interval(Some(KEEPALIVE));
    http.set_keepalive_retries(Some(2));
    http.set_connect_timeout(Some(CONNECT_LIMIT));
    #[cfg(target_os = "linux")]
    http.set_tcp_user_timeout(Some(KEEPALIVE * 3));
    let pool = Pool::new(config.rustls_https_connector_with_connector(http)?);
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(pool.clone());
    let client = kube::Client::new(service, config.default_namespace.clone());
    Ok((client, Arc::new(pool)))
}

/// A hyper client that can be exchanged for a fresh one.
struct Pool<C> {
    connector: C,
    current: Arc<Mutex<Current<C>>>,
}

struct Current<C> {
    generation: u64,
    client: Client<C, Body>,
}

impl<C: Clone> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self {
            connector: self.connector.clone(),
            current: Arc::clone(&self.current),
        }
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Pool<C> {
    fn new(connector: C) -> Self {
        let client = dial(&connector);
        Self {
            connector,
            current: Arc::new(Mutex::new(Current {
                generation: 0,
                client,
            })),
        }
    }

    fn current(&self) -> MutexGuard<'_, Current<C>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// hyper sends a request again only if the pooled connection was closed before any of it was
/// written, so E2 is not touched: trust counts from before the first try.
fn dial<C: Connect + Clone>(connector: &C) -> Client<C, Body> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_LIMIT)
        .pool_max_idle_per_host(SLOTS)
        .build(connector.clone())
}

impl<C: Connect + Clone + Send + Sync + 'static> Dialer for Pool<C> {
    fn generation(&self) -> u64 {
        self.current().generation
    }

    fn redial_if(&self, generation: u64) {
        let mut current = self.current();
        if current.generation == generation {
            current.generation += 1;
            current.client = dial(&self.connector);
        }
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> tower::Service<http::Request<Body>> for Pool<C> {
    type Response = <Client<C, Body> as tower::Service<http::Request<Body>>>::Response;
    type Error = hyper_util::client::legacy::Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.current().client.request(request)
    }
}
