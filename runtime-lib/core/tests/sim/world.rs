//! The world: a queue of events in true time, and everything they touch.

use leasehold_core::election::{Effect, Input};
use leasehold_core::fence::Fence;
use leasehold_core::id::FencingToken;

use crate::clock::{MS, Nanos, SEC};
use crate::faults::Heal;
use crate::judge::{Check, Judge};
use crate::lifecycle::Slot;
use crate::network::{Api, Call};
use crate::node::{Delivery, Process};
use crate::prng::Prng;
use crate::queue::Queue;
use crate::scenario::{Fault, Knobs, Mix};
use crate::stats::Stats;
use crate::store::{News, Store};
use crate::story::Log;
use crate::tell;

/// Something that happens at an instant.
pub enum Event {
    To {
        process: usize,
        what: Delivery,
    },
    /// A request reaches the server.
    Call(Call),
    /// A guarded write reaches its store.
    GuardedWrite {
        token: FencingToken,
    },
    Start {
        slot: usize,
        same_pod: bool,
    },
    Fault(Fault),
    Heal(Heal),
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
    pub fence: Fence,
    pub api: Api,
    pub processes: Vec<Process>,
    /// The living ones, in order.
    pub living: Vec<usize>,
    pub slots: Vec<Slot>,
    pub judge: Judge,
    pub stats: Stats,
    pub faults_on: bool,
    pub log: Log,
    pub next_call: u64,
    queue: Queue<Event>,
}

impl World {
    pub fn new(seed: u64, mix: Mix, knobs: Knobs, length: Nanos) -> Self {
        let random = Prng::new(seed);
        let mut world = Self {
            now: 0,
            end: length,
            random,
            store: Store::new(!knobs.preconditions, mix.by_name),
            fence: Fence::default(),
            api: Api::default(),
            processes: Vec::new(),
            living: Vec::new(),
            slots: Vec::new(),
            judge: Judge::new(&mix),
            stats: Stats::default(),
            faults_on: true,
            log: Log::new(seed),
            next_call: 0,
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
        for slot in 0..self.mix.pods {
            self.slots.push(Slot::new(slot));
            let at = self.random.below(3 * SEC);
            let start = Event::Start {
                slot,
                same_pod: false,
            };
            self.schedule(at, start);
        }
        for (fault, mean) in self.mix.faults.clone() {
            let at = 5 * SEC + self.random.waiting(mean);
            self.schedule(at, Event::Fault(fault));
        }
        let at = self.random.waiting(self.mix.other_writes);
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
            if sought.is_some_and(|check| self.judge.found.iter().any(|f| f.check == check)) {
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

    pub fn send(&mut self, at: Nanos, process: usize, what: Delivery) {
        self.schedule(at, Event::To { process, what });
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::To { process, what } => self.deliver(process, what),
            Event::Call(call) => self.arrive(call),
            Event::GuardedWrite { token } => self.guarded_write(token),
            Event::Start { slot, same_pod } => self.start_in_slot(slot, same_pod),
            Event::Fault(fault) => self.strike(fault),
            Event::Heal(heal) => self.heal(heal),
            Event::OtherWrite => {
                self.store.bump();
                let at = self.now + self.random.waiting(self.mix.other_writes);
                self.schedule(at, Event::OtherWrite);
            }
            Event::Calm => self.calm(),
        }
    }

    /// Hands something to a process; a paused one finds it later.
    pub fn deliver(&mut self, p: usize, what: Delivery) {
        let process = &mut self.processes[p];
        if !process.alive {
            return;
        }
        let elsewhere = matches!(
            what,
            Delivery::Poll { .. } | Delivery::Commit { .. } | Delivery::WorkEnds { .. }
        );
        if process.paused > 0 || (process.stalled > 0 && !elsewhere) {
            process.inbox.push_back(what);
            return;
        }
        match what {
            Delivery::Timer { generation } => {
                if generation == self.processes[p].timer && self.knobs.timers {
                    self.processes[p].timer_at = None;
                    self.count_wake(p);
                    self.feed(p, Input::Timer);
                }
            }
            Delivery::Answer { call, answer } => self.answered(p, call, answer),
            Delivery::Timeout { call } => self.timed_out(p, call),
            Delivery::News { connection, news } => self.watched(p, connection, &news),
            Delivery::Reconnect { connection } => self.reconnect(p, connection),
            Delivery::Listed {
                connection,
                asked,
                state,
                selected,
            } => self.listed(p, connection, asked, state, selected),
            Delivery::ListFailed { connection } => self.list_failed(p, connection),
            Delivery::Input(input) => self.feed(p, input),
            Delivery::Poll { term } => self.poll(p, term),
            Delivery::Commit { token } => self.commit(token),
            Delivery::WorkEnds { term } => self.work_ends(p, term),
        }
    }

    /// One step of a machine, and everything that follows from it.
    pub fn feed(&mut self, p: usize, input: Input) {
        let now = self.processes[p].local(self.now);
        self.say(1, p as u64, || format!("p{p} <- {}", tell::input(&input)));
        let shown = self.shown_by(p, &input);
        let effects = self.processes[p].machine.step(input, now);
        for effect in effects {
            self.run_effect(p, effect);
        }
        if let Some(revision) = shown {
            self.check_still_leading(p, revision);
        }
        self.set_timer(p);
    }

    fn run_effect(&mut self, p: usize, effect: Effect) {
        self.say(2, p as u64, || format!("p{p} -> {}", tell::effect(&effect)));
        match effect {
            Effect::Write(write) => self.send_write(p, write),
            Effect::Read => self.send_read(p),
            Effect::Begin {
                token,
                trusted_until,
                ..
            } => self.begin(p, token, trusted_until),
            Effect::Extend { trusted_until } | Effect::Shorten { trusted_until } => {
                self.extend(p, trusted_until);
            }
            Effect::Drain { until } => self.drain(p, until),
            Effect::End { reason, .. } => self.end_term(p, &reason),
            Effect::Released { .. } => self.stats.count("released"),
            Effect::Stopped => self.stopped(p),
            Effect::Notice(notice) => self.notice(p, &notice),
        }
    }

    /// Sets the timer anew; timers fire up to a millisecond late.
    pub fn set_timer(&mut self, p: usize) {
        let process = &mut self.processes[p];
        let due = process.machine.next_deadline();
        let at = due.map(|deadline| process.clock.truth(deadline).max(self.now));
        if at == process.timer_at || !process.alive {
            return;
        }
        process.timer += 1;
        process.timer_at = at;
        let generation = process.timer;
        if let Some(at) = at.filter(|at| *at < Nanos::MAX) {
            let late = 1000 + self.random.below(MS);
            self.send(at + late, p, Delivery::Timer { generation });
        }
    }

    /// Notes one line of the story.
    pub fn say(&mut self, kind: u64, detail: u64, line: impl FnOnce() -> String) {
        self.log.say(self.now, kind, detail, line);
    }

    /// The living process whose guard is valid; the one with the newest token, if there are two.
    pub fn leader(&self) -> Option<usize> {
        let guarded = self.living.iter().copied();
        guarded
            .filter(|p| self.processes[*p].guarded(self.now))
            .max_by_key(|p| self.processes[*p].guard.map(|guard| guard.token))
    }

    pub fn publish(&mut self, news: News) {
        let news = std::rc::Rc::new(news);
        for index in 0..self.living.len() {
            let p = self.living[index];
            self.publish_to(p, &news);
        }
    }
}
