//! The shell of one member: its election on the member lease, its handoff, and its works.
//!
//! ```text
//!   news of the own, the leader's, the assignment and other members' leases
//!        │                                               ┌─▶ requests to the store
//!        ▼                 begin, end                    │
//!   ┌──────────┐ ─────────────────────▶ ┌─────────┐      ├─▶ works: start, drain, lose
//!   │ Election │                        │ Handoff │ ─────┤
//!   └──────────┘ ◀───────────────────── └─────────┘      └─▶ whom to watch
//!        │          what the lease says      ▲
//!        └─▶ trust of every guard            └── a work ended
//! ```
//!
//! The end of this task, for whatever reason, ends every guard with it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use leasehold_core::election::{self, Config, Election, Purpose, WriteOutcome};
use leasehold_core::id::Term;
use leasehold_core::lease::Contents;
use leasehold_core::partition::{Handoff, Listing, MemberRecord, Table, handoff};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};
use tokio::sync::oneshot;

use super::Shared;
use super::around::{About, Around};
use super::builder::OnDrainTimeout;
use super::late::Late;
use super::pending::Pending;
use super::works::{Work, Works};
use crate::cluster::Registration;
use crate::driver::StoreError;
use crate::elector;
use crate::leadership::{Begun, LostReason};
use crate::random;
use crate::settings::Sources;
use crate::signal;
use crate::watchdog::Watchdog;

mod effects;
mod news;
mod shown;

/// What a member is made from, beside what it shares with its planner.
pub(super) struct Setup {
    pub(super) shared: Arc<Shared>,
    pub(super) sources: Sources,
    pub(super) about: MemberRecord,
    pub(super) may_reclaim: bool,
    pub(super) work: Work,
    pub(super) watchdog: Watchdog,
    pub(super) on_drain_timeout: OnDrainTimeout,
    /// The cluster is not closed before this member has left.
    pub(super) registration: Arc<Registration>,
}

/// How the one request of the election ended.
struct Answer {
    outcome: Outcome,
    verb: &'static str,
    error: Option<StoreError>,
}

enum Outcome {
    Listed(Result<Listing, Option<Duration>>),
    Wrote { attempt: u64, outcome: WriteOutcome },
}

/// Something read beside the election's own requests.
enum Aside {
    /// The list with which a life begins.
    Joined(Term, Result<Listing, StoreError>),
    /// A member's lease left its watch: this is what a read by name found (E4).
    Confirmed(
        Arc<str>,
        Result<Option<leasehold_core::lease::Versioned>, StoreError>,
    ),
}

/// A life that has begun and waits for a list of its own.
struct Joining {
    term: Term,
    /// The newest table that was seen since.
    watched: Option<Arc<Table>>,
}

enum Todo {
    Election(election::Effect),
    Handoff(handoff::Effect),
}

type Request = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub(super) struct Membership {
    shared: Arc<Shared>,
    sources: Sources,
    election: Election,
    handoff: Handoff,
    /// What it says of itself before it has anything to say of partitions.
    about: Arc<MemberRecord>,
    works: Works,
    /// Effects that have not been carried out, in order.
    todo: VecDeque<Todo>,
    /// One of them is being carried out.
    is_busy: bool,
    begun: Option<Begun>,
    joining: Option<Joining>,
    /// A life has begun: the hash is settled.
    has_joined: bool,
    /// A term is over, and the election does not know yet that its works have ended.
    owes_ending: bool,
    /// Why the last term ended.
    lost: LostReason,
    request: Option<Request>,
    asides: Pending<Aside>,
    around: Around,
    /// The pod whose member lease is followed because it leads.
    leading_pod: Option<Arc<str>>,
    watchdog: Watchdog,
    on_drain_timeout: OnDrainTimeout,
    /// Until when others may take our partitions over one by one, while we leave.
    hand_over_until: Option<Instant>,
    leaving: bool,
    late: Late,
    /// The last reason of a complaint, until the store serves again.
    complaint: Option<&'static str>,
    /// What the last unreadable or foreign table was refused for.
    refused: Option<String>,
    stopped: bool,
    _registration: Arc<Registration>,
}

