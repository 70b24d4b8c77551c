//! Members that misbehave: two of one name, one that never lets go, one whose
//! Lease holds garbage, and one that wakes up late without a fence.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_crds::keys;
use leasehold_e2e::chaos::candidates::{Workload, WorkloadOptions};
use leasehold_e2e::history::{Event, Line};
use leasehold_e2e::partitions::check::Violation;
use leasehold_e2e::partitions::crew::Crew;
use leasehold_e2e::{Error, Result, wait};
use serde_json::json;

use crate::ground::{COUNT, Ground, PATIENCE, TIMING, demand, demand_good, scale};

const UNOWNED_MAX: Duration = Duration::from_secs(12);

/// Its work never ends, so the next owner never starts, and it goes on (`release-after-drain`);
/// when it is gone, so is the obstacle.
pub(crate) async fn a_member_that_never_acknowledges_holds_up_only_its_own_partitions(
    ground: &Ground,
) -> Result<()> {
    let name = "stuck-member";
    let drain = [("WORKLOAD_DRAIN_WORK_MS", "3000000")];
    let crew = ground.settled(name, 1, &drain).await?;
    let stuck = crew.names().await?.into_iter().next();
    let stuck = stuck.ok_or_else(|| Error::new("there is no pod"))?;
    scale(&crew, name, 2).await?;
    let table = wait::until("a table for two pods", PATIENCE, || async {
        let newest = crew.tables().newest();
        let other = |owner: &String| !owner.starts_with(&stuck);
        Ok(newest.filter(|table| table.owners.iter().any(other)))
    })
    .await?;
    let given: Vec<u16> = (0..COUNT)
        .filter(|partition| table.pod(usize::from(*partition)) != Some(stuck.as_str()))
        .collect();
    // Two renewals later it still owns what it was to give, and the newcomer owns nothing.
    let later = leasehold_e2e::history::now() + 2 * 2_000_000_000;
    wait::until_true("writes two renewals later", PATIENCE, || async {
        let lines = leasehold_e2e::history::read(&[crew.history()])?;
        let late = lines.iter().filter(|line| {
            let partition = line.slot.map(|slot| slot.partition);
            line.t > later
                && line.event == Event::Write
                && partition.is_some_and(|partition| given.contains(&partition))
        });
        let late: Vec<&Line> = late.collect();
        let strangers = late.iter().any(|line| !line.identity.starts_with(&stuck));
        demand(!strangers, || "the newcomer writes as well".to_owned())?;
        Ok(!late.is_empty())
    })
    .await?;
    let killed = leasehold_e2e::history::now();
    crew.kill(&stuck)?;
    // Where else partitions go depends on how soon it is back; nobody here ever ends its work.
    wait::until_true(
        "the newcomer to have what it was given",
        PATIENCE,
        || async {
            let lines = leasehold_e2e::history::read(&[crew.history()])?;
            let written = lines.iter().filter(|line| {
                line.t > killed && line.event == Event::Write && !line.identity.starts_with(&stuck)
            });
            let written: BTreeSet<u16> = written
                .filter_map(|line| line.slot.map(|slot| slot.partition))
                .collect();
            Ok(given.iter().all(|partition| written.contains(partition)))
        },
    )
    .await?;
    demand_good(&crew, UNOWNED_MAX)?;
    Ok(())
}

