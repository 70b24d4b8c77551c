//! What candidates ask of the API server, from its audit log.

use std::collections::BTreeMap;
use std::io::BufRead as _;

use leasehold_core::lease::LeaseTiming;
use leasehold_e2e::audit::{Filter, Request};
use leasehold_e2e::chaos::candidates::{Workload, WorkloadOptions};
use leasehold_e2e::cluster::lease_rules;
use leasehold_e2e::history::{Event, Line};
use leasehold_e2e::{ControlPlane, Result, wait};

use crate::ground::{Ground, PATIENCE, demand};

/// Renewals of the leader during which everything is counted: 15 s under the default preset.
const RENEWALS: usize = 3;

/// In a steady state only the leader's renewals are left.
pub(crate) async fn followers_add_no_requests_but_their_watch(ground: &Ground) -> Result<()> {
    let Some(plane) = ground
        .namespace
        .cluster()
        .control_plane_or_skip("counting requests")
    else {
        return Ok(());
    };
    let service = "steady";
    let leader = Workload::start(
        "steady-leader",
        &as_account(ground, "steady-leader", service).await?,
    )?;
    leader.gained(service, 0, PATIENCE).await?;
    let options = as_account(ground, "steady-followers", service).await?;
    let followers = [
        Workload::start("steady-b", &options)?,
        Workload::start("steady-c", &options)?,
    ];
    wait::until_true("two watches of the followers", PATIENCE, || async {
        Ok(open_watches(plane, ground, "steady-followers")?.len() == 2)
    })
    .await?;

    let mark = plane.audit_log().mark()?;
    let of = |account: &str| Filter::default().account(ground.namespace.name(), account);
    let update = ("update".to_owned(), "leases".to_owned());
    let counts = wait::until("some renewals", PATIENCE, || async {
        let counts = plane.audit_log().counts(mark, &of("steady-leader"))?;
        let renewals = counts.get(&update).copied().unwrap_or_default();
        Ok((renewals >= RENEWALS).then_some(counts))
    })
    .await?;
    demand(counts.len() == 1, || {
        format!("the leader did not only renew: {counts:?}")
    })?;
    let counts = plane.audit_log().counts(mark, &of("steady-followers"))?;
    demand(counts.is_empty(), || {
        format!("followers asked for something: {counts:?}")
    })?;
    // They were there all the time, and one of them is ready to lead.
    leader.terminate()?;
    let first = followers[0].gained(service, 0, PATIENCE);
    let second = followers[1].gained(service, 0, PATIENCE);
    tokio::select! {
        gained = first => gained,
        gained = second => gained,
    }?;
    Ok(())
}

/// H10: one watch a process, whatever the number of its leases.
pub(crate) async fn two_leases_of_one_process_share_one_watch(ground: &Ground) -> Result<()> {
    let Some(plane) = ground
        .namespace
        .cluster()
        .control_plane_or_skip("counting watches")
    else {
        return Ok(());
    };
    let options = as_account(ground, "one-watch", "watched-one,watched-two").await?;
    let workload = Workload::start("one-watch", &options)?;
    workload.gained("watched-one", 0, PATIENCE).await?;
    workload.gained("watched-two", 0, PATIENCE).await?;
    let watches = wait::until("an open watch", PATIENCE, || async {
        let open = open_watches(plane, ground, "one-watch")?;
        Ok((!open.is_empty()).then_some(open))
    })
    .await?;
    let both = |uri: &String| uri.contains("watched-one") && uri.contains("watched-two");
    demand(watches.len() == 1 && watches.iter().all(both), || {
        format!("watches: {watches:?}")
    })?;
    // Both are followed through it: each term ends at once when its Lease goes.
    for service in ["watched-one", "watched-two"] {
        ground
            .namespace
            .kubectl()
            .run(&["delete", "lease", &format!("{service}.leader")])
            .await?;
        let is_end = |line: &Line| line.event == Event::Lost && line.reason.contains("deleted");
        workload
            .until("the end of the term", service, 0, PATIENCE, is_end)
            .await?;
    }
    let watches = open_watches(plane, ground, "one-watch")?;
    demand(watches.len() == 1, || {
        format!("watches after the deletions: {watches:?}")
    })
}

async fn as_account(ground: &Ground, account: &str, services: &str) -> Result<WorkloadOptions> {
    let mut options = ground.options(services);
    options.timing = LeaseTiming::DEFAULT;
    options.kubeconfig = ground
        .namespace
        .account(account, lease_rules())
        .await?
        .kubeconfig;
    Ok(options)
}

/// The watches of an account that were begun and have not ended.
fn open_watches(plane: &ControlPlane, ground: &Ground, account: &str) -> Result<Vec<String>> {
    let filter = Filter::default()
        .account(ground.namespace.name(), account)
        .verbs(&["watch"]);
    let mut open: BTreeMap<String, String> = BTreeMap::new();
    let log = std::fs::File::open(plane.path().join("audit.log"))?;
    for line in std::io::BufReader::new(log).lines() {
        // The last line may still be being written.
        let Ok(request) = serde_json::from_str::<Request>(&line?) else {
            continue;
        };
        if !filter.admits(&request) {
            continue;
        }
        if request.stage == "ResponseStarted" {
            open.insert(request.id, request.uri);
        } else {
            open.remove(&request.id);
        }
    }
    Ok(open.into_values().collect())
}
