//! Requests and answers: lost, slow, late, refused, held, and served by an API that has bad days.

use leasehold_core::election::{Input, Purpose, Target, Write, WriteOutcome};
use leasehold_core::time::{Duration, Instant};

use crate::client_go;
use crate::clock::{MS, Nanos, SEC, nanos};
use crate::judge::Check;
use crate::node::{Answer, Delivery, Link, Machine};
use crate::store::Applied;
use crate::world::{Event, World};

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Call {
    pub process: usize,
    pub id: u64,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    Write(Write),
    Read,
    /// The list that begins a watch connection.
    List {
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
    pub no_reads_until: Nanos,
    pub forbids_until: Nanos,
    pub throttles_until: Nanos,
}

impl Api {
    pub fn is_well(&self, now: Nanos) -> bool {
        let Self {
            down_until,
            hangs_until,
            no_writes_until,
            no_reads_until,
            forbids_until,
            throttles_until,
        } = *self;
        let all = [
            down_until,
            hangs_until,
            no_writes_until,
            no_reads_until,
            forbids_until,
            throttles_until,
        ];
        all.into_iter().all(|until| now >= until)
    }
}

impl World {
    pub fn send_write(&mut self, p: usize, write: Write) {
        if write.purpose == Purpose::Claim {
            let waited = self.processes[p].has_waited(self.now) || self.is_heir(p, &write);
            self.processes[p].claims.push((write.attempt, waited));
        }
        let attempt = write.attempt;
        self.request(p, Some(attempt), Body::Write(write));
    }

    /// Needs no wait: the record is of an ended term of its own, or of its pod's former process,
    /// which has ended (E8).
    fn is_heir(&self, p: usize, write: &Write) -> bool {
        let Target::Exactly { revision, .. } = &write.target else {
            return false;
        };
        let Some(q) = self.store.keeper_of(revision.number()) else {
            return false;
        };
        let (mine, former) = (&self.processes[p], &self.processes[q]);
        let same_pod = mine.may_reclaim && mine.pod_uid == former.pod_uid && !former.alive;
        p == q || same_pod
    }

    pub fn send_read(&mut self, p: usize) {
        self.request(p, None, Body::Read);
    }

    fn request(&mut self, p: usize, attempt: Option<u64>, body: Body) {
        self.next_call += 1;
        let id = self.next_call;
        self.processes[p].call = Some((id, attempt));
        self.count_request(p);
        let process = &self.processes[p];
        let attempt = match process.machine {
            Machine::Ours(_) => process.timing.attempt_timeout(),
            Machine::ClientGo(_) => client_go::ATTEMPT,
        };
        let timeout = self.now + process.clock.stretch(attempt);
        self.send(timeout, p, Delivery::Timeout { call: id });
        self.transmit(Call {
            process: p,
            id,
            body,
        });
    }

    /// The way to the server.
    pub fn transmit(&mut self, call: Call) {
        let p = call.process;
        match self.processes[p].link {
            Link::Dropped => {}
            Link::Held => self.processes[p].held_out.push(call),
            Link::Refused => {
                let failure = Self::failure(&call, None);
                self.send(self.now + MS, p, failure);
            }
            Link::Up | Link::OneWay => {
                if self.faults_on && self.random.chance(self.mix.request_lost) {
                    self.stats.count("request lost");
                    return;
                }
                let mut at = self.now + self.latency(p);
                if self.faults_on && self.random.chance(self.mix.late) {
                    self.stats.count("request late");
                    at += self.random.between(SEC, 30 * SEC);
                }
                self.schedule(at, Event::Call(call));
            }
        }
    }

    /// One way; sometimes as long as the whole attempt, or longer.
    fn latency(&mut self, p: usize) -> Nanos {
        if self.faults_on && self.random.chance(self.mix.slow) {
            self.stats.count("slow packet");
            let attempt = nanos(self.processes[p].timing.attempt_timeout());
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
        let is_write = matches!(call.body, Body::Write(_));
        if now < api.down_until {
            let failure = Self::failure(&call, None);
            return self.respond(&call, failure, 0);
        }
        if now < api.forbids_until {
            let failure = Self::refusal(&call, None);
            return self.respond(&call, failure, 0);
        }
        if now < api.throttles_until {
            let wish = Duration::from_secs(self.random.between(1, 4));
            let failure = Self::refusal(&call, Some(wish));
            return self.respond(&call, failure, 0);
        }
        let storage_fails = if is_write {
            now < api.no_writes_until
        } else {
            now < api.no_reads_until
        };
        if storage_fails {
            // A storage error is no proof that nothing was stored.
            if is_write && self.random.chance(150) {
                let _ = self.serve(&call);
            }
            let failure = Self::failure(&call, None);
            return self.respond(&call, failure, 50 * MS);
        }
        let answer = self.serve(&call);
        self.respond(&call, answer, 0);
    }

    /// The way back.
    fn respond(&mut self, call: &Call, what: Delivery, extra: Nanos) {
        let p = call.process;
        match self.processes[p].link {
            Link::Held => self.processes[p].held_in.push(what),
            Link::Dropped | Link::OneWay | Link::Refused => {}
            Link::Up => {
                if self.faults_on && self.random.chance(self.mix.answer_lost) {
                    self.stats.count("answer lost");
                    return;
                }
                let mut at = self.now + extra + self.latency(p);
                if let Delivery::Listed { connection, .. } = what {
                    let watch = &mut self.processes[p].watch;
                    if watch.connection == connection {
                        at = at.max(watch.newest);
                        watch.newest = at;
                    }
                }
                self.send(at, p, what);
            }
        }
    }

    fn failure(call: &Call, retry_after: Option<Duration>) -> Delivery {
        let answer = match call.body {
            Body::Write(_) => Answer::Write(WriteOutcome::Unknown),
            Body::Read => Answer::ReadFailed(retry_after),
            Body::List { connection, .. } => return Delivery::ListFailed { connection },
        };
        Delivery::Answer {
            call: call.id,
            answer,
        }
    }

    fn refusal(call: &Call, retry_after: Option<Duration>) -> Delivery {
        if matches!(call.body, Body::Write(_)) {
            let answer = Answer::Write(WriteOutcome::Refused { retry_after });
            return Delivery::Answer {
                call: call.id,
                answer,
            };
        }
        Self::failure(call, retry_after)
    }

    /// The server does what was asked.
    fn serve(&mut self, call: &Call) -> Delivery {
        let answer = match &call.body {
            Body::Write(write) => Answer::Write(self.serve_write(call.process, write)),
            Body::Read => Answer::Read(self.store.state().cloned()),
            Body::List { connection, asked } => {
                return self.serve_list(call.process, *connection, *asked);
            }
        };
        Delivery::Answer {
            call: call.id,
            answer,
        }
    }

    fn serve_write(&mut self, p: usize, write: &Write) -> WriteOutcome {
        let Applied::Stored {
            before,
            mismatch,
            news,
        } = self.store.write(p, write)
        else {
            return WriteOutcome::Conflict;
        };
        let outcome = self.store.state().cloned().map(WriteOutcome::Done);
        let revision = self
            .store
            .state()
            .map_or(0, |state| state.revision.number());
        self.say(3, revision, || {
            format!("store: {:?} of p{p} is r{revision}", write.purpose)
        });
        self.judge.changes.push(self.now);
        if mismatch {
            self.found(
                Check::ReplacedUnseen,
                format!("{:?} of p{p}", write.purpose),
            );
        }
        self.check_stored(p, write, before.as_deref());
        self.publish(news);
        outcome.unwrap_or(WriteOutcome::Unknown)
    }

    pub fn answered(&mut self, p: usize, call: u64, answer: Answer) {
        let Some((_, attempt)) = self.processes[p].call.filter(|(id, _)| *id == call) else {
            return;
        };
        self.processes[p].call = None;
        let good = matches!(
            answer,
            Answer::Write(WriteOutcome::Done(_)) | Answer::Read(_)
        );
        if !good {
            self.disturb(p);
        }
        let input = match (answer, attempt) {
            (Answer::Write(outcome), Some(attempt)) => Input::WriteDone { attempt, outcome },
            (Answer::Read(state), _) => Input::Read(state),
            (Answer::ReadFailed(retry_after), _) => Input::ReadFailed { retry_after },
            (Answer::Write(_), None) => return,
        };
        self.feed(p, input);
    }

    pub fn timed_out(&mut self, p: usize, call: u64) {
        if self.processes[p].call.is_some_and(|(id, _)| id == call) {
            self.stats.count("request timed out");
            let write = self.processes[p].call.is_some_and(|(_, a)| a.is_some());
            let answer = if write {
                Answer::Write(WriteOutcome::Unknown)
            } else {
                Answer::ReadFailed(None)
            };
            self.answered(p, call, answer);
        }
    }

    /// Everything that a link held goes on its way, in order.
    pub fn let_go(&mut self, p: usize) {
        let calls = std::mem::take(&mut self.processes[p].held_out);
        let answers = std::mem::take(&mut self.processes[p].held_in);
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
        let watch = &mut self.processes[p].watch;
        watch.newest = watch.newest.max(at);
    }
}
