//! `up` leaves a control plane, the operator and the example running; `down`
//! ends exactly those processes.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::narrator::Narrator;
use super::stage::{Stage, shown};
use super::state::{Running, claim, state_folder};
use crate::error::{Result, Step};
use crate::process::Lifetime;
use crate::{programs, wait};

/// Starts everything, or says that it already runs.
pub async fn up() -> Result<()> {
    let folder = state_folder();
    let _claim = claim(&folder)?;
    let running = Running::load(&folder)?;
    if !running.alive().is_empty() {
        println!(
            "It is already up ({} processes). To start anew: make down up",
            running.alive().len()
        );
        say_how_to_use_it(&folder);
        return Ok(());
    }
    // What a crash or a reboot left.
    remove(&folder)?;
    std::fs::create_dir_all(&folder).step(|| format!("making {}", folder.display()))?;

    let mut narrator = Narrator::new("Leasehold on this machine");
    let stage = Stage::start(
        &mut narrator,
        Some(folder.join("plane")),
        Lifetime::Detached,
    )
    .await?;
    Running::save(&folder, stage.records())?;
    stage.install(&mut narrator).await?;
    stage.start_example(&mut narrator).await?;

    std::fs::copy(stage.plane.admin_kubeconfig(), folder.join("kubeconfig"))
        .step(|| "copying the kubeconfig")?;
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).step(|| format!("making {}", bin.display()))?;
    symlink(programs::control_plane()?, bin.join("kubectl")).step(|| "linking kubectl")?;
    let Stage { node, plane, .. } = stage;
    node.leave_running();
    plane.leave_running();

    narrator.chapter("It is yours");
    narrator.took("ready after", narrator.elapsed());
    say_how_to_use_it(&folder);
    Ok(())
}

/// Ends what `up` left running.
pub fn down() -> Result<()> {
    let folder = state_folder();
    if !folder.exists() {
        println!("Nothing to end: there is no {}", shown(&folder));
        return Ok(());
    }
    let _claim = claim(&folder)?;
    let ended = Running::load(&folder)?.end();
    remove(&folder)?;
    println!("Ended {ended} processes and removed {}", shown(&folder));
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    let remove = || match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    // Dying processes may still write into it; soon there are none.
    wait::blocking(Duration::from_secs(2), || remove().is_ok());
    remove().step(|| format!("removing {}", folder.display()))
}

fn say_how_to_use_it(folder: &Path) {
    println!();
    println!("export KUBECONFIG={}", folder.join("kubeconfig").display());
    if !on_the_path("kubectl") {
        println!("export PATH={}:$PATH", folder.join("bin").display());
    }
    println!();
    println!("Then try:");
    println!("  kubectl get csvc -w");
    println!(
        "  kubectl delete pod \"$(kubectl get csvc orders -o jsonpath={{.status.leader.pod}})\""
    );
    println!("  kubectl get events --field-selector reason=LeadershipChanged");
    println!("  kubectl logs -l app=orders --prefix --tail=5");
    println!("  make down");
}

fn on_the_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
}
