//! The machine: one `step` for everything that happens, one `next_deadline`.

mod candidate;
mod leader;
mod requests;
mod view;

use crate::id::{FencingToken, Identity, LeaseUid, Revision, Term};
use crate::lease::{Contents, LeaseTiming, Observation, Versioned};
use crate::rules::Rules;
use crate::time::{Duration, Instant};

use super::{Effect, EndReason, Input, Notice};
use requests::{Request, Sent};

pub use view::{View, Waiting};

/// What a candidate is born with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Unique for the life of this process (E8).
    pub identity: Identity,
    /// First half of every token (E7).
    pub token_era: u32,
    /// Checked durations; changed later by [`Input::Retime`].
    pub timing: LeaseTiming,
    /// E8: the shell has proved that the former process of this pod's container has ended. A
    /// record held by the same pod uid is then claimed at once, unless its holder is a stranger in
    /// the pod; a shell without the proof campaigns as [`Identity::as_stranger`].
    pub may_reclaim: bool,
    /// Number of the first attempt: random, so that two processes that share an identity by
    /// mistake do not take each other's stamps for their own.
    pub first_attempt: u64,
    /// The rules in force; complete outside of tests.
    pub rules: Rules,
}

/// The election of one process for one lease key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    config: Config,
    seen: Observation,
    role: Role,
    request: Option<Request>,
    /// The belief may be wrong: read before writing.
    read_due: bool,
    /// Since when: an older list cannot dispel the doubt (E4).
    doubted_at: Instant,
    /// No request before this instant.
    retry_at: Instant,
    /// Failed requests in a row.
    failures: u32,
    /// Conflicts since the last own write was stored: the second one in a row waits.
    conflicts: u32,
    /// Claims whose outcome is unknown (E2).
    unresolved: Vec<Sent>,
    next_attempt: u64,
    /// When an own write was last acknowledged or shown: an older answer cannot contradict it (E4).
    acked_at: Option<Instant>,
    /// The newest revision was confirmed by a read after the watch fell silent.
    verified: bool,
    healthy: bool,
    stopping: bool,
    contents: Contents,
    /// Counts the contents that must be published at once.
    edition: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// Waits for a vacancy; claims nothing before `not_before`.
    Candidate { not_before: Instant },
    /// Holds the lease and trusts it.
    Leader(Leading),
    /// The term ended; waits for the work to end before anything else.
    Ending(Ending),
    /// Shut down.
    Stopped,
}

/// A term while it may be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leading {
    term: Term,
    token: FencingToken,
    uid: LeaseUid,
    /// The newest revision that is ours.
    revision: Revision,
    trusted_until: Instant,
    renew_at: Instant,
    /// Writes of this term that may turn out to be stored.
    sent: Vec<Sent>,
    /// Ask for a drain by this instant, and let others go first afterwards.
    drain: Option<Drain>,
    work_ended: bool,
    /// Only with `ReleaseAfterDrain` switched off.
    released_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Drain {
    until: Instant,
    steps_down: bool,
}

/// A term whose guard is invalid already.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ending {
    term: Term,
    uid: LeaseUid,
    revision: Revision,
    /// The record is still ours: give it back once the work ended.
    release: bool,
    attempts: u32,
    /// The record shows our release, though its answer has not come.
    released: bool,
    work_ended: bool,
    not_before: Instant,
}

/// A release is tried this often before the lease is left to lapse.
const RELEASE_ATTEMPTS_MAX: u32 = 3;

impl Election {
    /// A candidate that has seen nothing yet.
    pub fn new(config: Config) -> Self {
        // Half of the numbers are left to count up to.
        let first_attempt = config.first_attempt & (u64::MAX >> 1);
        Self {
            seen: Observation::new(config.rules),
            role: Role::Candidate {
                not_before: Instant::ZERO,
            },
            request: None,
            read_due: false,
            doubted_at: Instant::ZERO,
            retry_at: Instant::ZERO,
            failures: 0,
            conflicts: 0,
            unresolved: Vec::new(),
            next_attempt: first_attempt,
            acked_at: None,
            verified: false,
            healthy: true,
            stopping: false,
            contents: Contents::Nothing,
            edition: 0,
            config: Config {
                first_attempt,
                ..config
            },
        }
    }

