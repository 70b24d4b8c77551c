//! The shell around one election: one task, one machine, one request at a time.
//!
//! ```text
//!   watch ───┐                      ┌──▶ requests to the store (attempt timeout)
//!   timer ───┤   ┌──────────────┐   ├──▶ Begun: the term that the work holds
//!   answers ─┼──▶│ Election::step│──┼──▶ leadership changes
//!   commands ┘   └──────────────┘   └──▶ snapshot for status and debug view
//! ```
//!
//! The task never ends because of the store; it ends after a shutdown. Its end, for whatever
//! reason, ends the term ([`Begun`] is dropped with it).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use leasehold_core::election::{Config, Effect, Election, Input, Write, WriteOutcome};
use leasehold_core::id::{Identity, Term};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tracing::Instrument;

use crate::changes::{Hub, Onlooker};
use crate::clock::Clock;
use crate::cluster::Registration;
use crate::driver::{Feed, LeaseStore, Marks, News, StoreError, WriteFailed};
use crate::key::LeaseKey;
use crate::leadership::{Begun, Leadership};
use crate::random;
use crate::settings::{Declared, Sources};
use crate::signal;
use crate::view::Board;
use crate::watchdog::Watchdog;

mod effects;

/// What an elector is made from.
pub(crate) struct Setup {
    pub(crate) service: String,
    pub(crate) key: LeaseKey,
    pub(crate) identity: Identity,
    pub(crate) token_era: u32,
    pub(crate) may_reclaim: bool,
    pub(crate) sources: Sources,
    /// The leader makes the table of a partitioned cluster id.
    pub(crate) partitioned: bool,
    pub(crate) watchdog: Watchdog,
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) clock: Clock,
    pub(crate) hub: Arc<Hub>,
    pub(crate) board: Arc<Board>,
    /// The cluster is not closed before this elector has ended.
    pub(crate) registration: Arc<Registration>,
}

/// A wish from the side of the work.
#[derive(Debug)]
pub(crate) enum Command {
    /// The work of the term has returned or was dropped.
    WorkEnded,
    /// Drain, release, and let another lead.
    StepDown,
    /// Drain, release, and stop.
    Shutdown,
    /// Nobody is left to do the work: release at once and stop.
    Abandon,
}

/// The ends of an elector that its service holds.
pub(crate) struct Ends {
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    /// Each term, as it begins.
    pub(crate) terms: mpsc::UnboundedReceiver<Leadership>,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

/// How a request ended: what the machine is told, and what people are told.
struct Answer {
    input: Input,
    /// When the request was sent.
    asked: Instant,
    verb: &'static str,
    error: Option<StoreError>,
}

type Request = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub(crate) struct Elector {
    setup: Setup,
    machine: Election,
    feed: Feed,
    feed_open: bool,
    request: Option<Request>,
    begun: Option<Begun>,
    terms: mpsc::UnboundedSender<Leadership>,
    onlooker: Onlooker,
    /// Whose lease and which term the last line in the log was about.
    awaited: Option<(Option<String>, Term)>,
    /// A step-down was asked for: the term's end is its fulfilment.
    steps_down: bool,
    stopped: bool,
}

impl Elector {
    /// Starts the task. `shutdown` turns true when the whole cluster shuts down.
    pub(crate) fn start(setup: Setup, shutdown: watch::Receiver<bool>) -> Ends {
        let (commands, command_queue) = mpsc::unbounded_channel();
        let (terms, term_queue) = mpsc::unbounded_channel();
        let timing = setup.sources.timing();
        let config = Config {
            identity: setup.identity.clone(),
            token_era: setup.token_era,
            timing,
            may_reclaim: setup.may_reclaim,
            // Below 2⁵³, so that any reader of the stamp gets the number right.
            first_attempt: random::number() >> 11,
            rules: Rules::ALL,
        };
        let feed = setup.store.watch(&setup.key);
        feed.expect_heartbeat(timing.heartbeat());
        let own = [setup.identity.as_str().to_owned()];
        let elector = Self {
            machine: Election::new(config),
            feed,
            feed_open: true,
            request: None,
            begun: None,
            terms,
            onlooker: Onlooker::new(setup.key.clone(), own),
            awaited: None,
            steps_down: false,
            stopped: false,
            setup,
        };
        let span = tracing::info_span!(
            "election",
            service = elector.setup.service,
            cluster_id = %elector.setup.key,
            identity = %elector.setup.identity,
        );
        let task = tokio::spawn(elector.run(command_queue, shutdown).instrument(span));
        Ends {
            commands,
            terms: term_queue,
            task,
        }
    }

