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
    crew.declare(2, 36).await?;
    leasehold_e2e::wait::until_true("a table of 36 partitions", PATIENCE, || async {
        let newest = crew.tables().newest();
        Ok(newest.is_some_and(|table| table.count() == 36))
    })
    .await?;
    crew.declare(3, 10).await?;
    crew.settled(3, 10, PATIENCE).await?;
    let tables = crew.tables().all();
    let queued = tables.iter().any(|table| table.queued == Some(10));
    demand(queued, || {
        let counts: Vec<u16> = tables
            .iter()
            .map(leasehold_e2e::partitions::tables::Table::count)
            .collect();
        format!("no table says that 10 comes next: {counts:?}")
    })?;
    demand_good(&crew, Duration::from_secs(8))?;
    Ok(())
}
