//! What a run is made of: pods, partitions, network, faults. Each seed enables a random subset.

use leasehold_core::lease::LeaseTiming;
use leasehold_core::partition::planner::Pace;
use leasehold_core::rules::Rules;
use leasehold_core::time::Duration;

use crate::clock::{MS, Nanos, SEC, nanos};
use crate::prng::Prng;

/// Everything that happens to the pods, the network and the records, by an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGSTOP: no step, no poll; the clock goes on.
    Pause,
    /// The process dies and starts again in its pod.
    CrashInPlace,
    /// The pod dies and another one comes; of the same name in a stateful workload.
    CrashPod,
    /// The leading pod dies.
    CrashLeader,
    /// The leading pod dies, and another one in the same instant.
    CrashTwo,
    /// The leader dies when its publish is on its way: in the middle of a rebalance.
    CrashAtPublish,
    /// The leader stops between its plan and the publish.
    PauseAtPublish,
    ScaleUp,
    ScaleDown,
    /// Every pod is replaced by one of another revision.
    Rollout,
    /// Another count of partitions is asked for.
    Resize,
    /// The work of one pod no longer ends when it is asked to: it never acknowledges.
    NeverAcknowledges,
    /// Packets are dropped in both directions.
    LinkDropped,
    /// Packets are held and delivered later.
    LinkHeld,
    /// Requests arrive, answers do not.
    LinkOneWay,
    ApiDown,
    ApiHangs,
    WritesFail,
    WatchEnds,
    WatchHalfOpen,
    WatchLags,
    /// A second pod of a name starts while the first one runs on.
    TwoOfOneName,
    /// The assignment Lease is deleted by hand.
    TableDeleted,
    /// The next table is lost before anybody but one has seen it, who dies with the leader.
    TableUnseen,
    /// Its contents are replaced by nonsense, by nothing, or by an older copy of themselves.
    TableOverwritten,
    /// A member Lease is deleted by hand.
    MemberDeleted,
    /// A member Lease is emptied by hand, or its term is changed.
    MemberForged,
}

impl Fault {
    pub const ALL: [Self; 27] = [
        Self::Pause,
        Self::CrashInPlace,
        Self::CrashPod,
        Self::CrashLeader,
        Self::CrashTwo,
        Self::CrashAtPublish,
        Self::PauseAtPublish,
        Self::ScaleUp,
        Self::ScaleDown,
        Self::Rollout,
        Self::Resize,
        Self::NeverAcknowledges,
        Self::LinkDropped,
        Self::LinkHeld,
        Self::LinkOneWay,
        Self::ApiDown,
        Self::ApiHangs,
        Self::WritesFail,
        Self::WatchEnds,
        Self::WatchHalfOpen,
        Self::WatchLags,
        Self::TwoOfOneName,
        Self::TableDeleted,
        Self::TableUnseen,
        Self::TableOverwritten,
        Self::MemberDeleted,
        Self::MemberForged,
    ];
}

/// The ingredients of a run.
#[derive(Clone, Debug)]
pub struct Mix {
    pub pods: usize,
    pub pods_max: usize,
    /// A pod that is replaced keeps its name.
    pub stateful: bool,
    /// What the settings may ask for; the first one holds at the start.
    pub counts: Vec<u16>,
    pub timing: LeaseTiming,
    pub rate_ppm_max: u64,
    /// One way, in nanoseconds.
    pub latency: (Nanos, Nanos),
    pub watch_delay: (Nanos, Nanos),
    /// Per mille of the requests.
    pub slow: u64,
    pub request_lost: u64,
    pub answer_lost: u64,
    pub late: u64,
    /// Longest drain of a work.
    pub drain_max: Nanos,
    pub pace: Pace,
    /// Each enabled fault with the mean time between two.
    pub faults: Vec<(Fault, Nanos)>,
    /// Per mille of faults that hit the leader rather than anybody.
    pub at_leader: u64,
    /// Longest hold of a lasting fault.
    pub hold_max: Nanos,
    /// Faults stop this long before the end.
    pub calm: Nanos,
}

/// What is done to a table before it is stored, to prove that the checks of tables see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Two owners are exchanged for nothing.
    MoreMoves,
    /// The first owner gets a partition more for each publish.
    Lopsided,
}

