//! What people do to a Secret and a server by hand.

use leasehold_core::credential::Slot;

use crate::secret::{Kept, Secret};

/// What people do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hand {
    DeleteSecret,
    /// A password of one's own in the current keys.
    EditPassword,
    EditVerifier,
    /// All keys are gone, the object stays.
    EmptySecret,
    RemoveCurrent,
    RemoveNext,
    RemovePrevious,
    WipeAnnotations,
    /// Annotations of a clock that was a year ahead.
    DateAhead,
    /// Its generation becomes this.
    Renumber(u64),
    Drop(Slot),
    Deform(Slot),
    DropAll,
    /// The Secret as it was after the first turn, from a backup.
    RestoreSecret,
    /// The server as it was then: a backup, or a failover that lost what came later.
    RestoreServer,
}

impl Hand {
    pub(crate) const ALL: [Self; 18] = [
        Self::DeleteSecret,
        Self::EditPassword,
        Self::EditVerifier,
        Self::EmptySecret,
        Self::RemoveCurrent,
        Self::RemoveNext,
        Self::RemovePrevious,
        Self::WipeAnnotations,
        Self::DateAhead,
        Self::Renumber(1),
        Self::Renumber(9),
        Self::Drop(Slot::A),
        Self::Drop(Slot::B),
        Self::Deform(Slot::A),
        Self::Deform(Slot::B),
        Self::DropAll,
        Self::RestoreSecret,
        Self::RestoreServer,
    ];
}

pub(crate) fn edit(secret: &mut Secret, hand: Hand) {
    const OWN: Option<u8> = Some(200);
    match hand {
        Hand::EditPassword => change(&mut secret.current, |kept| kept.password = OWN),
        Hand::EditVerifier => change(&mut secret.current, |kept| kept.verifier = OWN),
        Hand::Renumber(generation) => {
            change(&mut secret.current, |kept| {
                kept.generation = readable(kept, generation);
            });
        }
        Hand::EmptySecret => {
            (secret.current, secret.next, secret.previous) = (None, None, None);
        }
        Hand::RemoveCurrent => secret.current = None,
        Hand::RemoveNext => secret.next = None,
        Hand::RemovePrevious => secret.previous = None,
        Hand::WipeAnnotations => {
            for kept in [&mut secret.current, &mut secret.next, &mut secret.previous] {
                change(kept, |kept| kept.generation = None);
            }
            (secret.rotated_at, secret.previous_since, secret.trigger) = (None, None, None);
        }
        Hand::DateAhead => {
            let ahead = |time: u64| time + 31_536_000;
            secret.rotated_at = secret.rotated_at.map(ahead);
            secret.previous_since = secret.previous_since.map(ahead);
        }
        _ => {} // not about keys of the Secret
    }
}

fn change(kept: &mut Option<Kept>, how: impl FnOnce(&mut Kept)) {
    if let Some(kept) = kept {
        how(kept);
    }
}

/// A generation of the other slot is no number for this one.
fn readable(kept: &Kept, generation: u64) -> Option<u64> {
    (Slot::of_generation(generation) == kept.slot).then_some(generation)
}
