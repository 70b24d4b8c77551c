//! A work loop that hangs while its process lives: a successor leads within D + I.

use leasehold_core::lease::LeaseTiming;
use leasehold_e2e::chaos::candidates::Workload;
use leasehold_e2e::check::Demands;
use leasehold_e2e::history::{self, Event, Line};
use leasehold_e2e::ledger::Ledger;
use leasehold_e2e::{Error, Result, check};
use rustix::process::Signal;

use crate::ground::{Ground, PATIENCE, TIMING, demand, demand_good, demands};

/// Nothing else stalls: only the missing progress tells.
pub(crate) async fn a_leader_whose_work_waits_for_ever_is_replaced_within_the_bound(
    ground: &Ground,
) -> Result<()> {
    hung(ground, "hung-wait", "wait", TIMING).await
}

/// The work never gives its thread back, so it can neither be dropped nor the lease released.
pub(crate) async fn a_leader_whose_work_blocks_its_thread_is_replaced_within_the_bound(
    ground: &Ground,
) -> Result<()> {
    hung(ground, "hung-block", "block", LeaseTiming::DEFAULT).await
}

async fn hung(ground: &Ground, service: &str, how: &str, timing: LeaseTiming) -> Result<()> {
    let mut options = ground.options(service);
    options.timing = timing;
    options.env.push(("WORKLOAD_HANG", how.to_owned()));
    let pair = ground.pair_with(service, &options).await?;
    pair.leader.process().record().signal(Signal::USR1)?;
    let is_hung = |line: &Line| line.event == Event::Hung;
    let hung = pair
        .leader
        .until("the hang", service, 0, PATIENCE, is_hung)
        .await?;
    let gained = pair.follower.gained(service, hung.t, PATIENCE).await?;
    demand(pair.leader.process().ended().is_none(), || {
        "the hung process ended".to_owned()
    })?;

    let bound = timing.lease_duration() + timing.heartbeat();
    let lines = history::read(&pair.histories())?;
    let entries = Ledger::at(&ground.folder.join(format!("{service}.ledger"))).entries()?;
    // As it was: no two guards at once.
    let held = Demands {
        trusted: timing.trusted(),
        vacancy_max: bound,
        ..demands(1)
    };
    demand_good(&check::judge(&lines, &entries, service, &held)?)?;
    // As it was worth: from the hang on nobody worked, whatever the guard said.
    let idle = idle_since(&lines, &hung, pair.gained.token.as_deref());
    demand_good(&check::judge(&idle, &entries, service, &held)?)?;
    // The same lines are found wanting under a bound that they break.
    let took = leasehold_core::time::Duration::from_nanos(gained.t - hung.t);
    let tight = Demands {
        vacancy_max: took / 2,
        ..held
    };
    let control = check::judge(&idle, &entries, service, &tight)?;
    if control.is_good() {
        return Err(Error::new(format!(
            "the checker does not see the vacancy:\n{control}"
        )));
    }
    Workload::terminate(&pair.follower)
}

/// The history in which the leadership ended with the hang.
fn idle_since(lines: &[Line], hung: &Line, token: Option<&str>) -> Vec<Line> {
    let after = |line: &&Line| {
        line.t <= hung.t || line.identity != hung.identity || line.event == Event::Refused
    };
    let mut idle: Vec<Line> = lines.iter().filter(after).cloned().collect();
    let end = Line {
        event: Event::Lost,
        token: token.map(str::to_owned),
        ..hung.clone()
    };
    idle.push(end);
    idle.sort_by_key(|line| line.t);
    idle
}
