//! Everything there is: a Secret, a server, time, operators, and people who interfere.

use leasehold_core::credential::Slot;

use crate::hand::{Hand, edit};
use crate::operator::{Decided, Effect, Operator, Order, Phase};
use crate::secret::Secret;
use crate::server::{Guard, Store};

/// A tick is one grace period.
pub(crate) const TICK: u64 = 10;

/// What the policy says, and what was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    pub(crate) grace: u64,
    pub(crate) max_grace: u64,
    pub(crate) pooled: bool,
}

impl Terms {
    pub(crate) const USUAL: Self = Self {
        grace: TICK,
        max_grace: 3 * TICK,
        pooled: false,
    };
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) secret: Option<Secret>,
    pub(crate) store: Store,
    pub(crate) trigger: Option<u8>,
    pub(crate) is_deleted: bool,
    pub(crate) is_released: bool,
    pub(crate) terms: Terms,
    pub(crate) order: Order,
    /// Passwords drawn so far.
    pub(crate) made: u8,
    pub(crate) operators: Vec<Operator>,
    pub(crate) judge: Judge,
    version: u64,
    /// A backup from after the first turn.
    backup: Option<(Secret, Store)>,
}

/// What is watched at every instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Judge {
    pub(crate) broken: Option<&'static str>,
    /// The store compares nothing, so only ends are judged.
    pub(crate) forgives: bool,
    /// Somebody broke it by hand, and it is not repaired yet.
    is_excused: bool,
    /// Generations of logins that were dropped by hand, and not set since: the server forgot them, so
    /// it cannot refuse what is older.
    dropped: [Option<u64>; 2],
    /// For each slot: the password that is on its way out, and until when it has to work.
    owed: [Option<(u8, u64, u64)>; 2],
    /// Turns that were made.
    pub(crate) turns: u8,
    /// Refusals of what came late.
    pub(crate) refused_late: bool,
    /// A former login was ended.
    pub(crate) ended: bool,
}

impl World {
    pub(crate) fn new(guard: Guard, operators: usize) -> Self {
        Self {
            now: 1_000,
            secret: None,
            store: Store::new(guard),
            trigger: None,
            is_deleted: false,
            is_released: false,
            terms: Terms::USUAL,
            order: Order::Staged,
            made: 0,
            operators: vec![Operator::default(); operators],
            judge: Judge::default(),
            version: 0,
            backup: None,
        }
    }

    pub(crate) fn read(&mut self, n: usize) {
        let mut operator = core::mem::take(&mut self.operators[n]);
        operator.read(self);
        self.operators[n] = operator;
    }

    pub(crate) fn look(&mut self, n: usize) -> Decided {
        let mut operator = core::mem::take(&mut self.operators[n]);
        let decided = operator.look(self);
        self.operators[n] = operator;
        let draws = match &decided {
            Decided::Effect(Effect::Set(kept)) => kept.password == Some(self.made + 1),
            Decided::Effect(Effect::Write(secret)) => secret.knows(self.made + 1),
            _ => false,
        };
        self.made += u8::from(draws);
        decided
    }

