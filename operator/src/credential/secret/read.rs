//! What a Secret shows: the keys are the phase (C3), annotations are numbers and times.

use jiff::Timestamp;
use leasehold_core::credential::{Entry, Slot, Stored, Which};
use leasehold_core::time::WallTime;
use leasehold_crds::cluster_service::BackendKind;
use leasehold_crds::keys::{self, secret};
use secrecy::SecretString;

use super::SecretObject;
use super::binding::Binding;
use super::password::matches;
use crate::backend::{self, Verifier};

/// Where one entry stands.
pub(super) struct Place {
    pub(super) username: &'static str,
    pub(super) password: &'static str,
    pub(super) verifier: &'static str,
    pub(super) generation: &'static str,
}

pub(super) const fn place(which: Which) -> Place {
    match which {
        Which::Current => Place {
            username: secret::USERNAME,
            password: secret::PASSWORD,
            verifier: secret::VERIFIER,
            generation: keys::ANNOTATION_GENERATION,
        },
        Which::Next => Place {
            username: secret::NEXT_USERNAME,
            password: secret::NEXT_PASSWORD,
            verifier: secret::NEXT_VERIFIER,
            generation: keys::ANNOTATION_NEXT_GENERATION,
        },
        Which::Previous => Place {
            username: secret::PREVIOUS_USERNAME,
            password: secret::PREVIOUS_PASSWORD,
            verifier: secret::PREVIOUS_VERIFIER,
            generation: keys::ANNOTATION_PREVIOUS_GENERATION,
        },
    }
}

/// What the machine reads of a Secret that is ours; none if there is none.
pub fn stored(secret: Option<&SecretObject>, binding: &Binding) -> Stored {
    let Some(secret) = secret else {
        return Stored::default();
    };
    Stored {
        exists: true,
        current: entry(secret, Which::Current, binding),
        next: entry(secret, Which::Next, binding),
        previous: entry(secret, Which::Previous, binding),
        rotated_at: time(secret, keys::ANNOTATION_ROTATED_AT),
        previous_since: time(secret, keys::ANNOTATION_PREVIOUS_SINCE),
        trigger: secret
            .annotation(keys::ANNOTATION_TRIGGER)
            .map(str::to_owned),
    }
}

/// The password of an entry.
pub fn password(secret: &SecretObject, which: Which) -> Option<SecretString> {
    secret.text(place(which).password).map(SecretString::from)
}

/// What a server is to be given of an entry.
pub fn verifier(secret: &SecretObject, which: Which) -> Option<Verifier> {
    let verifier = secret.text(place(which).verifier)?;
    Some(Verifier(SecretString::from(verifier)))
}

/// Which login an entry is of: its user name tells, and if that is none of ours its generation.
pub(super) fn slot(secret: &SecretObject, which: Which, binding: &Binding) -> Option<Slot> {
    let user = secret.text(place(which).username);
    let named = |slot: &Slot| user == Some(&binding.names.login(*slot));
    let numbered = || generation(secret, which).map(Slot::of_generation);
    Slot::ALL.into_iter().find(named).or_else(numbered)
}

/// Is there anything of it?
pub(super) fn is_there(secret: &SecretObject, which: Which) -> bool {
    let place = place(which);
    let keys = [place.username, place.password, place.verifier];
    keys.into_iter().any(|key| secret.has(key))
}

fn generation(secret: &SecretObject, which: Which) -> Option<u64> {
    let number = secret.annotation(place(which).generation)?.parse().ok();
    number.filter(|number: &u64| *number > 0)
}

fn entry(secret: &SecretObject, which: Which, binding: &Binding) -> Option<Entry> {
    if !is_there(secret, which) {
        return None;
    }
    let place = place(which);
    let slot = slot(secret, which, binding)?;
    let verifier = secret.text(place.verifier);
    let backend = binding.endpoint.backend();
    let number = generation(secret, which);
    Some(Entry {
        slot,
        generation: number.filter(|number| Slot::of_generation(*number) == slot),
        fingerprint: verifier.map(backend::fingerprint),
        is_consistent: is_consistent(secret.text(place.password), verifier, backend),
    })
}

fn is_consistent(password: Option<&str>, verifier: Option<&str>, backend: BackendKind) -> bool {
    match (password, verifier) {
        (Some(password), Some(verifier)) => matches(backend, password, verifier),
        (Some(_), None) | (None, Some(_)) => false,
        (None, None) => true, // a login of which nobody knows the password
    }
}

fn time(secret: &SecretObject, key: &str) -> Option<WallTime> {
    let time: Timestamp = secret.annotation(key)?.parse().ok()?;
    u64::try_from(time.as_second())
        .ok()
        .map(WallTime::from_seconds)
}
