//! What one quorum LIST shows of a cluster id: the assignment, and every member.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::Revision;
use crate::lease::Versioned;

/// The Leases of a cluster id that partitions are made of, all as of one instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listing {
    /// The revision of the store at that instant: the epoch of a table that is published where the
    /// list shows none (H2).
    pub revision: Revision,
    /// The assignment Lease; `None` if it is absent.
    pub assignment: Option<Versioned>,
    /// The member Leases by the names of their members.
    pub members: BTreeMap<Arc<str>, Versioned>,
}
