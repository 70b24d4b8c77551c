//! A minute of chaos for a partitioned service, on a control plane of its own;
//! `make chaos` runs longer.

use std::time::Duration;

use leasehold_core::lease::LeaseTiming;
use leasehold_e2e::chaos::partitions::deck::Length;
use leasehold_e2e::chaos::partitions::{Options, run};
use leasehold_e2e::cluster::EXTERNAL_ENV;
use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::history;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_chaos_leaves_every_partition_with_one_owner() -> Result<()> {
    if std::env::var_os(EXTERNAL_ENV).is_some() {
        println!(
            "skipped: chaos pauses and restarts a control plane of its own, and {EXTERNAL_ENV} is set"
        );
        return Ok(());
    }
    let seed = match std::env::var("LEASEHOLD_CHAOS_SEED") {
        Ok(text) => text.parse()?,
        Err(_) => history::now() % 1_000_000,
    };
    println!("LEASEHOLD_CHAOS_SEED={seed} gives the same order of disturbances again");
    let options = Options {
        seed,
        length: Duration::from_secs(50), // a minute with start and end
        deck: Length::Short,
        pods: 8,
        count: 128,
        timing: LeaseTiming::FAST,
        unfenced: false,
        grace: Duration::from_secs(10), // the machine runs the other tests meanwhile
        keep: None,
    };
    let outcome = run(&options).await?;
    println!("{outcome}");
    if outcome.is_good_with_late_pods() {
        Ok(())
    } else {
        Err(Error::new(format!("seed {seed}:\n{outcome}")))
    }
}
