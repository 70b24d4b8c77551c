//! The table is deleted or overwritten by somebody outside.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use leasehold_crds::keys;
use leasehold_e2e::partitions::check::Violation;
use leasehold_e2e::partitions::crew::Crew;
use leasehold_e2e::{Error, Result, Step as _, history, wait};
use serde_json::{Value, json};

use crate::ground::{COUNT, Ground, PATIENCE, TIMING, demand, demand_good, note_edit, scale};

/// While a table is rebuilt nothing stops; a handoff to a new epoch takes a moment.
const UNOWNED_MAX: Duration = Duration::from_secs(8);

/// H7: rebuilt from what the members say that they run, under new epochs.
pub(crate) async fn a_deleted_table_is_rebuilt_and_owners_go_on(ground: &Ground) -> Result<()> {
    let name = "lost-table";
    let crew = ground.settled(name, 3, &[]).await?;
    let before = newest(&crew)?;
    let lease = format!("{name}.assignment");
    ground
        .leases()
        .delete(&lease, &DeleteParams::default())
        .await?;
    note_edit(&crew)?;
    let after = wait::until("a new table", PATIENCE, || async {
        let newest = crew.tables().newest();
        Ok(newest.filter(|table| table.epoch > before.epoch))
    })
    .await?;
    crew.settled(3, COUNT, PATIENCE).await?;
    let owners = |owners: &[String]| owners.to_vec();
    demand(owners(&before.owners) == owners(&after.owners), || {
        format!("partitions moved: {before:?}, then {after:?}")
    })?;
    let oldest = after.epochs.iter().min().copied().unwrap_or_default();
    demand(oldest > before.epoch, || {
        format!("an epoch came again: {after:?}")
    })?;
    demand_good(&crew, UNOWNED_MAX)?;
    Ok(())
}

/// Garbage is written over; a version that does not exist yet may be somebody's who knows more, so it
/// is refused and left alone. Owners go on in either case.
pub(crate) async fn a_table_overwritten_by_hand_is_replaced_and_owners_go_on(
    ground: &Ground,
) -> Result<()> {
    let name = "garbage-table";
    let crew = ground.settled(name, 3, &[]).await?;
    let lease = format!("{name}.assignment");
    scale(&crew, name, 4).await?;
    crew.settled(4, COUNT, PATIENCE).await?;
    for text in ["garbage", "[]"] {
        let before = newest(&crew)?;
        let edited = overwrite(ground, &crew, &lease, text).await?;
        wait::until_true("a table in place of the garbage", PATIENCE, || async {
            let newest = crew.tables().newest();
            Ok(newest.is_some_and(|table| table.epoch > before.epoch && table.revision > edited))
        })
        .await
        .step(|| format!("after {text:.40}"))?;
        crew.settled(4, COUNT, PATIENCE)
            .await
            .step(|| format!("after {text:.40}"))?;
    }
    let problems = crew.tables().problems().len();
    demand(problems >= 2, || {
        format!("the harness itself saw only {problems} tables that are none")
    })?;

    let table = annotation(ground, &lease).await?;
    let future = table.replacen("\"version\":1", "\"version\":999", 1);
    demand(future != table, || format!("no version in {table:.60}"))?;
    overwrite(ground, &crew, &lease, &future).await?;
    let later = history::now() + u64::try_from(2 * TIMING.lease_duration().as_nanos())?;
    wait::until_true("two durations to pass", PATIENCE, || async {
        Ok(history::now() > later)
    })
    .await?;
    demand(annotation(ground, &lease).await? == future, || {
        "a table of a later version was written over".to_owned()
    })?;
    overwrite(ground, &crew, &lease, &table).await?;
    crew.settled(4, COUNT, PATIENCE).await?;

    // The table that was put back is no published one: the list has its epoch twice.
    let judgement = crew.judge(&crew.demands(UNOWNED_MAX))?;
    let broken = judgement.violations.iter();
    let broken = broken.filter(|one| !matches!(one, Violation::EpochRepeats { .. }));
    demand(broken.count() == 0, || {
        format!("the history is broken:\n{judgement}")
    })
}

/// Epochs only grow, so the leader takes an older copy for a lost table (H7), and members go on by the
/// later one that they have read.
pub(crate) async fn an_older_table_put_back_by_hand_is_replaced_under_a_larger_epoch(
    ground: &Ground,
) -> Result<()> {
    let name = "older-table";
    let crew = ground.settled(name, 3, &[]).await?;
    let lease = format!("{name}.assignment");
    let older = annotation(ground, &lease).await?;
    scale(&crew, name, 4).await?;
    crew.settled(4, COUNT, PATIENCE).await?;
    let before = newest(&crew)?;
    // It is not written down as an edit, after which guards might overlap for a while: here they may not.
    let patch = table_is(&older);
    let params = PatchParams::default();
    let leases = ground.leases();
    let edited = leases.patch(&lease, &params, &Patch::Merge(&patch)).await?;
    let edited = revision(&edited)?;
    let after = wait::until("a table in place of the older one", PATIENCE, || async {
        let newest = crew.tables().newest();
        Ok(newest.filter(|table| table.epoch > before.epoch && table.revision > edited))
    })
    .await?;
    crew.settled(4, COUNT, PATIENCE).await?;
    demand(after.reason.contains("the table was lost"), || {
        format!("the new table says nothing of the old one: {after:?}")
    })?;
    demand(before.owners == after.owners, || {
        format!("partitions moved: {before:?}, then {after:?}")
    })?;
    let least = after.epochs.iter().min().copied().unwrap_or_default();
    demand(least > before.epoch, || {
        format!("an epoch came again: {after:?}")
    })?;
    // The one thing to find is the copy itself.
    let judgement = crew.judge(&crew.demands(UNOWNED_MAX))?;
    let (copies, broken): (Vec<&Violation>, Vec<&Violation>) =
        judgement.violations.iter().partition(
            |one| matches!(one, Violation::EpochRepeats { before: it, .. } if *it == before.epoch),
        );
    demand(copies.len() == 1 && broken.is_empty(), || {
        format!("the history is broken:\n{judgement}")
    })
}

/// Puts `text` in place of the table; the revision of that.
async fn overwrite(ground: &Ground, crew: &Crew, lease: &str, text: &str) -> Result<u64> {
    revision(&ground.edit(crew, lease, &table_is(text)).await?)
}

fn table_is(text: &str) -> Value {
    json!({ "metadata": { "annotations": { (keys::ANNOTATION_ASSIGNMENT): text } } })
}

fn revision(lease: &Lease) -> Result<u64> {
    let revision = lease.metadata.resource_version.as_deref();
    Ok(revision.unwrap_or_default().parse()?)
}

async fn annotation(ground: &Ground, lease: &str) -> Result<String> {
    let found = ground.leases().get(lease).await?;
    let annotations = found.metadata.annotations.unwrap_or_default();
    let text = annotations.get(keys::ANNOTATION_ASSIGNMENT).cloned();
    text.ok_or_else(|| Error::new(format!("{lease} has no table")))
}

fn newest(crew: &Crew) -> Result<leasehold_e2e::partitions::tables::Table> {
    let newest = crew.tables().newest();
    newest.ok_or_else(|| Error::new("no table was published"))
}
