//! A small world: candidates, one store, coarse time, and what may go wrong.

use leasehold_core::election::{Effect, Input, Purpose};
use leasehold_core::id::FencingToken;
use leasehold_core::lease::Versioned;
use leasehold_core::rules::Rules;
use leasehold_core::time::{Duration, Instant};

use crate::candidate::{Candidate, Guard, Work};
use crate::network::{Answer, Hashed, News, Sending, Store, Wire, announce, unknown};

/// With a lease of 3 s, 2.8 s of which are trusted, trust ends within the fifth tick and a claim
/// (after 3 s and up to 50 ms) comes with the fifth.
const TICK: Duration = Duration::from_millis(610);

/// How often what may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Allowance {
    /// Requests or answers that are lost, or come late.
    pub(crate) losses: u8,
    /// Ticks that pass while a message is under way.
    pub(crate) delays: u8,
    /// A process ends and another one starts in its place.
    pub(crate) crashes: u8,
    /// A process stands still for any time.
    pub(crate) pauses: u8,
    /// Somebody empties or deletes the lease.
    pub(crate) edits: u8,
    /// A leader is asked to step down.
    pub(crate) step_downs: u8,
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) tick: u64,
    pub(crate) broken: Option<&'static str>,
    pub(crate) takeovers: u8,
    allowance: Allowance,
    rules: Rules,
    store: Store,
    /// Revision of the last edit from outside.
    edited: u64,
    highest: Option<FencingToken>,
    last: Option<usize>,
    candidates: Vec<Candidate>,
}

/// What may happen next. The number is the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Tick,
    Timer(usize),
    Serve(usize),
    Answer(usize),
    Lose(usize),
    GiveUp(usize),
    ServeLate(usize),
    Watch(usize),
    EndWork(usize),
    Crash(usize),
    Pause(usize),
    Resume(usize),
    StepDown(usize),
    Empty,
    Delete,
}

impl World {
    pub(crate) fn new(candidates: u8, allowance: Allowance, rules: Rules) -> Self {
        let mut world = Self {
            tick: 1,
            broken: None,
            takeovers: 0,
            allowance,
            rules,
            store: Store::default(),
            edited: 0,
            highest: None,
            last: None,
            candidates: Vec::new(),
        };
        for index in 0..usize::from(candidates) {
            world.candidates.push(Candidate::new(index, 0, rules));
            world.list(index);
        }
        world
    }

    fn now(&self) -> Instant {
        Instant::ZERO.after(TICK.saturating_mul(u32::try_from(self.tick).unwrap_or(u32::MAX)))
    }

    /// Who has a valid guard.
    pub(crate) fn leads(&self) -> Option<usize> {
        let now = self.now();
        let valid = |candidate: &Candidate| candidate.guard.is_some_and(|guard| now < guard.until);
        self.candidates.iter().position(valid)
    }

    pub(crate) fn actions(&self, actions: &mut Vec<Action>) {
        let now = self.now();
        let may = self.allowance;
        let (mut due, mut under_way) = (false, false);
        for (n, candidate) in self.candidates.iter().enumerate() {
            if matches!(candidate.wire, Wire::Reading | Wire::Writing(_)) {
                actions.push(Action::Serve(n));
                under_way = true;
            }
            if candidate.late.is_some() {
                actions.push(Action::ServeLate(n));
            }
            if candidate.paused {
                actions.push(Action::Resume(n));
                continue;
            }
            if candidate
                .machine
                .next_deadline()
                .is_some_and(|at| at <= now)
            {
                actions.push(Action::Timer(n));
                due = true;
            }
            if matches!(candidate.wire, Wire::Answered(_)) {
                actions.push(Action::Answer(n));
                under_way = true;
            }
            if may.losses > 0 && candidate.wire != Wire::Idle {
                actions.push(Action::Lose(n));
                if matches!(candidate.wire, Wire::Writing(_)) && candidate.late.is_none() {
                    actions.push(Action::GiveUp(n));
                }
            }
            if !candidate.news.is_empty() {
                actions.push(Action::Watch(n));
                under_way = true;
            }
            if candidate.work == Work::Ends {
                actions.push(Action::EndWork(n));
                under_way = true;
            }
            if may.crashes > 0 && candidate.machine.view().leading.is_some() {
                actions.push(Action::Crash(n));
            }
            if may.pauses > 0 && candidate.machine.view().leading.is_some() {
                actions.push(Action::Pause(n));
            }
            if may.step_downs > 0 && candidate.work == Work::Runs {
                actions.push(Action::StepDown(n));
            }
        }
        let held = self
            .store
            .record
            .as_ref()
            .is_some_and(|state| state.record.holder.is_some());
        if may.edits > 0 && held {
            actions.extend([Action::Empty, Action::Delete]);
        }
        if !due && (!under_way || may.delays > 0) {
            actions.push(Action::Tick);
        }
    }

