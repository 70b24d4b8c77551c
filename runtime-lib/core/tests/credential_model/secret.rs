//! The Secret of the small world: passwords are numbers, and a verifier is the number it was made of.

use leasehold_core::credential::{Entry, Keep, Marks, Slot, Stored};
use leasehold_core::time::WallTime;

/// A Secret, replaced as a whole by whoever knows its version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Secret {
    pub(crate) version: u64,
    pub(crate) current: Option<Kept>,
    pub(crate) next: Option<Kept>,
    pub(crate) previous: Option<Kept>,
    pub(crate) rotated_at: Option<u64>,
    pub(crate) previous_since: Option<u64>,
    pub(crate) trigger: Option<u8>,
}

/// One login in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kept {
    pub(crate) slot: Slot,
    pub(crate) generation: Option<u64>,
    pub(crate) password: Option<u8>,
    pub(crate) verifier: Option<u8>,
}

impl Kept {
    pub(crate) fn made(generation: u64, password: u8) -> Self {
        Self {
            slot: Slot::of_generation(generation),
            generation: Some(generation),
            password: Some(password),
            verifier: Some(password),
        }
    }

    fn bare(generation: u64) -> Self {
        Self {
            password: None,
            verifier: None,
            ..Self::made(generation, 0)
        }
    }

    fn entry(&self) -> Entry {
        Entry {
            slot: self.slot,
            generation: self.generation,
            fingerprint: self.verifier.map(fingerprint),
            is_consistent: self.password == self.verifier,
        }
    }
}

pub(crate) fn fingerprint(verifier: u8) -> String {
    format!("f{verifier}")
}

impl Secret {
    pub(crate) fn empty(version: u64) -> Self {
        Self {
            version,
            current: None,
            next: None,
            previous: None,
            rotated_at: None,
            previous_since: None,
            trigger: None,
        }
    }

    pub(crate) fn stored(secret: Option<&Self>) -> Stored {
        let Some(secret) = secret else {
            return Stored::default();
        };
        let entry = |kept: &Option<Kept>| kept.as_ref().map(Kept::entry);
        Stored {
            exists: true,
            current: entry(&secret.current),
            next: entry(&secret.next),
            previous: entry(&secret.previous),
            rotated_at: secret.rotated_at.map(WallTime::from_seconds),
            previous_since: secret.previous_since.map(WallTime::from_seconds),
            trigger: secret.trigger.map(trigger),
        }
    }

    pub(crate) fn with_next(mut self, next: Kept, previous: Keep, on: Option<u8>) -> Self {
        self.next = Some(next);
        self.trigger = on;
        self.keep(previous);
        self
    }

    pub(crate) fn turned(mut self, generation: u64, previous: Keep, now: u64) -> Self {
        self.keep(previous);
        self.previous_since = None;
        self.current = self.next.take().map(|next| Kept {
            generation: Some(generation),
            ..next
        });
        self.rotated_at = Some(now);
        self
    }

    pub(crate) fn with_stray(mut self, generation: u64) -> Self {
        let slot = Slot::of_generation(generation);
        self.next = self.next.filter(|next| next.slot != slot);
        self.keep(Keep::Bare { generation });
        self
    }

    pub(crate) fn marked(mut self, marks: &Marks) -> Self {
        if let Some(current) = &mut self.current {
            current.generation = Some(marks.generation);
        }
        if let (Some(previous), Some((generation, _))) = (&mut self.previous, marks.previous) {
            previous.generation = Some(generation);
        }
        self.previous_since = marks.previous.map(|(_, since)| since.as_seconds());
        self.rotated_at = Some(marks.rotated_at.as_seconds());
        let number = |text: &String| text.trim_start_matches('t').parse().ok();
        self.trigger = marks.trigger.as_ref().and_then(number);
        self
    }

    pub(crate) fn without_previous(mut self) -> Self {
        self.keep(Keep::Nothing);
        self
    }

    fn keep(&mut self, previous: Keep) {
        self.previous = match previous {
            Keep::AsItIs => return,
            Keep::Nothing => None,
            Keep::Bare { generation } => Some(Kept::bare(generation)),
            Keep::Current => self.current,
        };
        self.previous_since = None;
    }

    /// Passwords that somebody can read.
    pub(crate) fn knows(&self, password: u8) -> bool {
        [&self.current, &self.next, &self.previous]
            .into_iter()
            .flatten()
            .any(|kept| kept.password == Some(password))
    }
}

pub(crate) fn trigger(number: u8) -> String {
    format!("t{number}")
}
