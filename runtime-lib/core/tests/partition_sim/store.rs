//! The API server's half of the truth: the Leases of one cluster id with compare-and-set, a
//! revision counter that all of them share, and a new uid for each life.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::election::{Target, Write};
use leasehold_core::id::{LeaseUid, Revision};
use leasehold_core::lease::{Contents, LeaseRecord, Versioned};
use leasehold_core::partition::Listing;

/// A Lease of the cluster id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Leader,
    Assignment,
    Member(Arc<str>),
}

/// The stored Leases.
#[derive(Debug)]
pub struct Store {
    revision: u64,
    lives: u64,
    leader: Option<Versioned>,
    assignment: Option<Versioned>,
    members: BTreeMap<Arc<str>, Versioned>,
    /// The process that holds each member Lease by a write of its own.
    keepers: BTreeMap<Arc<str>, usize>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            revision: 1000,
            lives: 0,
            leader: None,
            assignment: None,
            members: BTreeMap::new(),
            keepers: BTreeMap::new(),
        }
    }
}

impl Store {
    pub fn get(&self, key: &Key) -> Option<&Versioned> {
        match key {
            Key::Leader => self.leader.as_ref(),
            Key::Assignment => self.assignment.as_ref(),
            Key::Member(name) => self.members.get(name),
        }
    }

    pub fn members(&self) -> &BTreeMap<Arc<str>, Versioned> {
        &self.members
    }

    pub fn keeper(&self, name: &str) -> Option<usize> {
        self.keepers.get(name).copied()
    }

    /// A quorum LIST of the id.
    pub fn list(&self) -> Listing {
        Listing {
            revision: number(self.revision),
            assignment: self.assignment.clone(),
            members: self.members.clone(),
        }
    }

    /// The highest epoch that a member has understood, by the Leases.
    pub fn acknowledged(&self) -> Option<Revision> {
        let leases = self.members.values();
        let acked = leases.filter_map(|lease| match &lease.record.contents {
            Contents::Member(record) => record.acked,
            _ => None,
        });
        acked.max()
    }

    /// A write of some other object: revisions are shared.
    pub fn bump(&mut self) {
        self.revision += 1;
    }

    /// A write of process `p`; `None` is a conflict.
    pub fn write(&mut self, p: usize, key: &Key, write: &Write) -> Option<Versioned> {
        let holds = match (&write.target, self.get(key)) {
            (Target::Absent, None) => true,
            (Target::Exactly { uid, revision }, Some(state)) => {
                *uid == state.uid && *revision == state.revision
            }
            _ => false,
        };
        if !holds {
            return None;
        }
        if let Key::Member(name) = key {
            if write.record.holder.is_some() {
                self.keepers.insert(Arc::clone(name), p);
            } else {
                self.keepers.remove(name);
            }
        }
        Some(self.put(key, write.record.clone()))
    }

    /// Stores a record, whatever was there.
    pub fn put(&mut self, key: &Key, record: LeaseRecord) -> Versioned {
        self.revision += 1;
        let uid = if let Some(state) = self.get(key) {
            state.uid.clone()
        } else {
            self.lives += 1;
            LeaseUid::new(format!("life-{}", self.lives))
        };
        let state = Versioned {
            uid,
            revision: number(self.revision),
            record,
        };
        match key {
            Key::Leader => self.leader = Some(state.clone()),
            Key::Assignment => self.assignment = Some(state.clone()),
            Key::Member(name) => {
                self.members.insert(Arc::clone(name), state.clone());
            }
        }
        state
    }

    /// Deletes a Lease; false if there was none.
    pub fn delete(&mut self, key: &Key) -> bool {
        let found = match key {
            Key::Leader => self.leader.take().is_some(),
            Key::Assignment => self.assignment.take().is_some(),
            Key::Member(name) => self.members.remove(name).is_some(),
        };
        self.revision += u64::from(found);
        found
    }
}

fn number(number: u64) -> Revision {
    Revision::new(number).expect("revisions of a run fit")
}
