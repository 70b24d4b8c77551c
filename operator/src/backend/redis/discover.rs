//! Finds the nodes of a server, and says why it cannot be written to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::join_all;

use super::{
    Server, Topology,
    node::{Node, lock},
    topology::{Address, Facts, Member, Role, cluster_nodes, sentinel_replicas},
};
use crate::backend::BackendError;

/// A server names no more nodes than this, or is not listened to.
const NODES_MAX: usize = 256;

/// One node as it was found just now.
pub(super) struct Found {
    pub(super) node: Arc<Node>,
    pub(super) facts: Result<Facts, BackendError>,
    /// What others say that it is; decides if it is silent.
    role: Role,
}

impl Found {
    /// It takes writes, or should.
    pub(super) fn is_primary(&self) -> bool {
        let role = self.facts.as_ref().map_or(self.role, |facts| facts.role);
        role == Role::Primary
    }
}

/// All nodes as they were found just now.
pub(super) struct Nodes {
    pub(super) all: Vec<Found>,
    /// Named by the server, but the class does not permit to contact them.
    pub(super) refused: Vec<(Address, Role)>,
    /// Other addresses of some of them.
    aliases: Vec<Address>,
}

/// A node that answers, and what it says of itself.
pub(super) type Live = (Arc<Node>, Facts);

impl Nodes {
    /// Those that answer, primaries first; an error while a primary is missing. A replica that is away
    /// does not hold a change up: it is seen when it comes back ([`Server::changes`]).
    pub(super) fn writable(self, topology: &Topology) -> Result<Vec<Live>, BackendError> {
        let mut refused = self.refused.into_iter();
        if let Some((address, _)) = refused.find(|(_, role)| *role == Role::Primary) {
            return Err(not_permitted(&address));
        }
        let must_all = matches!(topology, Topology::Cluster);
        let (mut live, mut silent, mut asked) = (Vec::new(), None, Vec::new());
        for found in self.all {
            let is_primary = found.is_primary();
            asked.push(found.node.address.to_string());
            match found.facts {
                Ok(facts) => live.push((found.node, facts)),
                Err(error) if is_primary && must_all => return Err(error),
                Err(error) => silent = silent.or(Some(error)),
            }
        }
        live.sort_by_key(|(_, facts)| facts.role != Role::Primary);
        match (live.first(), silent) {
            (Some((_, facts)), _) if facts.role == Role::Primary => Ok(live),
            (_, Some(error)) => Err(error),
            (_, None) => Err(BackendError::Refused {
                server: asked.join(", "),
                what: "finding the primary".to_owned(),
                problem: "all nodes say that they are replicas".to_owned(),
            }),
        }
    }
}

fn not_permitted(address: &Address) -> BackendError {
    BackendError::Refused {
        server: address.to_string(),
        what: "contacting it".to_owned(),
        problem: "the server names this node, but the BackendClass neither lists nor permits it"
            .to_owned(),
    }
}

impl Server {
    /// Asks all nodes who they are.
    pub(super) async fn discover(&self) -> Result<Nodes, BackendError> {
        let (named, refused) = match &self.endpoint.topology {
            Topology::Standalone | Topology::Replicated => (self.listed(), Vec::new()),
            Topology::Sentinel { master, .. } => self.by_sentinel(master).await?,
            Topology::Cluster => self.by_cluster().await?,
        };
        let mut nodes = Nodes {
            all: self.probe(named).await,
            refused,
            aliases: Vec::new(),
        };
        // A Sentinel itself learns of a new replica seconds later.
        if !matches!(
            self.endpoint.topology,
            Topology::Standalone | Topology::Cluster
        ) {
            self.follow(&mut nodes).await;
        }
        // Nodes come and go for years; their connections go with them.
        let is_used = |address: &Address| {
            let mut all = nodes.all.iter().map(|found| &found.node.address);
            all.any(|one| one == address)
                || nodes.aliases.contains(address)
                || self.endpoint.nodes.contains(address)
        };
        lock(&self.nodes).retain(|address, _| is_used(address));
        let kept = nodes.all.iter().map(|found| {
            let (node, role) = (found.node.clone(), found.is_primary());
            (node, if role { Role::Primary } else { Role::Replica })
        });
        *lock(&self.known) = kept.collect();
        Ok(nodes)
    }

    /// The nodes of the last time; asks again if there was none.
    pub(super) async fn known(&self) -> Result<Vec<(Arc<Node>, Role)>, BackendError> {
        let known = lock(&self.known).clone();
        if known.is_empty() {
            self.discover().await?;
            return Ok(lock(&self.known).clone());
        }
        Ok(known)
    }

    fn listed(&self) -> Vec<(Address, Role)> {
        let nodes = self.endpoint.nodes.iter().cloned();
        // A silent one may be the primary; whether one is missing the others tell.
        nodes.map(|node| (node, Role::Replica)).collect()
    }

    async fn probe(&self, named: Vec<(Address, Role)>) -> Vec<Found> {
        let asked = named.into_iter().map(|(address, role)| async move {
            let node = self.node(address);
            let facts = node.facts(&self.dial).await;
            Found { node, facts, role }
        });
        join_all(asked).await
    }

