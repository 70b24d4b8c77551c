//! Answers that refuse, and answers that get lost: a leader that still has
//! trust rides them out within its term.

use std::time::Duration;

use http::{Method, StatusCode};
use leasehold_e2e::chaos::candidates::Workload;
use leasehold_e2e::history::{Event, Line};
use leasehold_e2e::proxy::{Action, Link, When};
use leasehold_e2e::{Result, history, wait};

use crate::ground::{Ground, PATIENCE, demand, lease};
use crate::run::Found;

pub(crate) async fn a_leader_survives_refusals(ground: &Ground) -> Found {
    let service = "refusals";
    let (link, ours, gained) = leader(ground, service).await?;
    for (status, retry_after) in [
        (StatusCode::TOO_MANY_REQUESTS, Some(Duration::from_secs(1))),
        (StatusCode::FORBIDDEN, None),
        (StatusCode::INTERNAL_SERVER_ERROR, None),
        (StatusCode::SERVICE_UNAVAILABLE, None),
        (StatusCode::GATEWAY_TIMEOUT, None),
    ] {
        once(&link, service, Action::Refuse(status, retry_after)).await?;
        renewed(&link, &ours, service, &gained).await?;
    }
    Ok(Vec::new())
}

/// E2: the write was done, and its stamp says whose it is.
pub(crate) async fn a_leader_survives_lost_answers(ground: &Ground) -> Found {
    let service = "lost-answers";
    let (link, ours, gained) = leader(ground, service).await?;
    for action in [
        Action::LoseAnswer,
        Action::DelayAnswer(ground.timing.attempt_timeout() * 2),
    ] {
        once(&link, service, action).await?;
        renewed(&link, &ours, service, &gained).await?;
    }
    Ok(Vec::new())
}

async fn leader(ground: &Ground, service: &str) -> Result<(Link, Workload, Line)> {
    let link = ground.proxy.http().await?;
    let ours = ground.ours(service, service, Some(&link)).await?;
    let gained = ours.gained(service, 0, PATIENCE).await?;
    Ok((link, ours, gained))
}

/// Does it to at least one renewal.
async fn once(link: &Link, service: &str, action: Action) -> Result<()> {
    let rule = link.rule(
        When::any().method(Method::PUT).path(&lease(service)),
        action,
    );
    let hit = wait::until_true("a renewal", PATIENCE, || async { Ok(rule.matched() > 0) }).await;
    rule.end();
    hit
}

/// A later renewal succeeds, and the term is still the first.
async fn renewed(link: &Link, ours: &Workload, service: &str, gained: &Line) -> Result<()> {
    let since = history::now();
    wait::until_true("a renewal that succeeds", PATIENCE, || async {
        Ok(link.seen().iter().any(|seen| {
            seen.t >= since && seen.method == Method::PUT && seen.status == Some(StatusCode::OK)
        }))
    })
    .await?;
    ours.until(
        "a guard that holds on",
        service,
        history::now(),
        PATIENCE,
        |line| line.event == Event::Held,
    )
    .await?;
    let lines = ours.lines(service)?;
    let terms: Vec<_> = lines
        .iter()
        .filter(|line| line.event == Event::Gained)
        .collect();
    demand(terms.len() == 1 && terms[0].token == gained.token, || {
        format!("the term did not go on: {terms:?}")
    })
}
