//! One operator of the small world: reads, decides by the real machine, and has one effect under way.

use leasehold_core::credential::{Deletion, Keep, Policy, Slot, Step, Tried, Which, step};
use leasehold_core::time::{Duration, WallTime};

use crate::secret::{Kept, Secret, fingerprint, trigger};
use crate::world::World;

/// In which order a new password reaches Secret and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// As C2 says.
    Staged,
    /// Into the current keys first, then on the server.
    CurrentFirst,
    /// On the server first, then into the current keys.
    ServerFirst,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Operator {
    tried: Tried,
    phase: Phase,
    /// Set on the server and nowhere else ([`Order::ServerFirst`]).
    in_mind: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// It has read the Secret, and not yet the server.
    Read(Option<Secret>),
    /// It has decided.
    Ready(Effect),
}

/// One write, statement or login.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// Replaces the version that it carries; version 0 creates.
    Write(Secret),
    DeleteSecret(u64),
    Provision,
    Set(Kept),
    Verify(Kept),
    End {
        slot: Slot,
        generation: u64,
        /// As it was seen when this was decided.
        was_busy: bool,
    },
    Remove,
    Release,
}

/// What one operator can come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    Effect(Effect),
    Wait,
    Settled,
}

impl Operator {
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(crate) fn read(&mut self, world: &World) {
        self.phase = Phase::Read(world.secret.clone());
    }

    /// Looks at the server and decides; with nothing to do it is idle again.
    pub(crate) fn look(&mut self, world: &World) -> Decided {
        let Phase::Read(secret) = core::mem::take(&mut self.phase) else {
            return Decided::Wait;
        };
        let decided = self.decide(secret, world);
        if let Decided::Effect(effect) = &decided {
            self.phase = Phase::Ready(effect.clone());
        }
        decided
    }

    pub(crate) fn take(&mut self) -> Option<Effect> {
        match core::mem::take(&mut self.phase) {
            Phase::Ready(effect) => Some(effect),
            Phase::Idle | Phase::Read(_) => None,
        }
    }

    pub(crate) fn set(&mut self, slot: Slot) {
        self.tried.changed(slot);
    }

    pub(crate) fn logged_in(&mut self, kept: &Kept, was_let_in: bool) {
        if let Some(verifier) = kept.verifier {
            self.tried
                .logged_in(kept.slot, &fingerprint(verifier), was_let_in);
        }
    }

    pub(crate) fn removed(&mut self) {
        self.tried.removed();
    }

    fn decide(&mut self, secret: Option<Secret>, world: &World) -> Decided {
        let policy = Policy {
            interval: None,
            grace: Duration::from_secs(world.terms.grace),
            max_grace: Duration::from_secs(world.terms.max_grace),
            counts: world.store.guard.counts,
            pooled: world.terms.pooled,
            trigger: world.trigger.map(trigger),
            deletion: world
                .is_deleted
                .then_some(Deletion::Delete { with_shared: true }),
        };
        let stored = Secret::stored(secret.as_ref());
        let server = world.store.state();
        let now = WallTime::from_seconds(world.now);
        let next = step(&stored, &server, &policy, &self.tried, now);
        let version = secret.as_ref().map_or(0, |secret| secret.version);
        let old = secret.unwrap_or_else(|| Secret::empty(version));
        let fresh = world.made + 1; // drawn anew by each decision, like a random password
        let effect = match next {
            Step::WriteNext {
                generation,
                previous,
                ..
            } => match world.order {
                Order::Staged => {
                    let made = Kept::made(generation, fresh);
                    Effect::Write(old.with_next(made, previous, world.trigger))
                }
                Order::CurrentFirst => {
                    Effect::Write(at_once(old, generation, fresh, previous, world))
                }
                Order::ServerFirst if !world.store.has_shared => Effect::Provision,
                Order::ServerFirst => {
                    let is_set = self.in_mind.take();
                    if let Some(password) = is_set {
                        Effect::Write(at_once(old, generation, password, previous, world))
                    } else {
                        self.in_mind = Some(fresh);
                        Effect::Set(Kept::made(generation, fresh))
                    }
                }
            },
            Step::Provision => Effect::Provision,
            Step::SetLogin { which, generation } => Effect::Set(Kept {
                generation: Some(generation),
                ..of(&old, which)
            }),
            Step::Verify { which, .. } => Effect::Verify(of(&old, which)),
            Step::Turn {
                generation,
                previous,
            } => Effect::Write(old.turned(generation, previous, world.now)),
            Step::Annotate(marks) => Effect::Write(old.marked(&marks)),
            Step::KeepStray { generation } => Effect::Write(old.with_stray(generation)),
            Step::EndPrevious { slot, generation } => Effect::End {
                slot,
                generation,
                was_busy: world.store.login(slot).is_some_and(|login| login.is_busy),
            },
            Step::ForgetPrevious => Effect::Write(old.without_previous()),
            Step::Remove { .. } => Effect::Remove,
            Step::DeleteSecret => Effect::DeleteSecret(version),
            Step::Release if world.is_released => return Decided::Settled,
            Step::Release => Effect::Release,
            // Nothing here is foreign: a conflict would never settle.
            Step::Wait { .. } | Step::Conflict(_) => return Decided::Wait,
            Step::Settled { .. } => return Decided::Settled,
        };
        Decided::Effect(effect)
    }
}

/// A step names an entry that exists; password 0 works nowhere.
fn of(secret: &Secret, which: Which) -> Kept {
    let kept = match which {
        Which::Current => secret.current,
        Which::Next => secret.next,
        Which::Previous => secret.previous,
    };
    kept.unwrap_or(Kept::made(1, 0))
}

fn at_once(old: Secret, generation: u64, password: u8, previous: Keep, world: &World) -> Secret {
    let previous = match old.current {
        Some(_) => Keep::Current,
        None => previous,
    };
    old.with_next(
        Kept::made(generation, password),
        Keep::AsItIs,
        world.trigger,
    )
    .turned(generation, previous, world.now)
}
