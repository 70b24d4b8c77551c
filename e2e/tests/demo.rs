//! What a visitor runs first works: `demo` from an empty folder to its last
//! line, and `up` and `down` around a cluster that serves in between.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use leasehold_e2e::cluster::EXTERNAL_ENV;
use leasehold_e2e::kubectl::Kubectl;
use leasehold_e2e::{Result, Step, programs};

fn dev(command: &str, state: &Path) -> Result<(Output, String)> {
    programs::operator()?;
    let output = Command::new(env!("CARGO_BIN_EXE_leasehold-dev"))
        .arg(command)
        .env("LEASEHOLD_STATE", state)
        // Pods run the example service and the operator that lie beside it.
        .env_remove("CARGO")
        .env_remove(EXTERNAL_ENV)
        .stdin(Stdio::null())
        .output()
        .step(|| format!("running leasehold-dev {command}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output, text))
}

fn assert_ok(output: &Output, text: &str) {
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Whatever becomes of the test, nothing is left running.
struct Down(PathBuf);

impl Drop for Down {
    fn drop(&mut self) {
        let _ = dev("down", &self.0);
        let _ = std::fs::remove_file(self.0.with_extension("claim"));
    }
}

fn state(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("leasehold-{name}-{}", std::process::id()))
}

#[test]
fn the_demo_tells_its_story_and_ends() -> Result<()> {
    let (output, text) = dev("demo", &state("demo"))?;
    assert_ok(&output, &text);
    for part in [
        "clusterservices.leasehold.dev created",
        "leads, term 2, after the command",
        "leads, term 3, after the command",
        "leads, term 4, after the command",
        "LeadershipChanged",
        "stale token",
        "in the order of their tokens",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    Ok(())
}

#[test]
fn the_demo_of_partitions_moves_no_more_than_it_must_and_ends() -> Result<()> {
    let (output, text) = dev("demo-partitions", &state("demo-partitions"))?;
    assert_ok(&output, &text);
    let rows = [
        "scale up to 8 pods",
        "scale down to 5 pods",
        "kubectl delete pod",
        "SIGKILL of a process",
        "rollout of the Deployment",
        "64 to 96 partitions",
        "96 to 48 partitions",
    ];
    for row in rows {
        let line = text.lines().find(|line| line.trim().starts_with(row));
        let line = line.unwrap_or_else(|| panic!("{row:?} is missing in\n{text}"));
        let numbers = line.trim().trim_start_matches(row).split_whitespace();
        let numbers: Vec<&str> = numbers.take(2).collect();
        let resized = row.ends_with("partitions");
        assert!(resized || numbers[0] == numbers[1], "{line}");
    }
    assert!(text.contains("What to try next"), "{text}");
    Ok(())
}

#[tokio::test]
async fn up_leaves_a_cluster_that_serves_and_down_ends_all_of_it() -> Result<()> {
    let state = state("up");
    let _down = Down(state.clone());
    let (output, text) = dev("up", &state)?;
    assert_ok(&output, &text);
    let kubeconfig = state.join("kubeconfig");
    assert!(
        text.contains(&format!("export KUBECONFIG={}", kubeconfig.display())),
        "{text}"
    );

    let leader = [
        "get",
        "csvc",
        "orders",
        "-o",
        "jsonpath={.status.leader.pod}",
    ];
    let shown = Kubectl::new(&kubeconfig).run(&leader).await?;
    assert!(shown.starts_with("orders-"), "{shown}");

    let (output, text) = dev("up", &state)?;
    assert_ok(&output, &text);
    assert!(text.starts_with("It is already up (5 processes)"), "{text}");

    let (output, text) = dev("down", &state)?;
    assert_ok(&output, &text);
    assert!(text.starts_with("Ended 5 processes"), "{text}");
    assert!(!state.exists());
    assert!(Kubectl::new(&kubeconfig).run(&leader).await.is_err());

    let (output, text) = dev("down", &state)?;
    assert_ok(&output, &text);
    assert!(text.starts_with("Nothing to end"), "{text}");
    Ok(())
}
