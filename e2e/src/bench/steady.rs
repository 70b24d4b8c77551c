//! What an election costs while nothing happens: requests per second from the
//! audit log, and resident memory of a candidate.

use std::time::Duration;

use jiff::Timestamp;

use super::candidate::{Candidate, Ground, Kind, first_to_lead};
use super::figure::{Report, Samples};
use crate::TestNamespace;
use crate::audit::{AuditLog, Filter, Mark};
use crate::error::{Error, Result};

/// 300 client-go electors need a while until each lease has its leader.
const LED_WITHIN: Duration = Duration::from_mins(2);

/// One line of the table: so many leases, so many processes.
struct Setting {
    name: &'static str,
    leases: usize,
    processes: usize,
    goal: Option<f64>,
}

const SETTINGS: [Setting; 4] = [
    Setting {
        name: "1",
        leases: 1,
        processes: 1,
        goal: None,
    },
    Setting {
        name: "3",
        leases: 1,
        processes: 3,
        goal: Some(0.25),
    },
    Setting {
        name: "10",
        leases: 1,
        processes: 10,
        goal: None,
    },
    Setting {
        name: "100x3",
        leases: 100,
        processes: 3,
        goal: Some(25.0),
    },
];

struct Running {
    ground: Ground,
    candidates: Vec<Candidate>,
}

async fn start(namespace: &TestNamespace<'_>, setting: &Setting, kind: Kind) -> Result<Running> {
    let name = format!("steady-{}", setting.name);
    let ids: Vec<String> = (0..setting.leases)
        .map(|number| format!("{name}-{}-{number}", kind.name()))
        .collect();
    let ground = Ground::new(namespace, kind, &name, ids.clone()).await?;
    let mut candidates = Vec::new();
    for number in 0..setting.processes {
        candidates.push(ground.start(&format!("{name}-{}-{number}", kind.name()))?);
    }
    for id in &ids {
        first_to_lead(&candidates, id, 0, LED_WITHIN).await?;
    }
    Ok(Running { ground, candidates })
}

/// All settings side by side, counted over the same span of time.
pub(super) async fn measure(
    namespace: &TestNamespace<'_>,
    length: Duration,
    report: &mut Report,
) -> Result<()> {
    let plane = namespace.cluster().control_plane();
    let log = plane
        .ok_or_else(|| Error::new("requests are counted in our own audit log"))?
        .audit_log();
    let mut all = Vec::new();
    for setting in &SETTINGS {
        let ours = start(namespace, setting, Kind::Ours).await?;
        let peer = start(namespace, setting, Kind::ClientGo).await?;
        all.push((setting, ours, peer));
    }
    // Past the first heartbeats and everybody's first lists.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mark = log.mark()?;
    let from = Timestamp::now();
    tokio::time::sleep(length).await;

    for (setting, ours, peer) in &all {
        let rate = |running: &Running| per_second(&log, mark, running, from, length);
        let metric = format!("steady_requests_per_s_{}", setting.name);
        report.median(
            &metric,
            "requests/s",
            &rate(ours)?,
            &rate(peer)?,
            setting.goal,
        )?;
    }
    let (mut ours, mut peer) = (Samples::default(), Samples::default());
    for (_, our, their) in all.iter().filter(|(setting, _, _)| setting.leases == 1) {
        for candidate in &our.candidates {
            ours.push(candidate.resident_mib()?);
        }
        for candidate in &their.candidates {
            peer.push(candidate.resident_mib()?);
        }
    }
    report.largest("candidate_rss_mib", "MiB", &ours, &peer, Some(15.0))
}

/// Parts of the counted span: their rates are the spread. Each holds whole heartbeats of ours.
const PARTS: u32 = 6;

/// Requests per second of one setting, one sample for each part of the span.
fn per_second(
    log: &AuditLog,
    mark: Mark,
    running: &Running,
    from: Timestamp,
    length: Duration,
) -> Result<Samples> {
    let filter = Filter::default()
        .account(running.ground.namespace(), running.ground.account())
        .from(from);
    let part = length / PARTS;
    let mut counts = vec![0_u32; usize::try_from(PARTS)?];
    for request in log.since(mark, &filter)? {
        let at = request.received.duration_since(from).unsigned_abs();
        let index = usize::try_from(at.as_millis() / part.as_millis().max(1))?;
        // What came after the span is not counted.
        if let Some(count) = counts.get_mut(index) {
            *count += 1;
        }
    }
    let mut samples = Samples::default();
    for count in counts {
        samples.push(f64::from(count) / part.as_secs_f64());
    }
    Ok(samples)
}
