//! The leader goes, or stands still, while partitions move.

use std::time::Duration;

use leasehold_e2e::partitions::crew::Crew;
use leasehold_e2e::{Error, Result, Step as _, wait};

use crate::ground::{COUNT, Ground, PATIENCE, TIMING, demand, demand_good, scale};

/// The leader and another pod die, one after the other: H6's bound, and what a slow machine needs.
const UNOWNED_MAX: Duration = Duration::from_secs(2 * 6 + 3 + 5);

/// Handoffs that were under way go on without it, and the next leader finishes the change.
pub(crate) async fn a_leader_lost_in_the_middle_of_a_rebalance_is_replaced_and_it_ends(
    ground: &Ground,
) -> Result<()> {
    let name = "lost-leader";
    // Handoffs take so long that the leader dies before they end.
    let drain = [("WORKLOAD_DRAIN_WORK_MS", "3000")];
    let crew = ground.settled(name, 3, &drain).await?;
    let before = crew.tables().all().len();
    scale(&crew, name, 5).await?;
    wait::until_true("a table for five pods", PATIENCE, || async {
        Ok(crew.tables().all().len() > before)
    })
    .await?;
    let leader = leader(&crew).await?;
    crew.kill(&leader)?;
    crew.settled(5, COUNT, PATIENCE).await?;
    demand_good(&crew, UNOWNED_MAX)?;
    Ok(())
}

/// It has seen the newcomers and waits for more of them; when it wakes up, another leader has
/// published, and its own table is refused by the revision that it is based on (H2).
pub(crate) async fn a_leader_paused_between_plan_and_publish_publishes_nothing_late(
    ground: &Ground,
) -> Result<()> {
    let name = "paused-leader";
    let crew = ground.settled(name, 3, &[]).await?;
    let before = crew.tables().all().len();
    let leader = leader(&crew).await?;
    scale(&crew, name, 4).await?;
    wait::until_true("the member Lease of the newcomer", PATIENCE, || async {
        let pods = crew.names().await?;
        let mut joined = 0;
        for pod in &pods {
            let lease = format!("{name}.member.{pod}");
            joined += usize::from(ground.leases().get_opt(&lease).await?.is_some());
        }
        Ok(joined == 4)
    })
    .await?;
    let paused = crew.pause(&leader)?;
    demand(crew.tables().all().len() == before, || {
        "the leader had published before it was paused".to_owned()
    })?;
    let published = wait::until("a table of another leader", PATIENCE, || async {
        let newest = crew.tables().newest();
        Ok(newest.filter(|table| {
            table.epoch > 0
                && crew.tables().all().len() > before
                && !table.owners.iter().any(|owner| owner.starts_with(&leader))
        }))
    })
    .await;
    Crew::resume(&paused);
    let published = published?;
    crew.settled(4, COUNT, PATIENCE)
        .await
        .step(|| format!("after epoch {}", published.epoch))?;
    // Every later table was based on that one: the checker finds an epoch that does not grow.
    demand_good(&crew, TIMING.lease_duration() + UNOWNED_MAX)?;
    Ok(())
}

async fn leader(crew: &Crew) -> Result<String> {
    let leader = crew.leader().await?;
    leader.ok_or_else(|| Error::new("nobody leads"))
}
