//! Bad input at the start: every problem at once, with what was found and what is allowed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use leasehold_e2e::node::WORKLOAD_IMAGE;
use leasehold_e2e::{Error, Result, Step as _, programs, wait};
use serde_json::json;

use crate::ground::{Ground, PATIENCE, demand, spawn, until_role};
use crate::pods::CONTAINER;

/// Runs the example service with only these variables, and returns what it complained of. It must
/// end by itself, unsuccessfully and without a panic.
async fn refused(ground: &Ground, variables: &[(&str, OsString)]) -> Result<String> {
    let mut command = tokio::process::Command::new(programs::beside("leasehold-workload")?);
    command
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)));
    command.current_dir(&ground.folder).kill_on_drop(true);
    let about = || format!("running the example service with {variables:?}");
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = ended
        .map_err(|_| Error::new("it did not end"))
        .step(about)?
        .step(about)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    demand(output.status.code() == Some(1), || {
        format!("{}: {}: {said}", about(), output.status)
    })?;
    demand(!said.contains("panicked"), || {
        format!("{}: {said}", about())
    })?;
    Ok(said)
}

fn demand_parts(said: &str, parts: &[&str]) -> Result<()> {
    parts
        .iter()
        .try_for_each(|part| demand(said.contains(part), || format!("no {part:?} in: {said}")))
}

pub(crate) async fn garbage_in_every_variable_is_listed_at_once(ground: &Ground) -> Result<()> {
    let garbage = [
        ("LEASEHOLD_ALLOW_MEMORY_MULTI_NODE", "perhaps"),
        ("LEASEHOLD_CLUSTER", "1"),
        ("LEASEHOLD_CLUSTER_ID", "Not A Label"),
        ("LEASEHOLD_DRAIN_TIMEOUT", "soon"),
        ("LEASEHOLD_EXPECT_MULTI_NODE", "yes"),
        ("LEASEHOLD_HEARTBEAT", "-1"),
        ("LEASEHOLD_LEASES_DRIVER", "etcd"),
        ("LEASEHOLD_LEASE_PRESET", "quick"),
        ("LEASEHOLD_NAMESPACE", "No_Namespace"),
        ("LEASEHOLD_REPLICAS", "many"),
        ("LEASEHOLD_TOKEN_ERA", "4294967296"),
    ];
    let mut variables: Vec<(&str, OsString)> = garbage
        .iter()
        .map(|(name, value)| (*name, OsString::from(value)))
        .collect();
    variables.push(("LEASEHOLD_HARTBEAT", "5".into()));
    variables.push(("LEASEHOLD_NODE_ID", OsString::from_vec(vec![0xff, b'n'])));
    let said = refused(ground, &variables).await?;
    for (name, value) in garbage {
        demand_parts(&said, &[&format!("{name}: found {value:?}, allowed is ")])?;
    }
    demand_parts(
        &said,
        &[
            "13 problems",
            "LEASEHOLD_HARTBEAT: no such variable; the closest is LEASEHOLD_HEARTBEAT",
            "LEASEHOLD_NODE_ID: found bytes that are no UTF-8",
        ],
    )?;

    // Values that are sound alone and break the inequality together: both numbers are in the text.
    let timing = [
        ("LEASEHOLD_LEASE_PRESET", "fast".into()),
        ("LEASEHOLD_HEARTBEAT", "4s".into()),
    ];
    demand_parts(
        &refused(ground, &timing).await?,
        &["LEASEHOLD_HEARTBEAT: ", "4.8", "6.5"],
    )?;
    let workload = [
        ("WORKLOAD_SERVICES", OsString::from("a,,b")),
        ("WORKLOAD_SPEED", "9".into()),
    ];
    demand_parts(
        &refused(ground, &workload).await?,
        &["WORKLOAD_SERVICES: ", "WORKLOAD_SPEED: "],
    )
}

pub(crate) async fn a_kubeconfig_that_is_missing_or_unusable_is_named(
    ground: &Ground,
) -> Result<()> {
    let driver = ("LEASEHOLD_LEASES_DRIVER", OsString::from("kubernetes"));
    let missing = ground.folder.join("no-such-kubeconfig");
    let replicas = ("LEASEHOLD_REPLICAS", OsString::from("many"));
    let said = refused(
        ground,
        &[
            driver.clone(),
            ("KUBECONFIG", missing.clone().into()),
            replicas,
        ],
    )
    .await?;
    demand_parts(
        &said,
        &[
            "2 problems",
            &missing.to_string_lossy(),
            "set KUBECONFIG",
            "LEASEHOLD_REPLICAS: found",
        ],
    )?;
    let at_home = ("HOME", OsString::from(ground.folder.join("no-such-home")));
    demand_parts(
        &refused(ground, &[driver.clone(), at_home]).await?,
        &["~/.kube/config"],
    )?;

    let sound = std::fs::read_to_string(&ground.account.kubeconfig)?;
    for (name, text) in [
        ("empty", String::new()),
        ("no-yaml", "clusters: [".to_owned()),
        ("no-kubeconfig", "a list of nothing".to_owned()),
        (
            "no-context",
            sound.replace("current-context: leasehold", "current-context: elsewhere"),
        ),
        (
            "no-ca",
            sound.replace(
                "certificate-authority: /",
                "certificate-authority: /nowhere/",
            ),
        ),
    ] {
        let path = ground.folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&path, text)?;
        let said = refused(
            ground,
            &[driver.clone(), ("KUBECONFIG", path.clone().into())],
        )
        .await;
        let said = said.step(|| name.to_owned())?;
        demand_parts(&said, &["kubeconfig", &path.to_string_lossy()]).step(|| name.to_owned())?;
    }
    Ok(())
}

