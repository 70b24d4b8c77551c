//! Pods and processes: they start, end by signal, crash, come back; workloads scale and roll out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use leasehold_core::election::{self, Config, Election};
use leasehold_core::id::Identity;
use leasehold_core::lease::Contents;
use leasehold_core::partition::{Handoff, MemberRecord};
use leasehold_core::time::Duration;

use crate::clock::{Clock, MS, Nanos, SEC};
use crate::faults::Heal;
use crate::pod::{Delivery, Link, Pod, Todo};
use crate::world::{Event, World};

/// A place for a pod: while it is wanted, it is filled again when its process ends.
#[derive(Clone, Debug)]
pub struct Place {
    number: usize,
    /// How many pods it has had.
    pods: u64,
    pub wanted: bool,
    pub pod: Option<usize>,
    clock: Option<Clock>,
    /// How long it stays empty after the next end, and whether the pod stays the same.
    refill: (Nanos, bool),
}

impl Place {
    pub fn new(number: usize, wanted: bool) -> Self {
        Self {
            number,
            pods: 0,
            wanted,
            pod: None,
            clock: None,
            refill: (SEC, false),
        }
    }
}

impl World {
    pub fn start_in(&mut self, slot: usize, same_pod: bool) {
        let place = &self.places[slot];
        if place.pod.is_some() || !place.wanted {
            return;
        }
        let same_pod = same_pod && place.pods > 0;
        if !same_pod {
            self.places[slot].pods += 1;
            // Another pod is on another node, more often than not.
            self.places[slot].clock = None;
        }
        let clock = self.random_clock();
        let place = &mut self.places[slot];
        let clock = *place.clock.get_or_insert(clock);
        let uid = format!("u{slot}x{}", place.pods);
        let name = if self.mix.stateful {
            format!("s-{}", place.number)
        } else {
            format!("d-{}-{}", place.number, place.pods)
        };
        let may_reclaim = same_pod && self.random.chance(900);
        let p = self.start(slot, &name, &uid, clock, may_reclaim);
        self.places[slot].pod = Some(p);
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
    fn start(&mut self, slot: usize, name: &str, uid: &str, clock: Clock, reclaims: bool) -> usize {
        let p = self.pods.len();
        let process = self.random.next() as u32;
        let identity = Identity::of_pod(name, uid, process).expect("a legal name");
        let election = |random: &mut crate::prng::Prng| {
            Election::new(Config {
                identity: identity.clone(),
                token_era: 0,
                timing: self.mix.timing,
                may_reclaim: reclaims,
                first_attempt: random.next() >> 1,
                rules: self.knobs.rules,
            })
        };
        let (leader, member) = (election(&mut self.random), election(&mut self.random));
        let about = MemberRecord {
            revision: Some(format!("rev-{}", self.revision).into()),
            ..MemberRecord::default()
        };
        let name: Arc<str> = name.into();
        let handoff = Handoff::new(Arc::clone(&name), about.clone(), self.knobs.rules);
        self.say(10, p as u64, || {
            format!("p{p} starts as {identity} (may reclaim: {reclaims}) on {clock:?}")
        });
        self.stats.count("process started");
        self.pods.push(Pod {
            name,
            identity,
            slot,
            revision: self.revision,
            clock,
            alive: true,
            paused: 0,
            inbox: VecDeque::new(),
            link: Link::Up,
            held_out: Vec::new(),
            held_in: Vec::new(),
            lag: 0,
            lag_until: 0,
            leader,
            member,
            handoff,
            planner: None,
            leadership: 0,
            wanted: self.wanted,
            todo: VecDeque::new(),
            timer: 0,
            timer_at: None,
            calls: BTreeMap::new(),
            guard: None,
            works: BTreeMap::new(),
            ending: false,
            stuck: false,
            stopping: false,
            stopped: (false, false),
            tampered_until: 0,
            deleted: false,
            watches: BTreeMap::new(),
            known: BTreeMap::new(),
            followed: BTreeSet::new(),
            followed_leader: None,
            table: None,
            trap: None,
        });
        self.living.push(p);
        let contents = Contents::Member(Arc::new(about));
        let at_once = false;
        self.tell(
            p,
            Todo::Member(election::Input::Contents { contents, at_once }),
        );
        self.run(p);
        p
    }

    /// The process is gone at once; what it sent goes on.
    pub fn kill(&mut self, p: usize, cause: &'static str) {
        if !self.pods[p].alive {
            return;
        }
        self.say(11, p as u64, || format!("p{p} ends: {cause}"));
        let works = std::mem::take(&mut self.pods[p].works);
        for work in works.values() {
            self.vacate(work.range, cause);
        }
        let pod = &mut self.pods[p];
        pod.alive = false;
        pod.guard = None;
        pod.planner = None;
        pod.inbox.clear();
        pod.todo.clear();
        let slot = pod.slot;
        self.living.retain(|other| *other != p);
        if self.places[slot].pod == Some(p) {
            self.places[slot].pod = None;
            let (empty, same_pod) = self.places[slot].refill;
            self.places[slot].refill = (SEC, false);
            self.schedule(self.now + empty, Event::Start { slot, same_pod });
        }
    }

    /// Refills the place of `p` after its end, `empty` later.
    pub fn refill(&mut self, p: usize, empty: Nanos, same_pod: bool) {
        let slot = self.pods[p].slot;
        if self.places[slot].pod == Some(p) {
            self.places[slot].refill = (empty.max(100 * MS), same_pod);
        }
    }

    /// SIGTERM, and SIGKILL when the grace period is over.
    pub fn terminate(&mut self, p: usize) {
        if self.pods[p].stopping {
            return;
        }
        self.pods[p].stopping = true;
        self.say(12, p as u64, || format!("p{p} gets SIGTERM"));
        self.deliver(p, Delivery::Terminate);
        self.schedule(self.now + 65 * SEC, Event::Heal(Heal::Kill(p)));
    }

    /// It goes on renewing while it hands over (E10).
    pub fn told_to_stop(&mut self, p: usize) {
        let drain = Duration::from_secs(1);
        self.tell(p, Todo::Leader(election::Input::Shutdown { drain }));
        let drain = Duration::from_secs(self.random.pick(&[30, 60]));
        self.tell(p, Todo::Member(election::Input::Shutdown { drain }));
    }

    /// A machine has nothing more to do; when both have not, the process exits.
    pub fn stopped(&mut self, p: usize, (leader, member): (bool, bool)) {
        let stopped = &mut self.pods[p].stopped;
        *stopped = (stopped.0 | leader, stopped.1 | member);
        if *stopped == (true, true) {
            self.stats.count("shut down");
            self.kill(p, "stopped");
        }
    }

    pub fn scale_up(&mut self) {
        let free = self
            .places
            .iter()
            .position(|place| !place.wanted && place.pod.is_none());
        if let Some(slot) = free {
            self.places[slot].wanted = true;
            let same_pod = false;
            self.schedule(self.now, Event::Start { slot, same_pod });
        }
    }

    pub fn scale_down(&mut self, p: usize) {
        let wanted = self.places.iter().filter(|place| place.wanted).count();
        let slot = self.pods[p].slot;
        if wanted > 1 && self.places[slot].pod == Some(p) {
            self.places[slot].wanted = false;
            self.terminate(p);
        }
    }

    /// Begins a rollout, if none is under way.
    pub fn begin_rollout(&mut self) {
        if self.outdated().is_none() {
            self.revision += 1;
            self.schedule(self.now, Event::Rollout(self.revision));
        }
    }

    /// A pod of an older revision.
    fn outdated(&self) -> Option<usize> {
        let pods = self.places.iter().filter_map(|place| place.pod);
        let mut old = pods.filter(|p| self.pods[*p].revision < self.revision);
        old.find(|p| !self.pods[*p].stopping).or_else(|| {
            let mut pods = self.living.iter().copied();
            pods.find(|p| self.pods[*p].revision < self.revision)
        })
    }

    /// Replaces one more pod: the new one first if there is room for it.
    pub fn roll_out(&mut self, revision: u32) {
        if revision != self.revision {
            return;
        }
        let Some(p) = self.outdated() else {
            self.stats.count("rollout finished");
            return;
        };
        let slot = self.pods[p].slot;
        let mut next = self.random.between(2 * SEC, 15 * SEC);
        let free = self
            .places
            .iter()
            .position(|place| !place.wanted && place.pod.is_none());
        if self.pods[p].stopping {
            next = 2 * SEC; // one at a time
        } else if let Some(free) = free.filter(|_| !self.mix.stateful) {
            self.places[free].wanted = true;
            self.places[slot].wanted = false;
            let same_pod = false;
            self.schedule(
                self.now,
                Event::Start {
                    slot: free,
                    same_pod,
                },
            );
            let ready = self.now + self.random.between(SEC, 8 * SEC);
            self.schedule(ready, Event::Heal(Heal::Terminate(p)));
        } else {
            let empty = self.random.between(SEC, 8 * SEC);
            self.refill(p, empty, false);
            self.terminate(p);
        }
        self.schedule(self.now + next, Event::Rollout(revision));
    }
}
