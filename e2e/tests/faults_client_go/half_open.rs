//! C: connections that look alive and carry nothing, while a new one would work.

use std::time::Duration;

use leasehold_e2e::chaos::candidates::Workload;
use leasehold_e2e::history::{self, Event, Line};
use leasehold_e2e::proxy::Link;
use leasehold_e2e::{Result, wait};

use crate::ground::{Ground, PATIENCE, demand, last_held, nanos, seconds, token};
use crate::run::Found;
use crate::table::{Fault, Role, cell};

/// The bound for a half-open link at any time: D and this.
const WORST: Duration = Duration::from_secs(5);
/// A link that was half-open for so long before the crash costs nothing extra.
const LONG_BEFORE: Duration = Duration::from_secs(10);

/// The worst moment: the leader renews once more, unseen, and crashes.
pub(crate) async fn follower_at_the_crash(ground: &Ground) -> Found {
    let (took, _) = crash(ground, "half-open-now", Duration::ZERO).await?;
    Ok(vec![cell(
        Fault::HalfOpenFollower,
        Role::ByOurs,
        format!(
            "takeover after {:.1} s in the worst case (D = {} s)",
            took,
            ground.timing.lease_duration().as_secs()
        ),
    )])
}

pub(crate) async fn follower_long_before_the_crash(ground: &Ground) -> Found {
    let (took, opened) = crash(ground, "half-open-before", LONG_BEFORE).await?;
    demand(opened > 1, || "the follower never dialled anew".to_owned())?;
    Ok(vec![cell(
        Fault::HalfOpenFollower,
        Role::ToOurs,
        format!("10 s before the crash already: takeover after {took:.1} s"),
    )])
}

async fn crash(ground: &Ground, service: &str, before: Duration) -> Result<(f64, u64)> {
    let leader = ground
        .ours(&format!("{service}-leader"), service, None)
        .await?;
    let gained = leader.gained(service, 0, PATIENCE).await?;
    let link = ground.proxy.http().await?;
    let follower = ground
        .ours(&format!("{service}-follower"), service, Some(&link))
        .await?;
    watching(&link).await?;

    link.half_open();
    let silent = history::now();
    renewed(ground, &leader, service, silent + nanos(before)).await?;
    leader.process().kill();
    let crashed = history::now();
    let took_over = follower.gained(service, crashed, PATIENCE).await?;
    demand(token(&took_over)? != token(&gained)?, || {
        "the same token twice".to_owned()
    })?;
    let took = seconds(crashed, took_over.t);
    let allowed = ground.timing.lease_duration() + WORST;
    demand(took <= allowed.as_secs_f64(), || {
        format!(
            "the takeover took {took:.1} s, allowed are {} s",
            allowed.as_secs()
        )
    })?;
    Ok((took, link.connections()))
}

/// Waits for a renewal after `since`: trust is shorter before it and longer after.
async fn renewed(ground: &Ground, leader: &Workload, service: &str, since: u64) -> Result<()> {
    let (trusted, heartbeat) = (ground.timing.trusted(), ground.timing.heartbeat());
    let left = |line: &Line| {
        let is_held = line.event == Event::Held;
        line.remaining.filter(|_| is_held).map(Duration::from_nanos)
    };
    let before = leader.until("trust that wanes", service, since, PATIENCE, |line| {
        left(line).is_some_and(|left| left + heartbeat / 2 < trusted)
    });
    let before = before.await?;
    let after = leader.until("a renewal", service, before.t, PATIENCE, |line| {
        left(line).is_some_and(|left| left + heartbeat / 4 > trusted)
    });
    after.await.map(|_| ())
}

async fn watching(link: &Link) -> Result<()> {
    wait::until_true("the follower's watch", PATIENCE, || async {
        Ok(link
            .seen()
            .iter()
            .any(|seen| seen.is_watch && seen.status.is_some()))
    })
    .await
}

/// A leader dials anew and keeps its term.
pub(crate) async fn leader(ground: &Ground) -> Found {
    let service = "half-open-leader";
    let link = ground.proxy.http().await?;
    let ours = ground.ours(service, service, Some(&link)).await?;
    let gained = ours.gained(service, 0, PATIENCE).await?;
    watching(&link).await?;
    let before = link.connections();
    link.half_open();
    let beyond = history::now() + nanos(ground.timing.lease_duration()) * 2;
    ours.until("a guard that holds on", service, beyond, PATIENCE, |line| {
        line.event == Event::Held
    })
    .await?;
    let lines = ours.lines(service)?;
    let terms = lines.iter().filter(|line| line.event == Event::Gained);
    demand(
        terms.count() == 1 && last_held(&lines, token(&gained)?) >= beyond,
        || "the term did not go on".to_owned(),
    )?;
    let redialled = link.connections() - before;
    demand(redialled > 0, || {
        "no connection was dialled anew".to_owned()
    })?;
    Ok(vec![cell(
        Fault::HalfOpenLeader,
        Role::ByOurs,
        format!("keeps its term, dials anew ({redialled} connections in 2 D)"),
    )])
}
