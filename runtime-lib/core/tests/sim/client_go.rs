//! A model of client-go's elector (LeaseLock, 15/10/2 s, ReleaseOnCancel), for comparison.
//!
//! It polls: a candidate tries every 2.0–4.4 s, a leader renews every 2 s and gives up when a
//! renewal has failed for 10 s. Success counts from the answer, a foreign holder does not end the
//! leading, the release looks at nobody else's name, and loss is announced after it.

use leasehold_core::election::{Effect, EndReason, Input, Purpose, Target, Write, WriteOutcome};
use leasehold_core::id::{FencingToken, Identity, Revision, Term};
use leasehold_core::lease::{LeaseRecord, Versioned};
use leasehold_core::time::{Duration, Instant};

use crate::prng::Prng;

pub const LEASE: Duration = Duration::from_secs(15);
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
pub const RETRY: Duration = Duration::from_secs(2);
/// controller-runtime's timeout for one request.
pub const ATTEMPT: Duration = Duration::from_secs(5);
const JITTER_PERCENT: u64 = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Acquire { at: Instant },
    Renew { at: Instant, deadline: Instant },
    Release { deadline: Instant, resigned: bool },
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// A PUT on the cached revision, without a GET before it.
    Fast,
    Get,
    Put,
    ReleaseGet,
    ReleasePut,
}

pub struct ClientGo {
    me: Identity,
    random: Prng,
    phase: Phase,
    request: Option<Request>,
    observed: Option<Versioned>,
    observed_at: Instant,
    attempt: u64,
}

impl ClientGo {
    pub fn new(me: Identity, first_attempt: u64, seed: u64) -> Self {
        Self {
            me,
            random: Prng::new(seed),
            phase: Phase::Acquire { at: Instant::ZERO },
            request: None,
            observed: None,
            observed_at: Instant::ZERO,
            attempt: first_attempt,
        }
    }

    pub fn leads(&self) -> bool {
        matches!(self.phase, Phase::Renew { .. } | Phase::Release { .. })
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        match (self.phase, self.request) {
            (Phase::Over, _) | (Phase::Acquire { .. }, Some(_)) => None,
            (Phase::Acquire { at }, None) => Some(at),
            (Phase::Renew { deadline, .. } | Phase::Release { deadline, .. }, Some(_)) => {
                Some(deadline)
            }
            (Phase::Renew { at, deadline }, None) => Some(at.min(deadline)),
            (Phase::Release { deadline, .. }, None) => Some(deadline),
        }
    }

