//! No password stands anywhere but in the Secret it is for: not in logs, Events, objects, pages, audit
//! records, nor in what the servers write down.

#[path = "leaks/places.rs"]
mod places;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use leasehold_crds::{BackendClass, ClusterService};
use leasehold_e2e::needle::Needle;
use leasehold_e2e::{Result, wait};
use serde_json::json;

use super::ground::{Ground, NAME, SECRETS};
use crate::stage::MINUTE;
use places::{Collected, Monitor, OF_POSTGRES, Places, of_secret};

/// Everything of ours, and what the libraries say that carry passwords.
const TALK: &str = "info,leasehold=trace,leasehold_core=trace,leasehold_crds=trace,leasehold_operator=trace,\
                    kube=debug,kube_client=debug,kube_runtime=debug,sqlx=debug,redis=debug,tower=debug,\
                    hyper=debug,hyper_util=debug,rustls=debug,h2=debug";

#[tokio::test(flavor = "multi_thread")]
async fn no_password_leaves_its_secret_in_a_whole_life_told_at_trace() -> Result<()> {
    let ground = Ground::without_operator("logins-leak").await?;
    let Some(plane) = ground.namespace.cluster().control_plane_or_skip("leaks") else {
        return ground.finish().await;
    };
    let logs = plane.path().to_owned();
    tell_everything(&ground).await?;
    let monitor = Monitor::start(&ground).await?;
    let secrets = Collected::follow(ground.namespace.api());
    let operator = ground
        .another_talking(ground.namespace.name(), &[], TALK)
        .await?;
    operator.wait_until_leading().await?;
    let edited = live(&ground).await?;

    let mut needles = secrets.needles(6)?;
    for secret in
        ["postgres", "redis"].map(|kind| format!("{}-{kind}-admin", ground.namespace.name()))
    {
        let admin: Api<Secret> = ground.namespace.api();
        let found = admin.get(&secret).await?;
        needles.extend(
            of_secret(&found)
                .into_iter()
                .filter_map(|(name, text)| Needle::new(&name, &text)),
        );
    }
    needles.extend(Needle::new("the password of somebody", &edited));
    let places = Places {
        ground: &ground,
        operator: &operator,
        monitor: &monitor,
        logs: &logs,
    };
    let found = places.read().await?;
    for (place, text) in &found {
        assert!(!text.contains("panicked at"), "a panic in {place}");
        for needle in &needles {
            let is_allowed = place == OF_POSTGRES && needle.name().ends_with("verifier");
            assert!(
                is_allowed || !needle.is_in(text),
                "{} stands in {place}",
                needle.name()
            );
        }
    }
    let mut verifiers = needles.iter().filter(|it| it.name().ends_with("verifier"));
    assert!(
        verifiers.any(|it| it.is_in(&found[OF_POSTGRES])),
        "Postgres did not write down what it was told"
    );

    // The same search finds what was put there on purpose.
    let canary = format!("canary{:016x}", rand::random::<u64>());
    places.plant(&canary).await?;
    let needle = Needle::new("the canary", &canary).expect("it is long enough");
    let everywhere: BTreeSet<String> = found
        .keys()
        .filter(|it| *it != "/metrics" && *it != "/readyz")
        .cloned()
        .collect();
    let waited = wait::until_true("the canary in every place", MINUTE, || async {
        let found = places.read().await?;
        let found = found.into_iter().filter(|(_, text)| needle.is_in(text));
        let found: BTreeSet<String> = found.map(|(place, _)| place).collect();
        let missing: Vec<_> = everywhere.difference(&found).collect();
        if !missing.is_empty() {
            println!("the canary is not seen in {missing:?}");
        }
        Ok(missing.is_empty())
    });
    waited.await?;
    ground.finish().await
}

/// Create, rotate, edited, dropped, refused, deleted. Returns the password that somebody wrote.
async fn live(ground: &Ground) -> Result<String> {
    let secrets: Api<Secret> = ground.namespace.api();
    let services: Api<ClusterService> = ground.namespace.api();
    let more = json!({"deletionPolicy": "Delete", "rotation": {"gracePeriod": "0s"}});
    ground.service(&more).await?;
    ground
        .patch(json!({"rotation": {"trigger": "one"}}))
        .await?;
    ground.rotated_to(2).await?;
    let edited = format!("some/body \"{:016x}\"", rand::random::<u64>());
    let edit = Patch::Merge(json!({"stringData": {"password": edited}}));
    for secret in SECRETS {
        secrets
            .patch(secret, &PatchParams::default(), &edit)
            .await?;
    }
    ground.rotated_to(3).await?;
    let login = ground.login(SECRETS[0]).await?;
    let role = login.text("username").unwrap_or_default();
    ground
        .stores
        .by_superuser(&format!("DROP ROLE \"{role}\""))
        .await?;
    ground.stores.redis.restart().await?;
    for secret in SECRETS {
        ground.login(secret).await?;
    }
    // A server that refuses says why, and to whom.
    let wrong = Patch::Merge(json!({"stringData": {"password": edited}}));
    let admin = format!("{}-postgres-admin", ground.namespace.name());
    let right = secrets.get(&admin).await?.data.unwrap_or_default();
    secrets
        .patch(&admin, &PatchParams::default(), &wrong)
        .await?;
    let classes: Api<BackendClass> = Api::all(ground.namespace.client());
    let class = format!("{}-postgres", ground.namespace.name());
    // A class is looked at when it changes, and otherwise rarely.
    let expression = json!([{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]);
    let change = json!({"spec": {"allowedNamespaces": {"matchExpressions": expression}}});
    classes
        .patch(&class, &PatchParams::default(), &Patch::Merge(change))
        .await?;
    wait::until_true("a class whose admin is refused", MINUTE, || async {
        let status = classes.get(&class).await?.status.unwrap_or_default();
        Ok(json!(status).to_string().contains("28P01"))
    })
    .await?;
    let right = Patch::Merge(json!({"data": {"password": right["password"]}}));
    secrets
        .patch(&admin, &PatchParams::default(), &right)
        .await?;
    services.delete(NAME, &DeleteParams::default()).await?;
    ground
        .until("a service that is gone", || async {
            Ok(services.get_opt(NAME).await?.is_none())
        })
        .await?;
    assert_eq!(ground.on_servers().await?, (vec![], vec![]));
    Ok(edited)
}

/// The servers write down all that they are told.
async fn tell_everything(ground: &Ground) -> Result<()> {
    for setting in [
        "log_statement = 'all'",
        "log_min_error_statement = 'debug5'",
        "log_min_messages = 'debug1'",
        "log_min_duration_statement = 0",
        "log_parameter_max_length = -1",
        "log_parameter_max_length_on_error = -1",
        "log_connections = on",
    ] {
        ground
            .stores
            .by_superuser(&format!("ALTER SYSTEM SET {setting}"))
            .await?;
    }
    ground
        .stores
        .by_superuser("SELECT pg_reload_conf()")
        .await?;
    ground
        .until("statements that are logged", || async {
            Ok(ground.stores.ask("SHOW log_statement").await? == ["all"])
        })
        .await
}