impl Membership {
    pub(super) fn new(setup: Setup) -> Self {
        let Setup {
            shared,
            sources,
            about,
            may_reclaim,
            work,
            watchdog,
            on_drain_timeout,
            registration,
        } = setup;
        let config = Config {
            identity: shared.identity.clone(),
            token_era: shared.token_era,
            timing: sources.timing(),
            may_reclaim,
            // Below 2⁵³, so that any reader of the stamp gets the number right.
            first_attempt: random::number() >> 11,
            rules: Rules::ALL,
        };
        let mut around = Around::default();
        around.expect_heartbeat(sources.timing().heartbeat());
        around.follow(About::Leader, shared.store.watch(&shared.id));
        around.follow(
            About::Assignment,
            shared.store.watch(&shared.id.assignment()),
        );
        let mut member = Self {
            election: Election::new(config),
            handoff: Handoff::new(Arc::clone(&shared.name), about.clone(), Rules::ALL),
            about: Arc::new(about),
            works: Works::new(work, shared.clock.clone()),
            todo: VecDeque::new(),
            is_busy: false,
            begun: None,
            joining: None,
            has_joined: false,
            owes_ending: false,
            lost: LostReason::Abandoned,
            request: None,
            asides: Pending::new(),
            around,
            leading_pod: None,
            watchdog,
            on_drain_timeout,
            hand_over_until: None,
            leaving: false,
            late: Late::default(),
            complaint: None,
            refused: None,
            stopped: false,
            _registration: registration,
            shared,
            sources,
        };
        member.show();
        member
    }

    /// Runs until it has left. `abandoned` resolves when nobody is left to care for the service.
    pub(super) async fn run(mut self, mut abandoned: oneshot::Receiver<Infallible>) {
        let mut stopping = self.shared.stopping.subscribe();
        let mut alone = self.shared.alone.subscribe();
        let (mut has_service, mut may_stop) = (true, true);
        let contents = Contents::Member(Arc::clone(&self.about));
        let at_once = false;
        self.step(election::Input::Contents { contents, at_once });
        // Nothing is known: absence and floor are to come from one list (H1).
        self.step(election::Input::WatchedGone);
        while !self.stopped {
            self.follow_own();
            self.show();
            let deadline = self.deadline();
            let check_at = self.watchdog.next_check(!self.works.is_empty());
            let clock = self.shared.clock.clone();
            tokio::select! {
                biased;
                _ = &mut abandoned, if has_service => {
                    has_service = false;
                    self.abandon();
                }
                _ = stopping.wait_for(|asked| *asked), if may_stop => {
                    may_stop = false;
                    let drain = self.sources.drain_timeout();
                    self.step(election::Input::Shutdown { drain });
                }
                _ = alone.wait_for(|alone| *alone), if self.hand_over_until.is_some() => {
                    self.hand_over_until = Some(Instant::ZERO);
                    self.wake();
                }
                slot = self.works.next_ended() => {
                    self.ended(slot);
                    while let Some(slot) = self.works.also_ended() {
                        self.ended(slot);
                    }
                }
                answer = answer_of(&mut self.request) => self.answered(answer),
                aside = self.asides.next() => self.learn(aside),
                (about, news) = self.around.next() => self.hear(&about, news),
                () = clock.sleep_until(deadline) => self.wake(),
                () = clock.sleep_until(check_at) => self.check_health(),
            }
        }
        self.shared.roster.close();
        self.shared.left.send_replace(true);
        self.show();
    }

    fn deadline(&self) -> Instant {
        let limit = self.sources.drain_timeout();
        let all = [
            self.election.next_deadline(),
            self.hand_over_until,
            self.late.next(limit),
        ];
        all.into_iter().flatten().min().unwrap_or(Instant::MAX)
    }

    fn wake(&mut self) {
        let now = self.shared.clock.now();
        if self.hand_over_until.is_some_and(|until| now >= until) {
            self.hand_over_until = None;
            tracing::info!(cluster_id = %self.shared.id, "nobody takes over what is left: draining it");
            self.hand(handoff::Input::DrainAll);
        }
        self.step(election::Input::Timer);
        self.say_late(now);
    }

    /// Nobody is left to do the work: everything is dropped, and the lease given back afterwards.
    fn abandon(&mut self) {
        self.step(election::Input::Shutdown {
            drain: Duration::MAX,
        });
        self.step(election::Input::Health(false));
    }

    /// Gives this life up, and begins another: everything that runs is dropped.
    fn begin_anew(&mut self) {
        self.step(election::Input::Health(false));
        self.step(election::Input::Health(true));
    }

    fn check_health(&mut self) {
        let now = self.shared.clock.now();
        let timing = self.sources.timing();
        let Some(verdict) = self.watchdog.check(self.works.states(), &timing, now) else {
            return;
        };
        if let Err(problem) = &verdict {
            tracing::warn!(key = signal::WORK_UNHEALTHY, cluster_id = %self.shared.id, %problem, "giving every partition up");
            signal::count(signal::WORK_UNHEALTHY);
        }
        self.step(election::Input::Health(verdict.is_ok()));
    }

