//! A rolling upgrade between two differently named services of one cluster id.

use leasehold_e2e::history::{self, Line};
use leasehold_e2e::ledger::Ledger;
use leasehold_e2e::{Error, Result, check};

use crate::ground::{Ground, demand, demand_good, demands};
use crate::pods::Deployed;

/// What both services contend for.
const CLUSTER_ID: &str = "upgraded";

/// The new one takes over while the old one goes, and the other way round when it is rolled back:
/// one leader at a time, and their guarded writes in the order of their tokens.
pub(crate) async fn differently_named_services_of_one_cluster_id_never_overlap(
    ground: &Ground,
) -> Result<()> {
    let ledger = ground.folder.join(format!("{CLUSTER_ID}.ledger"));
    let path = ledger.to_string_lossy();
    let env = |service| {
        [
            ("WORKLOAD_SERVICES", service),
            ("LEASEHOLD_CLUSTER_ID", CLUSTER_ID),
            ("WORKLOAD_LEDGER", path.as_ref()),
            ("WORKLOAD_WRITE_EVERY_MS", "50"),
        ]
    };
    let old = Deployed::create(ground, "upgrade-v1", 2, 10, &env("upgrade-v1")).await?;
    let first = old.gained(0).await?;
    old.started(2, 0).await?;
    let new = Deployed::create(ground, "upgrade-v2", 2, 10, &env("upgrade-v2")).await?;
    new.started(2, 0).await?;
    old.scale(0).await?;
    let second = new.gained(first.t).await?;

    let rolled_back = history::now();
    old.scale(2).await?;
    old.started(2, rolled_back).await?;
    new.scale(0).await?;
    let third = old.gained(second.t).await?;
    demand(first.term < second.term && second.term < third.term, || {
        format!("terms: {first:?}, {second:?}, {third:?}")
    })?;

    // The judgement is on the cluster id; the lines name the services.
    let of_id = |line: Line| Line {
        service: CLUSTER_ID.to_owned(),
        ..line
    };
    let lines = history::read(&[old.history(), new.history()])?;
    let lines: Vec<Line> = lines.into_iter().map(of_id).collect();
    let entries = Ledger::at(&ledger).entries()?;
    let judgement = check::judge(&lines, &entries, CLUSTER_ID, &demands(2))?;
    demand_good(&judgement)?;
    for leader in [&first, &second, &third] {
        let wrote = entries.iter().any(|entry| {
            entry.writer == leader.identity && Some(&entry.token) == leader.token.as_ref()
        });
        if !wrote {
            return Err(Error::new(format!("{leader:?} wrote nothing")));
        }
    }
    old.scale(0).await
}
