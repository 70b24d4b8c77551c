//! `Cluster::leadership_changes` in a process that never campaigns.

use k8s_openapi::api::rbac::v1::PolicyRule;
use leasehold::{ChangeKind, Identity, LeadershipChange};
use leasehold_e2e::cluster::lease_rules;
use leasehold_e2e::{Error, Result, wait};

use crate::ground::{Ground, PATIENCE, demand, spawn, until_role};

/// Turns of leadership between the two candidates.
const TURNS: u32 = 4;

/// Its account may not even write Leases.
pub(crate) async fn an_observer_that_may_only_read_sees_every_change_in_order(
    ground: &Ground,
) -> Result<()> {
    let service = "observed";
    let mut rules: Vec<PolicyRule> = lease_rules();
    for rule in &mut rules {
        rule.verbs = ["get", "list", "watch"].map(str::to_owned).to_vec();
    }
    let account = ground.namespace.account("observer", rules).await?;
    let namespace = ground.namespace.name();
    let observer = ground
        .member_as(&account, namespace, Identity::of_node("observer", 1)?)
        .await?;
    let mut changes = observer.leadership_changes(service)?;

    let members = [ground.member("odd").await?, ground.member("even").await?];
    let odd = spawn(members[0].service(service))?;
    until_role(&odd, "leader").await?;
    let even = spawn(members[1].service(service))?;
    let services = [&odd, &even];
    for turn in 1..TURNS {
        let (from, to) = (
            services[(turn as usize + 1) % 2],
            services[turn as usize % 2],
        );
        from.step_down();
        until_role(to, "leader").await?;
    }
    for member in &members {
        member.close().await;
    }

    let mut seen: Vec<LeadershipChange> = Vec::new();
    let wanted = usize::try_from(TURNS)? * 2;
    while seen.len() < wanted {
        let next = tokio::time::timeout(PATIENCE, changes.next()).await;
        let next = next.map_err(|_| Error::new(format!("no more changes after {seen:?}")))?;
        seen.push(next.ok_or_else(|| Error::new(format!("the changes ended after {seen:?}")))?);
    }
    for (turn, pair) in (1..=TURNS).zip(seen.chunks(2)) {
        let holder = members[(turn as usize + 1) % 2].identity().as_str();
        let is = |change: &LeadershipChange, kind: ChangeKind| {
            change.kind == kind
                && change.term.number() == turn
                && change.holder == holder
                && change.cluster_id == service
        };
        let in_order = is(&pair[0], ChangeKind::Gained) && is(&pair[1], ChangeKind::Resigned);
        demand(in_order, || {
            format!("turn {turn} of {holder}: {pair:?} in {seen:?}")
        })?;
    }
    // It never took part: nobody led under its identity, and nothing of it has to end.
    demand(observer.view().services.is_empty(), || {
        format!("{:?}", observer.view())
    })?;
    wait::until_true("the observer to close", PATIENCE, || async {
        observer.close().await;
        Ok(true)
    })
    .await
}
