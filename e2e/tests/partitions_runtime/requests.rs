//! What settled pods ask of the API server, from its audit log.

use std::time::Duration;

use leasehold::LeaseTiming;
use leasehold_e2e::audit::Filter;
use leasehold_e2e::{Result, history, wait};

use crate::ground::{Ground, PATIENCE, demand};

/// Counted for so long: six heartbeats of the default preset.
const COUNTED: Duration = Duration::from_secs(30);

/// Renewals of the members and of the leader, and watches that end by themselves; the number of
/// partitions is not in it (`quiet-when-settled`).
pub(crate) async fn settled_pods_only_renew_whatever_the_number_of_partitions(
    ground: &Ground,
) -> Result<()> {
    let cluster = ground.namespace.cluster();
    let Some(plane) = cluster.control_plane_or_skip("counting requests") else {
        return Ok(());
    };
    let cases = [
        ("quiet-3", 3, 1000),
        ("quiet-10", 10, 1000),
        ("quiet-few", 3, 16),
    ];
    let mut crews = Vec::new();
    for (name, pods, count) in cases {
        let crew = ground.crew(name, LeaseTiming::DEFAULT).await?;
        crew.declare(1, count).await?;
        // The API server is what is looked at: few writes, no key in most partitions.
        let env = [
            ("WORKLOAD_WRITE_EVERY_MS", "3000".to_owned()),
            ("WORKLOAD_KEYS", "16".to_owned()),
        ];
        crew.deploy(pods, &env).await?;
        crews.push(crew);
    }
    for (crew, (_, pods, count)) in crews.iter().zip(cases) {
        crew.settled(pods, count, PATIENCE).await?;
    }
    // What was acknowledged with the next renewal has been by now.
    pass(LeaseTiming::DEFAULT.lease_duration()).await?;
    let log = plane.audit_log();
    let mark = log.mark()?;
    let tables: Vec<usize> = crews.iter().map(|crew| crew.tables().all().len()).collect();
    pass(COUNTED).await?;
    for ((crew, (name, pods, count)), before) in crews.iter().zip(cases).zip(tables) {
        let filter = Filter::default().account(ground.namespace.name(), name);
        let counts = log.counts(mark, &filter)?;
        let sum = |verb: &str| -> usize {
            let of_verb = counts.iter().filter(|((found, _), _)| found == verb);
            of_verb.map(|(_, times)| times).sum()
        };
        let seconds = COUNTED.as_secs_f64();
        // One more of each at the edges of the counted time.
        let renewals = (pods as f64 + 1.0) * (seconds / 5.0 + 1.0);
        let watches = 3.0 * pods as f64;
        let updates = sum("update");
        println!(
            "{name}: {pods} pods, {count} partitions: {:.2} requests/s, of them {:.2} renewals/s: {counts:?}",
            counts.values().sum::<usize>() as f64 / seconds,
            updates as f64 / seconds
        );
        demand(updates as f64 <= renewals && updates > 0, || {
            format!("{name}: {updates} updates, at most {renewals} are renewals: {counts:?}")
        })?;
        let others: usize = counts.values().sum::<usize>() - updates;
        demand(others as f64 <= watches && sum("watch") == others, || {
            format!("{name}: not only renewals and watches: {counts:?}")
        })?;
        demand(crew.tables().all().len() == before, || {
            format!("{name}: a table was published while nothing happened")
        })?;
    }
    Ok(())
}

/// Time itself is what is waited for.
async fn pass(time: Duration) -> Result<()> {
    let until = history::now() + u64::try_from(time.as_nanos())?;
    wait::until_true("time to pass", PATIENCE, || async {
        Ok(history::now() >= until)
    })
    .await
}
