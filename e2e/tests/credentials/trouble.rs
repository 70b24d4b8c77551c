//! Servers, classes and namespaces in trouble: it is said where, nothing else suffers, and all goes on by
//! itself when the trouble is over.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use leasehold_crds::BackendClass;
use leasehold_e2e::kubectl::Kubectl;
use leasehold_e2e::logins::{self, ADMIN, Login, Stores};
use leasehold_e2e::{Error, Result, Step as _};
use serde_json::json;

use super::ground::{Ground, NAME, SECRETS};
use crate::stage::{MINUTE, condition, declare};

/// Postgres is in trouble, `words` say which, and Redis does not mind.
async fn is_said(ground: &Ground, reason: &str, words: &[&str]) -> Result<()> {
    let status = ground
        .shows(&words.join(" … "), |status| {
            let (is_ready, why, message) = condition(status, "PostgresReady");
            let is_said = words.iter().all(|it| message.contains(it));
            is_ready != "True" && why == reason && is_said
        })
        .await?;
    assert_eq!(condition(&status, "RedisReady").0, "True", "{status:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_left_for_the_admin_and_a_changed_password_of_it_pass_over() -> Result<()> {
    let ground = Ground::prepare("logins-limited").await?;
    ground
        .service(&json!({"rotation": {"gracePeriod": "0s"}}))
        .await?;
    let end_sessions =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ADMIN}'");
    let by_superuser = async |sql: &str| ground.stores.by_superuser(sql).await;
    by_superuser(&format!("ALTER ROLE {ADMIN} CONNECTION LIMIT 0")).await?;
    by_superuser(&end_sessions).await?;
    ground
        .patch(json!({"rotation": {"trigger": "one"}}))
        .await?;
    is_said(
        &ground,
        "BackendRefused",
        &["too many connections", "53300"],
    )
    .await?;
    by_superuser(&format!("ALTER ROLE {ADMIN} CONNECTION LIMIT -1")).await?;
    ground.rotated_to(2).await?;

    // Rotated by its administrator, on the server first.
    by_superuser(&format!("ALTER ROLE {ADMIN} PASSWORD 'another one'")).await?;
    by_superuser(&end_sessions).await?;
    ground
        .patch(json!({"rotation": {"trigger": "two"}}))
        .await?;
    is_said(&ground, "LoginRefused", &[ADMIN]).await?;
    let secrets: Api<Secret> = ground.namespace.api();
    let admin = format!("{}-postgres-admin", ground.namespace.name());
    let patch = Patch::Merge(json!({"stringData": {"password": "another one"}}));
    secrets
        .patch(&admin, &PatchParams::default(), &patch)
        .await?;
    ground.rotated_to(3).await?;
    ground.login(SECRETS[0]).await?;
    ground.finish().await
}