    pub(crate) fn after(&self, action: Action) -> Self {
        let mut world = self.clone();
        world.act(action);
        world
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Tick => {
                if self.candidates.iter().any(Candidate::waits_for_a_message) {
                    self.allowance.delays -= 1;
                }
                self.tick += 1;
            }
            Action::Timer(n) => self.step(n, Input::Timer),
            Action::Serve(n) => match std::mem::take(&mut self.candidates[n].wire) {
                Wire::Reading => self.answer(n, Answer::Read(self.store.record.clone())),
                Wire::Writing(sending) => {
                    let attempt = sending.0.0.attempt;
                    let stored = self.store_write(&sending);
                    self.answer(
                        n,
                        stored.map_or(Answer::Conflict(attempt), |state| {
                            Answer::Stored(attempt, state)
                        }),
                    );
                }
                wire => self.candidates[n].wire = wire,
            },
            Action::ServeLate(n) => {
                if let Some(sending) = self.candidates[n].late.take() {
                    self.store_write(&sending);
                }
            }
            Action::Answer(n) => {
                if let Wire::Answered(answer) = std::mem::take(&mut self.candidates[n].wire) {
                    self.step(n, answer.input());
                }
            }
            Action::Lose(n) => {
                self.allowance.losses -= 1;
                let input = match std::mem::take(&mut self.candidates[n].wire) {
                    Wire::Writing(sending) => unknown(sending.0.0.attempt),
                    Wire::Answered(answer) => answer.lost(),
                    Wire::Reading | Wire::Idle => Input::ReadFailed { retry_after: None },
                };
                self.step(n, input);
            }
            Action::GiveUp(n) => {
                self.allowance.losses -= 1;
                if let Wire::Writing(sending) = std::mem::take(&mut self.candidates[n].wire) {
                    let attempt = sending.0.0.attempt;
                    self.candidates[n].late = Some(sending);
                    self.step(n, unknown(attempt));
                }
            }
            Action::Watch(n) => match self.candidates[n].news.pop_front() {
                Some(News::Changed(state)) => self.step(n, Input::Watched(state)),
                Some(News::Gone) => self.step(n, Input::WatchedGone),
                None => {}
            },
            Action::EndWork(n) => {
                self.candidates[n].work = Work::None;
                self.step(n, Input::WorkEnded);
            }
            Action::Crash(n) => {
                self.allowance.crashes -= 1;
                let late = match std::mem::take(&mut self.candidates[n].wire) {
                    Wire::Writing(sending) => Some(sending),
                    _ => self.candidates[n].late.take(),
                };
                let incarnation = self.candidates[n].incarnation + 1;
                self.candidates[n] = Candidate::new(n, incarnation, self.rules);
                self.candidates[n].late = late;
                self.list(n);
            }
            Action::Pause(n) => {
                self.allowance.pauses -= 1;
                self.candidates[n].paused = true;
            }
            Action::Resume(n) => self.candidates[n].paused = false,
            Action::StepDown(n) => {
                self.allowance.step_downs -= 1;
                self.step(n, Input::StepDown { drain: TICK * 20 });
            }
            Action::Empty => {
                self.allowance.edits -= 1;
                if let Some(state) = self.store.empty() {
                    self.tell(&News::Changed(state));
                }
                self.edited = self.store.revision;
            }
            Action::Delete => {
                self.allowance.edits -= 1;
                self.store.delete();
                self.tell(&News::Gone);
                self.edited = self.store.revision;
            }
        }
    }

    fn store_write(&mut self, sending: &Sending) -> Option<Versioned> {
        let state = self.store.write(&sending.0.0)?;
        self.tell(&News::Changed(state.clone()));
        Some(state)
    }

    fn tell(&mut self, news: &News) {
        for candidate in &mut self.candidates {
            announce(&mut candidate.news, news.clone());
        }
    }

    fn answer(&mut self, n: usize, answer: Answer) {
        self.candidates[n].wire = Wire::Answered(answer);
    }

    fn list(&mut self, n: usize) {
        let (asked, state) = (self.now(), self.store.record.clone());
        self.step(n, Input::Listed { asked, state });
    }

    fn step(&mut self, n: usize, input: Input) {
        let now = self.now();
        let candidate = &mut self.candidates[n];
        candidate.hear(&input);
        let effects = candidate.machine.step(input, now);
        for effect in effects {
            self.carry_out(n, effect);
        }
    }

    fn carry_out(&mut self, n: usize, effect: Effect) {
        let candidate = &mut self.candidates[n];
        match effect {
            Effect::Write(write) => {
                if write.purpose == Purpose::Claim {
                    candidate.held_at_claim = candidate.held_seen;
                }
                candidate.wire = Wire::Writing(Sending(Hashed(write)));
            }
            Effect::Read => candidate.wire = Wire::Reading,
            Effect::Begin {
                token,
                trusted_until: until,
                ..
            } => self.begin(n, token, until),
            Effect::Extend { trusted_until } | Effect::Shorten { trusted_until } => {
                if let Some(guard) = &mut candidate.guard {
                    guard.until = trusted_until;
                }
                self.judge();
            }
            Effect::Drain { .. } => candidate.work = Work::Ends,
            Effect::End { .. } => {
                candidate.guard = None;
                if candidate.work != Work::None {
                    candidate.work = Work::Ends;
                }
            }
            Effect::Released { .. } => {
                if candidate.work != Work::None {
                    self.broken = Some("released beside its work");
                }
            }
            Effect::Stopped | Effect::Notice(_) => {}
        }
    }

    fn begin(&mut self, n: usize, token: FencingToken, until: Instant) {
        let again = self.highest == Some(token);
        if again || (self.highest > Some(token) && self.edited == 0) {
            self.broken = Some("a token did not grow");
        }
        self.highest = self.highest.max(Some(token));
        if self.last.is_some_and(|last| last != n) {
            self.takeovers = 1;
        }
        self.last = Some(n);
        let candidate = &mut self.candidates[n];
        candidate.work = Work::Runs;
        candidate.guard = Some(Guard {
            token,
            until,
            held_seen: candidate.held_at_claim,
        });
        self.judge();
    }

    /// Two guards that are valid at once are a fault, unless somebody edited the lease of the
    /// older one and the claimer of the newer one never saw it held (E5).
    fn judge(&mut self) {
        let now = self.now();
        let guards = self
            .candidates
            .iter()
            .filter_map(|candidate| candidate.guard);
        let valid: Vec<Guard> = guards.filter(|guard| now < guard.until).collect();
        let overlap = |older: &Guard, newer: &Guard| {
            let held = older.token.revision().number();
            older.token < newer.token && !(held < self.edited && newer.held_seen < held)
        };
        if valid
            .iter()
            .any(|older| valid.iter().any(|newer| overlap(older, newer)))
        {
            self.broken = Some("two guards are valid at once");
        }
    }
}
