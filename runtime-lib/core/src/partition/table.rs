//! The table: who owns which partition, since which publish, and whom the owner waits for.

use std::sync::Arc;

use super::layout::{Layout, Partition};
use super::member::Member;
use crate::id::{Revision, Term};

/// The assignment, as published by a leader with compare-and-set (H2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// How the keys are cut.
    pub layout: Layout,
    /// The epoch of the newest publish: the revision on which it was based.
    pub epoch: Revision,
    /// Everyone that is named below, in order, without repetition.
    pub members: Vec<Member>,
    /// One entry for each partition of the layout.
    pub parts: Vec<Part>,
    /// Counts as `prev` of every partition: after a lost table, every member that was alive (H7).
    pub prev_all: Vec<u16>,
    /// What the newest publish did, for people.
    pub rebalance: Rebalance,
    /// A count that was asked for while a change of the layout still ran; it comes next.
    pub queued: Option<u16>,
}

/// One partition in the table. Members are indices into [`Table::members`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Who owns it; nobody while there is no member.
    pub owner: Option<u16>,
    /// The publish that made it so: the fencing token of the owner.
    pub epoch: Revision,
    /// Who must be released before the owner may start, in order, without repetition (H3, H4).
    pub prev: Vec<u16>,
}

/// What a publish did, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Rebalance {
    /// Why, in a few words.
    pub reason: Arc<str>,
    /// Partitions whose owner changed.
    pub moves: u16,
    /// The least number of moves that any plan needs.
    pub least: u16,
}

impl Table {
    /// The owner of a partition.
    pub fn owner(&self, partition: Partition) -> Option<&Member> {
        let index = self.part(partition)?.owner?;
        self.members.get(usize::from(index))
    }

    /// The entry of a partition.
    pub fn part(&self, partition: Partition) -> Option<&Part> {
        self.parts.get(partition.index())
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = (Partition, &Part)> {
        self.layout.partitions().zip(&self.parts)
    }

    /// Whom the owner of `partition` waits for: its own `prev` and the table's (H3, H7).
    pub fn waits_for(&self, partition: Partition) -> impl Iterator<Item = &Member> {
        let own = self.part(partition).map_or(&[][..], |part| &part.prev);
        own.iter()
            .chain(&self.prev_all)
            .filter_map(|index| self.members.get(usize::from(*index)))
    }

    /// The highest incarnation of that name; a new life takes a later one (H1).
    pub fn incarnation_max(&self, name: &str) -> Option<Term> {
        let lives = self.members.iter().filter(|member| &*member.name == name);
        lives.map(|member| member.incarnation).max()
    }

    /// The first thing that makes it no table; readers refuse such a one.
    pub fn problem(&self) -> Option<String> {
        let count = usize::from(self.layout.count());
        if self.parts.len() != count {
            let found = self.parts.len();
            return Some(format!("entries: found {found}, allowed are {count}"));
        }
        let known = self.members.len();
        let all = self
            .parts
            .iter()
            .flat_map(|part| part.owner.iter().chain(&part.prev));
        if let Some(index) = all
            .chain(&self.prev_all)
            .find(|index| usize::from(**index) >= known)
        {
            return Some(format!(
                "member index: found {index}, allowed are those below {known}"
            ));
        }
        let late = self.entries().find(|(_, part)| part.epoch > self.epoch)?;
        Some(format!(
            "epoch of partition {}: found {}, allowed are those up to the table's, {}",
            late.0, late.1.epoch, self.epoch
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::HashId;

    fn table() -> Table {
        let epoch = |number| Revision::new(number).unwrap();
        let part = |owner, at, prev: &[u16]| Part {
            owner,
            epoch: epoch(at),
            prev: prev.to_vec(),
        };
        Table {
            layout: Layout::new(1, HashId::CsHash1, 3).unwrap(),
            epoch: epoch(9),
            members: vec![
                Member::new("a", Term::new(1)),
                Member::new("a", Term::new(4)),
                Member::new("b", Term::new(2)),
            ],
            parts: vec![
                part(Some(1), 9, &[0]),
                part(Some(2), 5, &[]),
                part(None, 9, &[]),
            ],
            prev_all: vec![2],
            rebalance: Rebalance::default(),
            queued: None,
        }
    }

    #[test]
    fn an_owner_waits_for_its_predecessors_and_for_those_of_the_whole_table() {
        let table = table();
        let waits: Vec<_> = table
            .waits_for(Partition::new(0))
            .map(ToString::to_string)
            .collect();
        assert_eq!(waits, ["a#1", "b#2"]);
        assert_eq!(table.owner(Partition::new(0)).unwrap().to_string(), "a#4");
        assert_eq!(table.owner(Partition::new(2)), None);
        assert_eq!(table.owner(Partition::new(3)), None);
    }

    #[test]
    fn the_highest_incarnation_of_a_name_is_known() {
        assert_eq!(table().incarnation_max("a"), Some(Term::new(4)));
        assert_eq!(table().incarnation_max("c"), None);
    }

    #[test]
    fn a_table_that_contradicts_itself_is_refused_with_the_place() {
        assert_eq!(table().problem(), None);
        let mut bad = table();
        bad.parts.pop();
        assert_eq!(bad.problem().unwrap(), "entries: found 2, allowed are 3");
        let mut bad = table();
        bad.prev_all = vec![3];
        assert!(bad.problem().unwrap().contains("allowed are those below 3"));
        let mut bad = table();
        bad.parts[1].epoch = Revision::new(10).unwrap();
        assert!(
            bad.problem()
                .unwrap()
                .starts_with("epoch of partition 1: found 10")
        );
    }
}