/// Which protections are in force; all of them, but in positive controls.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    pub rules: Rules,
    /// H1: the shell tells the member's election the highest incarnation in the table.
    pub floors: bool,
    /// H9: a new owner raises the fence before its first read.
    pub raises: bool,
    /// H9: the store keeps its fences by ranges of hashes, and not by the numbers of partitions.
    pub fences_ranges: bool,
    /// H10: everyone follows the leading pod's member Lease.
    pub follows_leader: bool,
    /// The shell says that a work ended when it has ended.
    pub honest_ends: bool,
    /// Machines are woken at their deadlines.
    pub timers: bool,
    pub spoil: Option<Spoil>,
}

impl Knobs {
    pub const ALL: Self = Self {
        rules: Rules::ALL,
        floors: true,
        raises: true,
        fences_ranges: true,
        follows_leader: true,
        honest_ends: true,
        timers: true,
        spoil: None,
    };
}

impl Mix {
    /// Four pods on a good network, nothing goes wrong.
    pub fn quiet() -> Self {
        Self {
            pods: 4,
            pods_max: 8,
            stateful: false,
            counts: vec![16],
            timing: LeaseTiming::DEFAULT,
            rate_ppm_max: 10_000,
            latency: (MS, 9 * MS),
            watch_delay: (MS, 20 * MS),
            slow: 0,
            request_lost: 0,
            answer_lost: 0,
            late: 0,
            drain_max: 2 * SEC,
            pace: Pace {
                // Over before a run ends.
                flap_max: Duration::from_mins(2),
                ..Pace::default()
            },
            faults: Vec::new(),
            at_leader: 300,
            hold_max: 60 * SEC,
            calm: 0,
        }
    }

    /// Quiet but for these faults, each this often.
    pub fn focused(faults: &[Fault], mean: Nanos) -> Self {
        Self {
            faults: faults.iter().map(|fault| (*fault, mean)).collect(),
            ..Self::quiet()
        }
    }

    /// A random subset of everything.
    pub fn swarm(random: &mut Prng) -> Self {
        let mut mix = Self::quiet();
        (mix.pods, mix.pods_max) = match random.below(20) {
            0 => (30, 50),
            1..=3 => (12, 20),
            _ => (random.between(2, 7) as usize, 9),
        };
        mix.stateful = random.chance(400);
        if random.chance(300) {
            mix.timing = LeaseTiming::FAST;
        }
        let some_counts: [&[u16]; 5] = [
            &[16, 24, 12],
            &[64, 96, 48],
            &[1, 2, 3],
            &[7, 64],
            &[32, 200],
        ];
        mix.counts = random.pick(&some_counts).to_vec();
        let some = |random: &mut Prng, most: u64| {
            if random.chance(500) {
                random.between(1, most)
            } else {
                0
            }
        };
        mix.slow = some(random, 60);
        mix.request_lost = some(random, 30);
        mix.answer_lost = some(random, 30);
        mix.late = some(random, 20);
        mix.latency.1 = random.pick(&[5 * MS, 20 * MS, 100 * MS]);
        mix.watch_delay.1 = random.pick(&[10 * MS, 100 * MS, 800 * MS]);
        mix.rate_ppm_max = random.pick(&[0, 100, 10_000, 10_000]);
        mix.drain_max = random.pick(&[100 * MS, 2 * SEC, 20 * SEC, 40 * SEC]);
        let likelihood = random.pick(&[150, 350, 600]);
        for fault in Fault::ALL {
            if random.chance(likelihood) {
                let mean = random.pick(&[90 * SEC, 240 * SEC, 600 * SEC]);
                mix.faults.push((fault, mean));
            }
        }
        mix.at_leader = random.pick(&[200, 500, 800]);
        mix.calm = Self::CALM;
        mix
    }

    /// Long enough for a rollout's last wait, a lost table and the longest drain, one after the other.
    pub const CALM: Nanos = 600 * SEC;

    /// D.
    pub fn lease(&self) -> Nanos {
        nanos(self.timing.lease_duration())
    }

    /// V on the slowest clock.
    pub fn trusted_max(&self) -> Nanos {
        nanos(self.timing.trusted()) * 102 / 100 + 1
    }
}