    async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        mut shutdown: watch::Receiver<bool>,
    ) {
        let (mut has_service, mut may_shut_down) = (true, true);
        self.show();
        while !self.stopped {
            let deadline = self.machine.next_deadline().unwrap_or(Instant::MAX);
            let check_at = self.setup.watchdog.next_check(self.begun.is_some());
            tokio::select! {
                biased;
                command = commands.recv(), if has_service => {
                    has_service = command.is_some();
                    self.obey(&command.unwrap_or(Command::Abandon));
                }
                asked = shutdown.wait_for(|asked| *asked), if may_shut_down => {
                    may_shut_down = false;
                    // A cluster that is gone without a word shuts down as well.
                    drop(asked);
                    self.obey(&Command::Shutdown);
                }
                answer = answer_of(&mut self.request) => self.answered(answer),
                news = self.feed.next(), if self.feed_open => self.hear(news),
                () = self.setup.clock.sleep_until(deadline) => self.step(Input::Timer),
                () = self.setup.clock.sleep_until(check_at) => self.check_health(),
            }
        }
        self.setup.hub.close();
        self.show();
        drop(self.setup.registration);
    }

    fn obey(&mut self, command: &Command) {
        let drain = self.setup.sources.drain_timeout();
        match command {
            Command::WorkEnded => self.step(Input::WorkEnded),
            Command::StepDown => {
                self.steps_down = true;
                self.step(Input::StepDown { drain });
            }
            Command::Shutdown => self.step(Input::Shutdown { drain }),
            Command::Abandon => {
                self.step(Input::WorkEnded);
                self.step(Input::Shutdown {
                    drain: Duration::ZERO,
                });
            }
        }
    }

    fn answered(&mut self, answer: Answer) {
        self.request = None;
        if let Some(error) = answer.error {
            self.complain(answer.verb, &error);
        } else {
            self.setup.board.note_success();
        }
        let now = self.setup.clock.now();
        let seen = match &answer.input {
            Input::Read(state) => self.onlooker.read(state.as_ref(), answer.asked),
            Input::WriteDone {
                outcome: WriteOutcome::Done(state),
                ..
            } => self.onlooker.wrote(state, now),
            _ => Vec::new(),
        };
        self.step(answer.input);
        self.report_all(&seen);
    }

    fn hear(&mut self, news: Option<News>) {
        match news {
            Some(News::Watched(state)) => {
                let seen = self.onlooker.watched(&state);
                self.step(Input::Watched(state));
                self.report_all(&seen);
            }
            Some(News::Gone) => self.step(Input::WatchedGone),
            Some(News::Listed { asked, state }) => {
                let seen = self.onlooker.read(state.as_ref(), asked);
                self.step(Input::Listed { asked, state });
                self.report_all(&seen);
            }
            Some(News::Settings(declared)) => self.declare(declared),
            Some(News::Down(error)) => self.setup.board.note_watch(Some(error.to_string())),
            Some(News::Up) => self.setup.board.note_watch(None),
            // The machine goes on without news: claims and renewals are compare-and-set.
            None => self.feed_open = false,
        }
    }

    /// Order: code, settings, environment, default.
    fn declare(&mut self, declared: Option<Result<Declared, String>>) {
        let partitioned = self.setup.partitioned;
        self.setup
            .sources
            .note_strategy(declared.as_ref(), partitioned);
        let checked = declared.map(|declared| {
            declared.and_then(|declared| declared.check_strategy(partitioned).map(|()| declared))
        });
        let declared = match checked.transpose() {
            Ok(declared) => declared,
            Err(problem) => {
                if self.setup.board.note_settings_problem(Some(&problem)) {
                    tracing::warn!(key = signal::SETTINGS_REFUSED, cluster_id = %self.setup.key, problem, "the declared settings are ignored");
                    signal::count(signal::SETTINGS_REFUSED);
                }
                return;
            }
        };
        self.setup.board.note_settings_problem(None);
        if declared == self.setup.sources.declared {
            return;
        }
        self.setup.sources.declared = declared;
        let timing = self.setup.sources.timing();
        let generation = self.setup.sources.marks().settings_generation;
        tracing::info!(key = signal::SETTINGS_APPLIED, cluster_id = %self.setup.key, ?generation, ?timing, "settings are in force");
        signal::count(signal::SETTINGS_APPLIED);
        self.feed.expect_heartbeat(timing.heartbeat());
        self.step(Input::Retime(timing));
    }

