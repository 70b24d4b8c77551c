//! From the signal to the old leader to the first instant of the new one.

use std::time::Duration;

use super::candidate::{Candidate, Ground, Kind, first_to_lead};
use super::figure::{Report, Samples};
use crate::audit::Filter;
use crate::error::{Error, Result};
use crate::{TestNamespace, history};

/// client-go's worst graceful failover is 4.4 s, its worst crash 23 s.
const WITHIN: Duration = Duration::from_secs(40);

fn seconds(from: u64, to: u64) -> f64 {
    Duration::from_nanos(to.saturating_sub(from)).as_secs_f64()
}

/// One lease, one leader, `followers` more processes; the leader gets SIGTERM,
/// and a new process takes its place in the crew after each trial.
struct Crew {
    ground: Ground,
    id: String,
    candidates: Vec<Candidate>,
    leader: usize,
    started: usize,
    took: Samples,
    requests: Samples,
}

impl Crew {
    async fn hire(namespace: &TestNamespace<'_>, kind: Kind, followers: usize) -> Result<Self> {
        let id = format!("graceful-{followers}-{}", kind.name());
        let ground = Ground::new(namespace, kind, "graceful", vec![id.clone()]).await?;
        let mut candidates = Vec::new();
        for number in 0..=followers {
            candidates.push(ground.start(&format!("{}-{number}", kind.name()))?);
        }
        for candidate in &candidates {
            candidate.campaigns().await?;
        }
        let (leader, _) = first_to_lead(&candidates, &id, 0, WITHIN).await?;
        let started = candidates.len();
        let (took, requests) = (Samples::default(), Samples::default());
        Ok(Self {
            ground,
            id,
            candidates,
            leader,
            started,
            took,
            requests,
        })
    }

    async fn trial(&mut self, namespace: &TestNamespace<'_>) -> Result<()> {
        let log = namespace
            .cluster()
            .control_plane()
            .map(crate::ControlPlane::audit_log);
        let mark = log.as_ref().map(crate::audit::AuditLog::mark).transpose()?;
        let asked = history::now();
        let old = self.candidates.remove(self.leader);
        old.terminate()?;
        let (leader, at) = first_to_lead(&self.candidates, &self.id, asked, WITHIN).await?;
        self.took.push(seconds(asked, at));
        if let (Some(log), Some(mark)) = (log, mark) {
            let ours = Filter::default()
                .account(self.ground.namespace(), self.ground.account())
                .verbs(&["get", "list", "create", "update", "patch"]);
            let counted = log.since(mark, &ours)?.len();
            self.requests.push(counted as f64);
        }
        old.process().stop(Duration::from_secs(10));
        self.leader = leader;
        let next = self
            .ground
            .start(&format!("{}-{}", self.ground.account(), self.started))?;
        next.campaigns().await?;
        self.started += 1;
        self.candidates.push(next);
        // A follower that has just started must have seen the lease held, and the next trial must
        // not meet all retry loops in the same phase.
        let settle = 1_000 + u64::try_from(self.started * 377 % 1_000).unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(settle)).await;
        Ok(())
    }
}

/// The leader is asked to go.
pub(super) async fn graceful(
    namespace: &TestNamespace<'_>,
    name: &str,
    followers: usize,
    trials: usize,
    report: &mut Report,
) -> Result<()> {
    let mut ours = Crew::hire(namespace, Kind::Ours, followers).await?;
    let mut peer = Crew::hire(namespace, Kind::ClientGo, followers).await?;
    for _ in 0..trials {
        ours.trial(namespace).await?;
        peer.trial(namespace).await?;
    }
    report.median(
        &format!("{name}_p50_s"),
        "s",
        &ours.took,
        &peer.took,
        Some(0.1),
    )?;
    report.largest(&format!("{name}_max_s"), "s", &ours.took, &peer.took, None)?;
    let requests = format!("{name}_requests");
    report.median(&requests, "requests", &ours.requests, &peer.requests, None)
}

/// One pair of processes on a lease of its own.
struct Pair {
    id: String,
    /// The leader is the first.
    candidates: Vec<Candidate>,
}

impl Pair {
    async fn start(namespace: &TestNamespace<'_>, kind: Kind, number: usize) -> Result<Self> {
        let id = format!("crash-{}-{number}", kind.name());
        let ground = Ground::new(
            namespace,
            kind,
            &format!("crash-{number}"),
            vec![id.clone()],
        )
        .await?;
        let leader = ground.start(&format!("{id}-a"))?;
        first_to_lead(std::slice::from_ref(&leader), &id, 0, WITHIN).await?;
        let follower = ground.start(&format!("{id}-b"))?;
        follower.campaigns().await?;
        Ok(Self {
            id,
            candidates: vec![leader, follower],
        })
    }

    /// Kills the leader at a phase of its own and waits for the follower.
    async fn trial(&self, phase: Duration) -> Result<f64> {
        tokio::time::sleep(phase).await;
        let [leader, follower] = &self.candidates[..] else {
            return Err(Error::new("a pair is two candidates"));
        };
        let killed = history::now();
        leader.process().kill();
        let (_, at) =
            first_to_lead(std::slice::from_ref(follower), &self.id, killed, WITHIN).await?;
        Ok(seconds(killed, at))
    }
}

/// The leader is killed; 15 s leases on both sides, all trials in parallel.
pub(super) async fn crash(
    namespace: &TestNamespace<'_>,
    trials: usize,
    report: &mut Report,
) -> Result<()> {
    let mut pairs = Vec::new();
    for number in 0..trials {
        for kind in Kind::BOTH {
            pairs.push((kind, Pair::start(namespace, kind, number).await?));
        }
    }
    // Phases cover ten seconds evenly: two heartbeats of ours, five renewals of client-go.
    let step = Duration::from_secs(10) / u32::try_from(pairs.len()).unwrap_or(1).max(1);
    let running = pairs
        .iter()
        .zip(0_u32..)
        .map(|((kind, pair), number)| async move {
            let phase = Duration::from_secs(2) + step * number;
            pair.trial(phase).await.map(|took| (*kind, took))
        });
    let (mut ours, mut peer) = (Samples::default(), Samples::default());
    for result in futures::future::join_all(running).await {
        match result? {
            (Kind::Ours, took) => ours.push(took),
            (Kind::ClientGo, took) => peer.push(took),
        }
    }
    report.median("crash_failover_p50_s", "s", &ours, &peer, Some(13.0))?;
    report.largest("crash_failover_max_s", "s", &ours, &peer, Some(16.0))
}
