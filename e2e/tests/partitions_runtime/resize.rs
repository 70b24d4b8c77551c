//! The number of partitions changes while pods write.

use std::time::Duration;

use leasehold_e2e::Result;

use crate::ground::{Ground, PATIENCE, demand, demand_good};

/// H8: children start when all of their parents ended; a further change waits for that.
pub(crate) async fn a_change_of_the_count_during_another_is_queued_and_comes_next(
    ground: &Ground,
) -> Result<()> {
    let name = "resized";
    // Parents end slowly, so that the second change comes during the first.
    let drain = [("WORKLOAD_DRAIN_WORK_MS", "3000")];
    let crew = ground.settled(name, 3, &drain).await?;
    // A server that stalls meanwhile ends the handoff with its members: then nothing is queued.
    let pairs = [(36, 10), (28, 14), (40, 18)];
    let mut generation = 1;
    for (first, second) in pairs {
        generation += 2;
        crew.declare(generation - 1, first).await?;
        leasehold_e2e::wait::until_true("a table of the first count", PATIENCE, || async {
            let newest = crew.tables().newest();
            Ok(newest.is_some_and(|table| table.count() == first))
        })
        .await?;
        crew.declare(generation, second).await?;
        crew.settled(3, second, PATIENCE).await?;
        let tables = crew.tables().all();
        if tables.iter().any(|table| table.queued == Some(second)) {
            demand_good(&crew, Duration::from_secs(8))?;
            return Ok(());
        }
    }
    demand(false, || {
        format!("no table says that the second of {pairs:?} comes next")
    })
}