    /// The one way anything happens: takes an input, returns what must be done, in order.
    ///
    /// `now` never goes back. Calling it with [`Input::Timer`] at any time is harmless.
    pub fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        let mut out = Vec::new();
        // E9: first of all, whatever the input: a term past its trust is over.
        self.expire(now, &mut out);
        self.take(input, now, &mut out);
        self.act(now, &mut out);
        out
    }

    fn take(&mut self, input: Input, now: Instant, out: &mut Vec<Effect>) {
        match input {
            Input::Timer => {}
            Input::Watched(state) => self.watched(&state, now, out),
            Input::WatchedGone => self.doubt(now),
            Input::Listed { asked, state } => self.listed(asked, state.as_ref(), now, out),
            Input::Read(state) => self.read(state.as_ref(), now, out),
            Input::ReadFailed { retry_after } => self.read_failed(retry_after, now, out),
            Input::WriteDone { attempt, outcome } => self.write_done(attempt, outcome, now, out),
            Input::Health(healthy) => self.healthy = healthy,
            Input::WorkEnded => self.work_ended(),
            Input::StepDown { drain } => self.drain(now.after(drain), true, out),
            Input::Shutdown { drain } => {
                self.stopping = true;
                self.drain(now.after(drain), false, out);
            }
            Input::Retime(timing) => self.retime(timing, now),
            Input::Contents { contents, at_once } => self.carry(contents, at_once, now),
            Input::TermFloor(term) => self.seen.raise_term(term),
        }
    }

    fn act(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if matches!(self.role, Role::Leader(_)) {
            self.lead(now, out);
        }
        if matches!(self.role, Role::Ending(_)) {
            self.finish(now, out);
        }
        if matches!(self.role, Role::Candidate { .. }) {
            self.campaign(now, out);
        }
    }

    /// The instant at which [`Input::Timer`] must be fed, if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Candidate { .. } => self.candidate_deadline(),
            Role::Leader(leading) => Some(self.leader_deadline(leading)),
            Role::Ending(ending) => {
                let due = ending.work_ended && self.request.is_none();
                due.then_some(self.retry_at)
            }
            Role::Stopped => None,
        }
    }

    fn me(&self) -> &Identity {
        &self.config.identity
    }

    /// The record says that one of our own attempts made it.
    fn is_mine(&self, state: &Versioned) -> bool {
        let numbers = self.config.first_attempt..self.next_attempt;
        state.record.holder.as_deref() == Some(self.me().as_str())
            && state.record.is_stamped()
            && state.record.attempt.as_ref().is_some_and(|stamp| {
                stamp.identity == *self.me() && numbers.contains(&stamp.number)
            })
    }

    /// A different number for each candidate and term, for delays that should not coincide.
    fn spread(&self) -> u64 {
        let uid = self.seen.state().map_or("", |state| state.uid.as_str());
        let term = self.seen.term_max().number().to_le_bytes();
        let bytes = self.me().as_str().bytes().chain(uid.bytes()).chain(term);
        // FNV-1a, 64 bit.
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    fn work_ended(&mut self) {
        match &mut self.role {
            Role::Leader(leading) => leading.work_ended = true,
            Role::Ending(ending) => ending.work_ended = true,
            Role::Candidate { .. } | Role::Stopped => {}
        }
    }

    fn retime(&mut self, timing: LeaseTiming, now: Instant) {
        if self.config.timing == timing {
            return;
        }
        self.config.timing = timing;
        if let Role::Leader(leading) = &mut self.role {
            // Publish at once: candidates honour what the record says (E3).
            leading.renew_at = now;
        }
    }

    fn carry(&mut self, contents: Contents, at_once: bool, now: Instant) {
        self.contents = contents;
        if !at_once {
            return;
        }
        self.edition += 1;
        if let Role::Leader(leading) = &mut self.role {
            leading.renew_at = now;
        }
    }

    /// Notes what the store is known to hold and draws the role's conclusion.
    fn absorb(&mut self, state: Option<&Versioned>, now: Instant, out: &mut Vec<Effect>) {
        if self.seen.note(state, now) {
            self.verified = false;
            self.warn_of_duplicate(state, out);
            if !state.is_some_and(|state| self.is_mine(state)) {
                // What was based on the former state can no longer be stored, or not in its place.
                self.unresolved.clear();
            }
        }
        self.conclude(state, now, out);
    }

    /// What the newest state means for the present role.
    fn conclude(&mut self, state: Option<&Versioned>, now: Instant, out: &mut Vec<Effect>) {
        match &self.role {
            Role::Candidate { .. } => self.adopt(state, now, out),
            Role::Leader(_) => self.judge(state, now, out),
            Role::Ending(_) => self.judge_ending(state),
            Role::Stopped => {}
        }
    }

    /// The belief may be wrong from `now` on.
    fn doubt(&mut self, now: Instant) {
        self.read_due = true;
        self.doubted_at = now;
    }

    fn warn_of_duplicate(&self, state: Option<&Versioned>, out: &mut Vec<Effect>) {
        let foreign = state.is_some_and(|state| {
            state.record.holder.as_deref() == Some(self.me().as_str()) && !self.is_mine(state)
        });
        if foreign {
            out.push(Effect::Notice(Notice::DuplicateIdentity));
        }
    }

    /// Ends the term now. `release`: give the record back once the work has ended.
    fn end(
        &mut self,
        reason: EndReason,
        release: bool,
        not_before: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Role::Leader(leading) = &self.role else {
            return;
        };
        out.push(Effect::End {
            term: leading.term,
            reason,
        });
        self.role = Role::Ending(Ending {
            term: leading.term,
            uid: leading.uid.clone(),
            revision: leading.revision,
            release,
            attempts: 0,
            work_ended: leading.work_ended,
            released: false,
            not_before,
        });
        self.failures = 0;
        self.retry_at = Instant::ZERO;
    }

    /// Waits for the end of the work, then gives back, then goes on or stops.
    fn finish(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::Ending(ending) = &self.role else {
            return;
        };
        if !ending.work_ended || self.request.is_some() {
            return;
        }
        if ending.release {
            if now >= self.retry_at {
                self.send_release(now, out);
            }
            return;
        }
        let (term, not_before) = (ending.term, ending.not_before);
        if ending.released {
            out.push(Effect::Released { term });
        }
        self.settle(not_before, now, out);
    }

    /// After a term: stop, or campaign again.
    fn settle(&mut self, not_before: Instant, now: Instant, out: &mut Vec<Effect>) {
        if self.stopping {
            self.role = Role::Stopped;
            out.push(Effect::Stopped);
        } else {
            self.role = Role::Candidate { not_before };
            self.retry_at = now;
        }
    }

    fn heartbeat(&self) -> Duration {
        self.config.timing.heartbeat()
    }
}

#[cfg(test)]
mod tests;
