//! What a store holds for one lease key. Every field may be missing or nonsense: anybody can edit
//! a Lease, and no edit may make us panic.

use core::fmt;
use std::sync::Arc;

use crate::id::{Identity, LeaseUid, Revision, Term};
use crate::partition::{MemberRecord, Table};
use crate::time::Duration;

/// One record, as read from or written to a store.
///
/// The times in a Lease (`acquireTime`, `renewTime`) are missing on purpose: shells write them for
/// other readers, and nobody here may compare a remote time with a local clock (E3).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct LeaseRecord {
    /// Who holds the lease; `None` if empty or missing.
    pub holder: Option<String>,
    /// Published lease duration; `None` if missing or not positive.
    pub duration: Option<Duration>,
    /// Number of the term; negative or missing reads as zero.
    pub term: Term,
    /// Who wrote the record last, if it was one of us (E5).
    pub attempt: Option<AttemptStamp>,
    /// Who emptied the holder by choice (E5).
    pub released: Option<ReleaseStamp>,
    /// Who should lead instead, by a wish from outside.
    pub preferred_holder: Option<String>,
    /// What the Leases of members and of the assignment carry beside it.
    pub contents: Contents,
}

/// What a record carries for the partitions of its cluster id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Contents {
    /// Nothing: the record of a leader.
    #[default]
    Nothing,
    /// What a member says of itself.
    Member(Arc<MemberRecord>),
    /// The assignment.
    Table(Arc<Table>),
    /// Something that this build cannot read.
    Unreadable {
        /// A later version wrote it: it means something, and is not to be replaced.
        newer: bool,
        /// The field, what was found and what is allowed.
        reason: Arc<str>,
    },
}

/// A record with the store's names for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Versioned {
    /// Which life of the record.
    pub uid: LeaseUid,
    /// Which version.
    pub revision: Revision,
    /// What it says.
    pub record: LeaseRecord,
}

/// `<identity>#<term>#<number>`: names the write that made a revision.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AttemptStamp {
    /// Who wrote.
    pub identity: Identity,
    /// The term it wrote for; a stamp counts only for this term.
    pub term: Term,
    /// Number of the attempt, unique within the process.
    pub number: u64,
}

/// `<identity>#<term>`: the holder emptied the lease itself.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ReleaseStamp {
    /// Who released.
    pub identity: Identity,
    /// The term that was released.
    pub term: Term,
}

impl LeaseRecord {
    /// The last write of the current term came from one of us.
    pub fn is_stamped(&self) -> bool {
        self.attempt
            .as_ref()
            .is_some_and(|stamp| stamp.term == self.term)
    }

    /// The record is empty because its last holder emptied it (E5): it says so, or the term was
    /// never ours (a client-go peer releases without a stamp).
    pub fn is_released(&self) -> bool {
        let by_stamp = self
            .released
            .as_ref()
            .is_some_and(|stamp| stamp.term == self.term);
        self.holder.is_none() && (by_stamp || !self.is_stamped())
    }
}

impl AttemptStamp {
    /// Reads a stamp; anything malformed is no stamp.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('#');
        let (identity, term, number) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        Some(Self {
            identity: Identity::new(identity).ok()?,
            term: parse_term(term)?,
            number: number.parse().ok()?,
        })
    }
}

impl ReleaseStamp {
    /// Reads a stamp; anything malformed is no stamp.
    pub fn parse(text: &str) -> Option<Self> {
        let (identity, term) = text.split_once('#')?;
        Some(Self {
            identity: Identity::new(identity).ok()?,
            term: parse_term(term)?,
        })
    }
}

fn parse_term(text: &str) -> Option<Term> {
    let number: u32 = text.parse().ok()?;
    (number <= Term::MAX.number()).then(|| Term::new(number))
}

impl fmt::Display for AttemptStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}#{}", self.identity, self.term, self.number)
    }
}

impl fmt::Debug for AttemptStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ReleaseStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.identity, self.term)
    }
}

impl fmt::Debug for ReleaseStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_read_back_what_they_print() {
        let stamp = AttemptStamp::parse("orders-1_u_0000000a#12#9000000000").unwrap();
        assert_eq!(stamp.to_string(), "orders-1_u_0000000a#12#9000000000");
        assert_eq!(ReleaseStamp::parse("a#3").unwrap().to_string(), "a#3");
    }

    #[test]
    fn malformed_stamps_are_no_stamps() {
        for bad in [
            "",
            "#",
            "a#1",
            "a#1#",
            "a#-1#1",
            "a#1#1#1",
            "a b#1#1",
            "#1#1",
            "a#4294967296#1",
        ] {
            assert_eq!(AttemptStamp::parse(bad), None, "{bad}");
        }
        for bad in ["", "a", "a#", "#1", "a#1#2", "a#x"] {
            assert_eq!(ReleaseStamp::parse(bad), None, "{bad}");
        }
    }

    fn emptied(attempt: Option<&str>, released: Option<&str>) -> LeaseRecord {
        LeaseRecord {
            term: Term::new(7),
            attempt: attempt.and_then(AttemptStamp::parse),
            released: released.and_then(ReleaseStamp::parse),
            ..LeaseRecord::default()
        }
    }

    #[test]
    fn a_stamp_counts_only_for_the_term_it_names() {
        assert!(emptied(Some("a#7#1"), Some("a#7")).is_released());
        assert!(
            !emptied(Some("a#7#1"), None).is_released(),
            "somebody else emptied it"
        );
        assert!(
            !emptied(Some("a#7#1"), Some("a#6")).is_released(),
            "the stamp is of an older term"
        );
        assert!(
            emptied(Some("a#6#1"), None).is_released(),
            "term 7 was a client-go term"
        );
        assert!(emptied(None, None).is_released());
    }
}
