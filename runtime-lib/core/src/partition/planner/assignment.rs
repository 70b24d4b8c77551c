//! What is known of the assignment Lease, and what the next publish may be based on (H2, H7).

use std::sync::Arc;

use crate::election::Target;
use crate::id::{LeaseUid, Revision};
use crate::lease::{Contents, Versioned};
use crate::partition::Table;
use crate::time::Instant;

/// The newest state of the assignment Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Assignment {
    /// Nothing was read yet.
    Unknown,
    /// A quorum list shows none.
    Absent {
        /// Of the list.
        revision: Revision,
        asked: Instant,
    },
    Present {
        uid: LeaseUid,
        revision: Revision,
        says: Says,
    },
}

/// What the Lease says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Says {
    Table(Arc<Table>),
    /// Nothing that could be a table: it is taken for lost.
    Garbage(Arc<str>),
    /// A later version wrote it.
    Newer(Arc<str>),
}

impl Assignment {
    /// What this Lease says. Epochs only grow: a table with a lower one than the `newest` that was
    /// seen is a copy that somebody put back, and the table that it replaced is lost (H7).
    pub(super) fn of(lease: &Versioned, newest: Option<Revision>) -> Self {
        let says = match &lease.record.contents {
            Contents::Table(table) => match table.problem().or_else(|| older(table, newest)) {
                None => Says::Table(Arc::clone(table)),
                Some(problem) => Says::Garbage(problem.into()),
            },
            Contents::Unreadable { newer, reason } if *newer => Says::Newer(Arc::clone(reason)),
            Contents::Unreadable { reason, .. } => Says::Garbage(Arc::clone(reason)),
            _ => Says::Garbage("it carries no table".into()),
        };
        Self::Present {
            uid: lease.uid.clone(),
            revision: lease.revision,
            says,
        }
    }

    /// The same in the light of a higher epoch that was seen since.
    pub(super) fn reviewed(&self, newest: Option<Revision>) -> Self {
        let problem = self.table().and_then(|table| older(table, newest));
        match (self, problem) {
            (Self::Present { uid, revision, .. }, Some(problem)) => Self::Present {
                uid: uid.clone(),
                revision: *revision,
                says: Says::Garbage(problem.into()),
            },
            _ => self.clone(),
        }
    }

    /// The table, if there is one that can be read.
    pub(super) fn table(&self) -> Option<&Arc<Table>> {
        match self {
            Self::Present {
                says: Says::Table(table),
                ..
            } => Some(table),
            _ => None,
        }
    }

    /// The revision of the Lease, if there is one.
    pub(super) fn revision(&self) -> Option<Revision> {
        match self {
            Self::Present { revision, .. } => Some(*revision),
            _ => None,
        }
    }

    /// H2: what a publish replaces, and the revision on which it is based.
    pub(super) fn target(&self) -> Option<(Target, Revision)> {
        match self {
            Self::Unknown => None,
            Self::Absent { revision, .. } => Some((Target::Absent, *revision)),
            Self::Present { uid, revision, .. } => {
                let uid = uid.clone();
                let target = Target::Exactly {
                    uid,
                    revision: *revision,
                };
                Some((target, *revision))
            }
        }
    }
}

fn older(table: &Table, newest: Option<Revision>) -> Option<String> {
    let newest = newest.filter(|newest| table.epoch < *newest)?;
    let found = table.epoch;
    Some(format!(
        "an older table was put back: found epoch {found}, {newest} was seen"
    ))
}
