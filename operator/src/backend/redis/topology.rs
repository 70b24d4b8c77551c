//! Which nodes a server has, from what one of them says. Pure.
//!
//! Users do not travel to replicas nor between the nodes of a cluster, so all of them must be known.
//! But a server that was taken over could name any host, to be sent the admin's password: announced
//! nodes are followed only as far as the class permits.

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::backend::BackendError;

/// Host and port of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// Of its parts.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = BackendError;

    fn from_str(text: &str) -> Result<Self, BackendError> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| {
            let host = host
                .strip_prefix('[')
                .map_or(host, |rest| rest.trim_end_matches(']'));
            Some((host, port.parse::<u16>().ok()?))
        });
        match parts {
            Some((host, port)) if is_host(host) && port > 0 => Ok(Self::new(host, port)),
            _ => Err(BackendError::Invalid {
                field: "nodes",
                problem: format!("found {text:?}; a node is host:port"),
            }),
        }
    }
}

fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !text.is_empty() && text.len() <= 253 && text.bytes().all(is_plain)
}

/// Which nodes get the admin's password, besides those that the class names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Announced {
    /// None. Nodes that nobody named have no users, which the preflight says.
    #[default]
    Refused,
    /// Those on these hosts: a name, an address, or `.suffix`.
    On(Vec<String>),
    /// All that the server names. Only where its network and its certificates are trusted.
    Followed,
}

impl Announced {
    /// Whether a node that was announced may be contacted.
    pub fn permits(&self, node: &Address) -> bool {
        let is_on = |host: &String| match host.strip_prefix('.') {
            Some(_) => node.host.len() > host.len() && node.host.ends_with(host.as_str()),
            None => node.host == *host,
        };
        match self {
            Self::Refused => false,
            Self::On(hosts) => hosts.iter().any(is_on),
            Self::Followed => true,
        }
    }
}

/// What a node is in its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes writes.
    Primary,
    /// Follows one.
    Replica,
}

/// What a node says of itself by `INFO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// New with each start.
    pub(super) run_id: String,
    pub(super) role: Role,
    /// Of Redis, or the one that a Valkey says it is like.
    pub(super) version: String,
    /// Of Valkey.
    pub(super) valkey: Option<String>,
    pub(super) has_config_file: bool,
    /// Replicas that it knows, or the primary that it follows.
    pub(super) others: Vec<Address>,
}

impl Facts {
    /// None if it is no answer of `INFO`.
    pub(super) fn from_info(text: &str) -> Option<Self> {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let all: BTreeMap<&str, &str> = lines.collect();
        let field = |name: &str| all.get(name).copied();
        let role = match field("role")? {
            "master" => Role::Primary,
            _ => Role::Replica,
        };
        let replicas = all.iter().filter(|(name, _)| {
            let number = name.strip_prefix("slave");
            number.is_some_and(|number| number.parse::<u16>().is_ok())
        });
        let mut others: Vec<Address> = replicas.filter_map(|(_, text)| replica(text)).collect();
        if let (Some(host), Some(port)) = (field("master_host"), field("master_port")) {
            others.extend(port.parse().ok().map(|port| Address::new(host, port)));
        }
        Some(Self {
            run_id: field("run_id")?.to_owned(),
            role,
            version: field("redis_version")?.to_owned(),
            valkey: field("valkey_version").map(str::to_owned),
            has_config_file: field("config_file").is_some_and(|path| !path.is_empty()),
            others: others
                .into_iter()
                .filter(|node| is_host(&node.host))
                .collect(),
        })
    }

    /// At least 7.0, the first with rules for channels by default and `%R~`.
    pub(super) fn is_supported(&self) -> bool {
        let major = self.version.split('.').next();
        major
            .and_then(|major| major.parse::<u32>().ok())
            .is_some_and(|major| major >= 7)
    }
}

// `ip=10.0.0.7,port=6379,state=online,…`
fn replica(text: &str) -> Option<Address> {
    let fields: BTreeMap<&str, &str> = text
        .split(',')
        .filter_map(|one| one.split_once('='))
        .collect();
    Some(Address::new(
        *fields.get("ip")?,
        fields.get("port")?.parse().ok()?,
    ))
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) address: Address,
    pub(super) role: Role,
    /// The others gave it up.
    pub(super) is_failed: bool,
}

/// The answer of `CLUSTER NODES`, as `asked` gave it, with the id of each.
pub(super) fn cluster_nodes(text: &str, asked: &Address) -> Vec<(String, Member)> {
    text.lines()
        .filter_map(|line| member(line, asked))
        .collect()
}

