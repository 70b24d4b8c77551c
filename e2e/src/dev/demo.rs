//! The story of `make demo`: a leader is deleted, killed and paused, and each
//! time somebody leads, under a higher term, and nobody acts twice.

use std::time::{Duration, Instant};

use super::leader::Leader;
use super::narrator::Narrator;
use super::stage::{EXAMPLE, NAMESPACE, Stage};
use crate::error::{Error, Result};
use crate::history::{Event, Line};
use crate::ledger::{Ledger, first_stale};
use crate::process::Lifetime;
use crate::wait;

/// Longest wait for any single thing of the story.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// Tells the story from an empty machine to the last line.
pub async fn run() -> Result<()> {
    let mut narrator = Narrator::new("Leasehold: exactly one leader, whatever happens to it");
    let stage = Stage::start(&mut narrator, None, Lifetime::Bound).await?;
    stage.install(&mut narrator).await?;
    let first = stage.start_example(&mut narrator).await?;

    let second = delete(&stage, &mut narrator, &first).await?;
    let third = kill(&stage, &mut narrator, &second).await?;
    pause(&stage, &mut narrator, &third).await?;

    narrator.chapter("What to try next");
    narrator.output(
        "make up        the same, left running, with a kubeconfig for you\n\
         make test      everything proved: simulation, model, and this control plane under faults\n\
         make chaos     five minutes of faults, judged by a separate checker\n\
         README.md      how to write a service on the library\n\
         docs/          what is guaranteed, when, and what is not\n",
    );
    narrator.took("the whole story", narrator.elapsed());
    Ok(())
}

/// A pod that is deleted goes on leading while it drains, then gives back.
async fn delete(stage: &Stage, narrator: &mut Narrator, leader: &Leader) -> Result<Leader> {
    narrator.chapter("The leader is deleted gracefully");
    narrator.say(
        "It finishes its work under the lease and then gives the lease back, \
         so that its successor need not wait for anything to run out.",
    );
    narrator.command(&format!("kubectl delete pod {} --wait=false", leader.pod));
    let since = Instant::now();
    stage
        .kubectl
        .run(&["delete", "pod", &leader.pod, "--wait=false"])
        .await?;
    let (next, time) = stage.leaders.next(leader, since, WAIT_MAX).await?;
    show(stage, narrator, &next, time).await?;
    stage.wait_for_deployment(NAMESPACE, EXAMPLE).await?;
    Ok(next)
}

/// A process that is killed comes back in the same pod, and proves it (E8).
async fn kill(stage: &Stage, narrator: &mut Narrator, leader: &Leader) -> Result<Leader> {
    narrator.chapter("The leading process is killed (SIGKILL)");
    narrator.say(
        "It cannot give anything back. The node restarts the container in place; the new process \
         proves that it runs in the same pod and that the former one is gone, and takes the lease \
         at once, under a new term. Nobody waits for the lease of 15 s to run out.",
    );
    let process = stage.node.container(NAMESPACE, &leader.pod, EXAMPLE)?;
    narrator.command(&format!("kill -KILL {}", process.pid));
    let since = Instant::now();
    process.signal(rustix::process::Signal::KILL)?;
    let (next, time) = stage.leaders.next(leader, since, WAIT_MAX).await?;
    show(stage, narrator, &next, time).await?;
    narrator
        .kubectl(&stage.kubectl, &["get", "pod", &leader.pod])
        .await?;
    Ok(next)
}

/// A process that is paused cannot know that its lease runs out. Its guard
/// fails when it wakes up (E9), and a write that was already under way is
/// refused by its token (`token-travels`).
async fn pause(stage: &Stage, narrator: &mut Narrator, leader: &Leader) -> Result<()> {
    narrator.chapter("The leading process is paused beyond its lease (SIGSTOP)");
    narrator.say(
        "It neither works nor renews, and does not know it. The others take over once the lease \
         stood unchanged for its 15 s.",
    );
    let process = stage.node.container(NAMESPACE, &leader.pod, EXAMPLE)?;
    narrator.command(&format!("kill -STOP {}", process.pid));
    let since = Instant::now();
    process.signal(rustix::process::Signal::STOP)?;
    let (next, time) = stage.leaders.next(leader, since, WAIT_MAX).await?;
    show(stage, narrator, &next, time).await?;

    narrator.say(
        "Now the old leader wakes up, in the belief that it still leads. Its check fails at once; \
         and a write decided before the pause, which arrives only now with the old token, is \
         refused by the ledger.",
    );
    narrator.command(&format!("kill -CONT {}", process.pid));
    process.signal(rustix::process::Signal::CONT)?;
    let refused = wait::until("the refused write", WAIT_MAX, || async {
        let log = stage
            .kubectl
            .run(&["logs", &leader.pod, "--tail=50"])
            .await?;
        let refused = log.lines().rev().find(|line| {
            serde_json::from_str::<Line>(line).is_ok_and(|line| line.event == Event::Refused)
        });
        Ok(refused.map(str::to_owned))
    })
    .await?;
    narrator.command(&format!("kubectl logs {} | grep refused", leader.pod));
    narrator.output(&refused);
    show_ledger(stage, narrator)
}

/// The new leader, as a user sees it.
async fn show(stage: &Stage, narrator: &Narrator, leader: &Leader, time: Duration) -> Result<()> {
    let what = format!(
        "{} leads, term {}, after the command",
        leader.pod, leader.term
    );
    narrator.took(&what, time);
    stage.wait_for_status(leader).await?;
    narrator
        .kubectl(&stage.kubectl, &["get", "csvc", "-o", "wide"])
        .await?;
    let events = [
        "get",
        "events",
        "--field-selector",
        "reason=LeadershipChanged",
        "--sort-by=.eventTime",
    ];
    narrator.command(&format!("kubectl {} | tail -1", events.join(" ")));
    let newest = stage.kubectl.run(&events).await?;
    narrator.output(newest.lines().last().unwrap_or_default());
    Ok(())
}

/// What the guarded store took, over the whole story (`token-travels`).
fn show_ledger(stage: &Stage, narrator: &Narrator) -> Result<()> {
    let entries = Ledger::at(&stage.ledger()).entries()?;
    let mut tokens: Vec<&str> = entries.iter().map(|entry| entry.token.as_str()).collect();
    tokens.dedup();
    if let Some((before, stale)) = first_stale(&entries)? {
        let (token, highest) = (stale.token, before.token);
        return Err(Error::new(format!(
            "the ledger took a write under {token} after {highest}"
        )));
    }
    let writes = entries.iter().filter(|entry| entry.value.is_some()).count();
    narrator.say(&format!(
        "The ledger took {writes} writes, in the order of their tokens: {}.",
        tokens.join(", ")
    ));
    Ok(())
}
