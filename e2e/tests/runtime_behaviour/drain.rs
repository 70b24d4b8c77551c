//! The end of a leader's process: `release-after-drain` (E10).
//!
//! That a release before the end of the work would be found is shown in the simulation of the core,
//! with E10 switched off, and by client-go's early release in `faults_client_go`.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use leasehold_core::id::pod_name;
use leasehold_e2e::chaos::candidates::Workload;
use leasehold_e2e::check::Demands;
use leasehold_e2e::history::{self, Event, Line};
use leasehold_e2e::{Error, Result, Step as _, wait};

use crate::ground::{Ground, PATIENCE, TIMING, demand, demand_good, demands, lease};
use crate::pods::Deployed;
use crate::revisions::Revisions;

/// The drain of a workload process, a little longer than two heartbeats.
pub(crate) async fn work_in_flight_ends_before_the_lease_is_released(
    ground: &Ground,
) -> Result<()> {
    let (service, work) = ("drained", TIMING.heartbeat() * 5 / 2);
    let env = [("WORKLOAD_DRAIN_WORK_MS", work.as_millis().to_string())];
    let pair = ground.pair(service, &env).await?;
    let revisions = Revisions::follow(ground.leases(), &lease(service));
    pair.leader.terminate()?;
    pair.follower
        .gained(service, pair.gained.t, PATIENCE)
        .await?;
    let drain = Drain {
        ground,
        service,
        work,
        revisions,
    };
    drain.judge(&pair.gained, &history::read(&pair.histories())?)
}

/// A pod that is deleted with a grace period of 60 s and drains for 30 s, with a drain timeout of
/// 55 s in code.
pub(crate) async fn thirty_seconds_of_work_in_a_terminated_pod_end_before_the_lease_is_released(
    ground: &Ground,
) -> Result<()> {
    let (service, work) = ("drained-pod", Duration::from_secs(30));
    let drain_work = work.as_millis().to_string();
    let env = [
        ("WORKLOAD_SERVICES", service),
        ("WORKLOAD_DRAIN_WORK_MS", drain_work.as_str()),
        ("WORKLOAD_DRAIN_TIMEOUT", "55"),
    ];
    let deployed = Deployed::create(ground, service, 1, 60, &env).await?;
    let gained = deployed.gained(0).await?;
    let follower = Workload::start("drained-pod-heir", &ground.options(service))?;
    follower
        .until("its start", service, 0, PATIENCE, |_| true)
        .await?;
    let revisions = Revisions::follow(ground.leases(), &lease(service));
    // The Deployment itself goes, or a new pod would be one more candidate.
    deployed.scale(0).await?;
    let pods: Api<Pod> = ground.namespace.api();
    let pod = pod_name(&gained.identity).ok_or_else(|| Error::new("the leader is no pod"))?;
    let deleted = pods.delete(pod, &DeleteParams::default()).await;
    deleted
        .map(drop)
        .or_else(is_gone)
        .step(|| "deleting the leading pod")?;
    follower.gained(service, gained.t, PATIENCE).await?;
    let lines = history::read(&[deployed.history(), follower.history()])?;
    let drain = Drain {
        ground,
        service,
        work,
        revisions,
    };
    drain.judge(&gained, &lines)
}

fn is_gone(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        other => Err(other),
    }
}

/// A drain that is over.
struct Drain<'a> {
    ground: &'a Ground,
    service: &'static str,
    work: Duration,
    revisions: Revisions,
}

impl Drain<'_> {
    /// Holder unchanged and renewTime moving until the work had ended; then released; and at no
    /// time two writers.
    fn judge(&self, gained: &Line, lines: &[Line]) -> Result<()> {
        let of_term = |event| {
            let found = lines
                .iter()
                .find(|line| line.event == event && line.token == gained.token);
            found.ok_or_else(|| Error::new(format!("{}: no line {event:?}", self.service)))
        };
        let (draining, drained) = (of_term(Event::Draining)?, of_term(Event::Drained)?);
        let took = Duration::from_nanos(drained.t - draining.t);
        demand(took >= self.work, || {
            format!("there was no work of {:?}: {took:?}", self.work)
        })?;

        let revisions = self.revisions.all();
        let released = revisions.iter().find(|revision| {
            revision.t > draining.t && revision.holder.as_ref() != Some(&gained.identity)
        });
        let released = released.ok_or_else(|| Error::new("the release was not seen"))?;
        demand(released.holder.is_none() && released.t >= drained.t, || {
            format!(
                "{}: drained at {}, then {released:?}",
                self.service, drained.t
            )
        })?;
        let during = revisions
            .iter()
            .filter(|seen| seen.t > draining.t && seen.t < drained.t);
        let renewals: BTreeSet<_> = during.filter_map(|seen| seen.renewed.as_ref()).collect();
        // One may fall to either end of the drain, and a busy machine is late.
        let beats = self.work.as_secs() / TIMING.heartbeat().as_secs();
        let wanted = usize::try_from(beats / 2)?.max(1);
        demand(renewals.len() >= wanted, || {
            format!(
                "{}: renewed {} times in {took:?}",
                self.service,
                renewals.len()
            )
        })?;

        let wrote = lines.iter().any(|line| {
            line.event == Event::Write && line.token == gained.token && line.t > draining.t
        });
        demand(wrote, || "the work in flight wrote nothing".to_owned())?;
        let entries = self.ground.folder.join(format!("{}.ledger", self.service));
        let entries = leasehold_e2e::ledger::Ledger::at(&entries).entries()?;
        let judgement = leasehold_e2e::check::judge(lines, &entries, self.service, &demands(1))?;
        demand_good(&judgement)
    }
}

/// The lease of a leader that did not end in time is not given back: it lapses.
pub(crate) async fn a_drain_that_overruns_is_not_released(ground: &Ground) -> Result<()> {
    let service = "overrun";
    let env = [
        ("WORKLOAD_DRAIN_WORK_MS", "600000".to_owned()),
        ("WORKLOAD_DRAIN_TIMEOUT", "1".to_owned()),
    ];
    let pair = ground.pair(service, &env).await?;
    pair.leader.terminate()?;
    let ended = wait::until("the leader to end", PATIENCE, || async {
        Ok(pair.leader.process().ended())
    })
    .await?;
    let said = pair.leader.process().last_lines(5);
    demand(
        ended != "exit status: 0" && said.contains("drain timeout"),
        || format!("it ended with {ended} and said: {said}"),
    )?;
    pair.follower
        .gained(service, pair.gained.t, PATIENCE)
        .await?;
    let records = ground.records.of(&lease(service));
    demand(records.iter().all(|record| record.holder.is_some()), || {
        format!("somebody released: {records:?}")
    })?;
    let vacancy_max = TIMING.lease_duration() + TIMING.heartbeat();
    let demands = Demands {
        vacancy_max,
        ..demands(1)
    };
    demand_good(&ground.judge(service, &pair.histories(), &[], &demands)?)
}
