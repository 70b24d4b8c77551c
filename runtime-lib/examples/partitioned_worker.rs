//! Partitions handed from one process to the next: each is worked on by one at a time.
//!
//! `cargo run -p leasehold --example partitioned_worker` runs in memory, with no cluster, in a few
//! seconds. In a pod the same worker shares the partitions through Leases.

use std::error::Error;

use leasehold::{
    AssignmentKind, Assignments, Cluster, LeaseTiming, PartitionGuard, PartitionedHandle,
};

const PARTITIONS: u16 = 8;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let first = cluster("worker-1").await?;
    let started = std::time::Instant::now();
    let a = start(&first)?;
    let mut of_a = a.assignments();
    count(&mut of_a, AssignmentKind::Assigned, PARTITIONS).await;
    println!(
        "{:.1?}: worker-1 has all {PARTITIONS} partitions",
        started.elapsed()
    );
    println!(
        "       order-17 belongs to partition {}",
        a.partition_for("order-17")
    );

    let second = cluster("worker-2").await?; // as another pod would
    let b = start(&second)?;
    let mut of_b = b.assignments();
    count(&mut of_b, AssignmentKind::Assigned, PARTITIONS / 2).await;
    println!("{:.1?}: worker-2 has half of them", started.elapsed());

    first.shutdown(); // what SIGTERM does
    count(&mut of_b, AssignmentKind::Assigned, PARTITIONS / 2).await;
    println!(
        "{:.1?}: worker-2 has all of them, worker-1 goes",
        started.elapsed()
    );
    a.finished().await?;
    second.shutdown();
    b.finished().await?;
    Ok(())
}

/// A process of its own name; a pod has one by itself.
async fn cluster(name: &str) -> Result<Cluster, Box<dyn Error>> {
    let variables = std::env::vars().chain([("LEASEHOLD_NODE_ID".to_owned(), name.to_owned())]);
    Ok(Cluster::builder().environment(variables).build().await?)
}

fn start(cluster: &Cluster) -> Result<PartitionedHandle, Box<dyn Error>> {
    let service = cluster.service("orders").timing(LeaseTiming::FAST);
    let name = cluster.node_id().to_owned();
    let service = service.partitioned().partitions(PARTITIONS);
    Ok(service.spawn(move |partition| work(name.clone(), partition))?)
}

/// The work of one partition, in one process at a time.
async fn work(name: String, partition: PartitionGuard) {
    let (number, token) = (partition.partition(), partition.token());
    println!("       {name} works on partition {number} with token {token}");
    // Every write to what belongs to this partition carries the token, and is refused if the
    // store has seen a higher one.
    partition.draining().await;
    // Finish what is in flight: the next owner starts when this returns.
}

async fn count(assignments: &mut Assignments, kind: AssignmentKind, count: u16) {
    let mut seen = 0;
    while seen < count {
        match assignments.next().await {
            Some(change) => seen += u16::from(change.kind == kind),
            None => return,
        }
    }
}
