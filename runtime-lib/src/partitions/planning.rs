//! The shell of the planner: while this process leads, it makes the table.
//!
//! Everything runs within one future that is polled only while the leadership holds (E9), so that
//! no write is sent after its loss; one that is under way then meets a newer revision.

use std::sync::Arc;

use leasehold_core::election::{Write, WriteOutcome};
use leasehold_core::partition::Listing;
use leasehold_core::partition::planner::{
    Config, Effect, Input, MemberPhase, MemberView, Notice, Pace, Planner,
};
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};
use tokio::task::JoinSet;

use super::pending::Pending;
use super::{Policy, Shared};
use crate::driver::{Marks, MemberNews, News, StoreError};
use crate::elector::{self, Command, Ends};
use crate::error::RunError;
use crate::key::LeaseKey;
use crate::leadership::{Guarded, Leadership};
use crate::random;
use crate::signal;

/// How often the planner says that it goes round.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);
/// A planner that is silent for so long gives its leadership up. A pause of the whole machine that
/// its trust survives is shorter.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Plans in each term that this process leads, until its election has ended.
pub(super) async fn drive(shared: Arc<Shared>, mut ends: Ends) -> Result<(), RunError> {
    while let Some(leadership) = ends.terms.recv().await {
        let planning = plan_term(Arc::clone(&shared), leadership.clone());
        // A task of its own: its panic ends this term, and nothing else.
        let mut task = JoinSet::new();
        task.spawn(Guarded::new(planning, leadership));
        if let Some(Err(error)) = task.join_next().await {
            tracing::error!(cluster_id = %shared.id, %error, "the planner has ended; another term begins a new one");
        }
        // A closed queue means that the elector has ended; then the terms end as well.
        let _ = ends.commands.send(Command::WorkEnded);
    }
    ends.task.await.map_err(|_| RunError::ElectionEnded)
}

/// Plans until the term is to end. A process that shuts down leads on until its own member has
/// handed over what it runs, since nobody else might.
async fn plan_term(shared: Arc<Shared>, leadership: Leadership) {
    let mut left = shared.left.subscribe();
    let stopped = {
        let (shared, leadership) = (Arc::clone(&shared), leadership.clone());
        async move {
            leadership.draining().await;
            if *shared.stopping.borrow() {
                // A little less than the drain may take, so that the lease can be released.
                let limit = shared.policy.borrow().drain_timeout.mul_f64(0.9);
                tokio::select! {
                    _ = left.wait_for(|left| *left) => {}
                    () = shared.clock.sleep(limit) => {}
                }
            }
        }
    };
    tokio::select! {
        () = stopped => {}
        () = Planning::new(shared, leadership).run() => {}
    }
}

/// How a request of the planner ended.
enum Answer {
    Listed {
        asked: Instant,
        answer: Result<Listing, StoreError>,
    },
    Wrote {
        attempt: u64,
        outcome: WriteOutcome,
        error: Option<StoreError>,
    },
}

struct Planning {
    shared: Arc<Shared>,
    leadership: Leadership,
    planner: Planner,
    requests: Pending<Answer>,
    complaint: Option<&'static str>,
}

impl Planning {
    fn new(shared: Arc<Shared>, leadership: Leadership) -> Self {
        let Policy {
            timing,
            drain_timeout,
            wanted,
        } = *shared.policy.borrow();
        let pace = Pace::default();
        let pace = Pace {
            // The leaver begins to drain by itself after half of its time.
            hold: pace.hold.min(drain_timeout / 3),
            ..pace
        };
        let config = Config {
            me: Arc::clone(&shared.name),
            identity: shared.leader_identity.clone(),
            leader_term: leadership.term(),
            timing,
            first_attempt: random::number() >> 11,
            wanted,
            pace,
            rules: Rules::ALL,
        };
        let planner = Planner::new(config, shared.sightings(), shared.clock.now());
        Self {
            shared,
            leadership,
            planner,
            requests: Pending::new(),
            complaint: None,
        }
    }

