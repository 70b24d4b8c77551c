//! Starts that cannot work, and what they say.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use leasehold_e2e::kubectl::Kubectl;
use leasehold_e2e::{Cluster, Result, TestNamespace, programs, wait};

use super::stage::*;

/// Exit code and last words of an operator that ends by itself.
async fn last_words(arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let mut command = tokio::process::Command::from(Command::new(programs::operator()?));
    command.args(arguments).kill_on_drop(true);
    let output = tokio::time::timeout(MINUTE, command.output())
        .await
        .expect("it must end")?;
    Ok((
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    ))
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

#[tokio::test]
async fn a_metrics_port_in_use_is_said_at_once() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let (code, words) = last_words(&["--metrics-address", &address]).await?;
    assert_eq!(code, Some(2), "{words}");
    for part in ["--metrics-address", &address, "in use", "choose another"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    Ok(())
}

#[tokio::test]
async fn an_unusable_kubeconfig_is_named_with_what_is_wrong() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let folder = cluster.folder();
    let garbage = file(folder, "garbage.kubeconfig", "{{{");
    let empty = file(folder, "empty.kubeconfig", "apiVersion: v1\nkind: Config\n");
    for path in ["/nonexistent/kubeconfig", &garbage, &empty] {
        let (code, words) =
            last_words(&["--metrics-address", "127.0.0.1:0", "--kubeconfig", path]).await?;
        assert_eq!(code, Some(2), "{path}: {words}");
        assert!(
            words.contains(path) && words.contains("cannot be used"),
            "{path}: {words}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn credentials_that_the_server_refuses_end_the_start_with_a_clear_error() -> Result<()> {
    let namespace = namespace("start-expired").await?;
    let good = operator_kubeconfig(namespace.cluster(), namespace.name()).await?;
    let text = std::fs::read_to_string(&good)?;
    let token = text
        .lines()
        .find(|line| line.contains("token:"))
        .unwrap()
        .to_owned();
    let expired = text.replace(&token, &format!("{token}x"));
    let path = file(
        namespace.cluster().folder(),
        &format!("{}.expired", namespace.name()),
        &expired,
    );
    let (code, words) =
        last_words(&["--metrics-address", "127.0.0.1:0", "--kubeconfig", &path]).await?;
    assert_eq!(code, Some(2), "{words}");
    assert!(
        words.contains("401") && words.contains("expired"),
        "{words}"
    );
    namespace.finish().await
}

#[tokio::test]
async fn a_server_that_does_not_answer_ends_the_start_after_bounded_attempts() -> Result<()> {
    let namespace = namespace("start-unreachable").await?;
    let good = operator_kubeconfig(namespace.cluster(), namespace.name()).await?;
    let server = leasehold_e2e::control_plane::kubeconfig::server(&good)?;
    let free = leasehold_e2e::control_plane::ports::free_port()?;
    let text =
        std::fs::read_to_string(&good)?.replace(&server, &format!("https://127.0.0.1:{free}"));
    let path = file(
        namespace.cluster().folder(),
        &format!("{}.unreachable", namespace.name()),
        &text,
    );
    let (code, words) =
        last_words(&["--metrics-address", "127.0.0.1:0", "--kubeconfig", &path]).await?;
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("gave no answer in 30 attempts") && words.contains("refused"),
        "{words}"
    );
    namespace.finish().await
}

#[tokio::test]
async fn an_absent_crd_is_waited_for_and_taken_up_when_it_appears() -> Result<()> {
    let Some(cluster) = Cluster::own("an operator without its CRD").await? else {
        return Ok(());
    };
    install(&cluster).await?;
    let kubectl = Kubectl::new(&cluster.admin_kubeconfig());
    kubectl
        .run(&["delete", "crd", "clusterservices.leasehold.dev"])
        .await?;
    // Without this one everything else goes on.
    kubectl
        .run(&["delete", "crd", "backendclasses.leasehold.dev"])
        .await?;
    let namespace = TestNamespace::on(&cluster, "no-crd").await?;
    let kubeconfig = operator_kubeconfig(&cluster, "no-crd").await?;
    let name = namespace.name();
    let operator = Operator::start(&cluster, &kubeconfig, name, &[name], name).await?;
    wait::until_true(
        "an operator that says what it waits for",
        MINUTE,
        || async {
            let (code, words) = operator.get("/readyz").await?;
            Ok(code == 503
                && words.contains("clusterservices.leasehold.dev is not installed")
                && !words.contains("backendclasses"))
        },
    )
    .await?;
    let crds = programs::workspace().join("crds/clusterservices.leasehold.dev.yaml");
    kubectl
        .run(&["apply", "-f", &crds.to_string_lossy()])
        .await?;
    served(&kubectl, "clusterservices", "csvc").await?;
    operator.wait_until_leading().await?;
    declare(&namespace, "billing", elected("billing")).await?;
    hold(&namespace, "billing", "billing-0", 0).await?;
    shown(&namespace, "billing", "a leader", |it| {
        is_led_by(it, "billing-0", 0)
    })
    .await?;
    assert_eq!(operator.get("/readyz").await?.0, 200);
    install(&cluster).await?;
    wait::until_true("classes that are seen after all", MINUTE, || async {
        let page = operator.page("/debug/cluster").await?;
        let page: serde_json::Value = serde_json::from_str(&page)?;
        Ok(page["beliefs"]["watches"]["backendclasses"]["isSynced"] == true)
    })
    .await?;
    namespace.finish().await
}
