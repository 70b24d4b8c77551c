//! Pods and processes: they start, end by signal, crash, come back, or come as somebody else.

use leasehold_core::election::{Config, Election, Input};
use leasehold_core::id::Identity;
use leasehold_core::time::Duration;
use std::collections::VecDeque;

use crate::client_go::ClientGo;
use crate::clock::{Clock, MS, Nanos, SEC};
use crate::faults::Heal;
use crate::node::{Delivery, Link, Machine, Memory, Process, Watch, Work};
use crate::scenario::Kind;
use crate::world::{Event, World};

/// A place for a pod: it is filled again when its process ends.
#[derive(Clone, Debug)]
pub struct Slot {
    pub name: String,
    pub pods: u64,
    pub process: Option<usize>,
    pub clock: Option<Clock>,
    /// How long the slot stays empty after the next end, and whether the pod stays the same.
    pub refill: (Nanos, bool),
}

impl Slot {
    pub fn new(number: usize) -> Self {
        Self {
            name: format!("o{number}"),
            pods: 0,
            process: None,
            clock: None,
            refill: (SEC, false),
        }
    }
}

impl World {
    pub fn start_in_slot(&mut self, slot: usize, same_pod: bool) {
        if self.slots[slot].process.is_some() {
            return;
        }
        let same_pod = same_pod && self.slots[slot].pods > 0;
        if !same_pod {
            self.slots[slot].pods += 1;
            // Another pod is on another node, more often than not.
            self.slots[slot].clock = None;
        }
        let uid = self.pod_uid(slot);
        let fresh = self.random_clock();
        let clock = *self.slots[slot].clock.get_or_insert(fresh);
        let alone = !self
            .living
            .iter()
            .any(|p| self.processes[*p].pod_uid == uid);
        let may_reclaim = same_pod && alone && self.random.chance(900);
        let p = self.start(Some(slot), &uid, None, clock, may_reclaim);
        self.slots[slot].process = Some(p);
    }

    pub fn pod_uid(&self, slot: usize) -> String {
        format!("u{slot}x{}", self.slots[slot].pods)
    }

    fn random_clock(&mut self) -> Clock {
        let rate = self.mix.rate_ppm_max as i64;
        let ppm = match self.random.below(4) {
            0 => -rate,
            1 => rate,
            _ => self.random.below(2 * self.mix.rate_ppm_max + 1) as i64 - rate,
        };
        // A machine may have been up for a second or for a year.
        let offset = self.random.pick(&[SEC, 3_600 * SEC, 31_536_000 * SEC]);
        Clock::new(offset + self.random.below(SEC), ppm)
    }

    /// A process begins.
    pub fn start(
        &mut self,
        slot: Option<usize>,
        uid: &str,
        duplicate_of: Option<usize>,
        clock: Clock,
        may_reclaim: bool,
    ) -> usize {
        let p = self.processes.len();
        let name = slot.map_or("extra", |slot| self.slots[slot].name.as_str());
        let identity = if let Some(other) = duplicate_of {
            self.processes[other].identity.clone()
        } else {
            let process = self.random.next() as u32;
            let identity = Identity::of_pod(name, uid, process).expect("a legal name");
            // E8: what lacks the proof that it is alone in its pod is a stranger.
            let mut others = self.living.iter();
            let alone = may_reclaim || !others.any(|p| self.processes[*p].pod_uid == uid);
            if alone {
                identity
            } else {
                identity.as_stranger()
            }
        };
        let timing = if self.mix.timings_mixed {
            self.random.pick(&self.mix.timings)
        } else {
            self.mix.timings[0]
        };
        let first_attempt = self.random.next() >> 1;
        let kind = match (self.mix.kind, slot) {
            (Kind::Mixed, Some(slot)) if slot % 2 == 1 => Kind::ClientGo,
            (Kind::Mixed, _) => Kind::Ours,
            (kind, _) => kind,
        };
        let machine = match kind {
            Kind::Ours | Kind::Mixed => Machine::Ours(Box::new(Election::new(Config {
                identity: identity.clone(),
                token_era: 0,
                timing,
                may_reclaim,
                first_attempt,
                rules: self.knobs.rules,
            }))),
            Kind::ClientGo => Machine::ClientGo(Box::new(ClientGo::new(
                identity.clone(),
                first_attempt,
                self.random.next(),
            ))),
        };
        self.say(4, p as u64, || {
            format!("p{p} starts as {identity} (may reclaim: {may_reclaim}) with {timing:?} on {clock:?}")
        });
        self.stats.count("process started");
        self.processes.push(Process {
            identity,
            pod_uid: uid.to_owned(),
            slot,
            clock,
            machine,
            timing,
            alive: true,
            paused: 0,
            stalled: 0,
            inbox: VecDeque::new(),
            link: Link::Up,
            held_out: Vec::new(),
            held_in: Vec::new(),
            call: None,
            timer: 0,
            timer_at: None,
            guard: None,
            work: Work::default(),
            watch: Watch::default(),
            draining: None,
            drain_cut: None,
            healthy: true,
            stopping: false,
            may_reclaim,
            duplicate_of,
            duplicate_noticed: false,
            memory: Memory::default(),
            own_revision: 0,
            claims: Vec::new(),
            requests: VecDeque::new(),
            wakes: VecDeque::new(),
            able_since: None,
        });
        self.living.push(p);
        self.review(p);
        if kind == Kind::Ours {
            self.connect(p);
        }
        self.feed(p, Input::Timer);
        p
    }

    /// The process is gone at once; what it sent goes on.
    pub fn kill(&mut self, p: usize, cause: &'static str) {
        if !self.processes[p].alive {
            return;
        }
        self.say(5, p as u64, || format!("p{p} ends: {cause}"));
        if self.processes[p].guarded(self.now) {
            self.stats.killed(self.now, cause);
        }
        self.close_tenure(p);
        let process = &mut self.processes[p];
        process.alive = false;
        process.guard = None;
        process.draining = None;
        process.drain_cut = None;
        process.work.running = false;
        process.inbox.clear();
        self.living.retain(|other| *other != p);
        self.review(p);
        let Some(slot) = self.processes[p].slot else {
            return;
        };
        if self.slots[slot].process == Some(p) {
            self.slots[slot].process = None;
            let (empty, same_pod) = self.slots[slot].refill;
            self.slots[slot].refill = (SEC, false);
            self.schedule(self.now + empty, Event::Start { slot, same_pod });
        }
    }

    /// SIGTERM, and SIGKILL when the grace period is over.
    pub fn terminate(&mut self, p: usize) {
        let drain = Duration::from_secs(self.random.pick(&[2, 10, 25, 60]));
        self.processes[p].stopping = true;
        self.review(p);
        self.deliver(p, Delivery::Input(Input::Shutdown { drain }));
        let grace = self.now + drain.as_secs() * SEC + 5 * SEC;
        self.schedule(grace, Event::Heal(Heal::Kill(p)));
    }

    /// The machine has nothing more to do: the process exits.
    pub fn stopped(&mut self, p: usize) {
        self.stats.count("shut down");
        self.kill(p, "stopped");
    }

    /// Refills the slot of `p` after its end, `empty` later.
    pub fn refill(&mut self, p: usize, empty: Nanos, same_pod: bool) {
        if let Some(slot) = self.processes[p].slot
            && self.slots[slot].process == Some(p)
        {
            self.slots[slot].refill = (empty.max(100 * MS), same_pod);
        }
    }
}
