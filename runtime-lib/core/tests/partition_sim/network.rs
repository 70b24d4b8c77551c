//! Requests and answers: lost, slow, late, held, and served by an API that has bad days.

use leasehold_core::election::{Purpose, Write, WriteOutcome};
use leasehold_core::time::{Duration, Instant};

use crate::clock::{MS, Nanos, SEC, nanos};
use crate::pod::{Answer, Asker, Delivery, Link, Selector};
use crate::store::Key;
use crate::world::{Event, World};

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Call {
    pub pod: usize,
    pub id: u64,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    Write(Key, Box<Write>),
    /// A quorum read of the leader Lease.
    Read,
    /// A quorum list of everything.
    List,
    /// The list that begins a watch connection.
    Watch {
        selector: Selector,
        connection: u64,
        asked: Instant,
    },
}

/// What is wrong with the API server, and until when.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_field_names, reason = "each is the end of a bad time")]
pub struct Api {
    pub down_until: Nanos,
    pub hangs_until: Nanos,
    pub no_writes_until: Nanos,
}

impl World {
    pub fn request(&mut self, p: usize, asker: Asker, body: Body) {
        let id = self.number();
        self.judge.requests += 1;
        let pod = &mut self.pods[p];
        pod.calls.insert(id, asker);
        let attempt = self.mix.timing.attempt_timeout();
        let timeout = self.now + pod.clock.stretch(attempt);
        let paused = pod.paused > 0;
        self.send(timeout, p, Delivery::Timeout { call: id });
        let call = Call { pod: p, id, body };
        if paused {
            self.deliver(p, Delivery::Transmit(call));
        } else {
            self.transmit(call);
        }
    }

    /// The way to the server.
    pub fn transmit(&mut self, call: Call) {
        let p = call.pod;
        match self.pods[p].link {
            Link::Dropped => {}
            Link::Held => self.pods[p].held_out.push(call),
            Link::Up | Link::OneWay => {
                if self.faults_on && self.random.chance(self.mix.request_lost) {
                    self.stats.count("request lost");
                    return;
                }
                let mut at = self.now + self.latency();
                if self.faults_on && self.random.chance(self.mix.late) {
                    self.stats.count("request late");
                    at += self.random.between(SEC, 30 * SEC);
                }
                self.schedule(at, Event::Call(call));
            }
        }
    }

    /// One way; sometimes as long as the whole attempt, or longer.
    fn latency(&mut self) -> Nanos {
        if self.faults_on && self.random.chance(self.mix.slow) {
            let attempt = nanos(self.mix.timing.attempt_timeout());
            return self.random.between(attempt / 10, attempt * 5 / 4);
        }
        let (low, high) = self.mix.latency;
        self.random.between(low, high)
    }

    /// A request reaches the server.
    pub fn arrive(&mut self, call: Call) {
        let (now, api) = (self.now, self.api);
        if now < api.hangs_until {
            // A stopped server answers what is still connected when it goes on.
            if self.random.chance(500) {
                let at = api.hangs_until + self.random.below(SEC);
                self.schedule(at, Event::Call(call));
            }
            return;
        }
        if now < api.down_until {
            let failure = Self::failure(&call);
            return self.respond(&call, failure);
        }
        if now < api.no_writes_until && matches!(call.body, Body::Write(..)) {
            // A storage error is no proof that nothing was stored; a throttled one is.
            let mut failure = Self::failure(&call);
            if self.random.chance(150) {
                let _ = self.serve(&call);
            } else if self.random.chance(300) {
                let retry_after = Some(Duration::from_secs(1));
                let answer = Answer::Write(WriteOutcome::Refused { retry_after });
                failure = Delivery::Answer {
                    call: call.id,
                    answer,
                };
            }
            return self.respond(&call, failure);
        }
        let answer = self.serve(&call);
        self.respond(&call, answer);
    }

