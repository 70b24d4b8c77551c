//! The HTTP surface: `/livez`, `/readyz`, `/metrics`, and `/debug/cluster`, a read-only view of beliefs.
//!
//! A standby is ready: readiness means warm caches, not leadership.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use leasehold::Cluster;
use serde::Serialize;
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, time::Instant};

use crate::{
    belief::{Beliefs, BeliefsView},
    metrics::Metrics,
};

/// What the pages show.
#[derive(Clone)]
pub struct Admin {
    /// What is believed.
    pub beliefs: Arc<Beliefs>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Our own election, once it has begun.
    pub cluster: watch::Receiver<Option<Cluster>>,
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, admin: Admin) -> std::io::Result<()> {
    let pages = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/debug/cluster", get(debug))
        .with_state(admin);
    axum::serve(listener, pages).await
}

async fn ready(State(admin): State<Admin>) -> Response {
    let watches = admin.beliefs.watches();
    let missing: Vec<String> = watches
        .iter()
        .filter(|(_, state)| !state.is_settled())
        .map(|(name, state)| {
            format!(
                "{name}: {}\n",
                state.problem.as_deref().unwrap_or("not listed yet")
            )
        })
        .collect();
    if watches.is_empty() {
        return (StatusCode::SERVICE_UNAVAILABLE, "no watch has begun yet\n").into_response();
    }
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, missing.concat()).into_response()
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let (services, leases) = admin.beliefs.counts();
    admin
        .metrics
        .services
        .set(i64::try_from(services).unwrap_or(i64::MAX));
    admin
        .metrics
        .leases
        .set(i64::try_from(leases).unwrap_or(i64::MAX));
    let kind = [(
        header::CONTENT_TYPE,
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    )];
    match admin.metrics.encode() {
        Ok(text) => (kind, text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn debug(State(admin): State<Admin>) -> Json<DebugView> {
    let election = admin.cluster.borrow().as_ref().map(|cluster| {
        serde_json::to_value(cluster.view())
            .unwrap_or_else(|error| Value::String(error.to_string()))
    });
    Json(DebugView {
        is_leading: admin.metrics.leading.get() == 1,
        election,
        beliefs: admin.beliefs.view(Instant::now()),
    })
}

/// The page `/debug/cluster`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DebugView {
    is_leading: bool,
    election: Option<Value>,
    beliefs: BeliefsView,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_ready_when_every_watch_has_listed_everything_and_not_before() {
        let (_sender, cluster) = watch::channel(None);
        let admin = Admin {
            beliefs: Arc::default(),
            metrics: Arc::default(),
            cluster,
        };
        let status = || async { ready(State(admin.clone())).await.status() };
        assert_eq!(status().await, StatusCode::SERVICE_UNAVAILABLE);
        admin.beliefs.watch_begins("services");
        admin.beliefs.watch_begins("leases");
        admin.beliefs.watch_synced("services");
        assert_eq!(status().await, StatusCode::SERVICE_UNAVAILABLE);
        admin.beliefs.watch_synced("leases");
        assert_eq!(status().await, StatusCode::OK);
        admin.beliefs.optional_watch_begins("classes");
        assert_eq!(status().await, StatusCode::SERVICE_UNAVAILABLE);
        admin.beliefs.watch_failed("classes", "no such kind", false);
        assert_eq!(status().await, StatusCode::OK);
    }
}
