//! A cheap look at what happened to the nodes, so that users come back within seconds.

use std::collections::BTreeSet;

use super::{
    Server, Topology,
    node::lock,
    topology::{Address, Role},
};
use crate::backend::BackendError;

/// What a node was at the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    run_id: String,
    role: Role,
}

/// Something that may have cost a node its users, or made one that has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub node: Address,
    /// What.
    pub happened: Happened,
}

/// See [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// Seen for the first time.
    Joined,
    /// Started anew: without an ACL file its users are gone.
    Restarted,
    /// Became this by a failover.
    Became(Role),
    /// Answers again: it may have missed something.
    Returned,
    /// Answers no more.
    Silent,
    /// Belongs to the server no more.
    Left,
}

impl Happened {
    /// Users may be missing on it.
    pub fn needs_look(self) -> bool {
        !matches!(self, Self::Silent | Self::Left)
    }
}

impl Server {
    /// Nodes may join that nobody named.
    pub fn may_grow(&self) -> bool {
        self.endpoint.topology != Topology::Standalone
    }

    /// Where its nodes are, those of the last time; with `Sentinel`, the Sentinels too.
    pub fn addresses(&self) -> BTreeSet<Address> {
        let known = lock(&self.known);
        let known = known.iter().map(|(node, _)| &node.address);
        known.chain(&self.endpoint.nodes).cloned().collect()
    }

    /// Who belongs to it and as what, as the cheapest who knows tells; good for comparing alone.
    pub async fn members(&self) -> Result<Vec<String>, BackendError> {
        let (named, refused) = match &self.endpoint.topology {
            Topology::Standalone | Topology::Replicated => (Vec::new(), Vec::new()),
            Topology::Sentinel { master, .. } => self.by_sentinel(master).await?,
            Topology::Cluster => self.by_cluster().await?,
        };
        let mut members: BTreeSet<String> = named
            .iter()
            .chain(&refused)
            .map(|(address, role)| format!("{address} {role:?}"))
            .collect();
        if self.endpoint.topology != Topology::Cluster {
            let known = self.known().await?;
            for (node, _) in known.iter().filter(|(_, role)| *role == Role::Primary) {
                let facts = node.facts(&self.dial).await?;
                members.insert(format!("{} is {:?}", node.address, facts.role));
                members.extend(facts.others.iter().map(|it| format!("{it} beside it")));
            }
        }
        Ok(members.into_iter().collect())
    }

    /// What happened since this was last asked, by one `INFO` for each node. Whoever cannot act on it
    /// must remember it: it is told once.
    pub async fn changes(&self) -> Result<Vec<Change>, BackendError> {
        let found = self.discover().await?;
        let now = found.all.iter().map(|found| {
            let seen = found.facts.as_ref().ok().map(|facts| Seen {
                run_id: facts.run_id.clone(),
                role: facts.role,
            });
            (found.node.address.clone(), seen)
        });
        let now = now.collect();
        let before = std::mem::replace(&mut *lock(&self.told), now);
        Ok(told(&before, &lock(&self.told)))
    }
}

type States = std::collections::BTreeMap<Address, Option<Seen>>;

fn told(before: &States, now: &States) -> Vec<Change> {
    let mut changes = Vec::new();
    for (node, seen) in now {
        let happened = match (before.get(node), seen) {
            (None, Some(_)) => Happened::Joined,
            (Some(None), Some(_)) => Happened::Returned,
            (None | Some(Some(_)), None) => Happened::Silent,
            (Some(Some(old)), Some(new)) if old.run_id != new.run_id => Happened::Restarted,
            (Some(Some(old)), Some(new)) if old.role != new.role => Happened::Became(new.role),
            (Some(Some(_)), Some(_)) | (Some(None), None) => continue,
        };
        changes.push(Change {
            node: node.clone(),
            happened,
        });
    }
    let left = before.keys().filter(|node| !now.contains_key(node));
    changes.extend(left.map(|node| Change {
        node: node.clone(),
        happened: Happened::Left,
    }));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_happens_to_a_node_is_told_once() {
        let seen = |run_id: &str, role| {
            Some(Seen {
                run_id: run_id.to_owned(),
                role,
            })
        };
        let node = || Address::new("redis-0", 6379);
        let (first, second) = (seen("1", Role::Primary), seen("2", Role::Primary));
        let demoted = seen("2", Role::Replica);
        let story = [
            (first.clone(), Some(Happened::Joined)),
            (first, None),
            (None, Some(Happened::Silent)),
            (None, None),
            (second.clone(), Some(Happened::Returned)),
            (demoted.clone(), Some(Happened::Became(Role::Replica))),
            (seen("3", Role::Replica), Some(Happened::Restarted)),
        ];
        let mut before = States::new();
        for (state, expected) in story {
            let now: States = [(node(), state)].into();
            let found = told(&before, &now);
            let happened: Vec<_> = found.iter().map(|change| change.happened).collect();
            assert_eq!(happened, Vec::from_iter(expected));
            before = now;
        }
        let left = told(&before, &States::new());
        assert_eq!(left[0].happened, Happened::Left);
        assert!(!left[0].happened.needs_look());
    }
}