    pub fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        let mut out = Vec::new();
        match input {
            Input::Read(state) => self.read(state, now, &mut out),
            Input::ReadFailed { .. } => self.failed(now, &mut out),
            Input::WriteDone { outcome, .. } => self.written(outcome, now, &mut out),
            Input::Shutdown { .. } | Input::StepDown { .. } => self.cancel(now, &mut out),
            _ => {}
        }
        self.act(now, &mut out);
        out
    }

    fn act(&mut self, now: Instant, out: &mut Vec<Effect>) {
        match self.phase {
            Phase::Acquire { at } if self.request.is_none() && now >= at => self.attempt(now, out),
            Phase::Renew { deadline, .. } if now >= deadline => self.release(false, now, out),
            Phase::Renew { at, .. } if self.request.is_none() && now >= at => {
                self.attempt(now, out);
            }
            Phase::Release { deadline, .. } if now >= deadline => self.over(out),
            _ => {}
        }
    }

    fn attempt(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let mine = self.holds().filter(|_| now < self.observed_at.after(LEASE));
        if let Some(state) = mine.cloned() {
            self.write(Request::Fast, Purpose::Renew, Some(&state), out);
        } else {
            self.request = Some(Request::Get);
            out.push(Effect::Read);
        }
    }

    fn holds(&self) -> Option<&Versioned> {
        self.observed
            .as_ref()
            .filter(|state| state.record.holder.as_deref() == Some(self.me.as_str()))
    }

    fn read(&mut self, state: Option<Versioned>, now: Instant, out: &mut Vec<Effect>) {
        match self.request.take() {
            Some(Request::ReleaseGet) => {
                // The fresh revision, and the cached opinion on whose it is.
                let Some(state) = state else { return };
                if self.holds().is_some() {
                    self.write(Request::ReleasePut, Purpose::Release, Some(&state), out);
                } else {
                    self.over(out);
                }
            }
            Some(Request::Get) => self.judge(state, now, out),
            _ => {}
        }
    }

    fn judge(&mut self, state: Option<Versioned>, now: Instant, out: &mut Vec<Effect>) {
        let Some(state) = state else {
            return self.write(Request::Put, Purpose::Claim, None, out);
        };
        let changed = self
            .observed
            .as_ref()
            .is_none_or(|old| old.revision != state.revision);
        if changed {
            self.observed = Some(state.clone());
            self.observed_at = now;
        }
        let holder = state.record.holder.as_deref();
        let foreign = holder.is_some_and(|holder| holder != self.me.as_str());
        let lasts = state.record.duration.unwrap_or_default();
        if foreign && now < self.observed_at.after(lasts) {
            return self.failed(now, out);
        }
        let purpose = if holder == Some(self.me.as_str()) {
            Purpose::Renew
        } else {
            Purpose::Claim
        };
        self.write(Request::Put, purpose, Some(&state), out);
    }

    fn write(
        &mut self,
        request: Request,
        purpose: Purpose,
        over: Option<&Versioned>,
        out: &mut Vec<Effect>,
    ) {
        let release = purpose == Purpose::Release;
        let before = over.map_or(0, |state| state.record.term.number());
        let raised = u32::from(purpose == Purpose::Claim && over.is_some());
        self.attempt += 1;
        self.request = Some(request);
        out.push(Effect::Write(Write {
            attempt: self.attempt,
            target: over.map_or(Target::Absent, |state| Target::Exactly {
                uid: state.uid.clone(),
                revision: state.revision,
            }),
            purpose,
            record: LeaseRecord {
                holder: (!release).then(|| self.me.as_str().to_owned()),
                duration: Some(if release {
                    Duration::from_secs(1)
                } else {
                    LEASE
                }),
                term: Term::new(before + raised),
                ..LeaseRecord::default()
            },
        }));
    }

    fn written(&mut self, outcome: WriteOutcome, now: Instant, out: &mut Vec<Effect>) {
        let request = self.request.take();
        match (outcome, request) {
            (WriteOutcome::Done(_), Some(Request::ReleasePut)) => self.over(out),
            (WriteOutcome::Done(state), _) => self.succeeded(state, now, out),
            (_, Some(Request::Fast)) => {
                self.request = Some(Request::Get);
                out.push(Effect::Read);
            }
            (_, Some(Request::ReleasePut)) => self.release_again(out),
            _ => self.failed(now, out),
        }
    }

    fn succeeded(&mut self, state: Versioned, now: Instant, out: &mut Vec<Effect>) {
        let (term, revision) = (state.record.term, state.revision);
        self.observed = Some(state);
        self.observed_at = now;
        let at = now.after(RETRY);
        match self.phase {
            Phase::Acquire { .. } => out.push(begin(term, revision)),
            Phase::Renew { .. } => {}
            Phase::Release { .. } | Phase::Over => return,
        }
        self.phase = Phase::Renew {
            at,
            deadline: at.after(RENEW_DEADLINE),
        };
    }

    fn failed(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.request = None;
        match &mut self.phase {
            Phase::Acquire { at } => {
                let percent = self.random.below(JITTER_PERCENT);
                *at = now.after(RETRY + RETRY * percent as u32 / 100);
            }
            Phase::Renew { at, .. } => *at = now.after(RETRY),
            Phase::Release { .. } => self.release_again(out),
            Phase::Over => {}
        }
    }

    fn cancel(&mut self, now: Instant, out: &mut Vec<Effect>) {
        match self.phase {
            Phase::Renew { .. } => self.release(true, now, out),
            Phase::Acquire { .. } => {
                self.phase = Phase::Over;
                out.push(Effect::Stopped);
            }
            Phase::Release { .. } | Phase::Over => {}
        }
    }

    fn release(&mut self, resigned: bool, now: Instant, out: &mut Vec<Effect>) {
        self.phase = Phase::Release {
            deadline: now.after(RENEW_DEADLINE),
            resigned,
        };
        self.release_again(out);
    }

    fn release_again(&mut self, out: &mut Vec<Effect>) {
        self.request = Some(Request::ReleaseGet);
        out.push(Effect::Read);
    }

    /// Run returns: the stop callback comes now, after the release.
    fn over(&mut self, out: &mut Vec<Effect>) {
        let resigned = matches!(self.phase, Phase::Release { resigned: true, .. });
        self.phase = Phase::Over;
        out.push(Effect::End {
            term: Term::default(),
            reason: if resigned {
                EndReason::Resigned
            } else {
                EndReason::TrustExpired
            },
        });
        out.push(Effect::Stopped);
    }
}

fn begin(term: Term, revision: Revision) -> Effect {
    Effect::Begin {
        term,
        token: FencingToken::new(0, revision),
        trusted_until: Instant::MAX,
    }
}
