//! The kind `BackendClass`: a server of an administrator, and who may have logins on it.
#![allow(clippy::duplicated_attributes)] // each column has a type
#![allow(unreachable_pub)] // the derive of the schema makes twins of the structs inside functions

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster_service::BackendKind;

/// Most nodes that a class may list.
pub const NODES_MAX: usize = 64;

/// A host name of ASCII letters, or an IP address. Only one that has a colon may have hex digits alone.
macro_rules! host_pattern {
    () => {
        "([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)([.][a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*[.]?"
    };
}
macro_rules! ipv6_pattern {
    () => {
        "[0-9a-fA-F]{0,4}:[0-9a-fA-F:.]{1,41}"
    };
}
macro_rules! port_pattern {
    () => {
        "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
    };
}
macro_rules! host_rule {
    () => {
        concat!(
            "self.host.matches('^(",
            host_pattern!(),
            "|",
            ipv6_pattern!(),
            ")$')"
        )
    };
}
macro_rules! is_node {
    ($node:literal) => {
        concat!(
            $node,
            ".matches('^(",
            host_pattern!(),
            "|\\\\[",
            ipv6_pattern!(),
            "\\\\]):",
            port_pattern!(),
            "$')"
        )
    };
}
/// What is wrong with an address, without repeating it: a URL may hold a password.
macro_rules! found_in_address {
    ($address:literal) => {
        concat!(
            $address,
            ".contains('://') ? 'a URL' : ",
            $address,
            ".contains('@') ? 'a user' : ",
            $address,
            ".contains(',') ? 'several of them' : ",
            $address,
            ".contains('/') ? 'a path' : "
        )
    };
}
const HOST_MESSAGE: &str = concat!(
    "'host: found %s; allowed: one host name of ASCII letters, digits, hyphens and dots, or one IP address, ",
    "without scheme, user, port and path'.format([",
    found_in_address!("self.host"),
    "'a text that is no host name'])"
);
const NODES_RULE: &str = concat!("self.nodes.all(node, ", is_node!("node"), ")");
const NODES_MESSAGE: &str = concat!(
    "'nodes: found %s; allowed: host:port with one host name of ASCII letters, digits, hyphens and dots, or one IP ",
    "address ([…] around IPv6), without scheme, user and path'.format([",
    "self.nodes.exists(node, node.contains('://')) ? 'a URL' : ",
    "self.nodes.exists(node, node.contains('@')) ? 'a user' : ",
    "self.nodes.exists(node, node.contains(',')) ? 'several nodes in one entry' : 'an entry that is no host:port'])"
);

const ANNOUNCED_RULE: &str = concat!(
    "!has(self.announcedHosts) || self.announcedHosts.all(host, host == '*' || host.matches('^([.]?",
    host_pattern!(),
    "|",
    ipv6_pattern!(),
    ")$'))"
);
const SENTINEL_RULE: &str = "self.topology != 'Sentinel' || has(self.announcedHosts)";

/// A Postgres, Redis or Valkey server, its admin credential, and the namespaces that may have logins there.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "leasehold.dev",
    version = "v1alpha1",
    kind = "BackendClass",
    plural = "backendclasses",
    singular = "backendclass",
    shortname = "bclass",
    category = "leasehold",
    doc = "A Postgres, Redis or Valkey server, its admin credential, and the namespaces that may have logins there.",
    status = "BackendClassStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Backend", type_ = "string", json_path = ".status.backend"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.serverVersion"
    ),
    printcolumn(name = "Services", type_ = "integer", json_path = ".status.services"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.postgres) != has(self.redis)")
        .message(Message::Expression(
            "'found %s; allowed: exactly one of postgres and redis'\
             .format([has(self.postgres) ? 'postgres and redis' : 'neither postgres nor redis'])".into()
        )),
    validation = Rule::new("has(self.postgres) == has(oldSelf.postgres)")
        .message("postgres and redis are immutable as a choice, since logins do not move; make a new BackendClass instead")
        .reason(Reason::FieldValueForbidden),
)]
pub struct BackendClassSpec {
    /// A Postgres server; exactly one of postgres and redis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PostgresBackend")]
    pub postgres: Option<PostgresBackend>,

    /// A Redis or Valkey server, or a group of them; exactly one of postgres and redis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RedisBackend")]
    pub redis: Option<RedisBackend>,

    /// Which namespaces may name this class, by their labels. Absent: none. `{}`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector")]
    pub allowed_namespaces: Option<LabelSelector>,
}

