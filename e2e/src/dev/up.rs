//! `up` leaves a control plane, the operator and the example running; `down`
//! ends exactly those processes.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::narrator::Narrator;
use super::stage::{Stage, shown};
use super::state::{Running, claim, state_folder};
use crate::error::{Result, Step};
use crate::process::Lifetime;
use crate::programs;

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
    // Dying processes may still write; a second try meets nobody.
    let mut tries = 0;
    loop {
        tries += 1;
        match std::fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(_) if tries < 20 => std::thread::sleep(std::time::Duration::from_millis(100)),
            Err(error) => return Err(error).step(|| format!("removing {}", folder.display())),
        }
    }
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
