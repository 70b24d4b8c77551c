//! What a run is made of: timings, network, faults. Each seed enables a random subset (swarm).

use leasehold_core::lease::LeaseTiming;
use leasehold_core::rules::Rules;
use leasehold_core::time::Duration;

use crate::clock::{MS, Nanos, SEC, nanos};
use crate::prng::Prng;

/// Everything that goes wrong by an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGSTOP: no step, no poll; the clock goes on.
    Pause,
    /// The machine sleeps.
    Suspend,
    /// The executor stalls: the machine gets no step, work in other threads goes on.
    Stall,
    /// The process dies and starts again in its pod.
    CrashInPlace,
    /// The pod dies and another one comes.
    CrashPod,
    /// A second process starts in a pod whose former process still lives.
    RestartBesideFormer,
    /// A second process is configured with the identity of another.
    Duplicate,
    Unhealthy,
    StepDown,
    /// A pod is replaced: SIGTERM, drain, a new pod.
    Rollout,
    /// A pod leaves for some minutes.
    Leave,
    /// Packets are dropped in both directions.
    LinkDropped,
    /// Packets are held and delivered later.
    LinkHeld,
    /// Requests arrive, answers do not.
    LinkOneWay,
    /// Connections are refused at once.
    LinkRefused,
    ApiDown,
    ApiHangs,
    WritesFail,
    ReadsFail,
    Forbidden,
    Throttled,
    WatchEnds,
    WatchHalfOpen,
    WatchLags,
    EditDelete,
    EditRecreate,
    EditEmpty,
    EditForge,
    EditLabels,
    EditDuration,
    EditTerm,
    EditPreferred,
    Retime,
}

impl Fault {
    pub const ALL: [Self; 33] = [
        Self::Pause,
        Self::Suspend,
        Self::Stall,
        Self::CrashInPlace,
        Self::CrashPod,
        Self::RestartBesideFormer,
        Self::Duplicate,
        Self::Unhealthy,
        Self::StepDown,
        Self::Rollout,
        Self::Leave,
        Self::LinkDropped,
        Self::LinkHeld,
        Self::LinkOneWay,
        Self::LinkRefused,
        Self::ApiDown,
        Self::ApiHangs,
        Self::WritesFail,
        Self::ReadsFail,
        Self::Forbidden,
        Self::Throttled,
        Self::WatchEnds,
        Self::WatchHalfOpen,
        Self::WatchLags,
        Self::EditDelete,
        Self::EditRecreate,
        Self::EditEmpty,
        Self::EditForge,
        Self::EditLabels,
        Self::EditDuration,
        Self::EditTerm,
        Self::EditPreferred,
        Self::Retime,
    ];
}

/// Which election runs on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ours,
    ClientGo,
    /// Every other pod runs client-go: an application on its way from one to the other.
    Mixed,
}

/// The ingredients of a run.
#[derive(Clone, Debug)]
pub struct Mix {
    pub kind: Kind,
    pub pods: usize,
    /// The first one is everybody's setting at the start, unless they are mixed.
    pub timings: Vec<LeaseTiming>,
    pub timings_mixed: bool,
    pub rate_ppm_max: u64,
    /// One way, in nanoseconds.
    pub latency: (Nanos, Nanos),
    pub watch_delay: (Nanos, Nanos),
    /// Per mille of the requests.
    pub slow: u64,
    pub request_lost: u64,
    pub answer_lost: u64,
    pub late: u64,
    /// Per mille of the works that hang, overrun or return by themselves.
    pub bad_work: u64,
    /// The watch selects by name, as for a Lease without our labels, and not by label.
    pub by_name: bool,
    /// The store also counts writes of other objects.
    pub other_writes: Nanos,
    /// Each enabled fault with the mean time between two.
    pub faults: Vec<(Fault, Nanos)>,
    /// Per mille of faults that hit the leader rather than anybody.
    pub at_leader: u64,
    /// Longest hold of a lasting fault.
    pub hold_max: Nanos,
    /// Faults stop this long before the end.
    pub calm: Nanos,
}

/// Which protections are in force; all of them, but in positive controls.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    pub rules: Rules,
    /// E1: writes are compare-and-set.
    pub preconditions: bool,
    /// E8: the proof that the former process ended is real.
    pub socket: bool,
    /// E9: the clock goes on during a suspend.
    pub boot_time: bool,
    /// E9: the clock is compared before each poll of the work.
    pub checked_polls: bool,
    /// The guarded store compares tokens.
    pub fence: bool,
    /// Work ends within its stop budget.
    pub stops_in_time: bool,
    /// Somebody hears the machine's notices.
    pub notices: bool,
    /// Machines are woken at their deadlines.
    pub timers: bool,
}

