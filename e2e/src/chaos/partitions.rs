//! Chaos for a partitioned service: pods that write under their keys into our
//! ledger, a Postgres and a Redis, a seeded order of disturbances, and the
//! judgement of the checker on all of it.

pub mod deck;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::lease::LeaseTiming;
use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cluster::EXTERNAL_ENV;
use crate::control_plane::ControlPlane;
use crate::error::{Error, Result, Step};
use crate::history::{Event, Fault, Line};
use crate::partitions::check::Judgement;
use crate::partitions::crew::{Crew, Figures, Place};
use crate::process::ProcessRecord;
use crate::{Cluster, Component, ProcessNode, TestNamespace};
use deck::{Deck, Disturbance, Length};

/// The cluster id of the run.
const SERVICE: &str = "chaos-partitions";
/// If it takes so long until everything is settled, it never will be.
const STUCK: Duration = Duration::from_mins(4);
/// A pause lasts this much longer than the lease.
const BEYOND: Duration = Duration::from_secs(4);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The same seed gives the same order of disturbances.
    pub seed: u64,
    /// How long to disturb.
    pub length: Duration,
    /// Which disturbances are in the deck.
    pub deck: Length,
    /// How many pods there are at first.
    pub pods: usize,
    /// How many partitions there are at first.
    pub count: u16,
    /// The timing of the leases.
    pub timing: LeaseTiming,
    /// Write without fences: the checker must find it.
    pub unfenced: bool,
    /// No crash may cost more than D and this.
    pub grace: Duration,
    /// Keep histories here; else they go unless the run is broken.
    pub keep: Option<PathBuf>,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    /// How often each disturbance was done.
    pub done: Vec<(&'static str, usize)>,
    /// Moves of the planned changes, and how few they would have needed.
    pub moves: (usize, usize),
    /// How few their tables would have needed, each for the pods that it knew.
    pub least_of_each: usize,
    /// The checker's word.
    pub judgement: Judgement,
}

impl Outcome {
    /// Whether no guarantee was broken and planned changes moved no more than they had to.
    pub fn is_good(&self) -> bool {
        self.is_good_with_late_pods() && self.moves.0 <= self.moves.1
    }

    /// The same where pods may start so late, on a machine that does other things, that a leaver's
    /// share is spread before its newcomer is there: no table moved more than it had to.
    pub fn is_good_with_late_pods(&self) -> bool {
        self.judgement.is_good() && self.moves.0 <= self.least_of_each
    }
}

/// Disturbs for as long as asked, and has the histories judged.
pub async fn run(options: &Options) -> Result<Outcome> {
    let mut stage = Stage::set(options).await?;
    let mut deck = Deck::new(options.seed, options.deck, options.pods, options.count);
    let ends = Instant::now() + options.length;
    let (mut moves, mut least_of_each) = ((0, 0), 0);
    while Instant::now() < ends {
        let disturbance = deck.deal();
        let at = stage.started.elapsed().as_secs_f64();
        let figures = stage
            .disturb(&disturbance)
            .await
            .step(|| format!("{at:.1} s, disturbance: {disturbance}"))?;
        println!(
            "{at:>7.1} s  {:<44} {}",
            disturbance.to_string(),
            Row(&figures)
        );
        if disturbance.is_planned() {
            moves.0 += figures.moves.made;
            moves.1 += figures.moves.least;
            least_of_each += figures.least_of_each;
        }
    }
    stage.wake_all().await;
    stage.settled().await.step(|| "at the end")?;
    stage.crew.stop().await?;
    let longest = options.timing.lease_duration() + options.grace;
    let outcome = Outcome {
        done: deck.counts(),
        moves,
        least_of_each,
        judgement: stage.crew.judge_all(&stage.crew.demands(longest)).await?,
    };
    if options.keep.is_some() || !outcome.is_good() {
        println!("histories are kept in {}", stage.crew.folder().display());
    }
    if outcome.is_good() {
        stage.namespace.finish().await?;
    }
    Ok(outcome)
}

struct Stage {
    crew: Crew,
    /// Whoever is paused, until woken.
    paused: JoinSet<ProcessRecord>,
    namespace: TestNamespace<'static>,
    plane: &'static ControlPlane,
    _node: std::sync::Arc<ProcessNode>,
    timing: LeaseTiming,
    started: Instant,
    pods: usize,
    count: u16,
    generation: i64,
    /// Makes the reason of every outage its own.
    outages: usize,
}

impl Stage {
    async fn set(options: &Options) -> Result<Self> {
        crate::programs::workload()?;
        let cluster = Cluster::shared().await?;
        let plane = cluster.control_plane().ok_or_else(|| {
            Error::new(format!(
                "{EXTERNAL_ENV} is set, but chaos pauses and restarts a control plane of its own"
            ))
        })?;
        let namespace = TestNamespace::new(SERVICE).await?;
        let node = cluster.node().await?;
        let folder = options.keep.clone();
        let place = Place {
            name: SERVICE.to_owned(),
            namespace: namespace.name().to_owned(),
            folder: folder.unwrap_or_else(|| cluster.folder().join(SERVICE)),
            admin: cluster.admin_kubeconfig(),
            timing: options.timing,
            with_servers: true,
        };
        let mut stage = Self {
            crew: Crew::prepare(place, namespace.client(), &node).await?,
            paused: JoinSet::new(),
            namespace,
            plane,
            _node: node,
            timing: options.timing,
            started: Instant::now(),
            pods: options.pods,
            count: options.count,
            generation: 0,
            outages: 0,
        };
        stage.declare().await?;
        let env = [
            ("WORKLOAD_WRITE_EVERY_MS", "250".to_owned()),
            ("WORKLOAD_UNFENCED", options.unfenced.to_string()),
        ];
        stage.crew.deploy(options.pods, &env).await?;
        stage.settled().await.step(|| "at the beginning")?;
        Ok(stage)
    }

