//! What a server is to the operator: where it is, how its nodes belong together, who logs in.

use std::{fmt, time::Duration};

use secrecy::{ExposeSecret as _, SecretString};

use super::{
    rules::Profile,
    topology::{Address, Announced},
};
use crate::backend::BackendError;

/// Longest CA bundle that is taken.
const CA_MAX: usize = 1 << 20;

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// How its nodes belong together.
    pub topology: Topology,
    /// Its nodes; with `Sentinel`, the Sentinels.
    pub nodes: Vec<Address>,
    /// Which other nodes may be contacted if the server names them.
    pub announced: Announced,
    /// TLS, always verified; none for clear text.
    pub tls: Option<Tls>,
    /// What may be done so that users outlive a restart.
    pub persist: Persist,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long an answer may take.
    pub answer_timeout: Duration,
}

impl Endpoint {
    /// Clear text, time-outs of 3 s and 5 s. Sentinels and a cluster tell the nodes, and are followed;
    /// otherwise there are no others than these.
    pub fn new(topology: Topology, nodes: Vec<Address>) -> Self {
        let announced = match topology {
            Topology::Standalone | Topology::Replicated => Announced::Refused,
            Topology::Sentinel { .. } | Topology::Cluster => Announced::Followed,
        };
        Self {
            topology,
            nodes,
            announced,
            tls: None,
            persist: Persist::default(),
            connect_timeout: Duration::from_secs(3),
            answer_timeout: Duration::from_secs(5),
        }
    }

    /// Refuses what no server could answer to.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        let invalid = |field, problem: &str| {
            Err(BackendError::Invalid {
                field,
                problem: problem.to_owned(),
            })
        };
        if self.nodes.is_empty() {
            return invalid("nodes", "found none; name at least one");
        }
        if self.topology == Topology::Standalone && self.nodes.len() > 1 {
            return invalid("nodes", "found several; a standalone server is one node");
        }
        let ca = self.tls.as_ref().and_then(|tls| tls.ca.as_deref());
        let Some(ca) = ca else { return Ok(()) };
        if ca.len() > CA_MAX {
            return invalid("tls.ca", "found more than 1 MiB");
        }
        if ca.contains("PRIVATE KEY") || !ca.contains("-----BEGIN CERTIFICATE-----") {
            return invalid(
                "tls.ca",
                "found no certificates alone; they must be PEM without any key",
            );
        }
        Ok(())
    }
}

/// How the nodes of a server belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One node.
    Standalone,
    /// A primary with replicas.
    Replicated,
    /// The same, watched by Sentinels, which name it.
    Sentinel {
        /// What the Sentinels call it.
        master: String,
        /// How to log in at the Sentinels; none if they ask nobody.
        admin: Option<Admin>,
    },
    /// Redis Cluster.
    Cluster,
}

/// TLS to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificates that are trusted, as PEM; none for those of the system.
    pub ca: Option<String>,
}

/// What may be done so that users outlive a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persist {
    /// Nothing: they are set again after each restart.
    Never,
    /// `ACL SAVE`, if the server has an ACL file.
    #[default]
    AclFile,
    /// Else also `CONFIG REWRITE`. A server does not tell whether its configuration includes other
    /// files; with one that holds users it would not start again.
    Rewrite,
}

/// How somebody logs in.
#[derive(Clone)]
pub struct Admin {
    /// Its name; none for `default`.
    pub username: Option<String>,
    /// Its password; empty if none is asked for.
    pub password: SecretString,
}

impl Admin {
    /// Whoever asks for no password.
    pub(super) fn nobody() -> Self {
        Self {
            username: None,
            password: SecretString::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.username.as_deref().unwrap_or("default")
    }
}

impl PartialEq for Admin {
    fn eq(&self, other: &Self) -> bool {
        self.username == other.username
            && self.password.expose_secret() == other.password.expose_secret()
    }
}

impl Eq for Admin {}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// What a service wants of a Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// How much of the server it may use.
    pub profile: Profile,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::Server;

    #[test]
    fn what_no_server_could_answer_to_is_refused_before_any_contact() {
        let admin = Admin {
            username: None,
            password: "canary".into(),
        };
        let node: Address = "localhost:6379".parse().unwrap();
        let with = |topology, nodes, ca: Option<&str>| {
            let mut endpoint = Endpoint::new(topology, nodes);
            endpoint.tls = ca.map(|ca| Tls {
                ca: Some(ca.to_owned()),
            });
            Server::new(endpoint, admin.clone()).map(|server| format!("{server:?}"))
        };
        let shown = with(Topology::Standalone, vec![node.clone()], None).unwrap();
        assert!(!shown.contains("canary"), "{shown}");
        for (nodes, ca) in [
            (vec![], None),
            (vec![node.clone(), node.clone()], None),
            (vec![node.clone()], Some("garbage")),
            (
                vec![node.clone()],
                Some("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----"),
            ),
            (vec![node.clone()], Some(&*"x".repeat(CA_MAX + 1))),
        ] {
            let found = with(Topology::Standalone, nodes, ca);
            assert!(
                matches!(found, Err(BackendError::Invalid { .. })),
                "{found:?}"
            );
        }
    }
}
