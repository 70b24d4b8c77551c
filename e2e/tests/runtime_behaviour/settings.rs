//! The settings Lease, as the operator writes it, and what running candidates make of it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams, PostParams};
use leasehold::{LeaseTiming, ServiceHandle};
use leasehold_crds::keys;
use leasehold_crds::settings::{Fixed, LeaseSettings, Settings};
use leasehold_e2e::{Result, wait};
use serde_json::json;

use crate::ground::{Ground, PATIENCE, annotation, demand, lease, spawn, transitions, until_role};

/// The Lease follows, the term goes on, and the Lease says which generation is in force.
pub(crate) async fn changed_settings_are_in_force_without_a_restart(ground: &Ground) -> Result<()> {
    let service = "settings";
    let member = ground.member("settings").await?;
    let handle = spawn(member.service(service))?;
    until_role(&handle, "leader").await?;
    let begun = handle.status().token;
    let before = ground.lease(service).await?;
    demand(duration(&before) == Some(6), || {
        format!("not the environment's preset: {before:?}")
    })?;

    declare(ground, service, &settings(1, 15, 5, 2, 3)).await?;
    until_published(ground, service, 15, Some("1")).await?;
    declare(ground, service, &settings(2, 8, 2, 1, 1)).await?;
    let after = until_published(ground, service, 8, Some("2")).await?;
    demand(
        transitions(&after) == transitions(&before) && handle.status().token == begun,
        || format!("the term ended: {:?}, then {:?}", before.spec, after.spec),
    )?;

    // A candidate that comes later follows them from its first write on.
    let heir = ground.member("settings-heir").await?;
    let successor = spawn(heir.service(service))?;
    handle.shutdown();
    handle.finished().await?;
    until_role(&successor, "leader").await?;
    until_published(ground, service, 8, Some("2")).await?;
    member.close().await;
    heir.close().await;
    Ok(())
}

/// Code wins over settings; the leader says so, and says which settings it would follow.
pub(crate) async fn values_fixed_in_code_stay_and_are_published(ground: &Ground) -> Result<()> {
    let service = "settings-fixed";
    let member = ground.member("settings-fixed").await?;
    let builder = member.service(service).timing(LeaseTiming::FAST);
    let handle = spawn(builder.drain_timeout(Duration::from_secs(7)))?;
    until_role(&handle, "leader").await?;
    declare(ground, service, &settings(3, 15, 5, 2, 3)).await?;
    let after = until_published(ground, service, 6, Some("3")).await?;
    let text = annotation(&after, keys::ANNOTATION_FIXED).unwrap_or_default();
    let fixed: Fixed = serde_json::from_str(text)?;
    let lease = fixed.lease.as_ref();
    let published = (
        lease.and_then(|lease| lease.duration_seconds),
        lease.and_then(|lease| lease.heartbeat_seconds),
        lease.and_then(|lease| lease.attempt_timeout_seconds),
        lease.and_then(|lease| lease.stop_budget_seconds),
        fixed.drain_timeout_seconds,
    );
    let wanted = (Some(6.0), Some(2.0), Some(1.0), Some(1.0), Some(7.0));
    demand(published == wanted, || {
        format!("{}: found {text}", keys::ANNOTATION_FIXED)
    })?;
    demand(handle.status().fixed.as_deref() == Some(text), || {
        format!("{:?}", handle.status())
    })?;
    member.close().await;
    Ok(())
}