    /// The way back.
    fn respond(&mut self, call: &Call, what: Delivery) {
        let p = call.pod;
        match self.pods[p].link {
            Link::Held => self.pods[p].held_in.push(what),
            Link::Dropped | Link::OneWay => {}
            Link::Up => {
                if self.faults_on && self.random.chance(self.mix.answer_lost) {
                    self.stats.count("answer lost");
                    return;
                }
                let mut at = self.now + self.latency();
                if let Body::Watch { connection, .. } = call.body
                    && let Some(watch) = self.pods[p].watch_of(connection)
                {
                    at = at.max(watch.newest);
                    watch.newest = at;
                }
                self.send(at, p, what);
            }
        }
    }

    fn failure(call: &Call) -> Delivery {
        let answer = match call.body {
            Body::Write(..) => Answer::Write(WriteOutcome::Unknown),
            Body::Read | Body::List => Answer::Failed(None),
            Body::Watch { connection, .. } => return Delivery::ListFailed { connection },
        };
        Delivery::Answer {
            call: call.id,
            answer,
        }
    }

    /// The server does what was asked.
    fn serve(&mut self, call: &Call) -> Delivery {
        let answer = match &call.body {
            Body::Write(key, write) => Answer::Write(self.serve_write(call.pod, key, write)),
            Body::Read => Answer::Read(self.store.get(&Key::Leader).cloned()),
            Body::List => Answer::List(self.store.list()),
            Body::Watch {
                selector,
                connection,
                asked,
            } => return self.serve_watch(call.pod, selector, *connection, *asked),
        };
        Delivery::Answer {
            call: call.id,
            answer,
        }
    }

    fn serve_write(&mut self, p: usize, key: &Key, write: &Write) -> WriteOutcome {
        let before = self.store.get(key).cloned();
        let Some(state) = self.store.write(p, key, write) else {
            self.stats.count("conflict");
            return WriteOutcome::Conflict;
        };
        self.say(9, state.revision.number(), || {
            let (purpose, revision) = (write.purpose, state.revision);
            format!("store: {purpose:?} of {key:?} by p{p} is {revision:?}")
        });
        match write.purpose {
            Purpose::Publish => self.check_publish(p, before.as_ref(), &state),
            Purpose::Fence => self.stats.count("fence"),
            Purpose::Claim | Purpose::Renew | Purpose::Release => {}
        }
        if let Key::Member(name) = key {
            self.check_record(p, name, &state, write.purpose);
        }
        self.check_quiet(p, key, write.purpose);
        self.publish(key);
        WriteOutcome::Done(state)
    }

    pub fn answered(&mut self, p: usize, call: u64, answer: Answer) {
        if let Some(asker) = self.pods[p].calls.remove(&call) {
            self.pass_answer(p, asker, answer);
        }
    }

    pub fn timed_out(&mut self, p: usize, call: u64) {
        let Some(asker) = self.pods[p].calls.get(&call).copied() else {
            return;
        };
        self.stats.count("request timed out");
        let answer = match asker {
            Asker::Leader(Some(_)) | Asker::Member(Some(_)) | Asker::Planner(..) => {
                Answer::Write(WriteOutcome::Unknown)
            }
            Asker::Leader(None) | Asker::Member(None) | Asker::PlannerList(..) => {
                Answer::Failed(None)
            }
        };
        self.answered(p, call, answer);
    }

    /// Everything that a link held goes on its way, in order.
    pub fn let_go(&mut self, p: usize) {
        let calls = std::mem::take(&mut self.pods[p].held_out);
        let answers = std::mem::take(&mut self.pods[p].held_in);
        let mut at = self.now;
        for call in calls {
            at += self.random.below(20 * MS);
            self.schedule(at, Event::Call(call));
        }
        let mut at = self.now;
        for what in answers {
            at += self.random.below(20 * MS);
            self.send(at, p, what);
        }
        for watch in self.pods[p].watches.values_mut() {
            watch.newest = watch.newest.max(at);
        }
    }
}