impl BackendClassSpec {
    /// Which store it is; none if the spec has neither or both, which the schema refuses.
    pub fn kind(&self) -> Option<BackendKind> {
        match (&self.postgres, &self.redis) {
            (Some(_), None) => Some(BackendKind::Postgres),
            (None, Some(_)) => Some(BackendKind::Redis),
            (None, None) | (Some(_), Some(_)) => None,
        }
    }

    /// The Secret with the admin credential.
    pub fn admin_secret(&self) -> Option<&str> {
        let postgres = self.postgres.as_ref().map(|it| &it.admin_secret_ref);
        let redis = self.redis.as_ref().map(|it| &it.admin_secret_ref);
        postgres.or(redis).map(|it| it.name.as_str())
    }

    /// How connections are protected.
    pub fn tls(&self) -> Option<&TlsSpec> {
        let postgres = self.postgres.as_ref().map(|it| &it.tls);
        postgres.or(self.redis.as_ref().map(|it| &it.tls))
    }

    /// The Secret with the certificate authority, if one is named.
    pub fn ca_secret(&self) -> Option<&str> {
        let named = self.tls()?.ca_secret_ref.as_ref()?;
        Some(named.name.as_str())
    }
}

/// Where a Postgres server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(host_rule!()).message(Message::Expression(HOST_MESSAGE.into())))]
pub struct PostgresBackend {
    /// One host name or IP address. Services get it as it stands here.
    #[schemars(length(min = 1, max = 253))]
    pub host: String,

    /// Its port.
    #[serde(default = "postgres_port_default")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// The database that the operator connects to and takes its locks in.
    #[serde(default = "postgres_database_default")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    )]
    pub database: String,

    /// Services reach it through a pooler such as PgBouncer. Open sessions then say nothing about who
    /// still uses a login, so the one before always stays valid for `rotation.maxGrace`.
    #[serde(default)]
    pub pooled: bool,

    /// How connections are protected.
    #[serde(default)]
    pub tls: TlsSpec,

    /// Secret in the operator's namespace, with the keys `username` and `password`: a role with
    /// CREATEROLE and CREATEDB, not necessarily a superuser.
    pub admin_secret_ref: SecretReference,
}

fn postgres_port_default() -> i32 {
    5432
}

fn postgres_database_default() -> String {
    "postgres".to_owned()
}

/// Where a Redis or Valkey server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(NODES_RULE).message(Message::Expression(NODES_MESSAGE.into())),
    validation = Rule::new("self.topology != 'Standalone' || size(self.nodes) == 1")
        .message(Message::Expression(
            "'nodes: found %d, but topology is Standalone; allowed: 1'.format([size(self.nodes)])".into()
        )),
    validation = Rule::new("self.topology != 'Sentinel' || has(self.masterName)")
        .message("masterName: found none, but topology is Sentinel; allowed: the name that the sentinels monitor")
        .reason(Reason::FieldValueRequired),
    validation = Rule::new("self.topology == 'Sentinel' || !has(self.masterName)")
        .message("masterName: allowed only with topology Sentinel")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(SENTINEL_RULE)
        .message("announcedHosts: found none, but topology is Sentinel; allowed: the hosts that the sentinels may name")
        .reason(Reason::FieldValueRequired),
    validation = Rule::new(ANNOUNCED_RULE)
        .message("announcedHosts: found an entry that is none of these: a host name, an IP address, \
                  a suffix such as .cache.svc, or * for all"),
    validation = Rule::new("self.tls.mode in ['verify-full', 'disable']")
        .message(Message::Expression(
            "'tls.mode: found %s; allowed with redis: verify-full, disable'.format([self.tls.mode])".into()
        )),
)]
pub struct RedisBackend {
    /// How the nodes belong together. Users are made on every node, since replicas do not take them
    /// over. `Standalone`: one. `Replicated`: a primary and its replicas. `Sentinel`: the sentinels are
    /// listed, and name the others. `Cluster`: Redis Cluster. Nodes that are not listed are used if
    /// `announcedHosts` permits them.
    #[serde(default)]
    pub topology: RedisTopology,

    /// One to 64 nodes as host:port.
    #[schemars(length(min = 1, max = 64), inner(length(min = 3, max = 261)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub nodes: Vec<String>,

