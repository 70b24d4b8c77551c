//! client-go and ours on one Lease, handing over to each other, on many Leases
//! at once, judged by the checker.

use std::time::Duration;

use leasehold_core::election::check::{Bounds, History, Tenure};
use leasehold_core::id::{FencingToken, Revision};
use leasehold_core::time::Instant;
use leasehold_e2e::chaos::candidates::{Act, ClientGo, ClientGoOptions, Workload};
use leasehold_e2e::chaos::records::Record;
use leasehold_e2e::history::{self, Event, Line};
use leasehold_e2e::{Error, Result, wait};

use crate::ground::{Ground, PATIENCE, demand, last_held, lease, token};
use crate::run::Found;

/// `interop-0` to `interop-9`.
const LEASES: usize = 10;
/// Each round hands over in both directions.
const ROUNDS: usize = 5;

/// 50 times in each direction, client-go with its usual 15/10/2.
pub(crate) async fn handed_over_in_both_directions(ground: &Ground) -> Found {
    let services: Vec<String> = (0..LEASES)
        .map(|number| format!("interop-{number}"))
        .collect();
    let names: Vec<&str> = services.iter().map(String::as_str).collect();
    let our_options = ground
        .our_options("interop-ours", &format!("interop*{LEASES}"), None)
        .await?;
    let rival_options = ClientGoOptions {
        timing: ClientGoOptions::USUAL,
        ..ground.rival_options("interop-rival", &names, None).await?
    };

    // Every process has an identity and a history of its own.
    let mut rivals = vec![ClientGo::start("interop-rival-0", &rival_options)?];
    for service in &services {
        rivals[0]
            .until("started", &lease(service), 0, PATIENCE)
            .await?;
    }
    let mut ours = Vec::new();
    for round in 1..=ROUNDS {
        let candidate = Workload::start(&format!("interop-ours-{round}"), &our_options)?;
        for service in &services {
            candidate.campaigns(service, PATIENCE).await?;
        }
        let asked = history::now();
        rivals[round - 1].terminate()?;
        for service in &services {
            candidate.gained(service, asked, PATIENCE).await?;
        }
        ended(rivals[round - 1].process()).await?;

        let rival = ClientGo::start(&format!("interop-rival-{round}"), &rival_options)?;
        for service in &services {
            rival
                .until("new_leader", &lease(service), 0, PATIENCE)
                .await?;
        }
        let asked = history::now();
        candidate.terminate()?;
        for service in &services {
            rival
                .until("started", &lease(service), asked, PATIENCE)
                .await?;
            // Its own word may come before the news of its write.
            let is_its = |record: &Record| record.holder.as_deref() == Some(rival.identity());
            wait::until_true("the record of its leadership", PATIENCE, || async {
                let record = ground.records.find(&lease(service), asked, is_its);
                Ok(record.is_some())
            })
            .await?;
        }
        ended(candidate.process()).await?;
        rivals.push(rival);
        ours.push(candidate);
    }

    let histories: Vec<_> = ours.iter().map(Workload::history).collect();
    let lines = history::read(&histories)?;
    let mut changes = 0;
    for service in &services {
        changes += judged(ground, service, &lines, &rivals)?;
    }
    demand(changes >= 2 * ROUNDS * LEASES, || {
        format!("only {changes} handovers")
    })?;
    println!("interop: {changes} handovers between client-go and ours, no overlap");
    Ok(Vec::new())
}

async fn ended(process: &leasehold_e2e::process::Process) -> Result<()> {
    wait::until_true("a process to end", PATIENCE, || async {
        Ok(process.ended().is_some())
    })
    .await
}

/// One Lease: leaderships of both kinds, under the resource versions of the
/// writes that began them.
fn judged(ground: &Ground, service: &str, lines: &[Line], rivals: &[ClientGo]) -> Result<usize> {
    let mut tenures = our_tenures(service, lines)?;
    for rival in rivals {
        let acts = rival.acts(&lease(service))?;
        tenures.extend(rival_tenures(ground, service, rival.identity(), &acts)?);
    }
    let history = History {
        tenures,
        ..History::default()
    };
    let bounds = Bounds {
        vacancy_max: Duration::from_hours(1),
        changes_min: 2 * ROUNDS,
    };
    let report = history.check(bounds);
    demand(report.violations.is_empty(), || {
        format!("{service}: {:?}", report.violations)
    })?;
    Ok(report.changes)
}

fn our_tenures(service: &str, lines: &[Line]) -> Result<Vec<Tenure>> {
    let lines: Vec<Line> = lines
        .iter()
        .filter(|line| line.service == service)
        .cloned()
        .collect();
    let gains = lines.iter().filter(|line| line.event == Event::Gained);
    gains
        .map(|line| {
            Ok(Tenure {
                identity: line.identity.clone(),
                token: token(line)?.parse()?,
                from: Instant::from_nanos(line.t),
                until: Instant::from_nanos(last_held(&lines, token(line)?)),
            })
        })
        .collect()
}

/// client-go leads from the start of its work to its last act.
fn rival_tenures(
    ground: &Ground,
    service: &str,
    identity: &str,
    acts: &[Act],
) -> Result<Vec<Tenure>> {
    let mut tenures: Vec<Tenure> = Vec::new();
    for act in acts {
        let at = Instant::from_nanos(act.t);
        match act.event.as_str() {
            "started" => {
                let revision = ground
                    .records
                    .token(&lease(service), identity, tenures.len())?;
                tenures.push(Tenure {
                    identity: identity.to_owned(),
                    token: FencingToken::new(0, Revision::new(revision)?),
                    from: at,
                    until: at,
                });
            }
            "act" => match tenures.last_mut() {
                Some(tenure) => tenure.until = at,
                None => return Err(Error::new(format!("{identity} acted before it started"))),
            },
            _ => {}
        }
    }
    Ok(tenures)
}
