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

fn entry(secret: &SecretObject, which: Which, binding: &Binding) -> Option<Entry> {
    let place = place(which);
    let keys = [place.username, place.password, place.verifier];
    if !keys.into_iter().any(|key| secret.has(key)) {
        return None;
    }
    let number = secret
        .annotation(place.generation)
        .and_then(|text| text.parse().ok());
    let number = number.filter(|number: &u64| *number > 0);
    let user = secret.text(place.username);
    let named = Slot::ALL
        .into_iter()
        .find(|slot| user == Some(&binding.names.login(*slot)));
    let slot = named.or(number.map(Slot::of_generation))?;
    let verifier = secret.text(place.verifier);
    let backend = binding.endpoint.backend();
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