    fn step(&mut self, input: election::Input) {
        let effects = self.election.step(input, self.shared.clock.now());
        self.carry_out(effects.into_iter().map(Todo::Election));
    }

    fn hand(&mut self, input: handoff::Input) {
        let effects = self.handoff.step(input);
        self.carry_out(effects.into_iter().map(Todo::Handoff));
    }

    /// Carries effects out in the order in which they were asked for, also those that these bring.
    fn carry_out(&mut self, effects: impl Iterator<Item = Todo>) {
        self.todo.extend(effects);
        if self.is_busy {
            return;
        }
        self.is_busy = true;
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Election(effect) => self.apply(effect),
                Todo::Handoff(effect) => self.apply_handoff(effect),
            }
        }
        self.is_busy = false;
    }

    fn send(&mut self, write: election::Write) {
        let shared = Arc::clone(&self.shared);
        let limit = self.sources.timing().attempt_timeout();
        let marks = self.sources.marks();
        self.request = Some(Box::pin(async move {
            let (outcome, error) =
                elector::write(&*shared.store, &shared.member, &write, &marks, limit).await;
            let attempt = write.attempt;
            Answer {
                outcome: Outcome::Wrote { attempt, outcome },
                verb: verb_of(write.purpose),
                error,
            }
        }));
    }

    /// The election reads by a list, so that absence and floor come from one answer (H1).
    fn read(&mut self) {
        let listing = self.shared.list(self.sources.timing().attempt_timeout());
        self.request = Some(Box::pin(async move {
            let (outcome, error) = match listing.await {
                Ok(listing) => (Ok(listing), None),
                Err(error) => (Err(error.retry_after()), Some(error)),
            };
            Answer {
                outcome: Outcome::Listed(outcome),
                verb: "list",
                error,
            }
        }));
    }

    fn answered(&mut self, answer: Answer) {
        self.request = None;
        match &answer.error {
            Some(error) => self.complain(answer.verb, error),
            None => self.complaint = None,
        }
        match answer.outcome {
            Outcome::Wrote { attempt, outcome } => {
                self.step(election::Input::WriteDone { attempt, outcome });
            }
            Outcome::Listed(Err(retry_after)) => {
                self.step(election::Input::ReadFailed { retry_after });
            }
            Outcome::Listed(Ok(listing)) => self.listed(&listing),
        }
    }

    fn listed(&mut self, listing: &Listing) {
        let own = listing.members.get(&self.shared.name).cloned();
        let contents = listing
            .assignment
            .as_ref()
            .map(|state| &state.record.contents);
        match contents {
            Some(Contents::Table(table)) => self.raise_floor(table),
            // It may name a life of ours that nobody can read: the leader makes it anew (H7).
            Some(Contents::Unreadable { reason, .. }) if own.is_none() => {
                self.refuse(reason);
                return self.step(election::Input::ReadFailed { retry_after: None });
            }
            _ => {}
        }
        self.step(election::Input::Read(own));
    }

    /// H1: no life takes the number of one that the table names.
    fn raise_floor(&mut self, table: &Table) {
        if let Some(highest) = table.incarnation_max(&self.shared.name) {
            self.step(election::Input::TermFloor(highest));
        }
    }

    /// A candidate that has to wait follows the lease it waits for, by its name.
    fn follow_own(&mut self) {
        let soon = self.shared.clock.now().after(Duration::from_secs(1));
        let waits = match self.election.view().waiting {
            election::Waiting::Vacancy(vacancy) => vacancy.from > soon,
            election::Waiting::Health => true,
            _ => false,
        };
        if waits && !self.around.follows(&About::Own) {
            let feed = self.shared.store.watch(&self.shared.member);
            self.around.follow(About::Own, feed);
        }
    }

    /// A repeated complaint is logged once, then at a lower level until it changes.
    fn complain(&mut self, verb: &'static str, error: &StoreError) {
        let (reason, cluster_id) = (error.reason(), &self.shared.id);
        if self.complaint.replace(reason) == Some(reason) {
            tracing::debug!(key = signal::LEASE_UNAVAILABLE, %cluster_id, verb, reason, %error, "still not served");
        } else {
            tracing::warn!(key = signal::LEASE_UNAVAILABLE, %cluster_id, verb, reason, %error, "the lease store does not serve this member; retrying");
        }
        signal::count(signal::LEASE_UNAVAILABLE);
        if verb != "list" && error.is_outcome_unknown() {
            signal::count(signal::LEASE_OUTCOME_UNKNOWN);
        }
    }
}

fn verb_of(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Claim => "claim",
        Purpose::Release => "release",
        _ => "renew",
    }
}

async fn answer_of(request: &mut Option<Request>) -> Answer {
    match request {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}
