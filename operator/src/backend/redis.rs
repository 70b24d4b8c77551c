//! Users of a Redis or Valkey (C8): two for each service, on every node, with a prefix for keys and
//! channels.
//!
//! A server keeps users in memory of each node: replicas and the other nodes of a cluster do not get
//! them, and without an ACL file a restart loses them. So all nodes are asked and told each time, and
//! [`Server::changes`] notices a restart or a failover. A user carries no mark: ours is whose name is
//! computed from ours, with the installation in its hash (C4). `default` is never touched.
//!
//! | Module | Is |
//! | --- | --- |
//! | `rules` | what a user is given; pure |
//! | `shown`, `meaning` | what a server shows, and whether that is the same; pure |
//! | `endpoint`, `topology`, `discover` | what the class says, which nodes there are |
//! | `survey` | all users at once |
//! | `node` | one connection, and what its errors mean |
//! | `verify`, `preflight`, `changes` | logging in as the consumer, what is missing, what happened |

mod changes;
mod discover;
mod endpoint;
mod meaning;
mod node;
mod preflight;
mod rules;
mod shown;
mod survey;
mod topology;
mod verify;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use futures::future::{join_all, try_join_all};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

pub use changes::{Change, Happened};
pub use endpoint::{Admin, Endpoint, Persist, Tls, Topology, Wants};
pub use rules::Profile;
pub use topology::{Address, Announced, Role};

use self::{
    discover::Live,
    node::{Dial, Node},
    rules::{Hash, Rules},
    shown::Shown,
};
use super::{
    BackendError, LoginState, Removal, ServerState, SharedState, Slot, Subject, Verifier,
    fingerprint, hex,
};

/// What a server keeps of a password.
pub fn verifier(password: &SecretString) -> Verifier {
    Verifier(hex(&Sha256::digest(password.expose_secret().as_bytes())).into())
}

