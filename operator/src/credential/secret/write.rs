//! What a step makes of a Secret. The new object carries the version of the old one, so that it
//! replaces exactly that (C3); without an old one it is to be created, and a race loses cleanly (C1).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use leasehold_core::credential::{Keep, Marks, Slot, Step, Which};
use leasehold_core::time::WallTime;
use leasehold_crds::keys::{self, secret};
use secrecy::ExposeSecret as _;
use zeroize::Zeroizing;

use super::SecretObject;
use super::binding::{Binding, DERIVED};
use super::password::{Made, matches};
use super::read::{is_there, place, slot};

/// The Secret after a step that writes it; none for other steps, and if the Secret is not the one that
/// the step was decided about. `made` is the new password, for [`Step::WriteNext`] alone.
pub fn write(
    old: Option<&SecretObject>,
    step: &Step,
    made: Option<&Made>,
    binding: &Binding,
    trigger: Option<&str>,
    now: WallTime,
) -> Option<SecretObject> {
    let mut new = match (old, step) {
        (Some(old), _) => old.clone(),
        (None, Step::WriteNext { .. }) => empty(binding),
        (None, _) => return None,
    };
    match step {
        Step::WriteNext {
            generation,
            previous,
            ..
        } => {
            let made = made?;
            keep(&mut new, *previous, binding);
            let places = place(Which::Next);
            let user = binding.names.login(Slot::of_generation(*generation));
            new.put(places.username, Some(&user));
            new.put(places.password, Some(made.password.expose_secret()));
            new.put(places.verifier, Some(made.verifier.0.expose_secret()));
            new.annotate(places.generation, Some(generation.to_string()));
            new.annotate(keys::ANNOTATION_TRIGGER, trigger.map(str::to_owned));
        }
        Step::Turn {
            generation,
            previous,
        } => {
            new.text(place(Which::Next).password)?;
            keep(&mut new, *previous, binding);
            new.annotate(keys::ANNOTATION_PREVIOUS_SINCE, None); // also if the former login stays
            transfer(&mut new, Which::Next, Which::Current);
            forget(&mut new, Which::Next);
            new.annotate(keys::ANNOTATION_GENERATION, Some(generation.to_string()));
            new.annotate(keys::ANNOTATION_ROTATED_AT, stamp(now));
            derive(&mut new, binding, Slot::of_generation(*generation));
        }
        Step::Annotate(marks) => annotate(&mut new, marks),
        Step::KeepStray { generation } => {
            let generation = *generation;
            if slot(&new, Which::Next, binding) == Some(Slot::of_generation(generation)) {
                forget(&mut new, Which::Next);
            }
            keep(&mut new, Keep::Bare { generation }, binding);
        }
        Step::ForgetPrevious => keep(&mut new, Keep::Nothing, binding),
        _ => return None,
    }
    mark(&mut new, binding);
    Some(new)
}

/// The Secret with everything as it should be that follows from elsewhere: where the server is, user
/// names, labels, mark and owner. None if nothing differs. A password that was edited is not touched
/// here; the machine replaces it.
pub fn repaired(
    old: &SecretObject,
    current: Option<Slot>,
    binding: &Binding,
) -> Option<SecretObject> {
    let mut new = old.clone();
    let places = place(Which::Current);
    if let (Some(slot), Some(password), Some(verifier)) = (
        current,
        old.text(places.password),
        old.text(places.verifier),
    ) && matches(binding.endpoint.backend(), password, verifier)
    {
        derive(&mut new, binding, slot);
    }
    rename(&mut new, Which::Next, binding);
    rename(&mut new, Which::Previous, binding);
    mark(&mut new, binding);
    (new != *old).then_some(new)
}

fn empty(binding: &Binding) -> SecretObject {
    SecretObject::new(Secret {
        metadata: ObjectMeta {
            namespace: Some(binding.names.namespace.clone()),
            name: Some(binding.secret_name()),
            ..ObjectMeta::default()
        },
        type_: Some(binding.endpoint.secret_type().to_owned()),
        ..Secret::default()
    })
}

