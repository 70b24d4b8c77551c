//! BackendClasses on real servers: what is found, what a changed credential does, and who holds a class.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use leasehold_crds::{BackendClass, BackendClassStatus, keys};
use leasehold_e2e::servers::{Postgres, Redis};
use leasehold_e2e::{Result, Step as _, TestNamespace, wait};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use super::stage::*;

/// Classes have no namespace, so their names say whose they are.
fn name_of(namespace: &TestNamespace<'_>, class: &str) -> String {
    format!("{}-{class}", namespace.name())
}

fn classes(namespace: &TestNamespace<'_>) -> Api<BackendClass> {
    Api::all(namespace.client())
}

/// User, password, host and port of a URL.
fn parts(url: &str) -> (String, String, String, u16) {
    let (_, rest) = url.split_once("://").unwrap();
    let (who, place) = rest.rsplit_once('@').unwrap();
    let (user, password) = who.split_once(':').unwrap();
    let place = place.split('/').next().unwrap();
    let (host, port) = place.rsplit_once(':').unwrap();
    let owned = |text: &str| text.to_owned();
    (
        owned(user),
        owned(password),
        owned(host),
        port.parse().unwrap(),
    )
}

fn postgres(url: &str, allowed: &Value) -> Value {
    let (_, _, host, port) = parts(url);
    json!({
        "postgres": {
            "host": host, "port": port, "tls": {"mode": "disable"}, "adminSecretRef": {"name": "admin"},
        },
        "allowedNamespaces": allowed,
    })
}

async fn make(namespace: &TestNamespace<'_>, class: &str, spec: Value) -> Result<BackendClass> {
    let class = serde_json::from_value(json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "BackendClass",
        "metadata": {
            "name": name_of(namespace, class),
            // Operators of other tests serve the same cluster.
            "labels": {keys::LABEL_CLASS_NAMESPACE: namespace.name()},
        },
        "spec": spec,
    }))?;
    let api = classes(namespace);
    let made = api.create(&PostParams::default(), &class).await;
    made.step(|| "making a BackendClass")
}

/// Makes or replaces a Secret of a class.
async fn admin(namespace: &TestNamespace<'_>, username: &str, password: &str) -> Result<()> {
    let secrets: Api<Secret> = namespace.api();
    let data = json!({"stringData": {"username": username, "password": password}});
    if secrets.get_opt("admin").await?.is_some() {
        let merge = Patch::Merge(data);
        secrets
            .patch("admin", &PatchParams::default(), &merge)
            .await?;
        return Ok(());
    }
    let mut secret = data;
    secret["metadata"] = json!({"name": "admin"});
    let secret = serde_json::from_value(secret)?;
    secrets.create(&PostParams::default(), &secret).await?;
    Ok(())
}

fn said(status: &BackendClassStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|it| it.type_ == type_);
    found
        .map(|it| (it.status.clone(), it.reason.clone(), it.message.clone()))
        .unwrap_or_default()
}

/// Waits until the status of a class is as wanted.
async fn class_shows(
    namespace: &TestNamespace<'_>,
    class: &str,
    what: &str,
    is_wanted: impl Fn(&BackendClassStatus) -> bool,
) -> Result<BackendClassStatus> {
    let name = name_of(namespace, class);
    let api = classes(namespace);
    let newest = std::cell::RefCell::new(None);
    let waited = wait::until(what, MINUTE, || async {
        let class = api.get(&name).await?;
        let status = class.status.unwrap_or_default();
        *newest.borrow_mut() = Some(status.clone());
        let is_current = status.observed_generation == class.metadata.generation;
        Ok((is_current && is_wanted(&status)).then_some(status))
    })
    .await;
    waited.step(|| format!("{name} shows {}", json!(*newest.borrow())))
}

async fn run_sql(url: &str, statement: &'static str) -> Result<()> {
    let mut client = PgConnection::connect(url).await?;
    sqlx::query(statement).execute(&mut client).await?;
    Ok(())
}

async fn remove(namespace: &TestNamespace<'_>, class: &str) -> Result<()> {
    let name = name_of(namespace, class);
    let gone = DeleteParams::default();
    classes(namespace).delete(&name, &gone).await?;
    Ok(())
}

