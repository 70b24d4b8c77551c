//! Everything at once, by chance, in virtual time: whatever happens, a partition has one owner.
//!
//! A failure names its seed; `STORM_SEED=<seed>` runs that one alone.

#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

use std::sync::Arc;
use std::time::Duration;

use leasehold::testing::fault::Fault;
use leasehold::testing::{Declared, DeclaredPartitions};
use leasehold::{HashId, LeaseTiming};

#[path = "support/pods.rs"]
mod pods;
#[path = "support/world.rs"]
mod world;

use pods::{KEY, Ledger, Pod, id, identity};
use world::{World, until};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const COUNTS: [u16; 4] = [64, 96, 48, 32];

/// xorshift64*: the same storm for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

struct Storm {
    world: World,
    ledger: Arc<Ledger>,
    chance: Chance,
    pods: Vec<Option<Pod>>,
    /// Killed: cut off for ever, and nobody waits for them.
    ghosts: Vec<Pod>,
    lives: u32,
    generation: i64,
    count: u16,
    done: Vec<String>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        Self {
            world: World::new(),
            ledger: Ledger::new(),
            chance: Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            pods: NAMES.map(|_| None).into(),
            ghosts: Vec::new(),
            lives: 0,
            generation: 0,
            count: 0,
            done: Vec::new(),
        }
    }

    fn declare(&mut self, count: u16) {
        self.generation += 1;
        self.count = count;
        let declared = Declared {
            generation: self.generation,
            timing: LeaseTiming::DEFAULT,
            drain_timeout: None,
            partitioned: Some(DeclaredPartitions {
                count,
                hash: HashId::CsHash1,
            }),
        };
        self.world.memory.declare(&id(), Some(Ok(declared)));
    }

    async fn start(&mut self, index: usize) {
        self.lives += 1;
        let name = NAMES[index];
        let identity = identity(&format!("{name}__{:08x}", self.lives));
        let node = self.world.node_as(identity).await;
        let drains = Duration::from_millis(self.chance.below(3_000));
        let service = node.cluster.service(KEY).partitioned();
        let handle = service.spawn(self.ledger.work(name, drains)).unwrap();
        let name = name.to_owned();
        self.pods[index] = Some(Pod { name, node, handle });
    }

    async fn happen(&mut self) {
        let index = usize::try_from(self.chance.below(5)).unwrap();
        let what = self.chance.below(10);
        self.done.push(format!("{what} to {}", NAMES[index]));
        let Some(pod) = &self.pods[index] else {
            return self.start(index).await;
        };
        match what {
            // A hole in the network, mended later.
            0..=2 => {
                pod.node.store.fail_writes(Some(Fault::Hang));
                pod.node.store.fail_reads(Some(Fault::Hang));
            }
            3..=4 => mend(pod),
            // All of them on one machine that was suspended: every clock went on, and nobody ran.
            5 => {
                let pause = Duration::from_secs(self.chance.below(30));
                self.world.clock.jump(pause);
                let pods = self.pods.iter().flatten().chain(&self.ghosts);
                pods.for_each(|pod| pod.node.clock.jump(pause));
            }
            6 => {
                mend(pod);
                let pod = self.pods[index].take().unwrap();
                pod.handle.shutdown();
                pod.handle.finished().await.unwrap();
            }
            7 => {
                pod.node.store.fail_writes(Some(Fault::Hang));
                pod.node.store.fail_reads(Some(Fault::Hang));
                let ghost = self.pods[index].take().unwrap();
                self.ghosts.push(ghost);
            }
            8 => pod.node.store.fail_writes(Some(Fault::LoseAnswer)),
            _ => {
                let count = COUNTS[index % COUNTS.len()];
                self.declare(count);
            }
        }
    }

    async fn rage(&mut self) {
        self.declare(64);
        for index in 0..3 {
            self.start(index).await;
        }
        for _ in 0..60 {
            self.happen().await;
            let wait = Duration::from_millis(self.chance.below(12_000));
            tokio::time::sleep(wait).await;
        }
        for index in 0..NAMES.len() {
            match &self.pods[index] {
                Some(pod) => mend(pod),
                None => self.start(index).await,
            }
        }
    }
}

fn mend(pod: &Pod) {
    pod.node.store.fail_writes(None);
    pod.node.store.fail_reads(None);
}

async fn storm(seed: u64) {
    println!("STORM_SEED={seed}");
    let mut storm = Storm::new(seed);
    storm.rage().await;
    let (ledger, count) = (Arc::clone(&storm.ledger), usize::from(storm.count));
    until(&format!("all is well again after {:?}", storm.done), || {
        let shares = ledger.shares();
        let even = shares.values().all(|share| *share <= count / 5 + 1);
        shares.len() == 5 && even && shares.values().sum::<usize>() == count
    })
    .await;
    ledger.judge();
    assert!(
        ledger.begun() > 150,
        "{} works: hardly a storm",
        ledger.begun()
    );
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_a_partition_has_one_owner() {
    if let Ok(seed) = std::env::var("STORM_SEED") {
        return storm(seed.parse().unwrap()).await;
    }
    for seed in 1..=12 {
        storm(seed).await;
    }
}

/// The positive control: two worlds know nothing of each other, and the ledger sees it.
#[tokio::test(start_paused = true)]
async fn the_ledger_sees_two_owners() {
    let ledger = Ledger::new();
    let (here, there) = (World::new(), World::new());
    let _a = here.pod("a", &ledger).await;
    let _b = there.pod("b", &ledger).await;
    until("both own all", || {
        ledger.share("a") == 64 && ledger.share("b") == 64
    })
    .await;
    assert_eq!(ledger.violations(), 64);
}
