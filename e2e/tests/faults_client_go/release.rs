//! E: what comes first, the release or the end of the work.

use leasehold_e2e::history::Event;
use leasehold_e2e::wait;

use crate::ground::{Ground, PATIENCE, demand, lease, seconds, token};
use crate::run::Found;
use crate::table::{Fault, Role, cell};

/// Work in flight at the shutdown.
const IN_FLIGHT_MS: u64 = 2000;

/// `release-after-drain`: the holder stays until the work in flight has ended.
pub(crate) async fn by_ours(ground: &Ground) -> Found {
    let (service, lease) = ("release-by-ours", lease("release-by-ours"));
    let mut options = ground.our_options("drainer", service, None).await?;
    options
        .env
        .push(("WORKLOAD_DRAIN_WORK_MS", IN_FLIGHT_MS.to_string()));
    let ours = leasehold_e2e::chaos::candidates::Workload::start("drainer", &options)?;
    let gained = ours.gained(service, 0, PATIENCE).await?;
    let rival = ground.rival("drain-rival", service, None).await?;

    ours.terminate()?;
    let draining = ours
        .until("the drain", service, gained.t, PATIENCE, |line| {
            line.event == Event::Draining
        })
        .await?;
    let drained = ours
        .until(
            "the end of the work",
            service,
            draining.t,
            PATIENCE,
            |line| line.event == Event::Drained && line.token == gained.token,
        )
        .await?;
    let left = wait::until("the release", PATIENCE, || async {
        Ok(ground.records.find(&lease, gained.t, |record| {
            record.t > gained.t && record.holder.as_deref() != Some(gained.identity.as_str())
        }))
    })
    .await?;
    demand(left.t >= drained.t, || {
        format!(
            "released {:.3} s before the work ended",
            seconds(left.t, drained.t)
        )
    })?;
    let worked = seconds(draining.t, drained.t);
    demand(worked * 1000.0 >= IN_FLIGHT_MS as f64, || {
        format!("the work in flight ended after {worked:.3} s: there was none")
    })?;
    rival.until("started", &lease, left.t, PATIENCE).await?;
    Ok(vec![cell(
        Fault::EarlyRelease,
        Role::ByOurs,
        format!(
            "released {:.0} ms after {worked:.1} s of work in flight had ended",
            seconds(drained.t, left.t) * 1000.0
        ),
    )])
}

/// client-go's release is claimed at once: nothing of ours waits for its work,
/// which only a token can keep in order.
pub(crate) async fn to_ours(ground: &Ground) -> Found {
    let (service, lease) = ("release-to-ours", lease("release-to-ours"));
    let rival = ground.rival("early-releaser", service, None).await?;
    let started = rival.until("started", &lease, 0, PATIENCE).await?;
    let ours = ground.ours("release-follower", service, None).await?;
    ours.campaigns(service, PATIENCE).await?;
    rival.terminate()?;
    let stopped = rival.until("stopped", &lease, 0, PATIENCE).await?;
    let gained = ours.gained(service, started.t, PATIENCE).await?;
    let emptied = ground
        .records
        .find(&lease, started.t, |record| record.holder.is_none())
        .map_or(stopped.t, |record| record.t);
    demand(!token(&gained)?.is_empty(), || "no token".to_owned())?;
    Ok(vec![
        cell(
            Fault::EarlyRelease,
            Role::ClientGo,
            format!(
                "stop told {:+.1} ms from its release",
                seconds(emptied, stopped.t) * 1000.0
            ),
        ),
        cell(
            Fault::EarlyRelease,
            Role::ToOurs,
            format!(
                "leads {:.0} ms after the release",
                seconds(emptied, gained.t) * 1000.0
            ),
        ),
    ])
}