impl Knobs {
    pub const ALL: Self = Self {
        rules: Rules::ALL,
        preconditions: true,
        socket: true,
        boot_time: true,
        checked_polls: true,
        fence: true,
        stops_in_time: true,
        notices: true,
        timers: true,
    };
}

impl Mix {
    /// Three pods on a good network, nothing goes wrong.
    pub fn quiet() -> Self {
        Self {
            kind: Kind::Ours,
            pods: 3,
            timings: vec![LeaseTiming::DEFAULT],
            timings_mixed: false,
            rate_ppm_max: 10_000,
            latency: (MS, 9 * MS),
            watch_delay: (MS, 20 * MS),
            slow: 0,
            request_lost: 0,
            answer_lost: 0,
            late: 0,
            bad_work: 0,
            by_name: false,
            other_writes: 20 * SEC,
            faults: Vec::new(),
            at_leader: 600,
            hold_max: 60 * SEC,
            calm: 0,
        }
    }

    /// Quiet but for these faults, each this often.
    pub fn focused(faults: &[Fault], mean: Nanos) -> Self {
        Self {
            faults: faults.iter().map(|fault| (*fault, mean)).collect(),
            at_leader: 800,
            ..Self::quiet()
        }
    }

    /// A random subset of everything.
    pub fn swarm(random: &mut Prng) -> Self {
        let mut mix = Self::quiet();
        mix.pods = random.between(2, 6) as usize;
        let custom = tight();
        (mix.timings, mix.timings_mixed) = match random.below(10) {
            0..=4 => (vec![LeaseTiming::DEFAULT], false),
            5 => (vec![LeaseTiming::FAST], false),
            6 => (vec![LeaseTiming::DEFAULT, LeaseTiming::FAST], true),
            7 => (vec![LeaseTiming::FAST, LeaseTiming::CALM], true),
            8 => (
                vec![LeaseTiming::DEFAULT, LeaseTiming::CALM, LeaseTiming::FAST],
                random.chance(500),
            ),
            _ => (vec![custom, LeaseTiming::FAST], true),
        };
        let some = |random: &mut Prng, most: u64| {
            if random.chance(500) {
                random.between(1, most)
            } else {
                0
            }
        };
        mix.slow = some(random, 80);
        mix.request_lost = some(random, 40);
        mix.answer_lost = some(random, 40);
        mix.late = some(random, 30);
        mix.bad_work = some(random, 250);
        mix.by_name = random.chance(500);
        mix.latency.1 = random.pick(&[5 * MS, 20 * MS, 100 * MS]);
        mix.watch_delay.1 = random.pick(&[10 * MS, 100 * MS, 800 * MS]);
        mix.rate_ppm_max = random.pick(&[0, 100, 10_000, 10_000]);
        let likelihood = random.pick(&[150, 350, 600]);
        for fault in Fault::ALL {
            if random.chance(likelihood) {
                let mean = random.pick(&[90 * SEC, 240 * SEC, 600 * SEC]);
                mix.faults.push((fault, mean));
            }
        }
        mix.at_leader = random.pick(&[300, 600, 900]);
        mix.calm = 6 * mix.lease_duration_max() + 60 * SEC;
        mix
    }

    /// Longest D in the run.
    pub fn lease_duration_max(&self) -> Nanos {
        self.longest(LeaseTiming::lease_duration)
    }

    pub fn longest(&self, part: impl Fn(&LeaseTiming) -> Duration) -> Nanos {
        let parts = self.timings.iter().map(|timing| nanos(part(timing)));
        parts.max().unwrap_or_default()
    }

    pub fn shortest(&self, part: impl Fn(&LeaseTiming) -> Duration) -> Nanos {
        let parts = self.timings.iter().map(|timing| nanos(part(timing)));
        parts.min().unwrap_or_default()
    }
}

/// 4 s lease, 1 s heartbeat, 0.4 s attempts, 0.5 s stop budget.
fn tight() -> LeaseTiming {
    let ms = Duration::from_millis;
    LeaseTiming::new(ms(4000), ms(1000), ms(400), ms(500)).expect("the inequality holds")
}
