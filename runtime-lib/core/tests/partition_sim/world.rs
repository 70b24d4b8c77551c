//! The world: a queue of events in true time, and everything they touch.

use std::rc::Rc;

use crate::clock::{MS, Nanos, SEC};
use crate::faults::Heal;
use crate::guarded::{GuardedCall, Rows};
use crate::judge::{Check, Judge};
use crate::lifecycle::Place;
use crate::network::{Api, Call};
use crate::pod::{Delivery, News, Pod};
use crate::prng::Prng;
use crate::queue::Queue;
use crate::scenario::{Fault, Knobs, Mix};
use crate::stats::Stats;
use crate::store::{Key, Store};
use crate::story::Log;

/// Something that happens at an instant.
pub enum Event {
    To {
        pod: usize,
        what: Delivery,
    },
    /// A request reaches the server.
    Call(Call),
    /// A request reaches the guarded store.
    Guarded(GuardedCall),
    Start {
        slot: usize,
        same_pod: bool,
    },
    Fault(Fault),
    Heal(Heal),
    /// The next pod of a rollout, if it is still this one.
    Rollout(u32),
    OtherWrite,
    Calm,
}

/// One run.
pub struct World {
    pub now: Nanos,
    pub end: Nanos,
    pub random: Prng,
    pub mix: Mix,
    pub knobs: Knobs,
    pub store: Store,
    pub rows: Rows,
    pub api: Api,
    pub pods: Vec<Pod>,
    /// The living ones, in order.
    pub living: Vec<usize>,
    pub places: Vec<Place>,
    /// Revision of the workload.
    pub revision: u32,
    /// The count that the settings ask for.
    pub wanted: u16,
    pub judge: Judge,
    pub stats: Stats,
    pub faults_on: bool,
    /// The next table is to be lost before others have seen it.
    pub ambush: bool,
    pub log: Log,
    pub next_number: u64,
    queue: Queue<Event>,
}

impl World {
    pub fn new(seed: u64, mix: Mix, knobs: Knobs, length: Nanos) -> Self {
        let mut random = Prng::new(seed);
        let mut world = Self {
            now: 0,
            end: length,
            store: Store::default(),
            rows: Rows::new(&mut random),
            random,
            api: Api::default(),
            pods: Vec::new(),
            living: Vec::new(),
            places: Vec::new(),
            revision: 1,
            wanted: mix.counts[0],
            judge: Judge::default(),
            stats: Stats::default(),
            faults_on: true,
            ambush: false,
            log: Log::new(seed),
            next_number: 0,
            queue: Queue::default(),
            mix,
            knobs,
        };
        world.prepare();
        world
    }

    /// Writes down everything from now on.
    pub fn with_log(mut self) -> Self {
        self.log.lines = Some(Vec::new());
        self
    }

    fn prepare(&mut self) {
        for slot in 0..self.mix.pods_max {
            self.places.push(Place::new(slot, slot < self.mix.pods));
            if slot < self.mix.pods {
                let at = self.random.below(3 * SEC);
                let start = Event::Start {
                    slot,
                    same_pod: false,
                };
                self.schedule(at, start);
            }
        }
        for (fault, mean) in self.mix.faults.clone() {
            let at = 20 * SEC + self.random.waiting(mean);
            self.schedule(at, Event::Fault(fault));
        }
        let at = self.random.below(20 * SEC);
        self.schedule(at, Event::OtherWrite);
        if self.mix.calm > 0 {
            self.schedule(self.end - self.mix.calm, Event::Calm);
        }
    }

    /// Runs to the end, or until this check found something.
    pub fn run_until(&mut self, sought: Option<Check>) {
        while let Some((at, event)) = self.queue.pop() {
            self.now = at;
            self.happen(event);
            if sought.is_some_and(|check| self.judge.has(check)) {
                self.end = self.now;
            }
            if self.now >= self.end {
                break;
            }
        }
        self.now = self.end;
        self.finish();
    }

