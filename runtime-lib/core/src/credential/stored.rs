//! What the Secret of a service shows, without its passwords: the phase of a rotation (C3).

use super::Slot;
use crate::time::WallTime;

/// A Secret. The default is one that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Stored {
    /// There is one of that name, and it is ours.
    pub exists: bool,
    /// The keys that clients read.
    pub current: Option<Entry>,
    /// `next-*`: made, and perhaps on the server; no client reads it.
    pub next: Option<Entry>,
    /// `previous-*`: clients may still use it.
    pub previous: Option<Entry>,
    /// When next last became current.
    pub rotated_at: Option<WallTime>,
    /// From when on the grace of the previous login counts.
    pub previous_since: Option<WallTime>,
    /// The trigger for which the newest password was made.
    pub trigger: Option<String>,
}

/// One login in the Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Which login: by the user name; if that is not ours, by the generation.
    pub slot: Slot,
    /// As an annotation says; none if that is missing, unreadable or of the other slot.
    pub generation: Option<u64>,
    /// Of its verifier. None if the Secret has no password for it: a login that was found alive on the
    /// server, whose password nobody knows but the clients that use it.
    pub fingerprint: Option<String>,
    /// The password is the one that the verifier was made of.
    pub is_consistent: bool,
}

impl Stored {
    /// All entries.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        [&self.current, &self.next, &self.previous]
            .into_iter()
            .flatten()
    }
}