// `<id> <ip:port@bus[,host name[,…]]> <flags> …`
fn member(line: &str, asked: &Address) -> Option<(String, Member)> {
    let mut fields = line.split(' ');
    let id = fields.next()?.to_owned();
    let (address, flags) = (fields.next()?, fields.next()?);
    let flags: Vec<&str> = flags.split(',').collect();
    let is = |flag: &str| flags.contains(&flag);
    let (address, names) = address.split_once(',').unwrap_or((address, ""));
    let (host, port) = address.split('@').next()?.rsplit_once(':')?;
    let name = names.split(',').next().unwrap_or_default();
    let host = if name.is_empty() { host } else { name };
    let address = if is("myself") {
        asked.clone() // it may not know its own address
    } else {
        Address::new(host, port.parse().ok()?)
    };
    let is_known = is_host(&address.host) && address.port > 0 && !is("noaddr") && !is("handshake");
    let role = if is("master") {
        Role::Primary
    } else {
        Role::Replica
    };
    let member = Member {
        address,
        role,
        is_failed: is("fail"),
    };
    is_known.then_some((id, member))
}

/// Of the answers of `SENTINEL REPLICAS`: the addresses of those that a sentinel believes in.
pub(super) fn sentinel_replicas(answers: Vec<BTreeMap<String, String>>) -> Vec<Address> {
    let address = |fields: BTreeMap<String, String>| {
        let port = fields.get("port")?.parse().ok()?;
        Some(Address::new(fields.get("ip")?, port))
    };
    let found = answers.into_iter().filter_map(address);
    found
        .filter(|node| is_host(&node.host) && node.port > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port_and_nothing_else() {
        for text in ["redis-0.cache.svc:6379", "10.0.0.7:1", "[::1]:6379"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "redis",
            "redis:",
            "redis:0",
            "redis:70000",
            ":6379",
            "u:p@redis:6379",
            "a,b:1",
            "redis:6379#insecure",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_node_is_followed_only_where_the_class_permits() {
        let node = Address::new("r-1.cache.svc", 6379);
        assert!(!Announced::Refused.permits(&node));
        assert!(Announced::Followed.permits(&node));
        for (host, is_permitted) in [
            ("r-1.cache.svc", true),
            (".cache.svc", true),
            (".svc", true),
            ("cache.svc", false),
            (".r-1.cache.svc", false),
            ("evil", false),
        ] {
            let hosts = Announced::On(vec![host.to_owned()]);
            assert_eq!(hosts.permits(&node), is_permitted, "{host}");
        }
    }

    #[test]
    fn a_primary_names_its_replicas_and_a_replica_its_primary() {
        let common =
            "# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\nconfig_file:/etc/redis.conf\r\n";
        let primary = format!(
            "{common}role:master\r\nconnected_slaves:1\r\nslave0:ip=10.0.0.7,port=6380,state=online,offset=0,lag=0\r\n\
             slave_priority:100\r\nslave1:ip=ev il,port=1,state=online\r\n"
        );
        let facts = Facts::from_info(&primary).unwrap();
        assert_eq!(facts.role, Role::Primary);
        assert_eq!(facts.others, [Address::new("10.0.0.7", 6380)]);
        assert!(facts.is_supported() && facts.has_config_file);
        let replica = format!("{common}role:slave\r\nmaster_host:10.0.0.6\r\nmaster_port:6379\r\n");
        let facts = Facts::from_info(&replica).unwrap();
        assert_eq!(
            (facts.role, facts.others),
            (Role::Replica, vec![Address::new("10.0.0.6", 6379)])
        );
        assert!(Facts::from_info("-ERR").is_none());
        let old = replica.replace("7.0.15", "6.2.14");
        assert!(!Facts::from_info(&old).unwrap().is_supported());
    }

    #[test]
    fn the_nodes_of_a_cluster_are_read_from_one_of_them() {
        let text = "\
07 127.0.0.1:30004@31004,hostname4 slave e7 0 1426238317239 4 connected
67 127.0.0.1:30002@31002 master - 0 1426238316232 2 connected 5461-10922
29 :0@0 master,noaddr - 0 1 3 disconnected
6e 127.0.0.1:30005@31005 master,fail - 0 1 5 disconnected
e7 :30001@31001,,shard-id=1 myself,master - 0 0 1 connected 0-5460
garbage";
        let found = cluster_nodes(text, &Address::new("redis-0", 6379));
        let shown: Vec<_> = found
            .iter()
            .map(|(_, one)| format!("{} {:?} {}", one.address, one.role, one.is_failed))
            .collect();
        let expected = [
            "hostname4:30004 Replica false",
            "127.0.0.1:30002 Primary false",
            "127.0.0.1:30005 Primary true",
            "redis-0:6379 Primary false",
        ];
        assert_eq!(shown, expected);
    }
}
