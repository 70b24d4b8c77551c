//! The smallest useful program: elect a leader, work under it, hand over to the next one.
//!
//! `cargo run -p leasehold --example leader` runs in memory, with no cluster, in a moment.
//! In a pod the same program elects through Leases.

use std::error::Error;

use leasehold::{Cluster, LeaseTiming};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let first = Cluster::from_env().await?;
    let second = Cluster::from_env().await?; // as another pod would
    let started = std::time::Instant::now();

    let mut changes = first.leadership_changes("orders")?;
    let service = first
        .service("orders")
        .leader_elected()
        .timing(LeaseTiming::FAST);
    let leading = service.spawn(|leadership| async move {
        println!("first:  leading with token {}", leadership.token());
        leadership.draining().await;
        println!(
            "first:  asked to finish; {:.1?} of trust left",
            leadership.remaining()
        );
    })?;
    let service = second
        .service("orders")
        .leader_elected()
        .timing(LeaseTiming::FAST);
    let waiting = service.spawn(|leadership| async move {
        println!("second: leading with token {}", leadership.token());
        leadership.draining().await;
    })?;

    for step in 0.. {
        let Some(change) = changes.next().await else {
            break;
        };
        println!(
            "        term {}: {} {:?}",
            change.term, change.holder, change.kind
        );
        match step {
            0 => first.shutdown(), // what SIGTERM does
            2 => break,            // resigned, then gained by the other
            _ => {}
        }
    }
    leading.finished().await?;
    second.shutdown();
    waiting.finished().await?;
    println!("handed over in {:.0?}", started.elapsed());
    Ok(())
}