/// What cannot be used is said by the status and changes nothing.
pub(crate) async fn garbage_settings_are_said_and_the_old_ones_stay(ground: &Ground) -> Result<()> {
    let service = "settings-garbage";
    let member = ground.member("settings-garbage").await?;
    let handle = spawn(member.service(service))?;
    until_role(&handle, "leader").await?;
    declare(ground, service, &settings(1, 10, 2, 1, 1)).await?;
    until_published(ground, service, 10, Some("1")).await?;
    let begun = handle.status().token;

    let good = settings(2, 12, 2, 1, 1);
    let garbage = [
        (String::new(), "cannot be read"),
        ("{".to_owned(), "cannot be read"),
        ("[1,2]".to_owned(), "cannot be read"),
        (good.replace("\"version\":1", "\"version\":9"), "version 9"),
        (
            good.replace("\"leader-elected\"", "\"partitioned\",\"partitions\":64"),
            "strategy: found \"partitioned\", allowed is \"leader-elected\"",
        ),
        (
            good.replace("\"leader-elected\"", "\"partitioned\",\"partitions\":4097"),
            "partitions: found 4097, allowed are 1 to 4096",
        ),
        (
            good.replace("\"heartbeatSeconds\":2", "\"heartbeatSeconds\":11"),
            "trusted",
        ),
        (
            good.replace("\"durationSeconds\":12", "\"durationSeconds\":-12"),
            "durationSeconds",
        ),
        (
            good.replace("\"durationSeconds\":12", "\"durationSeconds\":0"),
            "durationSeconds",
        ),
    ];
    for (text, problem) in &garbage {
        declare(ground, service, text).await?;
        until_problem(&handle, problem).await?;
        let status = handle.status();
        demand(status.settings_generation == Some(1), || {
            format!("{text}: {status:?}")
        })?;
    }
    let unchanged = until_published(ground, service, 10, Some("1")).await?;
    demand(handle.status().token == begun, || {
        format!("the term ended: {unchanged:?}")
    })?;

    declare(ground, service, &good).await?;
    until_published(ground, service, 12, Some("2")).await?;
    demand(handle.status().settings_problem.is_none(), || {
        format!("{:?}", handle.status())
    })?;
    member.close().await;
    Ok(())
}

fn settings(generation: i64, duration: i64, heartbeat: i64, attempt: i64, stop: i64) -> String {
    let lease = LeaseSettings {
        duration_seconds: duration,
        heartbeat_seconds: heartbeat,
        attempt_timeout_seconds: attempt,
        stop_budget_seconds: stop,
    };
    let strategy = "leader-elected".to_owned();
    let version = Settings::VERSION;
    Settings {
        version,
        generation,
        strategy,
        partitions: None,
        hash: None,
        lease,
        drain_timeout_seconds: None,
    }
    .to_json()
}

/// Writes the settings Lease, as the operator does.
async fn declare(ground: &Ground, service: &str, text: &str) -> Result<()> {
    let name = format!("{service}.settings");
    let object = json!({
        "metadata": {
            "name": name,
            "labels": {
                (keys::LABEL_CLUSTER_ID): service,
                (keys::LABEL_LEASE): keys::LEASE_SETTINGS,
            },
            "annotations": { (keys::ANNOTATION_SETTINGS): text },
        },
    });
    let leases = ground.leases();
    if leases.get_opt(&name).await?.is_some() {
        leases
            .patch(&name, &PatchParams::default(), &Patch::Merge(object))
            .await?;
    } else {
        let lease: Lease = serde_json::from_value(object)?;
        leases.create(&PostParams::default(), &lease).await?;
    }
    Ok(())
}

/// Waits until the leader Lease publishes this duration and generation.
async fn until_published(
    ground: &Ground,
    service: &str,
    seconds: i32,
    generation: Option<&str>,
) -> Result<Lease> {
    let what = format!(
        "{} with {seconds} s and generation {generation:?}",
        lease(service)
    );
    wait::until(&what, PATIENCE, || async {
        let found = ground.lease(service).await?;
        let follows = annotation(&found, keys::ANNOTATION_SETTINGS_GENERATION) == generation;
        Ok((follows && duration(&found) == Some(seconds)).then_some(found))
    })
    .await
}

async fn until_problem(handle: &ServiceHandle, problem: &str) -> Result<()> {
    wait::until_true(&format!("a problem with {problem:?}"), PATIENCE, || async {
        Ok(handle
            .status()
            .settings_problem
            .is_some_and(|said| said.contains(problem)))
    })
    .await
}

fn duration(lease: &Lease) -> Option<i32> {
    lease.spec.as_ref()?.lease_duration_seconds
}