    async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut members = shared.store.watch_members(&shared.id);
        let mut assignment = shared.store.watch(&shared.id.assignment());
        let mut policy = shared.policy.subscribe();
        let mut timing = policy.borrow_and_update().timing;
        members.expect_heartbeat(timing.heartbeat());
        let (mut hears_members, mut hears_table) = (true, true);
        self.step(Input::Timer);
        loop {
            // Leadership is renewed only as long as this loop goes round.
            self.leadership.progress();
            self.look_for_heirs();
            let alive_at = shared.clock.now().after(SIGN_OF_LIFE);
            let deadline = self.planner.next_deadline().unwrap_or(Instant::MAX);
            tokio::select! {
                biased;
                answer = self.requests.next() => self.answered(answer),
                news = members.next(), if hears_members => match news {
                    Some(news) => self.hear(news),
                    None => hears_members = false,
                },
                news = assignment.next(), if hears_table => match news {
                    Some(news) => self.hear_assignment(news),
                    None => hears_table = false,
                },
                changed = policy.changed() => {
                    // The sender lives in `shared`.
                    drop(changed);
                    let new = *policy.borrow_and_update();
                    if new.timing != timing {
                        timing = new.timing;
                        members.expect_heartbeat(timing.heartbeat());
                        self.step(Input::Retime(timing));
                    }
                    self.step(Input::Wanted(new.wanted));
                }
                () = shared.clock.sleep_until(deadline) => self.step(Input::Timer),
                () = shared.clock.sleep_until(alive_at) => {}
            }
        }
    }

    fn hear(&mut self, news: MemberNews) {
        match news {
            MemberNews::Listed { asked, members } => {
                self.step(Input::MembersListed { asked, members });
            }
            MemberNews::Seen(name, lease) => self.step(Input::MemberSeen { name, lease }),
            MemberNews::Gone(name) => self.step(Input::MemberGone { name }),
            MemberNews::Down(_) | MemberNews::Up => {}
        }
    }

    fn hear_assignment(&mut self, news: News) {
        match news {
            News::Watched(state) => self.step(Input::Assignment(Some(state))),
            News::Listed { state, .. } => self.step(Input::Assignment(state)),
            News::Gone => self.step(Input::Assignment(None)),
            News::Settings(_) | News::Down(_) | News::Up => {}
        }
    }

    fn answered(&mut self, answer: Answer) {
        let (verb, error, input) = match answer {
            Answer::Listed { asked, answer } => match answer {
                Ok(listing) => ("list", None, Input::Listed { asked, listing }),
                Err(error) => {
                    let retry_after = error.retry_after();
                    ("list", Some(error), Input::ListFailed { retry_after })
                }
            },
            Answer::Wrote {
                attempt,
                outcome,
                error,
            } => ("write", error, Input::WriteDone { attempt, outcome }),
        };
        match &error {
            Some(error) => self.complain(verb, error),
            None => self.complaint = None,
        }
        self.step(input);
    }

    fn step(&mut self, input: Input) {
        let effects = self.planner.step(input, self.shared.clock.now());
        for effect in effects {
            match effect {
                Effect::List => self.list(),
                Effect::Publish(write) => self.write(self.shared.id.assignment(), write),
                Effect::Fence { name, write } => match self.shared.id.member(&name) {
                    Ok(key) => self.write(key, write),
                    // It was read from a Lease of that name.
                    Err(error) => tracing::error!(%error, "a member cannot be fenced"),
                },
                Effect::Notice(notice) => self.notice(&notice),
            }
        }
    }

    /// While this process shuts down: tells its member whether there is anybody to wait for.
    fn look_for_heirs(&self) {
        if !*self.shared.stopping.borrow() {
            return;
        }
        let is_other = |view: &MemberView| view.member.name != self.shared.name;
        let members = self.planner.members();
        let mut others = members.iter().filter(|view| is_other(view));
        let alone = !others.any(|view| view.phase == MemberPhase::Ready);
        self.shared.alone.send_replace(alone);
    }

    fn limit(&self) -> Duration {
        self.shared.policy.borrow().timing.attempt_timeout()
    }

    fn list(&mut self) {
        let asked = self.shared.clock.now();
        let listing = self.shared.list(self.limit());
        self.requests.push(async move {
            let answer = listing.await;
            Answer::Listed { asked, answer }
        });
    }

    fn write(&mut self, key: LeaseKey, write: Write) {
        let (store, limit) = (Arc::clone(&self.shared.store), self.limit());
        self.requests.push(async move {
            let marks = Marks::default();
            let (outcome, error) = elector::write(&*store, &key, &write, &marks, limit).await;
            Answer::Wrote {
                attempt: write.attempt,
                outcome,
                error,
            }
        });
    }

    fn notice(&self, notice: &Notice) {
        let cluster_id = &self.shared.id;
        match notice {
            Notice::Published {
                epoch,
                moves,
                reason,
            } => {
                tracing::info!(key = signal::TABLE_PUBLISHED, %cluster_id, %epoch, moves, %reason, "partitions are assigned");
                signal::count(signal::TABLE_PUBLISHED);
                crate::metrics::count_moves(*moves);
            }
            Notice::Fenced(member) => {
                tracing::warn!(key = signal::MEMBER_FENCED, %cluster_id, %member, "a silent member lost its lease; others take over what it ran");
                signal::count(signal::MEMBER_FENCED);
            }
            Notice::Began(concern) => {
                tracing::warn!(%cluster_id, ?concern, "planning: from now on");
            }
            Notice::Ended(concern) => tracing::info!(%cluster_id, ?concern, "planning: no more"),
            other => tracing::debug!(%cluster_id, notice = ?other, "planning"),
        }
    }

    fn complain(&mut self, verb: &'static str, error: &StoreError) {
        let (reason, cluster_id) = (error.reason(), &self.shared.id);
        if self.complaint.replace(reason) == Some(reason) {
            tracing::debug!(key = signal::LEASE_UNAVAILABLE, %cluster_id, verb, reason, %error, "still not served");
        } else {
            tracing::warn!(key = signal::LEASE_UNAVAILABLE, %cluster_id, verb, reason, %error, "the lease store does not serve the planner; retrying");
        }
        signal::count(signal::LEASE_UNAVAILABLE);
        if verb == "write" && error.is_outcome_unknown() {
            signal::count(signal::LEASE_OUTCOME_UNKNOWN);
        }
    }
}
