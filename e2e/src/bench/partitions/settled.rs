//! What members ask of the API server while nothing happens.

use std::time::Duration;

use jiff::Timestamp;

use super::super::figure::{Report, Samples};
use super::fleet::Fleet;
use crate::TestNamespace;
use crate::audit::Filter;
use crate::error::{Error, Result};

/// Members, partitions, and the most requests per second.
const SETTINGS: [(usize, u16, Option<f64>); 4] = [
    (3, 1000, None),
    (10, 1000, None),
    (10, 64, None),
    (30, 1000, Some(6.5)),
];

/// The counted time is cut into so many parts: their rates are the spread.
const PARTS: u32 = 6;

/// Acknowledgements that ride on a renewal have been written by then.
const QUIET: Duration = Duration::from_secs(20);

/// All settings side by side, counted over the same time.
pub(super) async fn measure(
    namespace: &TestNamespace<'_>,
    length: Duration,
    report: &mut Report,
) -> Result<()> {
    let plane = namespace.cluster().control_plane();
    let log = plane
        .ok_or_else(|| Error::new("requests are counted in our own audit log"))?
        .audit_log();
    let mut fleets = Vec::new();
    for (members, count, goal) in SETTINGS {
        let name = format!("{members}x{count}");
        let fleet = Fleet::start(namespace, &format!("settled-{name}"), members, count).await?;
        fleets.push((name, fleet, goal));
    }
    tokio::time::sleep(QUIET).await;
    let mark = log.mark()?;
    let from = Timestamp::now();
    tokio::time::sleep(length).await;
    for (name, fleet, goal) in &fleets {
        let ours = Filter::default()
            .account(namespace.name(), fleet.account())
            .from(from);
        let part = length / PARTS;
        let mut counts = vec![0_u32; usize::try_from(PARTS)?];
        for request in log.since(mark, &ours)? {
            let at = request.received.duration_since(from).unsigned_abs();
            let index = usize::try_from(at.as_millis() / part.as_millis().max(1))?;
            // What came after the span is not counted.
            if let Some(count) = counts.get_mut(index) {
                *count += 1;
            }
        }
        let mut rates = Samples::default();
        for count in counts {
            rates.push(f64::from(count) / part.as_secs_f64());
        }
        let metric = format!("settled_requests_per_s_{name}");
        report.median(&metric, "requests/s", &rates, &Samples::default(), *goal)?;
    }
    Ok(())
}