async fn is_gone(namespace: &TestNamespace<'_>, class: &str) -> Result<()> {
    let (api, name) = (classes(namespace), name_of(namespace, class));
    wait::until_true("a class that is gone", MINUTE, || async {
        Ok(api.get_opt(&name).await?.is_none())
    })
    .await
}

#[tokio::test]
async fn a_postgres_class_says_what_its_server_has_lacks_and_needs() -> Result<()> {
    let namespace = namespace("class-postgres").await?;
    let server = Postgres::start().await?;
    run_sql(
        server.url(),
        "CREATE ROLE adm LOGIN CREATEROLE PASSWORD 'canary-adm'",
    )
    .await?;
    let operator = Operator::leading(&namespace).await?;
    make(&namespace, "main", postgres(server.url(), &json!({}))).await?;
    // Without its Secret it may be another operator's class.
    admin(&namespace, "adm", "canary-adm\n").await?;
    let status = class_shows(&namespace, "main", "an unusable Secret", |it| {
        said(it, "Ready").1 == "SecretInvalid"
    })
    .await?;
    let message = said(&status, "Ready").2;
    assert!(
        message.contains("\"password\" ends with a line break"),
        "{message}"
    );
    admin(&namespace, "adm", "canary-adm").await?;
    let status = class_shows(&namespace, "main", "a missing right", |it| {
        said(it, "AdminRights").0 == "False"
    })
    .await?;
    let message = said(&status, "Ready").2;
    assert!(message.contains("ALTER ROLE \"adm\" CREATEDB"), "{message}");
    run_sql(server.url(), "ALTER ROLE adm CREATEDB").await?;
    let status = class_shows(
        &namespace,
        "main",
        "a class with all that is needed",
        |it| said(it, "Ready").0 == "True",
    )
    .await?;
    let version = status.server_version.as_deref().unwrap_or_default();
    assert!(version.starts_with("PostgreSQL "), "{version}");
    assert_eq!(said(&status, "TlsVerified").0, "False");
    server.stop();
    let operator_log = operator.process().last_lines(100_000);
    assert!(!operator_log.contains("canary"), "a password in the log");
    remove(&namespace, "main").await?;
    is_gone(&namespace, "main").await?;
    namespace.finish().await
}

#[tokio::test]
async fn a_changed_admin_password_is_taken_up_when_it_works_and_not_before() -> Result<()> {
    let namespace = namespace("class-password").await?;
    let server = Postgres::start().await?;
    run_sql(
        server.url(),
        "CREATE ROLE adm LOGIN CREATEROLE CREATEDB PASSWORD 'first'",
    )
    .await?;
    let _operator = Operator::leading(&namespace).await?;
    admin(&namespace, "adm", "first").await?;
    make(&namespace, "main", postgres(server.url(), &json!({}))).await?;
    let is_ready = |it: &BackendClassStatus| said(it, "Ready").0 == "True";
    class_shows(&namespace, "main", "the first password", is_ready).await?;
    // The Secret first.
    admin(&namespace, "adm", "second").await?;
    let status = class_shows(
        &namespace,
        "main",
        "a password that does not work yet",
        |it| said(it, "Ready").1 == "LoginRefused",
    )
    .await?;
    let message = said(&status, "Ready").2;
    assert!(message.contains("the one before is used"), "{message}");
    assert_eq!(said(&status, "Reachable").0, "True", "by the one before");
    run_sql(server.url(), "ALTER ROLE adm PASSWORD 'second'").await?;
    class_shows(&namespace, "main", "the second password", is_ready).await?;
    // The server first: the open session goes on, and the Secret is read again at once.
    run_sql(server.url(), "ALTER ROLE adm PASSWORD 'third'").await?;
    admin(&namespace, "adm", "third").await?;
    server.restart().await?;
    let change = Patch::Merge(json!({"spec": {"postgres": {"pooled": true}}}));
    let name = name_of(&namespace, "main");
    let api = classes(&namespace);
    api.patch(&name, &PatchParams::default(), &change).await?;
    class_shows(&namespace, "main", "the third password", is_ready).await?;
    remove(&namespace, "main").await?;
    namespace.finish().await
}