    /// The name by which the sentinels know the group; required if and only if topology is `Sentinel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "String",
        length(min = 1, max = 128),
        regex(pattern = r"^[A-Za-z0-9._-]+$")
    )]
    pub master_name: Option<String>,

    /// Hosts that the operator follows if the server or its sentinels name nodes that are not listed:
    /// names, IP addresses, suffixes such as `.cache.svc`, or `*` for all. Whoever is followed gets the
    /// admin's password, so a server that was taken over must not choose. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Vec<String>",
        length(min = 1, max = 64),
        inner(length(min = 1, max = 254))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub announced_hosts: Option<Vec<String>>,

    /// The operator may save users with CONFIG REWRITE on nodes without an aclfile, so that they
    /// outlive a restart. Otherwise it makes them again after each restart, within seconds.
    #[serde(default)]
    pub persist: bool,

    /// How connections are protected: `verify-full` or `disable`.
    #[serde(default)]
    pub tls: TlsSpec,

    /// Secret in the operator's namespace, with the keys `username` and `password`: a user that may
    /// run ACL, CLIENT and CONFIG GET; and `sentinel-username` and `sentinel-password`, if the
    /// sentinels ask for a password.
    pub admin_secret_ref: SecretReference,
}

/// How the nodes of a Redis or Valkey belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RedisTopology {
    /// One node.
    #[default]
    Standalone,
    /// A primary and its replicas.
    Replicated,
    /// A primary and its replicas, which sentinels watch.
    Sentinel,
    /// Redis Cluster.
    Cluster,
}

/// How connections to a server are protected, those of services included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode in ['verify-full', 'verify-ca'] || !has(self.caSecretRef)")
        .message(Message::Expression(
            "'caSecretRef: found with mode %s, which checks no certificate; allowed with verify-full and verify-ca'\
             .format([self.mode])".into()
        ))
        .reason(Reason::FieldValueForbidden),
)]
pub struct TlsSpec {
    /// `verify-full`: the certificate must come from a trusted authority and name the host;
    /// `verify-ca`: it must come from a trusted authority; `require`: encrypted, whoever it is;
    /// `disable`: passwords cross the network in the clear (Redis) or as proofs (Postgres).
    #[serde(default)]
    pub mode: TlsMode,

    /// Secret in the operator's namespace whose key `ca.crt` holds the trusted authority, as PEM.
    /// Services get it in their Secret. Default: the authorities of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretReference")]
    pub ca_secret_ref: Option<SecretReference>,
}

/// How much of a server's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Authority and host name.
    #[default]
    VerifyFull,
    /// Authority.
    VerifyCa,
    /// Nothing, but the connection is encrypted.
    Require,
    /// No TLS.
    Disable,
}

impl TlsMode {
    /// The value as it is spelt in the API, and in `sslmode`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VerifyFull => "verify-full",
            Self::VerifyCa => "verify-ca",
            Self::Require => "require",
            Self::Disable => "disable",
        }
    }
}

/// Names a Secret in the operator's namespace; other namespaces cannot be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Its name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
}

/// What the operator sees of a server. All of it is derived and can be wiped (`status-is-derived`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendClassStatus {
    /// metadata.generation that this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,

    /// Ready, and what the last look at the server found: Reachable, VersionSupported, Writable,
    /// AdminRights and others; InUse says who names it, and so holds its deletion back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Which store it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BackendKind")]
    pub backend: Option<BackendKind>,

    /// Version of the server, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub server_version: Option<String>,

    /// How many ClusterServices name this class.
    #[serde(default)]
    pub services: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_safe_ones() {
        let postgres: PostgresBackend =
            serde_json::from_str(r#"{"host":"db","adminSecretRef":{"name":"admin"}}"#).unwrap();
        assert_eq!(
            (postgres.port, postgres.database.as_str()),
            (5432, "postgres")
        );
        assert_eq!(postgres.tls.mode, TlsMode::VerifyFull);
        let redis: RedisBackend =
            serde_json::from_str(r#"{"nodes":["r:6379"],"adminSecretRef":{"name":"admin"}}"#)
                .unwrap();
        assert_eq!(redis.tls.mode, TlsMode::VerifyFull);
        assert_eq!(redis.topology, RedisTopology::Standalone);
        assert!(!redis.persist && !postgres.pooled);
    }

    #[test]
    fn a_class_has_one_kind_or_none() {
        let mut spec = BackendClassSpec::default();
        assert_eq!(spec.kind(), None);
        assert_eq!(spec.admin_secret(), None);
        spec.redis = serde_json::from_str(
            r#"{"nodes":["r:6379"],"adminSecretRef":{"name":"admin"},"tls":{"caSecretRef":{"name":"ca"}}}"#,
        )
        .unwrap();
        assert_eq!(spec.kind(), Some(BackendKind::Redis));
        assert_eq!(spec.admin_secret(), Some("admin"));
        assert_eq!(spec.ca_secret(), Some("ca"));
    }
}
