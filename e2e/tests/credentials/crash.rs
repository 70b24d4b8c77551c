//! The operator dies after any of its effects, and whoever comes next ends at the same place.
//!
//! Which orders of effects are right is decided by the model of the core, for every instant; here the
//! real ones are cut, on real servers.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use leasehold_crds::ClusterService;
use leasehold_e2e::Result;
use leasehold_e2e::logins::Login;
use serde_json::json;

use super::ground::{Ground, NAME, SECRETS};
use crate::stage::declare;

/// With 1 every operator does one thing and dies, so every point of the life of a service is a crash.
const EFFECTS: [u64; 3] = [1, 2, 3];
/// Fewer deaths with 1 would mean that the life of a service was not seen.
const DEATHS_MIN: u32 = 12;
/// Between two looks at whether the current login works.
const LOOK: Duration = Duration::from_millis(50);

/// An operator that dies after so many effects, followed by others that die after as many, until the
/// life of a service is done. Returns how many died.
async fn live(ground: &Ground, effects: u64) -> Result<u32> {
    let namespace = &ground.namespace;
    let services: Api<ClusterService> = namespace.api();
    let mut deaths = 0;
    let mut spec = ground.spec(&json!({
        "deletionPolicy": "Delete", "rotation": {"gracePeriod": "0s", "maxGrace": "0s"},
    }));
    spec["rotation"]["trigger"] = json!("first");
    declare(namespace, NAME, spec).await?;
    let (mut stage, mut removals) = (0, 0);
    loop {
        // A removal is repeated from its start, so whoever comes next has to get further.
        removals += u64::from(stage == 2);
        let limit = (effects + removals).to_string();
        let more = ["--crash-after-effects", limit.as_str()];
        let log = format!("{}-{deaths}", namespace.name());
        let operator = ground.another(&log, &more).await?;
        loop {
            let is_done = match stage {
                0 => at_rest(ground, 1).await?,
                1 => at_rest(ground, 2).await?,
                _ => services.get_opt(NAME).await?.is_none(),
            };
            if is_done {
                stage += 1;
                match stage {
                    1 => {
                        let second = json!({"rotation": {"trigger": "second"}});
                        ground.patch(second).await?;
                    }
                    2 => drop(services.delete(NAME, &DeleteParams::default()).await?),
                    _ => return Ok(deaths),
                }
            }
            if operator.process().ended().is_some() {
                deaths += 1;
                // Nobody has to wait until the dead one's Lease runs out.
                let leases: Api<Lease> = namespace.api();
                let lease = "leasehold-operator.leader";
                drop(leases.delete(lease, &DeleteParams::default()).await);
                break;
            }
            works_if_there(ground).await?;
            tokio::time::sleep(LOOK).await;
        }
    }
}

async fn at_rest(ground: &Ground, generation: i64) -> Result<bool> {
    let services: Api<ClusterService> = ground.namespace.api();
    let status = services.get(NAME).await?.status.unwrap_or_default();
    let is_current = crate::stage::condition(&status, "CredentialsCurrent").0 == "True";
    let credentials = &status.credentials;
    Ok(is_current
        && credentials.len() == 2
        && credentials.iter().all(|it| it.generation == generation))
}

/// At every instant the current login of a Secret works, if there is one (C2).
async fn works_if_there(ground: &Ground) -> Result<()> {
    let (client, namespace) = (ground.namespace.client(), ground.namespace.name());
    for secret in SECRETS {
        let Some(login) = Login::read(&client, namespace, secret).await? else {
            continue;
        };
        if let Err(error) = login.use_it().await {
            // It may have been replaced, or removed with its service, since it was read.
            let now = Login::read(&client, namespace, secret).await?;
            let is_same = now.is_some_and(|it| it.text("password") == login.text("password"));
            let services: Api<ClusterService> = ground.namespace.api();
            let service = services.get_opt(NAME).await?;
            let is_going = service.is_none_or(|it| it.metadata.deletion_timestamp.is_some());
            assert!(
                !is_same || is_going,
                "the current login of {secret} does not work: {error}"
            );
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_operator_dies_the_next_one_ends_at_the_same_place() -> Result<()> {
    let ground = Ground::without_operator("logins-crashed").await?;
    for effects in EFFECTS {
        let deaths = live(&ground, effects).await?;
        println!("dying after {effects} effects each time: {deaths} deaths");
        assert_eq!(
            ground.on_servers().await?,
            (vec![], vec![]),
            "after {effects} effects"
        );
        assert!(effects > 1 || deaths >= DEATHS_MIN, "only {deaths} deaths");
    }
    ground.finish().await
}