    /// The effect that an operator has under way happens now; a crash of the operator loses the rest.
    pub(crate) fn act(&mut self, n: usize) {
        let Some(effect) = self.operators[n].take() else {
            return;
        };
        let before = self.store.clone();
        match effect {
            Effect::Write(secret) => self.write(&secret),
            Effect::DeleteSecret(version) => {
                if self
                    .secret
                    .as_ref()
                    .is_some_and(|secret| secret.version == version)
                {
                    self.secret = None;
                }
            }
            Effect::Provision => self.store.has_shared = true,
            Effect::Set(kept) => {
                if let (Some(generation), Some(password)) = (kept.generation, kept.verifier) {
                    self.store.set(generation, password);
                    let login = self.store.login(kept.slot).map(|login| login.generation);
                    self.judge.dropped[kept.slot as usize]
                        .take_if(|dropped| login >= Some(*dropped));
                    self.judge.refused_late |= !self.store.lets_in(kept.slot, kept.verifier);
                }
                self.operators[n].set(kept.slot);
            }
            Effect::Verify(kept) => {
                let was_let_in = self.store.lets_in(kept.slot, kept.password);
                self.operators[n].logged_in(&kept, was_let_in);
            }
            Effect::End {
                slot,
                generation,
                was_busy,
            } => {
                self.store.end(slot, generation);
                self.operators[n].set(slot);
                self.judge.refused_late |= self.store.login(slot).is_some();
                self.judge.ended |= self.store.login(slot).is_none();
                let latest = self.judge.owed[slot as usize].map_or(0, |owed| owed.2);
                if was_busy && self.now < latest && self.store.login(slot).is_none() {
                    self.judge.broken = Some("a login was ended while a session used it");
                }
            }
            Effect::Remove => {
                self.store.logins = [None; 2];
                self.store.has_shared = false;
                self.operators[n].removed();
            }
            Effect::Release => self.is_released = true,
        }
        if !self.judge.forgives {
            self.judge_grace(&before);
            self.check();
        }
    }

    fn write(&mut self, secret: &Secret) {
        if self.secret.as_ref().map_or(0, |now| now.version) != secret.version {
            return; // a conflict: somebody was faster
        }
        let turned = self.secret.as_ref().and_then(|old| old.current);
        let is_turn = turned.map(|kept| kept.slot) != secret.current.map(|kept| kept.slot);
        if is_turn && let Some(current) = secret.current {
            self.judge.turns += 1;
            let other = current.slot.other();
            let until = (
                self.now + Terms::USUAL.grace,
                self.now + Terms::USUAL.max_grace,
            );
            self.judge.owed[other as usize] = self
                .store
                .login(other)
                .map(|login| (login.password, until.0, until.1));
            self.judge.owed[current.slot as usize] = None;
        }
        self.version += 1;
        let secret = Secret {
            version: self.version,
            ..secret.clone()
        };
        if is_turn {
            self.backup
                .get_or_insert_with(|| (secret.clone(), self.store.clone()));
        }
        self.secret = Some(secret);
    }

    fn judge_grace(&mut self, before: &Store) {
        for slot in Slot::ALL {
            let Some((password, earliest, _)) = self.judge.owed[slot as usize] else {
                continue;
            };
            let had = before.lets_in(slot, Some(password));
            if had && !self.store.lets_in(slot, Some(password)) {
                if self.now < earliest && !self.is_deleted {
                    self.judge.broken = Some("a former login ended before its grace");
                }
                self.judge.owed[slot as usize] = None;
            }
        }
    }

    /// The Secret's current login works, unless somebody has just broken it by hand.
    fn check(&mut self) {
        let works = self.works();
        let current = self.secret.as_ref().and_then(|secret| secret.current);
        self.judge.is_excused |=
            current.is_some_and(|kept| self.judge.dropped[kept.slot as usize].is_some());
        self.judge.is_excused &= !works;
        if !works && !self.judge.is_excused && !self.is_deleted && self.judge.broken.is_none() {
            self.judge.broken = Some("the current login of the Secret does not work");
        }
    }

    pub(crate) fn works(&self) -> bool {
        let current = self.secret.as_ref().and_then(|secret| secret.current);
        current.is_none_or(|kept| self.store.lets_in(kept.slot, kept.password))
    }

    /// Logins on the server whose password stands nowhere.
    pub(crate) fn nowhere(&self) -> usize {
        let known = |password| {
            self.secret
                .as_ref()
                .is_some_and(|secret| secret.knows(password))
        };
        let logins = self.store.logins.iter().flatten();
        logins.filter(|login| !known(login.password)).count()
    }

    pub(crate) fn tick(&mut self) {
        self.now += TICK;
    }

