//! The story of `make demo-partitions`: pods that share the partitions of a
//! service come, go, die and are replaced, the number of partitions changes, and
//! each time every partition has exactly one owner again.

use std::time::Duration;

use leasehold_core::lease::LeaseTiming;

use super::narrator::Narrator;
use super::stage::{NAMESPACE, Stage};
use crate::control_plane::kubeconfig;
use crate::error::{Error, Result};
use crate::partitions::crew::{Crew, Figures, Mark, Place};
use crate::process::Lifetime;

/// Longest wait for everything to be settled again after one step.
const SETTLED_MAX: Duration = Duration::from_mins(2);

/// The cluster id, ClusterService, Deployment and container of the story.
const NAME: &str = "orders";

/// Each partition writes one of its keys so often.
const WRITE_EVERY_MS: u64 = 250;

/// No crash may leave a partition without an owner for longer than D and this.
const BEYOND: Duration = Duration::from_secs(2);

/// Tells the story from an empty machine to the last line.
pub async fn run() -> Result<()> {
    let mut narrator =
        Narrator::new("Leasehold: every partition has exactly one owner, whatever happens");
    let stage = Stage::start(&mut narrator, None, Lifetime::Bound).await?;
    stage.install(&mut narrator).await?;
    let mut story = Story::begin(&stage, &mut narrator).await?;
    story.tell().await?;
    let crew = story.crew;

    let timing = LeaseTiming::DEFAULT;
    let judgement = crew.judge(&crew.demands(timing.lease_duration() + BEYOND))?;
    narrator.chapter("The judgement of the checker on everything that was written down");
    narrator.output(&judgement.to_string());
    if !judgement.is_good() {
        return Err(Error::new(format!(
            "a guarantee was broken; histories are in {}",
            crew.folder().display()
        )));
    }
    narrator.chapter("What to try next");
    narrator.output(
        "make demo            one leader instead of partitions: deleted, killed, paused\n\
         make chaos           minutes of faults, judged by the same checker\n\
         make bench-partitions  how few moves, how short handoffs, how few requests\n\
         cargo run -p leasehold --example partitioned_worker\n\
         docs/wire-format.md  how a key becomes a partition, in any language\n",
    );
    narrator.took("the whole story", narrator.elapsed());
    Ok(())
}

struct Story<'a> {
    narrator: &'a mut Narrator,
    crew: Crew,
    pods: usize,
    count: u16,
    generation: i64,
}

impl<'a> Story<'a> {
    async fn begin(stage: &Stage, narrator: &'a mut Narrator) -> Result<Self> {
        let (pods, count) = (6, 64);
        narrator.chapter("Six pods of a service that is declared with 64 partitions");
        narrator.say(
            "Each partition counts up its keys in a guarded store, four times a second, under its \
             fencing token. The store refuses lower tokens, and all of it is judged at the end.",
        );
        let admin = stage.plane.admin_kubeconfig();
        let place = Place {
            name: NAME.to_owned(),
            namespace: NAMESPACE.to_owned(),
            folder: stage.plane.path().join("partitions"),
            admin: admin.clone(),
            timing: LeaseTiming::DEFAULT,
            with_servers: false,
        };
        let client = kubeconfig::client(&admin).await?;
        let crew = Crew::prepare(place, client, &stage.node).await?;
        let mut story = Self {
            narrator,
            crew,
            pods,
            count,
            generation: 0,
        };
        story.declare().await?;
        let mark = story.crew.mark();
        let env = [("WORKLOAD_WRITE_EVERY_MS", WRITE_EVERY_MS.to_string())];
        story.crew.deploy(pods, &env).await?;
        let figures = story.settle(mark).await?;
        story
            .narrator
            .took("every partition has its owner", figures.took);
        story.show().await?;
        Ok(story)
    }

    async fn tell(&mut self) -> Result<()> {
        self.narrator
            .chapter("What is done to them, and what it costs");
        self.narrator.output(&head());
        self.step("scale up to 8 pods", Act::Scale(8)).await?;
        self.step("scale down to 5 pods", Act::Scale(5)).await?;
        self.step("kubectl delete pod", Act::Delete).await?;
        self.step("SIGKILL of a process", Act::Kill).await?;
        self.step("rollout of the Deployment", Act::Rollout).await?;
        self.step("64 to 96 partitions", Act::Resize(96)).await?;
        self.step("96 to 48 partitions", Act::Resize(48)).await?;
        self.show().await
    }

