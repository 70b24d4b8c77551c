//! The store: the Leases of two members and the assignment, with compare-and-set.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::election::Target;
use leasehold_core::id::{LeaseUid, Revision};
use leasehold_core::lease::{Contents, LeaseRecord, Versioned};
use leasehold_core::partition::{Listing, MemberState, Table};

use crate::pod::NAMES;

/// Revisions count for each Lease alone: they are never compared with those of another, and so the
/// order of writes to different Leases makes no different worlds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) members: [Place; NAMES.len()],
    pub(crate) assignment: Place,
}

/// Where a Lease is, or was.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Place {
    pub(crate) lease: Option<Versioned>,
    revision: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            members: [Place::default(), Place::default()],
            // Tokens begin above zero, which none is lower than.
            assignment: Place {
                lease: None,
                revision: 1,
            },
        }
    }
}

impl Place {
    /// E1: creates, or replaces exactly the named revision of the named life.
    pub(crate) fn put(&mut self, target: &Target, record: &LeaseRecord) -> Option<Versioned> {
        let uid = match (target, &self.lease) {
            (Target::Absent, None) => LeaseUid::new(format!("u{}", self.revision)),
            (Target::Exactly { uid, revision }, Some(lease))
                if *uid == lease.uid && *revision == lease.revision =>
            {
                uid.clone()
            }
            _ => return None,
        };
        self.lease = Some(Versioned {
            uid,
            revision: self.next(),
            record: record.clone(),
        });
        self.lease.clone()
    }

    /// Somebody outside deletes it.
    pub(crate) fn delete(&mut self) {
        self.next();
        self.lease = None;
    }

    /// What followers of a member see.
    pub(crate) fn state(&self) -> Option<MemberState> {
        self.lease.as_ref().map(MemberState::of)
    }

    fn next(&mut self) -> Revision {
        self.revision += 1;
        revision(self.revision)
    }
}

impl Store {
    /// Time passes, and somebody writes something: later lists show later revisions.
    pub(crate) fn pass(&mut self) {
        self.assignment.next();
    }

    pub(crate) fn list(&self) -> Listing {
        let leases = NAMES.iter().zip(&self.members);
        let members: BTreeMap<Arc<str>, Versioned> = leases
            .filter_map(|(name, place)| Some(((*name).into(), place.lease.clone()?)))
            .collect();
        Listing {
            revision: revision(self.assignment.revision),
            assignment: self.assignment.lease.clone(),
            members,
        }
    }

    pub(crate) fn table(&self) -> Option<Arc<Table>> {
        match &self.assignment.lease.as_ref()?.record.contents {
            Contents::Table(table) => Some(Arc::clone(table)),
            _ => None,
        }
    }
}

fn revision(number: u64) -> Revision {
    Revision::new(number).unwrap_or_else(|error| unreachable!("{error}"))
}
