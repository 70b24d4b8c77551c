//! G: the API server is silent for 20 s to everybody, and then answers all.

use std::time::Duration;

use leasehold_e2e::history::{self, Event};
use leasehold_e2e::{Result, wait};

use crate::ground::{Ground, PATIENCE, demand, ended, last_held, lease, nanos, seconds, token};
use crate::run::Found;
use crate::table::{Fault, Role, cell};

const SILENCE: Duration = Duration::from_secs(20);

/// The leader knows when its trust ends, not when the server wakes.
pub(crate) async fn by_ours(ground: &Ground) -> Found {
    let service = "outage-by-ours";
    let links = [
        ground.proxy.pass_through().await?,
        ground.proxy.pass_through().await?,
    ];
    let leader = ground
        .ours("outage-leader", service, Some(&links[0]))
        .await?;
    let gained = leader.gained(service, 0, PATIENCE).await?;
    let follower = ground
        .ours("outage-follower", service, Some(&links[1]))
        .await?;
    follower.campaigns(service, PATIENCE).await?;

    links.iter().for_each(leasehold_e2e::proxy::Link::hold);
    let silent = history::now();
    let told = wait::until("the end of trust", PATIENCE, || async {
        Ok(ended(&leader.lines(service)?, token(&gained)?, silent))
    })
    .await?;
    silence_ends(silent).await?;
    let woken = history::now();
    links.iter().for_each(leasehold_e2e::proxy::Link::let_go);
    demand(told < woken, || {
        "the loss was told only when the server woke".to_owned()
    })?;
    let next = wait::until("the next leader", PATIENCE, || async {
        let mut gains = Vec::new();
        for workload in [&leader, &follower] {
            let lines = workload.lines(service)?;
            gains.extend(
                lines
                    .into_iter()
                    .filter(|line| line.event == Event::Gained && line.t >= silent),
            );
        }
        Ok(gains.into_iter().min_by_key(|line| line.t))
    })
    .await?;
    demand(
        next.t >= last_held(&leader.lines(service)?, token(&gained)?),
        || "two guards at once".to_owned(),
    )?;
    Ok(vec![cell(
        Fault::Outage,
        Role::ByOurs,
        format!(
            "told {:.1} s after the last answer (V = {} s); then {:.1} s without leader",
            seconds(silent, told),
            ground.timing.trusted().as_secs_f64(),
            seconds(woken, next.t).max(0.0)
        ),
    )])
}

/// Everybody's time ran out together; whoever leads afterwards, one does.
pub(crate) async fn to_ours(ground: &Ground) -> Found {
    let (service, lease) = ("outage-to-ours", lease("outage-to-ours"));
    let links = [
        ground.proxy.pass_through().await?,
        ground.proxy.pass_through().await?,
    ];
    let rival = ground
        .rival("outage-rival", service, Some(&links[0]))
        .await?;
    rival.until("started", &lease, 0, PATIENCE).await?;
    let ours = ground
        .ours("outage-candidate", service, Some(&links[1]))
        .await?;
    ours.campaigns(service, PATIENCE).await?;

    links.iter().for_each(leasehold_e2e::proxy::Link::hold);
    let silent = history::now();
    silence_ends(silent).await?;
    let woken = history::now();
    links.iter().for_each(leasehold_e2e::proxy::Link::let_go);
    let (who, next) = wait::until("the next leader", PATIENCE, || async {
        let gain = ours
            .lines(service)?
            .into_iter()
            .find(|line| line.event == Event::Gained && line.t >= silent);
        let start = rival
            .acts(&lease)?
            .into_iter()
            .find(|act| act.event == "started" && act.t >= silent);
        Ok(gain
            .map(|line| ("ours", line.t))
            .into_iter()
            .chain(start.map(|act| ("client-go", act.t)))
            .min_by_key(|(_, t)| *t))
    })
    .await?;
    let stopped = rival
        .acts(&lease)?
        .iter()
        .find(|act| act.event == "stopped")
        .map(|act| act.t);
    let told = stopped.map_or("never told".to_owned(), |t| {
        format!("told {:.1} s after the last answer", seconds(silent, t))
    });
    Ok(vec![
        cell(Fault::Outage, Role::ClientGo, told),
        cell(
            Fault::Outage,
            Role::ToOurs,
            format!(
                "{who} leads {:.1} s after the silence",
                seconds(woken, next).max(0.0)
            ),
        ),
    ])
}

/// The length of the silence is the fault itself, not a wait for something.
async fn silence_ends(since: u64) -> Result<()> {
    let ends = since + nanos(SILENCE);
    wait::until_true("the end of the silence", PATIENCE, || async {
        Ok(history::now() >= ends)
    })
    .await
}