    fn check_health(&mut self) {
        let now = self.setup.clock.now();
        let term = self.begun.as_ref().map(Begun::state);
        let timing = self.setup.sources.timing();
        let Some(verdict) = self.setup.watchdog.check(term, &timing, now) else {
            return;
        };
        if let Err(problem) = &verdict {
            tracing::warn!(key = signal::WORK_UNHEALTHY, cluster_id = %self.setup.key, %problem, "stepping down");
            signal::count(signal::WORK_UNHEALTHY);
        }
        self.step(Input::Health(verdict.is_ok()));
    }

    fn step(&mut self, input: Input) {
        let effects = self.machine.step(input, self.setup.clock.now());
        for effect in effects {
            self.apply(effect);
        }
        self.show();
    }

    fn send(&mut self, write: Write) {
        let (store, key) = (Arc::clone(&self.setup.store), self.setup.key.clone());
        let limit = self.setup.sources.timing().attempt_timeout();
        let marks = self.setup.sources.marks();
        let asked = self.setup.clock.now();
        self.request = Some(Box::pin(async move {
            let (outcome, error) = self::write(&*store, &key, &write, &marks, limit).await;
            let input = Input::WriteDone {
                attempt: write.attempt,
                outcome,
            };
            Answer {
                input,
                asked,
                verb: "write",
                error,
            }
        }));
    }

    fn read(&mut self) {
        let (store, key) = (Arc::clone(&self.setup.store), self.setup.key.clone());
        let limit = self.setup.sources.timing().attempt_timeout();
        let asked = self.setup.clock.now();
        self.request = Some(Box::pin(async move {
            let answer = store.read(&key, limit).await;
            crate::metrics::count_read(answer.is_ok());
            let (input, error) = match answer {
                Ok(state) => (Input::Read(state), None),
                Err(error) => (
                    Input::ReadFailed {
                        retry_after: error.retry_after(),
                    },
                    Some(error),
                ),
            };
            Answer {
                input,
                asked,
                verb: "read",
                error,
            }
        }));
    }

    /// A repeated complaint is logged once, then at a lower level until it changes.
    fn complain(&mut self, verb: &'static str, error: &StoreError) {
        let reason = error.reason();
        if self.setup.board.note_error(error) {
            tracing::warn!(key = signal::LEASE_UNAVAILABLE, cluster_id = %self.setup.key, verb, reason, %error, "the lease store does not serve us; retrying");
        } else {
            tracing::debug!(key = signal::LEASE_UNAVAILABLE, cluster_id = %self.setup.key, verb, reason, %error, "still not served");
        }
        signal::count(signal::LEASE_UNAVAILABLE);
        if verb == "write" && error.is_outcome_unknown() {
            signal::count(signal::LEASE_OUTCOME_UNKNOWN);
        }
    }

    fn show(&mut self) {
        let view = self.machine.view();
        self.say_wait(&view);
        let sources = &self.setup.sources;
        self.setup
            .board
            .show(view, sources.marks(), sources.timing());
    }
}

/// Sends a write, with its three outcomes kept apart; the error is for people.
pub(crate) async fn write(
    store: &dyn LeaseStore,
    key: &LeaseKey,
    write: &Write,
    marks: &Marks,
    limit: Duration,
) -> (WriteOutcome, Option<StoreError>) {
    let (outcome, error) = match store.write(key, write, marks, limit).await {
        Ok(state) => (WriteOutcome::Done(state), None),
        Err(WriteFailed::Conflict) => (WriteOutcome::Conflict, None),
        Err(WriteFailed::Failed(error)) if error.is_outcome_unknown() => {
            (WriteOutcome::Unknown, Some(error))
        }
        Err(WriteFailed::Failed(error)) => (
            WriteOutcome::Refused {
                retry_after: error.retry_after(),
            },
            Some(error),
        ),
    };
    crate::metrics::count_write(write.purpose, &outcome);
    (outcome, error)
}

async fn answer_of(request: &mut Option<Request>) -> Answer {
    match request {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

/// Runs one effect; kept apart from the loop because it is all there is to know about effects.
impl Elector {
    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Write(write) => self.send(write),
            Effect::Read => self.read(),
            Effect::Begin {
                term,
                token,
                trusted_until,
            } => self.begin(term, token, trusted_until),
            Effect::Extend { trusted_until } | Effect::Shorten { trusted_until } => {
                if let Some(begun) = &self.begun {
                    begun.trust_until(trusted_until);
                }
            }
            Effect::Drain { until } => self.drain(until),
            Effect::End { term, reason } => self.end(term, reason),
            Effect::Released { term } => self.released(term),
            Effect::Stopped => self.stopped = true,
            Effect::Notice(notice) => self.notice(&notice),
        }
    }
}