#[tokio::test]
async fn a_redis_class_is_looked_at_and_its_failure_and_return_are_shown() -> Result<()> {
    let namespace = namespace("class-redis").await?;
    let server = Redis::start().await?;
    let (_, password, host, port) = parts(server.url());
    let _operator = Operator::leading(&namespace).await?;
    admin(&namespace, "default", &password).await?;
    let spec = json!({"redis": {
        "nodes": [format!("{host}:{port}")], "tls": {"mode": "disable"}, "adminSecretRef": {"name": "admin"},
    }});
    make(&namespace, "cache", spec).await?;
    let is_ready = |it: &BackendClassStatus| said(it, "Ready").0 == "True";
    let status = class_shows(&namespace, "cache", "a Redis", is_ready).await?;
    let message = said(&status, "Ready").2;
    assert!(message.contains("no namespace may use it"), "{message}");
    assert!(status.server_version.unwrap().starts_with("Redis "));
    server.stop();
    let change = Patch::Merge(json!({"spec": {"redis": {"persist": true}}}));
    let name = name_of(&namespace, "cache");
    let api = classes(&namespace);
    api.patch(&name, &PatchParams::default(), &change).await?;
    let status = class_shows(&namespace, "cache", "a Redis that is away", |it| {
        said(it, "Reachable").0 == "False"
    })
    .await?;
    assert_eq!(said(&status, "AdminRights").0, "Unknown");
    server.restart().await?;
    class_shows(&namespace, "cache", "its return", is_ready).await?;
    remove(&namespace, "cache").await?;
    namespace.finish().await
}

#[tokio::test]
async fn a_class_in_use_is_held_back_and_says_by_whom_but_not_for_those_it_does_not_allow()
-> Result<()> {
    let namespace = namespace("class-held").await?;
    let server = Postgres::start().await?;
    let (user, password, ..) = parts(server.url());
    let _operator = Operator::leading(&namespace).await?;
    admin(&namespace, &user, &password).await?;
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}});
    let elsewhere = json!({"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}});
    make(&namespace, "ours", postgres(server.url(), &here)).await?;
    make(&namespace, "theirs", postgres(server.url(), &elsewhere)).await?;
    for class in ["ours", "theirs"] {
        let spec = json!({"postgres": {"className": name_of(&namespace, class)}});
        declare(&namespace, &format!("wants-{class}"), spec).await?;
    }
    let status = class_shows(&namespace, "ours", "its user", |it| it.services == 1).await?;
    let message = said(&status, "InUse").2;
    assert!(message.contains("/wants-ours"), "{message}");
    let status = class_shows(&namespace, "theirs", "a look", |it| {
        said(it, "Ready").0 == "True"
    });
    assert_eq!(status.await?.services, 0);
    remove(&namespace, "theirs").await?;
    is_gone(&namespace, "theirs").await?;
    remove(&namespace, "ours").await?;
    class_shows(&namespace, "ours", "that it is held back", |it| {
        said(it, "InUse").2.contains("waits for")
    })
    .await?;
    let held = classes(&namespace)
        .get(&name_of(&namespace, "ours"))
        .await?;
    assert_eq!(held.finalizers(), [keys::FINALIZER_CREDENTIALS]);
    let kubectl = namespace.kubectl();
    kubectl.run(&["delete", "csvc", "wants-ours"]).await?;
    is_gone(&namespace, "ours").await?;
    namespace.finish().await
}

#[tokio::test]
async fn operators_of_other_namespaces_leave_a_class_alone() -> Result<()> {
    let owner = namespace("class-owner").await?;
    let other = namespace("class-other").await?;
    let server = Postgres::start().await?;
    let (user, password, ..) = parts(server.url());
    let _other = Operator::leading(&other).await?;
    make(&owner, "main", postgres(server.url(), &json!({}))).await?;
    // `seen` comes after `main`: whoever has looked at it has seen both, and has a Secret of that name.
    admin(&other, &user, &password).await?;
    make(&other, "seen", postgres(server.url(), &json!({}))).await?;
    class_shows(&other, "seen", "its own class", |it| {
        said(it, "Ready").0 == "True"
    })
    .await?;
    let main = classes(&owner).get(&name_of(&owner, "main")).await?;
    assert!(main.status.is_none(), "{:?}", main.status);
    let _owner = Operator::leading(&owner).await?;
    admin(&owner, &user, &password).await?;
    class_shows(&owner, "main", "its class", |it| {
        said(it, "Ready").0 == "True"
    })
    .await?;
    remove(&owner, "main").await?;
    remove(&other, "seen").await?;
    other.finish().await?;
    owner.finish().await
}