fn keep(new: &mut SecretObject, previous: Keep, binding: &Binding) {
    match previous {
        Keep::AsItIs => return,
        Keep::Nothing => forget(new, Which::Previous),
        Keep::Bare { generation } => {
            forget(new, Which::Previous);
            let user = binding.names.login(Slot::of_generation(generation));
            let places = place(Which::Previous);
            new.put(places.username, Some(&user));
            new.annotate(places.generation, Some(generation.to_string()));
        }
        Keep::Current => {
            rename(new, Which::Current, binding);
            transfer(new, Which::Current, Which::Previous);
        }
    }
    new.annotate(keys::ANNOTATION_PREVIOUS_SINCE, None);
}

fn transfer(new: &mut SecretObject, from: Which, to: Which) {
    let (from, to) = (place(from), place(to));
    for (from, to) in [
        (from.username, to.username),
        (from.password, to.password),
        (from.verifier, to.verifier),
    ] {
        let value = new.text(from).map(|text| Zeroizing::new(text.to_owned()));
        new.put(to, value.as_deref().map(String::as_str));
    }
    let generation = new.annotation(from.generation).map(str::to_owned);
    new.annotate(to.generation, generation);
}

/// A user name that was edited becomes that of its login again.
fn rename(new: &mut SecretObject, which: Which, binding: &Binding) {
    if is_there(new, which)
        && let Some(slot) = slot(new, which, binding)
    {
        new.put(place(which).username, Some(&binding.names.login(slot)));
    }
}

fn forget(new: &mut SecretObject, which: Which) {
    let place = place(which);
    for key in [place.username, place.password, place.verifier] {
        new.put(key, None);
    }
    new.annotate(place.generation, None);
}

fn annotate(new: &mut SecretObject, marks: &Marks) {
    let Marks {
        generation,
        previous,
        rotated_at,
        trigger,
    } = marks;
    let number = |number: u64| Some(number.to_string());
    new.annotate(keys::ANNOTATION_GENERATION, number(*generation));
    new.annotate(
        keys::ANNOTATION_PREVIOUS_GENERATION,
        previous.and_then(|(generation, _)| number(generation)),
    );
    let since = previous.and_then(|(_, since)| stamp(since));
    new.annotate(keys::ANNOTATION_PREVIOUS_SINCE, since);
    new.annotate(keys::ANNOTATION_ROTATED_AT, stamp(*rotated_at));
    new.annotate(keys::ANNOTATION_TRIGGER, trigger.clone());
}

/// The keys that follow from the binding, for the current login.
fn derive(new: &mut SecretObject, binding: &Binding, slot: Slot) {
    let password = Zeroizing::new(new.text(secret::PASSWORD).unwrap_or_default().to_owned());
    for key in DERIVED {
        let value = binding.derived(key, slot, &password).map(Zeroizing::new);
        new.put(key, value.as_deref().map(String::as_str));
    }
}

/// Labels, mark, class and owner. What others wrote beside them stays.
fn mark(new: &mut SecretObject, binding: &Binding) {
    new.annotate(keys::ANNOTATION_OWNER_MARK, Some(binding.mark()));
    new.annotate(keys::ANNOTATION_CLASS, Some(binding.class.clone()));
    let metadata = new.metadata_mut();
    let labels = metadata.labels.get_or_insert_default();
    for (label, value) in binding.labels() {
        labels.insert(label.to_owned(), value.to_owned());
    }
    let references = metadata.owner_references.take().unwrap_or_default();
    let is_ours = |kind: &str, api: &str| kind == "ClusterService" && api.starts_with(keys::GROUP);
    let others = references
        .into_iter()
        .filter(|owner| !is_ours(&owner.kind, &owner.api_version));
    let references: Vec<_> = others.chain(binding.owner.clone()).collect();
    metadata.owner_references = (!references.is_empty()).then_some(references);
}

/// RFC 3339, in whole seconds.
fn stamp(time: WallTime) -> Option<String> {
    let seconds = i64::try_from(time.as_seconds()).ok()?;
    Timestamp::from_second(seconds)
        .ok()
        .map(|time| time.to_string())
}
