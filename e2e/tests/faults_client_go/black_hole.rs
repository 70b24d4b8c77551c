//! B: the leader's link swallows everything, and nobody tells it.

use leasehold_e2e::history;

use crate::ground::{Ground, PATIENCE, demand, ended, last_held, lease, seconds, token};
use crate::run::Found;
use crate::table::{Fault, Role, cell};

/// Trust runs out before the rival may start, without a word from anybody.
pub(crate) async fn by_ours(ground: &Ground) -> Found {
    let service = "black-hole-by-ours";
    let link = ground.proxy.pass_through().await?;
    let ours = ground.ours("black-holed", service, Some(&link)).await?;
    let gained = ours.gained(service, 0, PATIENCE).await?;
    let rival = ground.rival("black-hole-rival", service, None).await?;

    link.black_hole();
    let hole = history::now();
    let started = rival
        .until("started", &lease(service), hole, PATIENCE)
        .await?;
    let lines = ours.lines(service)?;
    let held = last_held(&lines, token(&gained)?);
    demand(held < started.t, || {
        format!(
            "our guard answered yes {:.3} s after the rival began",
            seconds(started.t, held)
        )
    })?;
    let told = ended(&lines, token(&gained)?, hole).unwrap_or(held);
    Ok(vec![cell(
        Fault::BlackHole,
        Role::ByOurs,
        format!(
            "no overlap: loss known {:.1} s after the link died, {:.1} s before the successor",
            seconds(hole, told),
            seconds(held, started.t)
        ),
    )])
}

/// client-go leads on in its hole; ours takes over when the Lease has lapsed,
/// and keeps it.
pub(crate) async fn to_ours(ground: &Ground) -> Found {
    let (service, lease) = ("black-hole-to-ours", lease("black-hole-to-ours"));
    let link = ground.proxy.pass_through().await?;
    let rival = ground
        .rival("black-holed-rival", service, Some(&link))
        .await?;
    rival.until("started", &lease, 0, PATIENCE).await?;
    let ours = ground.ours("black-hole-follower", service, None).await?;
    ours.campaigns(service, PATIENCE).await?;

    link.black_hole();
    let hole = history::now();
    let gained = ours.gained(service, hole, PATIENCE).await?;
    rival.until("stopped", &lease, hole, PATIENCE).await?;
    link.let_go();
    let acts = rival.acts(&lease)?;
    let acted = acts
        .iter()
        .filter(|act| act.event == "act")
        .map(|act| act.t)
        .max()
        .unwrap_or_default();
    // Whatever its packets still do, ours holds on: another heartbeat passes.
    let settled = history::now() + crate::ground::nanos(ground.timing.heartbeat()) * 2;
    ours.until(
        "a guard that holds on",
        service,
        settled,
        PATIENCE,
        |line| line.event == history::Event::Held && line.token == gained.token,
    )
    .await?;
    Ok(vec![
        cell(
            Fault::BlackHole,
            Role::ClientGo,
            format!(
                "acts {:+.1} s from the start of its successor",
                seconds(gained.t, acted)
            ),
        ),
        cell(
            Fault::BlackHole,
            Role::ToOurs,
            format!(
                "takes over after {:.1} s and keeps its term",
                seconds(hole, gained.t)
            ),
        ),
    ])
}
