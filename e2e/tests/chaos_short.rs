//! A minute of chaos on a control plane of its own; `make chaos` runs longer.

use std::time::Duration;

use leasehold_core::lease::LeaseTiming;
use leasehold_e2e::chaos::deck::Length;
use leasehold_e2e::chaos::{Options, run};
use leasehold_e2e::cluster::EXTERNAL_ENV;
use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::history;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_chaos_breaks_no_guarantee() -> Result<()> {
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
        length: Duration::from_mins(1),
        deck: Length::Short,
        processes: 5,
        timing: LeaseTiming::FAST,
        keep: None,
    };
    let outcome = run(&options).await?;
    println!("{outcome}");
    if outcome.judgement.is_good() {
        Ok(())
    } else {
        Err(Error::new(format!("seed {seed}:\n{outcome}")))
    }
}