/// H1: the second one waits for the member Lease, and takes it as a later incarnation.
pub(crate) async fn two_pods_with_one_name_are_one_member_at_a_time(ground: &Ground) -> Result<()> {
    let name = "one-name";
    let crew = ground.crew(name, TIMING).await?;
    crew.declare(1, COUNT).await?;
    let account = ground
        .namespace
        .account(name, leasehold_e2e::cluster::lease_rules())
        .await?;
    let options = WorkloadOptions {
        namespace: ground.namespace.name().to_owned(),
        kubeconfig: account.kubeconfig,
        services: name.to_owned(),
        timing: TIMING,
        ledger: None,
        folder: crew.folder().to_owned(),
        env: vec![
            ("LEASEHOLD_NODE_ID", "twin".to_owned()),
            ("WORKLOAD_PARTITIONED", "true".to_owned()),
            (
                "WORKLOAD_STORES",
                crew.stores().urls().to_string_lossy().into_owned(),
            ),
        ],
    };
    let first = Workload::start("one-name-a", &options)?;
    let is_write = |line: &Line| line.event == Event::Write;
    first.until("a write", name, 0, PATIENCE, is_write).await?;
    let second = Workload::start("one-name-b", &options)?;
    second.campaigns(name, PATIENCE).await?;
    let incarnation = |line: &Line| line.term.unwrap_or_default();
    let owns = |workload: &Workload| -> Result<Option<Line>> {
        let mut lines = workload.lines(name)?.into_iter();
        Ok(lines.rfind(|line| line.event == Event::Gained))
    };
    let old = owns(&first)?.ok_or_else(|| Error::new("the first one owns nothing"))?;
    first.process().kill();
    crew.note(Line {
        pid: Some(first.pid()),
        fault: Some(leasehold_e2e::history::Fault::Kill),
        ..Line::new(Event::Fault)
    })?;
    let new = second.gained(name, 0, PATIENCE).await?;
    demand(
        new.t > old.t && incarnation(&new) > incarnation(&old),
        || format!("{old:?}, then {new:?}"),
    )?;
    let all = [first.history(), second.history()].map(std::path::Path::to_path_buf);
    let judgement = crew.judge_also(&all, &crew.demands(UNOWNED_MAX))?;
    demand(judgement.is_good(), || {
        format!("the history is broken:\n{judgement}")
    })
}

/// Its own next write puts it right; partitions go on meanwhile.
pub(crate) async fn garbage_in_a_member_lease_is_written_over_and_ends_nothing(
    ground: &Ground,
) -> Result<()> {
    let name = "garbage-member";
    let crew = ground.settled(name, 3, &[]).await?;
    for text in ["garbage", "{}", r#"{"version":999}"#] {
        let pod = a_follower(&crew).await?;
        let lease = format!("{name}.member.{pod}");
        let patch = json!({ "metadata": { "annotations": { (keys::ANNOTATION_MEMBER): text } } });
        ground.edit(&crew, &lease, &patch).await?;
        wait::until_true("the member's own words again", PATIENCE, || async {
            let found = ground.leases().get(&lease).await?;
            let annotations = found.metadata.annotations.unwrap_or_default();
            let said = annotations.get(keys::ANNOTATION_MEMBER);
            Ok(said.is_some_and(|said| said != text))
        })
        .await?;
        crew.settled(3, COUNT, PATIENCE).await?;
    }
    demand_good(&crew, UNOWNED_MAX)?;
    Ok(())
}

/// The positive control of the checker: the same pause with fences is in every run of chaos.
pub(crate) async fn without_fences_the_checker_finds_the_paused_owner(
    ground: &Ground,
) -> Result<()> {
    let name = "unfenced";
    let crew = ground
        .settled(name, 3, &[("WORKLOAD_UNFENCED", "true")])
        .await?;
    let pod = a_follower(&crew).await?;
    // What it writes late it must have read before.
    wait::until_true("the first writes of the pod", PATIENCE, || async {
        let lines = leasehold_e2e::history::read(&[crew.history()])?;
        let mut written = lines.iter().filter(|line| line.event == Event::Write);
        Ok(written.any(|line| line.identity.starts_with(&pod)))
    })
    .await?;
    let paused = crew.pause(&pod)?;
    let fenced = wait::until_true("a table without the paused pod", PATIENCE, || async {
        let newest = crew.tables().newest();
        Ok(newest.is_some_and(|table| !table.owners.iter().any(|owner| owner.starts_with(&pod))))
    })
    .await;
    // Every new owner has written each of its keys once more.
    let since = leasehold_e2e::history::now() + 8 * 1_000_000_000;
    let passed = wait::until_true("eight seconds of writes", PATIENCE, || async {
        Ok(leasehold_e2e::history::now() > since)
    })
    .await;
    Crew::resume(&paused);
    fenced.and(passed)?;
    crew.settled(3, COUNT, PATIENCE).await?;
    // The late writes of the pod that woke up are on their way.
    wait::until_true("a write out of order", PATIENCE, || async {
        let judgement = crew.judge(&crew.demands(Duration::MAX))?;
        let mut found = judgement.violations.iter();
        Ok(found.any(|one| matches!(one, Violation::WriteOutOfOrder { .. })))
    })
    .await
}

/// A pod that does not lead.
pub(crate) async fn a_follower(crew: &Crew) -> Result<String> {
    let leader = crew.leader().await?;
    let mut pods = crew.names().await?.into_iter();
    pods.find(|pod| Some(pod) != leader.as_ref())
        .ok_or_else(|| Error::new("there is no pod that does not lead"))
}