/// A Redis of any topology. Contacts nothing before it is asked something.
pub struct Server {
    endpoint: Endpoint,
    dial: Dial,
    sentinels: Vec<Node>,
    // One connection to each node that was ever named; there are few.
    nodes: Mutex<BTreeMap<Address, Arc<Node>>>,
    known: Mutex<Vec<(Arc<Node>, Role)>>,
    told: Mutex<BTreeMap<Address, Option<changes::Seen>>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Of its class. Fails on what no server could answer to.
    pub fn new(endpoint: Endpoint, admin: Admin) -> Result<Self, BackendError> {
        endpoint.check()?;
        let sentinels = match &endpoint.topology {
            Topology::Sentinel { admin, .. } => {
                let who = admin.clone().unwrap_or_else(Admin::nobody);
                let nodes = endpoint.nodes.iter().cloned();
                nodes
                    .map(|node| Node::new(node, Some(who.clone())))
                    .collect()
            }
            _ => Vec::new(),
        };
        Ok(Self {
            dial: Dial {
                admin,
                tls: endpoint.tls.clone(),
                connect_timeout: endpoint.connect_timeout,
                answer_timeout: endpoint.answer_timeout,
            },
            endpoint,
            sentinels,
            nodes: Mutex::default(),
            known: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// Both users of a service. In shape is one that is so on every node that answers, with one password.
    pub async fn look(&self, subject: &Subject<Wants>) -> Result<ServerState, BackendError> {
        let rules = Rules::of(subject)?;
        let users = [
            rules::user(subject, Slot::A)?,
            rules::user(subject, Slot::B)?,
        ];
        let nodes = self.writable().await?;
        let looked = nodes
            .iter()
            .map(|(node, facts)| self.look_at(node, &facts.run_id, &users, &rules));
        let looked = try_join_all(looked).await?;
        let merged = |index: usize, generation| {
            let seen: Vec<&Seen> = looked.iter().map(|seen| &seen[index]).collect();
            merged(&seen, generation)
        };
        Ok(ServerState {
            shared: SharedState::InShape,
            logins: [merged(0, 1), merged(1, 2)],
        })
    }

    /// Nothing: the services of a cluster id share no object, only a prefix.
    #[expect(clippy::unused_async, reason = "both stores are called alike")]
    pub async fn provision(&self, subject: &Subject<Wants>) -> Result<(), BackendError> {
        Rules::of(subject).map(drop)
    }

    /// Sets one of the users on every node that answers; needs all primaries. A Redis keeps no
    /// generation to compare with, so whoever calls looks again after a change of leadership (C5).
    pub async fn set_login(
        &self,
        subject: &Subject<Wants>,
        generation: u64,
        verifier: &Verifier,
    ) -> Result<(), BackendError> {
        let user = rules::user(subject, Slot::of_generation(generation))?;
        let mut arguments = vec![user];
        arguments.extend(Rules::of(subject)?.arguments(&Hash::of(verifier)?));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let nodes = self.writable().await?;
        self.on_each(&nodes, "acl|setuser", &arguments).await
    }

    /// Removes one of the users on every node that answers, which ends its sessions.
    pub async fn end_login(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
    ) -> Result<(), BackendError> {
        let user = rules::user(subject, slot)?;
        let nodes = self.writable().await?;
        self.on_each(&nodes, "acl|deluser", &[&user]).await
    }

    /// Removes both users. Keys stay: nobody but their writer knows whether they are a cache.
    pub async fn remove(&self, subject: &Subject<Wants>) -> Result<Removal, BackendError> {
        let users = [
            rules::user(subject, Slot::A)?,
            rules::user(subject, Slot::B)?,
        ];
        let found = self.discover().await?;
        let silent = found.all.iter().filter(|found| found.facts.is_err());
        let silent: Vec<String> = silent.map(|found| found.node.address.to_string()).collect();
        let nodes = found.writable(&self.endpoint.topology)?;
        self.on_each(&nodes, "acl|deluser", &[&users[0], &users[1]])
            .await?;
        if silent.is_empty() {
            return Ok(Removal::Done);
        }
        Ok(Removal::Held(format!(
            "{} cannot be reached and may keep the users",
            silent.join(", ")
        )))
    }

    async fn writable(&self) -> Result<Vec<Live>, BackendError> {
        self.discover().await?.writable(&self.endpoint.topology)
    }

    /// One command on every node, whatever becomes of the others; then what keeps it over a restart.
    async fn on_each(
        &self,
        nodes: &[Live],
        needs: &str,
        arguments: &[&str],
    ) -> Result<(), BackendError> {
        let asked = nodes.iter().map(|(node, facts)| async move {
            node.ask::<redis::Value>(&self.dial, needs, arguments)
                .await?;
            node.save(&self.dial, self.endpoint.persist, facts).await;
            Ok(())
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn look_at(
        &self,
        node: &Node,
        run_id: &str,
        users: &[String; 2],
        rules: &Rules,
    ) -> Result<[Seen; 2], BackendError> {
        let catalog = node.catalog(&self.dial, run_id).await?;
        let clients: String = node.ask(&self.dial, "client|list", &[]).await?;
        let mut seen = [Seen::default(), Seen::default()];
        for (seen, user) in seen.iter_mut().zip(users) {
            let answer = node.ask(&self.dial, "acl|getuser", &[user]).await?;
            seen.sessions = sessions(&clients, user);
            seen.user = Shown::from_answer(answer);
            if let Some(user) = &seen.user {
                seen.differences = catalog.differences(user, rules);
            }
        }
        Ok(seen)
    }
}

/// One user on one node.
#[derive(Debug, Default)]
struct Seen {
    user: Option<Shown>,
    differences: Vec<String>,
    sessions: u64,
}

/// One user as all nodes show it, the primary first.
fn merged(seen: &[&Seen], generation: u64) -> LoginState {
    let hash = |seen: &&Seen| seen.user.as_ref().map(|user| user.hashes.first().cloned());
    let mut hashes = seen.iter().map(hash);
    let Some(of_first) = seen.iter().find_map(hash) else {
        return LoginState::Absent;
    };
    let is_alike = hashes.all(|hash| hash.as_ref() == Some(&of_first));
    LoginState::Ours {
        generation,
        fingerprint: of_first.map_or_else(String::new, |hash| fingerprint(&hash)),
        is_in_shape: is_alike && seen.iter().all(|seen| seen.differences.is_empty()),
        sessions: seen.iter().map(|seen| seen.sessions).sum(),
    }
}

/// Clients of a user in an answer of `CLIENT LIST`.
fn sessions(clients: &str, user: &str) -> u64 {
    let is_of = |line: &&str| {
        line.split(' ')
            .any(|field| field.strip_prefix("user=") == Some(user))
    };
    clients.lines().filter(is_of).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_by_the_whole_name() {
        let clients =
            "id=1 addr=1:2 user=lh_a resp=2\nid=2 name=user=lh_a user=lh_ab\nid=3 user=default\n";
        assert_eq!(sessions(clients, "lh_ab"), 1);
        assert_eq!(
            sessions("id=3 user=lh_a\nid=4 user=lh_a resp=3\n", "lh_a"),
            2
        );
    }

    #[test]
    fn a_user_is_in_shape_only_if_it_is_so_on_every_node() {
        let user = |hash: &str| Seen {
            user: Shown::from_line(&format!("user u on #{hash}")).map(|(_, shown)| shown),
            ..Seen::default()
        };
        let (one, other, none) = (user("1"), user("2"), Seen::default());
        let is_in_shape = |state| {
            matches!(
                state,
                LoginState::Ours {
                    is_in_shape: true,
                    ..
                }
            )
        };
        assert!(is_in_shape(merged(&[&one, &one], 1)));
        assert!(!is_in_shape(merged(&[&one, &other], 1)));
        assert!(!is_in_shape(merged(&[&none, &other], 1)));
        assert_eq!(merged(&[&none, &none], 1), LoginState::Absent);
    }
}
