//! The server of the small world, and what protects it against late writes (C5).

use leasehold_core::credential::{LoginState, ServerState, SharedState, Slot};

use crate::secret::fingerprint;

/// What a store does about writes that were decided long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Guard {
    /// It keeps generations, as Postgres does in a comment.
    pub(crate) counts: bool,
    /// It refuses to set an older one.
    pub(crate) refuses_old: bool,
    /// It refuses a second password of the same one.
    pub(crate) refuses_second: bool,
    /// It refuses to end a login of a later generation.
    pub(crate) spares_later: bool,
}

impl Guard {
    pub(crate) const POSTGRES: Self = Self {
        counts: true,
        refuses_old: true,
        refuses_second: true,
        spares_later: true,
    };
    pub(crate) const REDIS: Self = Self {
        counts: false,
        refuses_old: false,
        refuses_second: false,
        spares_later: false,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Login {
    pub(crate) generation: u64,
    pub(crate) password: u8,
    pub(crate) is_in_shape: bool,
    pub(crate) is_busy: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) guard: Guard,
    pub(crate) has_shared: bool,
    pub(crate) logins: [Option<Login>; 2],
}

impl Store {
    pub(crate) fn new(guard: Guard) -> Self {
        Self {
            guard,
            has_shared: false,
            logins: [None; 2],
        }
    }

    pub(crate) fn login(&self, slot: Slot) -> Option<&Login> {
        self.logins[slot as usize].as_ref()
    }

    pub(crate) fn lets_in(&self, slot: Slot, password: Option<u8>) -> bool {
        self.login(slot).map(|login| login.password) == password && password.is_some()
    }

    pub(crate) fn state(&self) -> ServerState {
        let state = |slot: Slot| match self.login(slot) {
            None => LoginState::Absent,
            Some(login) => LoginState::Ours {
                generation: match (self.guard.counts, slot) {
                    (true, _) => login.generation,
                    (false, Slot::A) => 1,
                    (false, Slot::B) => 2,
                },
                fingerprint: fingerprint(login.password),
                is_in_shape: login.is_in_shape,
                sessions: login.is_busy.into(),
            },
        };
        ServerState {
            shared: if self.has_shared {
                SharedState::InShape
            } else {
                SharedState::Drifted
            },
            logins: Slot::ALL.map(state),
        }
    }

    /// Creates or alters. A login needs its owner role.
    pub(crate) fn set(&mut self, generation: u64, password: u8) {
        let place = &mut self.logins[Slot::of_generation(generation) as usize];
        let is_late = place.is_some_and(|login| {
            let second = login.generation == generation && login.password != password;
            let older = login.generation > generation;
            self.guard.refuses_old && older || self.guard.refuses_second && second
        });
        if is_late || !self.has_shared {
            return;
        }
        *place = Some(Login {
            generation,
            password,
            is_in_shape: true,
            is_busy: place.is_some_and(|login| login.is_busy),
        });
    }

    pub(crate) fn end(&mut self, slot: Slot, generation: u64) {
        let place = &mut self.logins[slot as usize];
        let is_later = place.is_some_and(|login| login.generation > generation);
        if !(self.guard.spares_later && is_later) {
            *place = None;
        }
    }
}