    pub fn schedule(&mut self, at: Nanos, event: Event) {
        if at <= self.end {
            self.queue.push(at.max(self.now), event);
        }
    }

    pub fn send(&mut self, at: Nanos, pod: usize, what: Delivery) {
        self.schedule(at, Event::To { pod, what });
    }

    /// A number that nothing else in the run has.
    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::To { pod, what } => self.deliver(pod, what),
            Event::Call(call) => self.arrive(call),
            Event::Guarded(call) => self.guarded_call(call),
            Event::Start { slot, same_pod } => self.start_in(slot, same_pod),
            Event::Fault(fault) => self.strike(fault),
            Event::Heal(heal) => self.heal(heal),
            Event::Rollout(revision) => self.roll_out(revision),
            Event::OtherWrite => {
                self.store.bump();
                let at = self.now + self.random.between(SEC, 60 * SEC);
                self.schedule(at, Event::OtherWrite);
            }
            Event::Calm => self.calm(),
        }
    }

    /// Hands something to a process; a paused one finds it later.
    pub fn deliver(&mut self, p: usize, what: Delivery) {
        let pod = &mut self.pods[p];
        if !pod.alive {
            return;
        }
        if pod.paused > 0 {
            pod.inbox.push_back(what);
            return;
        }
        match what {
            Delivery::Timer { number } => {
                if number == self.pods[p].timer && self.knobs.timers {
                    self.pods[p].timer_at = None;
                    self.wake(p);
                }
            }
            Delivery::Answer { call, answer } => self.answered(p, call, answer),
            Delivery::Timeout { call } => self.timed_out(p, call),
            Delivery::News { connection, news } => self.watched(p, connection, &news),
            Delivery::Listed {
                connection,
                asked,
                listing,
                leader,
            } => self.listed(p, connection, asked, &listing, leader),
            Delivery::ListFailed { connection } => self.list_failed(p, connection),
            Delivery::Reconnect { connection } => self.reconnect(p, connection),
            Delivery::Wanted(count) => self.told_count(p, count),
            Delivery::Terminate => self.told_to_stop(p),
            Delivery::DrainAll => self.drain_all(p),
            Delivery::WorkEnds { slot, work } => self.work_ends(p, slot, work),
            Delivery::Turn { slot, work, turn } => self.take_turn(p, slot, work, turn),
            Delivery::Transmit(call) => self.transmit(call),
        }
        self.run(p);
    }

    /// Sets the timer anew; timers fire up to a millisecond late.
    pub fn set_timer(&mut self, p: usize) {
        let pod = &mut self.pods[p];
        let due = pod.next_deadline();
        let at = due.map(|deadline| pod.clock.truth(deadline).max(self.now));
        if at == pod.timer_at || !pod.alive {
            return;
        }
        pod.timer += 1;
        pod.timer_at = at;
        let number = pod.timer;
        if let Some(at) = at.filter(|at| *at < Nanos::MAX) {
            let late = 1000 + self.random.below(MS);
            self.send(at + late, p, Delivery::Timer { number });
        }
    }

    /// Notes one line of the story.
    pub fn say(&mut self, kind: u64, detail: u64, line: impl FnOnce() -> String) {
        self.log.say(self.now, kind, detail, line);
    }

    /// The living process that plans; the one of the newest leadership, if there are two.
    pub fn leader(&self) -> Option<usize> {
        let leading = self
            .living
            .iter()
            .copied()
            .filter(|p| self.pods[*p].leads());
        leading.max_by_key(|p| self.pods[*p].leader.view().leading.map(|(token, _)| token))
    }

    /// Tells all watches that select it what became of a Lease.
    pub fn publish(&mut self, key: &Key) {
        let news = Rc::new(News {
            key: key.clone(),
            state: self.store.get(key).cloned(),
        });
        for index in 0..self.living.len() {
            let p = self.living[index];
            self.publish_to(p, &news);
        }
    }
}