pub(crate) async fn ids_that_are_no_dns_labels_are_refused(ground: &Ground) -> Result<()> {
    let allowed = "1 to 63 characters of a-z, 0-9 and '-'";
    let too_long = "x".repeat(64);
    for id in ["Orders", "a.b", "-a", "a-", "a_b", "\u{fc}ber", &too_long] {
        let said = refused(ground, &[("WORKLOAD_SERVICES", id.into())]).await?;
        demand_parts(&said, &[&format!("{id:?}"), allowed, "cluster_id()"])?;

        let member = ground.member("ids").await?;
        let by_service = member.service("orders").cluster_id(id).leader_elected();
        let spawned = by_service.spawn(|_| std::future::ready(())).map(drop);
        let observed = member.leadership_changes(id).map(drop);
        for outcome in [spawned, observed] {
            let said = outcome
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            demand_parts(&said, &[&format!("{id:?}"), allowed])?;
        }
    }
    // The longest id that is allowed also fits into a Lease's name and a selector.
    let member = ground.member("longest").await?;
    let longest = spawn(member.service("x".repeat(63)))?;
    until_role(&longest, "leader").await?;
    member.close().await;
    Ok(())
}

pub(crate) async fn several_processes_with_leases_in_memory_are_refused(
    ground: &Ground,
) -> Result<()> {
    let set = |value: &str| OsString::from(value);
    let said = refused(
        ground,
        &[
            ("LEASEHOLD_LEASES_DRIVER", set("memory")),
            ("LEASEHOLD_REPLICAS", set("3")),
            ("LEASEHOLD_EXPECT_MULTI_NODE", set("true")),
            ("LEASEHOLD_CLUSTER", set("true")),
        ],
    )
    .await?;
    demand_parts(
        &said,
        &[
            "LEASEHOLD_REPLICAS=3 with leases in memory",
            "LEASEHOLD_EXPECT_MULTI_NODE=true with leases in memory",
            "LEASEHOLD_CLUSTER=true with leases in memory",
            "set LEASEHOLD_LEASES_DRIVER=kubernetes",
            "LEASEHOLD_ALLOW_MEMORY_MULTI_NODE=true",
        ],
    )?;
    // One process may well lead in its own memory.
    let alone = leasehold::Cluster::builder()
        .environment([
            ("LEASEHOLD_REPLICAS", "1"),
            ("LEASEHOLD_LEASES_DRIVER", "memory"),
        ])
        .signals(false)
        .build()
        .await?;
    let handle = spawn(alone.service("alone"))?;
    until_role(&handle, "leader").await?;
    alone.close().await;
    Ok(())
}

/// Falling back to memory there would make every pod a leader.
pub(crate) async fn in_a_pod_without_a_readable_token_nothing_starts(
    ground: &Ground,
) -> Result<()> {
    ground.namespace.cluster().node().await?;
    let pods: Api<Pod> = ground.namespace.api();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "tokenless" },
        "spec": {
            "automountServiceAccountToken": false,
            "restartPolicy": "Never",
            "nodeSelector": { "leasehold.dev/process-node": "true" },
            "containers": [{ "name": CONTAINER, "image": WORKLOAD_IMAGE }],
        },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let code = wait::until("the container to end", PATIENCE, || async {
        let statuses = pods
            .get("tokenless")
            .await?
            .status
            .and_then(|s| s.container_statuses);
        let state = statuses
            .unwrap_or_default()
            .pop()
            .and_then(|status| status.state);
        Ok(state
            .and_then(|state| state.terminated)
            .map(|ended| ended.exit_code))
    })
    .await?;
    demand(code == 1, || format!("it ended with {code}"))?;
    if ground.namespace.cluster().control_plane().is_some() {
        let said = ground
            .namespace
            .kubectl()
            .run(&["logs", "tokenless"])
            .await?;
        demand_parts(
            &said,
            &["service-account", "automountServiceAccountToken: true"],
        )?;
        demand(!said.contains("panicked"), || said.clone())?;
    }
    Ok(())
}