    pub(crate) fn crash(&mut self, n: usize) {
        self.operators[n] = Operator::default();
    }

    pub(crate) fn busy(&mut self, slot: Slot, is_busy: bool) {
        if let Some(login) = &mut self.store.logins[slot as usize] {
            login.is_busy = is_busy;
        }
    }

    /// Somebody interferes. False if there is nothing to interfere with.
    pub(crate) fn hand(&mut self, hand: Hand) -> bool {
        let before = (self.secret.clone(), self.store.clone());
        match hand {
            Hand::DeleteSecret => self.secret = None,
            Hand::Drop(slot) => self.store.logins[slot as usize] = None,
            Hand::DropAll => self.store = Store::new(self.store.guard),
            Hand::RestoreServer => {
                // What a backup brings back after the service is gone, only a survey can find.
                if let (Some((_, store)), false) = (&self.backup, self.is_deleted) {
                    self.store = store.clone();
                }
            }
            Hand::RestoreSecret => {
                if let (Some((secret, _)), true) = (&self.backup, self.judge.turns > 1) {
                    self.version += 1;
                    self.secret = Some(Secret {
                        version: self.version,
                        ..secret.clone()
                    });
                }
            }
            Hand::Deform(slot) => {
                if let Some(login) = &mut self.store.logins[slot as usize] {
                    login.is_in_shape = false;
                }
            }
            _ => {
                self.version += 1;
                let version = self.version;
                if let Some(secret) = &mut self.secret {
                    edit(secret, hand);
                    if Some(&*secret) == before.0.as_ref() {
                        return false;
                    }
                    secret.version = version;
                }
            }
        }
        if (&self.secret, &self.store) == (&before.0, &before.1) {
            return false;
        }
        // What is broken by hand may cost the grace of the login that is on its way out.
        self.judge.owed = [None; 2];
        for slot in Slot::ALL {
            let was = before.1.login(slot).map(|login| login.generation);
            if self.store.login(slot).is_none() {
                let dropped = &mut self.judge.dropped[slot as usize];
                *dropped = was.max(*dropped);
            }
        }
        self.judge.is_excused |= !self.works();
        true
    }

    /// One operator, undisturbed, until nothing is left to do. The number of effects, or what is wrong.
    pub(crate) fn settle(&mut self, n: usize) -> Result<usize, String> {
        let mut effects = 0;
        for _ in 0..120 {
            if !matches!(self.operators[n].phase(), Phase::Ready(_)) {
                self.read(n);
                match self.look(n) {
                    Decided::Effect(_) => {}
                    Decided::Wait => {
                        self.tick();
                        continue;
                    }
                    Decided::Settled => return self.is_good().map(|()| effects),
                }
            }
            self.act(n);
            effects += 1;
            if let Some(broken) = self.judge.broken {
                return Err(broken.to_owned());
            }
        }
        Err(format!(
            "does not settle: {:?} {:?}",
            self.secret, self.store
        ))
    }

    /// At the end the Secret has one login, the server has that one and no other.
    fn is_good(&self) -> Result<(), String> {
        let logins: Vec<_> = self.store.logins.iter().flatten().collect();
        let wrong = |what: &str| Err(format!("{what}: {:?} {:?}", self.secret, self.store));
        if self.is_deleted {
            if self.secret.is_some() || !logins.is_empty() || self.store.has_shared {
                return wrong("something is left");
            }
            return Ok(());
        }
        let Some(secret) = &self.secret else {
            return wrong("no Secret");
        };
        let only = matches!(
            (secret.current, secret.next, secret.previous),
            (Some(_), None, None)
        );
        if !only || !self.works() || !self.store.has_shared {
            return wrong("not settled");
        }
        if logins.len() != 1 || logins.iter().any(|login| !login.is_in_shape) {
            return wrong("another login is left");
        }
        Ok(())
    }
}
