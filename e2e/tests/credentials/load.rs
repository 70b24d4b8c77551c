//! Clients that follow the Secret, as a pod does, while its passwords change.
//!
//! `LEASEHOLD_ROTATIONS=20` makes the long form; `make test-credentials` does.

use std::time::{Duration, Instant};

use leasehold_crds::BackendKind;
use leasehold_e2e::Result;
use leasehold_e2e::logins::{Load, Tally};
use serde_json::json;

use super::ground::{Ground, NAME};

/// Clients of each store.
const CLIENTS: u32 = 8;
/// A run in which nothing was asked says nothing.
const REQUESTS_MIN: u64 = 1000;

fn rotations() -> i64 {
    let text = std::env::var("LEASEHOLD_ROTATIONS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(2)
}

async fn loads(ground: &Ground) -> Result<Vec<(BackendKind, Load)>> {
    let namespace = ground.namespace.name();
    let folder = ground
        .namespace
        .cluster()
        .folder()
        .join(format!("bindings.{namespace}"));
    let client = ground.namespace.client();
    let mut loads = Vec::new();
    for kind in BackendKind::ALL {
        let load = Load::start(&client, namespace, NAME, kind, &folder, CLIENTS).await?;
        loads.push((kind, load));
    }
    Ok(loads)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_follow_the_secret_see_no_request_fail_through_all_rotations() -> Result<()> {
    let ground = Ground::prepare("logins-loaded").await?;
    ground
        .service(&json!({"rotation": {"gracePeriod": "5s"}}))
        .await?;
    let loads = loads(&ground).await?;
    let started = Instant::now();
    for rotation in 1..=rotations() {
        ground
            .patch(json!({"rotation": {"trigger": rotation.to_string()}}))
            .await?;
        ground.rotated_to(rotation + 1).await?;
    }
    let seconds = started.elapsed().as_secs_f64();
    for (kind, load) in &loads {
        let Tally {
            answered,
            failed,
            problem,
        } = load.tally();
        println!(
            "{}: {} rotations, {answered} requests answered ({:.0}/s), {failed} failed",
            kind.as_str(),
            rotations(),
            answered as f64 / seconds
        );
        assert!(answered >= REQUESTS_MIN, "{answered} requests");
        assert_eq!(failed, 0, "{}: {problem:?}", kind.as_str());
    }
    drop(loads);
    ground.finish().await
}

/// The control: a login that ends before its clients could follow costs requests, and they are counted.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_grace_requests_fail() -> Result<()> {
    let ground = Ground::prepare("logins-graceless").await?;
    let graceless = json!({"rotation": {"gracePeriod": "0s", "maxGrace": "0s"}});
    ground.service(&graceless).await?;
    let loads = loads(&ground).await?;
    let mut rotation = 0;
    let ends = Instant::now() + Duration::from_mins(1);
    while loads.iter().any(|(_, load)| load.tally().failed == 0) {
        assert!(
            Instant::now() < ends,
            "nothing failed in {rotation} rotations"
        );
        rotation += 1;
        ground
            .patch(json!({"rotation": {"trigger": rotation.to_string()}}))
            .await?;
        ground.rotated_to(rotation + 1).await?;
    }
    drop(loads);
    ground.finish().await
}
