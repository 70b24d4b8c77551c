//! How others assign partitions, implemented for the comparison.

use std::collections::BTreeMap;

use leasehold_core::partition::HashId;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A consistent-hash ring with 100 points for each member.
    Ring,
    /// Rendezvous hashing: each partition to the member of the highest score.
    Rendezvous,
    /// Sticky quotas as Kafka's uniform assignor hands them out: who comes first in the order of the
    /// members gets one more, whoever held it.
    Sticky,
    /// Partition i to the i-th member in the order of the names, modulo their number.
    Modulo,
}

impl Peer {
    pub(crate) const ALL: [Self; 4] = [Self::Ring, Self::Rendezvous, Self::Sticky, Self::Modulo];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring_100_points",
            Self::Rendezvous => "rendezvous",
            Self::Sticky => "sticky_in_member_order",
            Self::Modulo => "modulo",
        }
    }

    /// The next owners.
    pub(crate) fn owners(self, names: &[String], before: &[Option<String>]) -> Vec<Option<String>> {
        match self {
            Self::Ring => ring(names, before.len()),
            Self::Rendezvous => rendezvous(names, before.len()),
            Self::Sticky => sticky(names, before),
            Self::Modulo => modulo(names, before.len()),
        }
    }
}

fn ring(names: &[String], partitions: usize) -> Vec<Option<String>> {
    let mut points = BTreeMap::new();
    for name in names {
        for point in 0..100 {
            points.insert(
                HashId::CsHash1.of(format!("{name}#{point}").as_bytes()),
                name,
            );
        }
    }
    let owner = |partition: usize| {
        let hash = HashId::CsHash1.of(format!("partition-{partition}").as_bytes());
        let next = points.range(hash..).next().or_else(|| points.iter().next());
        next.map(|(_, name)| (*name).clone())
    };
    (0..partitions).map(owner).collect()
}

fn rendezvous(names: &[String], partitions: usize) -> Vec<Option<String>> {
    let score = |partition: usize, name: &String| {
        HashId::CsHash1.of(format!("{name}#{partition}").as_bytes())
    };
    let owner = |partition: usize| {
        names
            .iter()
            .max_by_key(|name| score(partition, name))
            .cloned()
    };
    (0..partitions).map(owner).collect()
}

fn sticky(names: &[String], before: &[Option<String>]) -> Vec<Option<String>> {
    let (floor, more) = (before.len() / names.len(), before.len() % names.len());
    let mut room: Vec<usize> = (0..names.len())
        .map(|i| floor + usize::from(i < more))
        .collect();
    let mut owners = before.to_vec();
    for owner in &mut owners {
        let place = owner
            .as_ref()
            .and_then(|owner| names.iter().position(|name| name == owner));
        match place.filter(|place| room[*place] > 0) {
            Some(place) => room[place] -= 1,
            None => *owner = None,
        }
    }
    let mut next = 0;
    for owner in owners.iter_mut().filter(|owner| owner.is_none()) {
        while room[next] == 0 {
            next += 1;
        }
        room[next] -= 1;
        *owner = Some(names[next].clone());
    }
    owners
}

fn modulo(names: &[String], partitions: usize) -> Vec<Option<String>> {
    let mut names = names.to_vec();
    names.sort();
    (0..partitions)
        .map(|partition| Some(names[partition % names.len()].clone()))
        .collect()
}