    /// Does one thing, waits until all is settled, and says in one line what it cost.
    async fn step(&mut self, what: &str, act: Act) -> Result<()> {
        let mark = self.crew.mark();
        match act {
            Act::Scale(pods) => {
                self.pods = pods;
                let replicas = format!("--replicas={pods}");
                self.kubectl(&["scale", "deployment", NAME, &replicas])
                    .await?;
            }
            Act::Delete => {
                let pod = self.a_pod().await?;
                self.kubectl(&["delete", "pod", &pod, "--wait=false"])
                    .await?;
            }
            Act::Kill => self.crew.kill(&self.a_pod().await?)?,
            Act::Rollout => {
                self.kubectl(&["rollout", "restart", "deployment", NAME])
                    .await?;
                let status = ["rollout", "status", "deployment", NAME, "--timeout=120s"];
                self.kubectl(&status).await?;
            }
            Act::Resize(count) => {
                self.count = count;
                self.declare().await?;
            }
        }
        let figures = self.settle(mark).await?;
        let broken = self.crew.broken()?;
        self.narrator.output(&row(what, &figures, broken.len()));
        if !broken.is_empty() {
            let judgement = self.crew.judge(&self.crew.demands(Duration::MAX))?;
            return Err(Error::new(format!("{what}: {judgement}")));
        }
        Ok(())
    }

    async fn settle(&self, mark: Mark) -> Result<Figures> {
        let settled = self
            .crew
            .figures(mark, self.pods, self.count, SETTLED_MAX)
            .await;
        match settled {
            Ok(figures) => Ok(figures),
            Err(error) => {
                let kubectl = self.crew.kubectl();
                let pods = kubectl.run(&["get", "pods,leases", "-o", "wide"]).await;
                let log = ["logs", "-l", "app=orders", "--prefix", "--tail=5"];
                let log = kubectl.run(&log).await.unwrap_or_default();
                Err(Error::new(format!(
                    "{error}\n{}\n{log}",
                    pods.unwrap_or_default()
                )))
            }
        }
    }

    /// One that does not plan: its death is the usual one.
    async fn a_pod(&self) -> Result<String> {
        let leader = self.crew.leader().await?;
        let mut pods = self.crew.names().await?.into_iter();
        pods.find(|pod| Some(pod) != leader.as_ref())
            .ok_or_else(|| Error::new("there is no pod that does not lead"))
    }

    async fn declare(&mut self) -> Result<()> {
        self.generation += 1;
        let count = self.count;
        if self.generation == 1 {
            let service = format!(
                "apiVersion: leasehold.dev/v1alpha1\nkind: ClusterService\nmetadata:\n  \
                 name: {NAME}\nspec:\n  clusterScope: cluster\n  leaderStrategy: partitioned\n  \
                 partitions: {count}\n"
            );
            self.narrator.output(&service);
            let apply = ["apply", "-f", "-"];
            let kubectl = self.crew.kubectl();
            return kubectl.run_with_input(&apply, &service).await.map(|_| ());
        }
        let patch = format!("{{\"spec\":{{\"partitions\":{count}}}}}");
        self.kubectl(&["patch", "csvc", NAME, "--type=merge", "-p", &patch])
            .await
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        self.crew.kubectl().run(arguments).await.map(|_| ())
    }

    async fn show(&self) -> Result<()> {
        self.narrator
            .kubectl(self.crew.kubectl(), &["get", "csvc"])
            .await
    }
}

#[derive(Clone, Copy)]
enum Act {
    Scale(usize),
    Delete,
    Kill,
    Rollout,
    Resize(u16),
}

fn head() -> String {
    format!(
        "{:<28} {:>7} {:>7} {:>9} {:>12} {:>9}",
        "", "moves", "least", "unowned", "violations", "settled"
    )
}

fn row(what: &str, figures: &Figures, violations: usize) -> String {
    format!(
        "{what:<28} {:>7} {:>7} {:>7.2} s {:>12} {:>7.1} s",
        figures.moves.made,
        figures.moves.least,
        figures.unowned_max.as_secs_f64(),
        violations,
        figures.took.as_secs_f64()
    )
}