/// A file system of a few megabytes; unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    fn mount(&self, options: &str) -> Result<()> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "leasehold-small"]);
        let done = mount.arg(self.0).output().step(|| "running mount")?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(Error::new(format!("mounting a small disk: {said}")));
        }
        Ok(())
    }

    /// In bytes.
    fn used(&self) -> Result<u64> {
        let all = rustix::fs::statvfs(self.0).step(|| "asking for free space")?;
        Ok((all.f_blocks - all.f_bfree) * all.f_frsize)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(self.0).status());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_named_and_waited_out() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("not tried: only root can mount a small disk");
        return Ok(());
    }
    let ground = Ground::prepare("logins-full").await?;
    let folder = ground.stores.postgres.own_folder("small")?;
    let disk = SmallDisk(&folder);
    disk.mount("size=64m,mode=0777")?;
    let data = ground.stores.postgres.own_folder("small/data")?;
    for sql in [
        &format!("CREATE TABLESPACE small LOCATION '{}'", data.display()),
        "ALTER DATABASE template0 SET TABLESPACE small",
    ] {
        ground.stores.by_superuser(sql).await?;
    }
    // The template fits, and no copy of it.
    disk.mount(&format!("remount,size={}", disk.used()? + 64 * 1024))?;
    declare(&ground.namespace, NAME, ground.spec(&json!({}))).await?;
    ground
        .shows("a login on Redis", |status| {
            condition(status, "RedisReady").0 == "True"
        })
        .await?;
    is_said(
        &ground,
        "BackendRefused",
        &["No space left on device", "53100"],
    )
    .await?;
    disk.mount("remount,size=64m")?;
    ground.ready().await?;
    ground.login(SECRETS[0]).await?;
    // The server ends before its disk does.
    ground.stores.postgres.stop();
    drop(disk);
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_absent_is_named_and_a_class_that_moves_takes_its_services_along()
-> Result<()> {
    let ground = Ground::prepare("logins-moved").await?;
    let name = ground.namespace.name();
    let spec = ground.spec(&json!({"postgres": {"className": format!("{name}-late")}}));
    declare(&ground.namespace, NAME, spec).await?;
    ground.login(SECRETS[1]).await?;
    is_said(&ground, "ClassMissing", &[&format!("{name}-late")]).await?;
    let classes: Api<BackendClass> = Api::all(ground.namespace.client());
    let mut class = classes.get(&format!("{name}-postgres")).await?;
    class.metadata = ObjectMeta {
        name: Some(format!("{name}-late")),
        ..ObjectMeta::default()
    };
    let parameters = PostParams::default();
    let created = classes.create(&parameters, &class).await;
    created.step(|| "creating the class")?;
    ground.ready().await?;
    let before = ground.login(SECRETS[0]).await?;

    let other = Stores::start().await?;
    let kubectl = Kubectl::new(&ground.namespace.cluster().admin_kubeconfig());
    let new = format!("{name}-moved");
    other.declare(&kubectl, &new, name, name).await?;
    let there = classes.get(&format!("{new}-postgres")).await?.spec.postgres;
    let patch = Patch::Merge(json!({"spec": {"postgres": there}}));
    let class = format!("{name}-late");
    classes
        .patch(&class, &PatchParams::default(), &patch)
        .await?;
    ground
        .until("a login on the new server", || async {
            let (client, name) = (ground.namespace.client(), ground.namespace.name());
            let login = Login::read(&client, name, SECRETS[0]).await?;
            let Some(login) = login else { return Ok(false) };
            Ok(login.text("port") != before.text("port") && login.use_it().await.is_ok())
        })
        .await?;
    ground.ready().await?;
    before.use_it().await?; // nothing is taken away where they were
    ground.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_ends_takes_its_logins_along() -> Result<()> {
    let ground = Ground::without_operator("logins-last").await?;
    let (here, there) = (
        ground.namespace.name(),
        format!("{}-ending", ground.namespace.name()),
    );
    let kubectl = Kubectl::new(&ground.namespace.cluster().admin_kubeconfig());
    kubectl.run(&["create", "namespace", &there]).await?;
    let stores = &ground.stores;
    stores.declare(&kubectl, &there, here, &there).await?;
    let operator = ground.another(here, &["--namespace", &there]).await?;
    operator.wait_until_leading().await?;
    let service = json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "ClusterService",
        "metadata": {"name": NAME, "namespace": there},
        "spec": {
            "postgres": {"className": format!("{there}-postgres")},
            "redis": {"className": format!("{there}-redis")},
            "deletionPolicy": "Delete",
        },
    });
    let apply = ["apply", "-f", "-"];
    kubectl.run_with_input(&apply, &service.to_string()).await?;
    let client = ground.namespace.client();
    for secret in SECRETS {
        logins::working(&client, &there, secret, MINUTE).await?;
    }
    assert_ne!(ground.on_servers().await?, (vec![], vec![]));
    // Secrets may go before the service does, and nothing new can be made.
    kubectl
        .run(&["delete", "namespace", &there, "--timeout=90s"])
        .await?;
    assert_eq!(ground.on_servers().await?, (vec![], vec![]));
    drop(operator);
    ground.finish().await
}