    async fn settled(&self) -> Result<()> {
        self.crew.settled(self.pods, self.count, STUCK).await
    }

    async fn declare(&mut self) -> Result<()> {
        self.generation += 1;
        self.crew.declare(self.generation, self.count).await
    }

    /// Does one thing, and says what it cost once everything is settled again.
    async fn disturb(&mut self, disturbance: &Disturbance) -> Result<Figures> {
        let mark = self.crew.mark();
        match *disturbance {
            Disturbance::KillPod(draw) => self.crew.kill(&self.a_pod(draw).await?)?,
            Disturbance::KillLeader => self.crew.kill(&self.leader().await?)?,
            Disturbance::DeletePod(draw) => {
                let pod = self.a_pod(draw).await?;
                self.kubectl(&["delete", "pod", &pod, "--wait=false"])
                    .await?;
            }
            Disturbance::PausePod(draw) => self.pause(&self.a_pod(draw).await?).await?,
            Disturbance::PauseLeader => self.pause(&self.leader().await?).await?,
            Disturbance::Scale(pods) => {
                self.pods = pods;
                let replicas = format!("--replicas={pods}");
                self.kubectl(&["scale", "deployment", SERVICE, &replicas])
                    .await?;
            }
            Disturbance::Rollout => {
                self.kubectl(&["rollout", "restart", "deployment", SERVICE])
                    .await?;
                let status = ["rollout", "status", "deployment", SERVICE, "--timeout=180s"];
                self.kubectl(&status).await?;
            }
            Disturbance::Resize(count) => {
                self.count = count;
                self.declare().await?;
            }
            Disturbance::RestartApiserver => {
                let outage = self.outage("API server restarted")?;
                self.plane.restart(Component::Apiserver).await?;
                self.outage_ended(&outage)?;
            }
            Disturbance::Freeze(component, time) => {
                let outage = self.outage(&format!("{component} paused"))?;
                self.plane.pause(component)?;
                tokio::time::sleep(time).await;
                self.plane.resume(component)?;
                self.outage_ended(&outage)?;
            }
            // No outage: who owns what is none of its business.
            Disturbance::FreezePostgres(time) => {
                let postgres = self.crew.stores().postgres();
                let postgres = postgres.ok_or_else(|| Error::new("there is no Postgres"))?;
                postgres.pause()?;
                tokio::time::sleep(time).await;
                postgres.resume();
            }
        }
        self.crew.figures(mark, self.pods, self.count, STUCK).await
    }

    /// Beyond its lease; it is replaced meanwhile, and wakes up when others own its share.
    async fn pause(&mut self, pod: &str) -> Result<()> {
        let record = self.crew.pause(pod)?;
        let time = self.timing.lease_duration() + BEYOND;
        self.paused.spawn(async move {
            tokio::time::sleep(time).await;
            // It may have been killed where it stood.
            let _ = record.signal(Signal::CONT);
            record
        });
        self.wake_all().await;
        Ok(())
    }

    async fn wake_all(&mut self) {
        while self.paused.join_next().await.is_some() {}
    }

    async fn leader(&self) -> Result<String> {
        let leader = crate::wait::until("a leader", STUCK, || self.crew.leader());
        leader.await
    }

    /// Some pod that does not lead.
    async fn a_pod(&self, draw: usize) -> Result<String> {
        let leader = self.crew.leader().await?;
        let mut pods = self.crew.names().await?;
        pods.retain(|pod| Some(pod) != leader.as_ref());
        let index = draw.checked_rem(pods.len());
        let pod = index.and_then(|index| pods.get(index).cloned());
        pod.ok_or_else(|| Error::new("there is no pod that does not lead"))
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        self.crew.kubectl().run(arguments).await.map(|_| ())
    }

    fn outage(&mut self, what: &str) -> Result<String> {
        self.outages += 1;
        let reason = format!("{what} ({})", self.outages);
        self.crew.note(Line {
            fault: Some(Fault::Outage),
            reason: reason.clone(),
            ..Line::new(Event::Fault)
        })?;
        Ok(reason)
    }

    fn outage_ended(&self, reason: &str) -> Result<()> {
        self.crew.note(Line {
            fault: Some(Fault::Outage),
            reason: reason.to_owned(),
            ..Line::new(Event::FaultEnded)
        })
    }
}

struct Row<'a>(&'a Figures);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures {
            moves,
            unowned_max,
            took,
            ..
        } = self.0;
        write!(
            f,
            "moves {:>4}, least {:>4}, unowned {:>6.2} s, settled after {:>5.1} s",
            moves.made,
            moves.least,
            unowned_max.as_secs_f64(),
            took.as_secs_f64()
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.done {
            writeln!(f, "  {kind:<42} {count:>10}")?;
        }
        let (made, least) = self.moves;
        writeln!(f, "  {:<42} {made:>10}", "moves of planned changes")?;
        writeln!(f, "  {:<42} {least:>10}", "least possible moves of those")?;
        let each = self.least_of_each;
        writeln!(
            f,
            "  {:<42} {each:>10}",
            "least possible moves of each table"
        )?;
        write!(f, "{}", self.judgement)
    }
}
