//! Whose a Secret is (C7): its mark tells, and only what is ours is ever written.

use leasehold_crds::keys;

use super::SecretObject;
use super::binding::Binding;

/// To whom a Secret of our name belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This service of this installation.
    Ours,
    /// A service of that name, in a namespace that is gone or of another installation: taken over
    /// only if the ClusterService says so (`leasehold.dev/adopt`).
    Former {
        /// What the mark says.
        mark: String,
    },
    /// Somebody else, or of a type that is not ours; it is left alone.
    Foreign {
        /// What is seen of its owner.
        owner: String,
    },
    /// Ours, but marked as immutable: only people can delete it.
    Immutable,
}

/// Reads the mark. With `adopts` the Secret of a former service counts as ours; its next write
/// replaces the mark.
pub fn whose(secret: &SecretObject, binding: &Binding, adopts: bool) -> Whose {
    let foreign = |owner: String| Whose::Foreign { owner };
    let Some(mark) = secret.annotation(keys::ANNOTATION_OWNER_MARK) else {
        return foreign(managers(secret));
    };
    if secret.kind() != Some(binding.endpoint.secret_type()) {
        return foreign(format!("type {}", secret.kind().unwrap_or("Opaque")));
    }
    let (ours, named) = (binding.mark(), format!("name={}", binding.names.service));
    if mark != ours
        && !(mark.starts_with("installation=") && mark.split(' ').any(|part| part == named))
    {
        return foreign(mark.chars().take(200).collect());
    }
    if mark != ours && !adopts {
        return Whose::Former {
            mark: mark.chars().take(200).collect(),
        };
    }
    if secret.is_immutable() {
        return Whose::Immutable;
    }
    Whose::Ours
}

/// Who wrote a Secret without a mark, as far as it says.
fn managers(secret: &SecretObject) -> String {
    let managers = secret.metadata().managed_fields.iter().flatten();
    let mut names: Vec<_> = managers
        .filter_map(|entry| entry.manager.as_deref())
        .collect();
    names.dedup();
    if names.is_empty() {
        return "somebody".to_owned();
    }
    names.join(", ")
}
