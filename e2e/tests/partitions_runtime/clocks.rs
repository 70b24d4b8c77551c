//! The clock of one pod runs at another rate than those of the others: by as much as is promised to do no
//! harm, and by so much that it must.

use std::time::Duration;

use leasehold_core::id::pod_name;
use leasehold_e2e::history::Event;
use leasehold_e2e::partitions::check::Violation;
use leasehold_e2e::partitions::crew::Crew;
use leasehold_e2e::{Result, Step as _, history, wait};

use crate::ground::{COUNT, Ground, PATIENCE, demand, demand_good, scale};
use crate::members::a_follower;

/// The leader and another pod die, one after the other: H6's bound, and what a slow machine needs.
const UNOWNED_MAX: Duration = Duration::from_secs(2 * 6 + 3 + 5);

/// `trust-ends-first`: 1 % is what timing has room for. By such a clock others are silent a little early
/// when this pod leads, and its own trust is over a little early when it does not.
pub(crate) async fn a_clock_one_percent_fast_leads_and_is_fenced_and_nothing_has_two_owners(
    ground: &Ground,
) -> Result<()> {
    let name = "fast-clock";
    let (crew, fast) = with_clock(ground, name, 2, 1.01, &[]).await?;
    let mut pods = crew.names().await?.into_iter();
    let other = pods.find(|pod| *pod != fast).unwrap_or_default();
    silenced(&crew, &other).await?;
    crew.settled(2, COUNT, PATIENCE).await?;
    let leader = crew.leader().await?;
    demand(leader.as_ref() == Some(&fast), || {
        format!("{leader:?} leads, and not {fast}, whose clock is fast")
    })?;
    scale(&crew, name, 3).await?;
    crew.settled(3, COUNT, PATIENCE).await?;
    silenced(&crew, &fast).await?;
    crew.settled(3, COUNT, PATIENCE).await?;
    // The same process all the while: another would have the clock as well, and other trust.
    let lines = history::read(&[crew.history()])?;
    let begun = lines.iter().filter(|line| {
        line.event == Event::Started && pod_name(&line.identity) == Some(fast.as_str())
    });
    demand(begun.count() == 2, || {
        format!("{fast} was started anew during the test")
    })?;
    demand_good(&crew, UNOWNED_MAX)?;
    Ok(())
}

/// The positive control: a clock at half the rate trusts its lease long after others may take it.
pub(crate) async fn a_clock_half_as_fast_is_found(ground: &Ground) -> Result<()> {
    // Most partitions have no key: their guards are asked without a word to the store.
    let few = [("WORKLOAD_KEYS", "6")];
    let (crew, slow) = with_clock(ground, "slow-clock", 3, 0.5, &few).await?;
    // Whether it acts before it hears of its fence is a matter of milliseconds.
    for _ in 0..3 {
        silenced(&crew, &slow).await?;
        crew.settled(3, COUNT, PATIENCE).await?;
        let judgement = crew.judge(&crew.demands(Duration::MAX))?;
        let mut found = judgement.violations.iter();
        if found.any(|one| matches!(one, Violation::TwoOwners { .. })) {
            return Ok(());
        }
    }
    demand(false, || "two owners were never found".to_owned())
}

/// A settled service of which one pod that does not lead, the one that is named, has such a clock.
async fn with_clock(
    ground: &Ground,
    name: &str,
    pods: usize,
    rate: f64,
    more: &[(&str, &str)],
) -> Result<(Crew, String)> {
    let path = ground.folder.join(name).join("clock");
    let clock = path.to_string_lossy();
    let env = [&[("WORKLOAD_CLOCK", clock.as_ref())], more].concat();
    let crew = ground.settled(name, pods, &env).await?;
    let pod = a_follower(&crew).await?;
    std::fs::write(&path, format!("{pod} {rate}\n")).step(|| "naming a pod")?;
    // Its next process reads that.
    crew.kill(&pod)?;
    crew.settled(pods, COUNT, PATIENCE).await?;
    Ok((crew, pod))
}

/// Pauses a pod until it is fenced and others own what it had.
async fn silenced(crew: &Crew, pod: &str) -> Result<()> {
    let paused = crew.pause(pod)?;
    let fenced = wait::until_true("a table without the paused pod", PATIENCE, || async {
        let newest = crew.tables().newest();
        Ok(newest.is_some_and(|table| !table.owners.iter().any(|owner| owner.starts_with(pod))))
    })
    .await;
    Crew::resume(&paused);
    fenced
}
