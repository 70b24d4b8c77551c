//! What a Redis is started with: alone, as a replica, a node of a cluster or a Sentinel, with or
//! without TLS.

use std::path::Path;

use super::Redis;
use crate::control_plane::certificates::Authority;
use crate::error::{Result, Step};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Lines of its configuration, besides address, password and folder.
    lines: Vec<String>,
    /// Chosen by chance if there is none.
    pub(super) password: Option<String>,
    /// The names in its certificate; none for clear text.
    pub(super) certified: Option<Vec<String>>,
    pub(super) is_sentinel: bool,
    pub(super) is_in_cluster: bool,
}

impl Setup {
    /// The same with another line of configuration.
    #[must_use]
    pub fn with(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// The same behind a password that is given.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// TLS alone, with a certificate for these names by a CA of its own.
    #[must_use]
    pub fn with_tls(mut self, names: &[&str]) -> Self {
        self.certified = Some(names.iter().map(|&name| name.to_owned()).collect());
        self
    }

    /// A replica; its password is that of its primary.
    pub fn replica_of(primary: &Redis) -> Self {
        Self::default()
            .with_password(primary.password())
            .with(format!("replicaof 127.0.0.1 {}", primary.port()))
    }

    /// A node of a cluster that it has to be joined to.
    pub fn node_of_cluster(password: &str) -> Self {
        let mut setup = Self::default().with_password(password);
        setup.is_in_cluster = true;
        setup
            .with("cluster-enabled yes")
            .with("cluster-config-file nodes.conf")
            .with("cluster-node-timeout 15000")
    }

    /// A Sentinel that watches `primary` under this name, and needs no other to act.
    pub fn sentinel(name: &str, primary: &Redis) -> Self {
        let setup = Self {
            is_sentinel: true,
            ..Self::default()
        };
        let (port, password) = (primary.port(), primary.password());
        setup
            .with(format!("sentinel monitor {name} 127.0.0.1 {port} 1"))
            .with(format!("sentinel auth-pass {name} {password}"))
            .with(format!("sentinel down-after-milliseconds {name} 1000"))
            .with(format!("sentinel failover-timeout {name} 4000"))
    }

    /// The whole configuration of a server in `folder`.
    pub(super) fn configuration(
        &self,
        folder: &Path,
        (port, bus): (u16, u16),
        password: &str,
    ) -> Result<String> {
        let mut lines = vec!["bind 127.0.0.1".to_owned()];
        match &self.certified {
            Some(names) => {
                let authority = Authority::create(&folder.join("pki"))?;
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let files = authority.server("redis", &names)?;
                lines.push("port 0".to_owned());
                lines.push(format!("tls-port {port}"));
                lines.push(format!("tls-cert-file {}", files.certificate.display()));
                lines.push(format!("tls-key-file {}", files.key.display()));
                lines.push(format!("tls-ca-cert-file {}", authority.ca().display()));
                lines.push("tls-auth-clients no".to_owned());
            }
            None => lines.push(format!("port {port}")),
        }
        if !password.is_empty() {
            lines.push(format!("requirepass {password}"));
            if !self.is_sentinel {
                lines.push(format!("masterauth {password}"));
            }
        }
        lines.push(format!("dir \"{}\"", folder.display()));
        if !self.is_sentinel {
            lines.extend(["save \"\"".to_owned(), "appendonly no".to_owned()]);
        }
        if self.is_in_cluster {
            lines.push(format!("cluster-port {bus}"));
        }
        lines.extend(self.lines.iter().cloned());
        Ok(lines.join("\n") + "\n")
    }
}

/// The certificate of its CA, as PEM.
pub(super) fn ca(folder: &Path) -> Result<String> {
    let path = folder.join("pki/ca.crt");
    std::fs::read_to_string(&path).step(|| format!("reading {}", path.display()))
}