    // Replicas that a primary names, and the primary that a replica names. One node may have two
    // addresses; its run_id tells.
    async fn follow(&self, nodes: &mut Nodes) {
        let found = nodes.all.iter().map(|found| &found.node.address);
        let found = found.chain(nodes.refused.iter().map(|(address, _)| address));
        let mut seen: BTreeSet<Address> = found.chain(&self.endpoint.nodes).cloned().collect();
        loop {
            let live = nodes
                .all
                .iter()
                .filter_map(|found| found.facts.as_ref().ok());
            let named: Vec<(Address, Role)> = live
                .flat_map(|facts| {
                    let role = match facts.role {
                        Role::Primary => Role::Replica,
                        Role::Replica => Role::Primary,
                    };
                    facts
                        .others
                        .iter()
                        .map(move |address| (address.clone(), role))
                })
                .filter(|(address, _)| seen.insert(address.clone()))
                .collect();
            let mut fresh = Vec::new();
            for (address, role) in named {
                if self.endpoint.announced.permits(&address) {
                    fresh.push((address, role));
                } else {
                    nodes.refused.push((address, Role::Replica)); // may be a listed one by another name
                }
            }
            if fresh.is_empty() || nodes.all.len() + fresh.len() > NODES_MAX {
                return;
            }
            for found in self.probe(fresh).await {
                let run_id =
                    |one: &Found| one.facts.as_ref().ok().map(|facts| facts.run_id.clone());
                let own = run_id(&found);
                if own.is_none() || !nodes.all.iter().any(|one| run_id(one) == own) {
                    nodes.all.push(found);
                } else {
                    nodes.aliases.push(found.node.address.clone());
                }
            }
        }
    }

    pub(super) async fn by_sentinel(&self, master: &str) -> Result<Sorted, BackendError> {
        let mut last = None;
        for sentinel in &self.sentinels {
            match self.ask_sentinel(sentinel, master).await {
                Ok(named) => return Ok(self.sorted(named)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(BackendError::Invalid {
            field: "nodes",
            problem: "found none; name at least one Sentinel".to_owned(),
        }))
    }

    async fn ask_sentinel(
        &self,
        sentinel: &Node,
        master: &str,
    ) -> Result<Vec<(Address, Role)>, BackendError> {
        let needs = "sentinel|get-master-addr-by-name";
        let primary: Option<(String, u16)> = sentinel.ask(&self.dial, needs, &[master]).await?;
        let (host, port) = primary.ok_or_else(|| BackendError::Refused {
            server: sentinel.address.to_string(),
            what: "finding the primary".to_owned(),
            problem: format!("the Sentinel knows no {master:?}"),
        })?;
        let replicas = sentinel
            .ask(&self.dial, "sentinel|replicas", &[master])
            .await?;
        let mut named = vec![(Address::new(host, port), Role::Primary)];
        let replicas = sentinel_replicas(replicas).into_iter();
        named.extend(replicas.map(|address| (address, Role::Replica)));
        Ok(named)
    }

    // Each listed node knows its own id, so a node that announces another address than the listed one
    // is still the same.
    pub(super) async fn by_cluster(&self) -> Result<Sorted, BackendError> {
        let nodes: Vec<_> = self
            .endpoint
            .nodes
            .iter()
            .map(|one| self.node(one.clone()))
            .collect();
        let asked = nodes.iter().map(|node| async move {
            let answer: Result<String, _> = node.ask(&self.dial, "cluster|nodes", &[]).await;
            (node.address.clone(), answer)
        });
        let (mut members, mut last) = (BTreeMap::<String, Member>::new(), None);
        for (address, answer) in join_all(asked).await {
            match answer {
                Ok(text) => {
                    for (id, member) in cluster_nodes(&text, &address) {
                        if member.address == address || !members.contains_key(&id) {
                            members.insert(id, member);
                        }
                    }
                }
                Err(error) => last = Some(error),
            }
        }
        if let (true, Some(error)) = (members.is_empty(), last) {
            return Err(error);
        }
        let alive = members.into_values().filter(|member| !member.is_failed);
        Ok(self.sorted(alive.map(|member| (member.address, member.role)).collect()))
    }

    // Those that may be contacted, and those that may not.
    fn sorted(&self, named: Vec<(Address, Role)>) -> Sorted {
        let may = |(address, _): &(Address, Role)| {
            self.endpoint.nodes.contains(address) || self.endpoint.announced.permits(address)
        };
        named.into_iter().take(NODES_MAX).partition(may)
    }

    fn node(&self, address: Address) -> Arc<Node> {
        let mut nodes = lock(&self.nodes);
        let node = nodes.entry(address.clone());
        node.or_insert_with(|| Arc::new(Node::new(address, None)))
            .clone()
    }
}

/// Those that may be contacted, and those that may not.
pub(super) type Sorted = (Vec<(Address, Role)>, Vec<(Address, Role)>);
