//! A: a release that was sent in time and delivered after the takeover.

use http::StatusCode;
use leasehold_e2e::chaos::candidates::ClientGo;
use leasehold_e2e::proxy::{Action, When};
use leasehold_e2e::{Error, Result, history, wait};

use crate::ground::{Ground, PATIENCE, demand, ended, lease, seconds, token};
use crate::run::Found;
use crate::table::{Fault, Role, cell};

/// Ours released only with the revision of its own last write (E6), so a late
/// delivery is refused and the rival's Lease stays as it is.
pub(crate) async fn by_ours(ground: &Ground) -> Found {
    let service = "late-release-by-ours";
    let link = ground.proxy.http().await?;
    let ours = ground
        .ours("late-release-leader", service, Some(&link))
        .await?;
    ours.gained(service, 0, PATIENCE).await?;
    let rival = ground.rival("late-release-rival", service, None).await?;

    let held = link.rule(When::writes().path(&lease(service)), Action::Hold);
    ours.terminate()?;
    let took_over = rival.until("started", &lease(service), 0, PATIENCE).await?;
    held.end();

    let releases = wait::until("the late release", PATIENCE, || async {
        let seen = link.seen();
        let releases = seen
            .iter()
            .filter(|seen| seen.body["spec"]["holderIdentity"] == "");
        let statuses: Vec<Option<StatusCode>> = releases.map(|seen| seen.status).collect();
        let is_done = !statuses.is_empty() && statuses.iter().all(Option::is_some);
        Ok(is_done.then_some(statuses))
    })
    .await?;
    demand(
        releases
            .iter()
            .all(|status| *status == Some(StatusCode::CONFLICT)),
        || format!("a release delivered after the takeover was answered {releases:?}"),
    )?;
    let wiped = ground.records.find(&lease(service), took_over.t, |record| {
        record.holder.is_none()
    });
    demand(wiped.is_none(), || {
        format!("the rival's Lease was emptied: {wiped:?}")
    })?;
    Ok(vec![cell(
        Fault::LateRelease,
        Role::ByOurs,
        format!(
            "{} of {} refused (409), the successor's Lease untouched",
            releases.len(),
            releases.len()
        ),
    )])
}

/// client-go empties our Lease. Our term ends at once, and the Lease is claimed
/// again only after its full duration (E5), by whichever of ours.
pub(crate) async fn to_ours(ground: &Ground) -> Found {
    // Whether client-go falls for it depends on the moment of delivery.
    const TRIES: usize = 3;
    for number in 0..TRIES {
        if let Some(cells) = wiped(ground, number).await? {
            return Ok(cells);
        }
    }
    Err(Error::new(format!(
        "in {TRIES} tries client-go never emptied the Lease of its successor, so nothing was shown"
    )))
}

async fn wiped(ground: &Ground, number: usize) -> Result<Option<Vec<crate::table::Cell>>> {
    let service = format!("late-release-to-ours-{number}");
    let (service, lease) = (service.as_str(), lease(&service));
    let link = ground.proxy.pass_through().await?;
    let name = format!("late-wiper-{number}");
    let options = ground.rival_options(&name, &[service], Some(&link)).await?;
    // Once: it would claim the emptied Lease itself, which is not the fault in question.
    let rival = ClientGo::start_once(&name, &options)?;
    rival.until("started", &lease, 0, PATIENCE).await?;
    let ours = [
        ground
            .ours(&format!("wiped-{number}-a"), service, None)
            .await?,
        ground
            .ours(&format!("wiped-{number}-b"), service, None)
            .await?,
    ];
    link.hold();
    let held_at = history::now();
    let gained = wait::until("a takeover by ours", PATIENCE, || async {
        for (index, workload) in ours.iter().enumerate() {
            if let Some(line) = gain_after(&workload.lines(service)?, held_at) {
                return Ok(Some((index, line)));
            }
        }
        Ok(None)
    });
    let (leader, gained) = gained.await?;
    link.let_go();
    let delivered = history::now();

    let wiped = wait::until(
        "client-go's late release",
        ground.timing.lease_duration(),
        || async {
            Ok(ground
                .records
                .find(&lease, delivered, |record| record.holder.is_none()))
        },
    );
    let Ok(wiped) = wiped.await else {
        return Ok(None);
    };
    let lost = wait::until("the end of our term", PATIENCE, || async {
        Ok(ended(
            &ours[leader].lines(service)?,
            token(&gained)?,
            gained.t,
        ))
    })
    .await?;
    let regained = wait::until("the next leader of ours", PATIENCE, || async {
        let mut gains = Vec::new();
        for workload in &ours {
            gains.extend(gain_after(&workload.lines(service)?, wiped.t));
        }
        Ok(gains.into_iter().min_by_key(|line| line.t))
    })
    .await?;
    demand(token(&regained)? != token(&gained)?, || {
        "the term went on over an emptied Lease".to_owned()
    })?;
    demand(regained.t > lost, || {
        "the next term began before the wiped one ended".to_owned()
    })?;
    Ok(Some(vec![
        cell(
            Fault::LateRelease,
            Role::ClientGo,
            "wiped the Lease of its successor",
        ),
        cell(
            Fault::LateRelease,
            Role::ToOurs,
            format!(
                "term ended {:+.0} ms from seeing it; next leader after {:.1} s, no overlap",
                seconds(wiped.t, lost) * 1000.0,
                seconds(wiped.t, regained.t)
            ),
        ),
    ]))
}

fn gain_after(lines: &[history::Line], since: u64) -> Option<history::Line> {
    let mut gains = lines
        .iter()
        .filter(|line| line.event == history::Event::Gained);
    gains.find(|line| line.t >= since).cloned()
}
