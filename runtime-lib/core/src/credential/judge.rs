//! One login of the Secret beside what the server shows in its slot.

use super::server::{LoginState, ServerState};
use super::stored::{Entry, Stored};

/// An entry of the Secret, compared with the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<'a> {
    pub(super) entry: &'a Entry,
    /// None if nothing tells.
    pub(super) generation: Option<u64>,
    pub(super) standing: Standing,
}

/// Whether the password of an entry can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The server has it, as wanted.
    Works,
    /// The server lacks it, has an older one or another shape: setting it helps.
    Unset,
    /// The login there is not ours.
    Foreign,
    /// It was edited, or the server knows better: this password will never work.
    Dead,
}

impl<'a> Judged<'a> {
    pub(super) fn new(
        entry: &'a Entry,
        stored: &Stored,
        server: &ServerState,
        counts: bool,
    ) -> Self {
        let generation = generation(entry, stored, server, counts);
        let login = server.login(entry.slot);
        Self {
            entry,
            generation,
            standing: standing(entry, generation, login, counts),
        }
    }

    /// Setting it on the server is right, or done.
    pub(super) fn is_sound(&self) -> bool {
        matches!(self.standing, Standing::Works | Standing::Unset)
    }
}

/// The largest generation that the Secret or the server shows.
pub(super) fn largest(stored: &Stored, server: &ServerState) -> u64 {
    let entries = stored.entries().filter_map(|entry| entry.generation);
    let logins = server.logins.iter().filter_map(|login| match login {
        LoginState::Ours { generation, .. } => Some(*generation),
        LoginState::Absent | LoginState::Foreign(_) => None,
    });
    entries.chain(logins).max().unwrap_or(0)
}

fn generation(entry: &Entry, stored: &Stored, server: &ServerState, counts: bool) -> Option<u64> {
    if counts
        && let LoginState::Ours {
            generation,
            fingerprint,
            ..
        } = server.login(entry.slot)
    {
        // A server that knows this very password knows its number; an annotation may have been edited.
        let same = entry.fingerprint.as_ref() == Some(fingerprint);
        let unknown = entry.fingerprint.is_none() && entry.generation.is_none();
        return if same || unknown {
            Some(*generation)
        } else {
            entry.generation
        };
    }
    let made_up = || entry.slot.generation_above(largest(stored, server));
    Some(entry.generation.unwrap_or_else(made_up))
}

fn standing(entry: &Entry, generation: Option<u64>, login: &LoginState, counts: bool) -> Standing {
    let (Some(ours), Some(verifier), true) =
        (generation, entry.fingerprint.as_ref(), entry.is_consistent)
    else {
        return Standing::Dead;
    };
    match login {
        LoginState::Absent => Standing::Unset,
        LoginState::Foreign(_) => Standing::Foreign,
        LoginState::Ours {
            fingerprint,
            is_in_shape,
            ..
        } if fingerprint == verifier => match is_in_shape {
            true => Standing::Works,
            false => Standing::Unset,
        },
        // Older: staged and not set yet, or lost with a failover. Redis: restarted with an older file.
        LoginState::Ours { generation, .. } if !counts || *generation < ours => Standing::Unset,
        // Newer: the Secret was restored from long ago. Same: a generation has one password (C5).
        LoginState::Ours { .. } => Standing::Dead,
    }
}
