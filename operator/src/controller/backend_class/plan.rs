//! Plan: from facts to a wanted change, as a value. Nothing here reads or writes.

use kube::ResourceExt;
use leasehold_crds::keys;

use super::observe::Facts;

/// What one pass wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The finalizers that the class should have, if they are others.
    pub finalizers: Option<Vec<String>>,
}

/// Decides one pass: a class that services use is held back, any other is not.
pub fn plan(facts: &Facts) -> Plan {
    let found = facts.class.finalizers();
    let is_ours = |it: &&String| *it == keys::FINALIZER_CREDENTIALS;
    let has_ours = found.iter().any(|it| is_ours(&it));
    let is_used = !facts.users.is_empty();
    // The API server takes no new finalizer once the deletion has begun.
    let is_deleted = facts.class.metadata.deletion_timestamp.is_some();
    let finalizers = if is_used && !has_ours && !is_deleted {
        let ours = std::iter::once(keys::FINALIZER_CREDENTIALS.to_owned());
        Some(found.iter().cloned().chain(ours).collect())
    } else if !is_used && has_ours {
        let others = found.iter().filter(|it| !is_ours(it));
        Some(others.cloned().collect())
    } else {
        None
    };
    Plan { finalizers }
}
