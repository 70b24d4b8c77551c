//! The part of the spec about credentials, and what status says of them: never a password or a hash.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of databases and schemas that a service may not have: Postgres and other services own them.
pub const RESERVED_NAMES: [&str; 5] = [
    "postgres",
    "template0",
    "template1",
    "public",
    "information_schema",
];
/// What the names of databases and schemas may not begin with: Postgres and this operator use these.
pub const RESERVED_PREFIXES: [&str; 2] = ["pg_", "lh_"];

/// What was found; the API server shows no message that has a line break in it.
macro_rules! found {
    ($field:literal) => {
        concat!(
            "self.",
            $field,
            ".matches('^[ -~]*$') ? self.",
            $field,
            " : 'a text with unprintable or non-ASCII characters'"
        )
    };
}
pub(super) use found;

/// A field is absent, or a name that Postgres takes unquoted and that nobody else has.
macro_rules! name_rule {
    ($field:literal) => {
        concat!(
            "!has(self.",
            $field,
            ") || (self.",
            $field,
            ".matches('^[a-z_][a-z0-9_]*$') && ",
            "!self.",
            $field,
            ".startsWith('pg_') && !self.",
            $field,
            ".startsWith('lh_') && ",
            "!(self.",
            $field,
            " in ['postgres', 'template0', 'template1', 'public', 'information_schema']))"
        )
    };
}
macro_rules! name_message {
    ($field:literal) => {
        concat!(
            "'", $field, ": found %s; allowed: up to 63 characters of a-z, 0-9 and _, that do not begin with a ",
            "digit, pg_ or lh_, and are not postgres, template0, template1, public or information_schema'",
            ".format([", found!($field), "])"
        )
    };
}
/// A field stays as it is, also absent.
macro_rules! immutable_rule {
    ($field:literal) => {
        concat!(
            "has(self.",
            $field,
            ") == has(oldSelf.",
            $field,
            ") && (!has(self.",
            $field,
            ") || self.",
            $field,
            " == oldSelf.",
            $field,
            ")"
        )
    };
}
macro_rules! immutable_message {
    ($field:literal, $why:literal) => {
        concat!(
            "'",
            $field,
            " is immutable, since ",
            $why,
            ": found %s, allowed is %s; make a new ClusterService instead'",
            ".format([has(self.",
            $field,
            ") ? self.",
            $field,
            " : 'none', has(oldSelf.",
            $field,
            ") ? oldSelf.",
            $field,
            " : 'none'])"
        )
    };
}
const CLASS_IMMUTABLE: &str = "self.className == oldSelf.className";
const CLASS_MESSAGE: &str = "'className is immutable, since data does not move from one server to another: found %s, \
     allowed is %s; make a new ClusterService instead'.format([self.className, oldSelf.className])";

/// A login on a Postgres server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(CLASS_IMMUTABLE)
        .message(Message::Expression(CLASS_MESSAGE.into()))
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(name_rule!("database"))
        .message(Message::Expression(name_message!("database").into())),
    validation = Rule::new(name_rule!("schema"))
        .message(Message::Expression(name_message!("schema").into())),
    validation = Rule::new(immutable_rule!("database"))
        .message(Message::Expression(immutable_message!("database", "data does not move").into()))
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(immutable_rule!("schema"))
        .message(Message::Expression(immutable_message!("schema", "data does not move").into()))
        .reason(Reason::FieldValueForbidden),
)]
pub struct PostgresSpec {
    /// Name of the BackendClass, whose `allowedNamespaces` must select this namespace. Immutable.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub class_name: String,

    /// Database of the service; it is made if it does not exist, and one that exists and is not ours
    /// is refused. Default: one of its own, with a name that the operator chooses and the Secret
    /// says. Services with one clusterId share it. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 63))]
    pub database: Option<String>,

    /// Schema of the service, made in its database and first in the search path of its logins.
    /// Default: the schema `public` of the database. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 63))]
    pub schema: Option<String>,

    /// What the logins may do. `Owner`: everything, tables are made and altered under a role that
    /// outlives every login; `ReadWrite`: read and write rows; `ReadOnly`: read them.
    #[serde(default)]
    pub privileges: Privileges,

    /// How many sessions each of the two logins may have at the same time. Default: as many as the
    /// server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 10000))]
    pub connection_limit: Option<i32>,
}

/// What the logins of a service may do in Postgres.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Privileges {
    /// Make and alter tables, read and write them.
    #[default]
    Owner,
    /// Read and write rows of the tables that owners make.
    ReadWrite,
    /// Read rows of the tables that owners make.
    ReadOnly,
}

impl Privileges {
    /// The value as it is spelt in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "Owner",
            Self::ReadWrite => "ReadWrite",
            Self::ReadOnly => "ReadOnly",
        }
    }
}

/// A user of a Redis or Valkey server, confined to keys and channels that begin with
/// `<namespace>:<clusterId>:`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(CLASS_IMMUTABLE)
        .message(Message::Expression(CLASS_MESSAGE.into()))
        .reason(Reason::FieldValueForbidden),
)]
pub struct RedisSpec {
    /// Name of the BackendClass, whose `allowedNamespaces` must select this namespace. Immutable.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub class_name: String,

    /// What the user may do. `Default`: read, write and publish under its prefix; `ReadOnly`: read
    /// and subscribe; `Strict`: as Default, without the commands that show names of foreign keys
    /// (SCAN, DBSIZE).
    #[serde(default)]
    pub profile: RedisProfile,
}

/// What the user of a service may do in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RedisProfile {
    /// Read, write and publish.
    #[default]
    Default,
    /// Read and subscribe.
    ReadOnly,
    /// As Default, without commands that show names of foreign keys.
    Strict,
}

impl RedisProfile {
    /// The value as it is spelt in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::ReadOnly => "ReadOnly",
            Self::Strict => "Strict",
        }
    }
}

/// What happens to logins and data when the ClusterService, or its field, is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Everything stays, Secrets included.
    #[default]
    Retain,
    /// Logins and Secrets are removed, and the database or schema with its data.
    Delete,
}

/// The Secret by the Service Binding specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingStatus {
    /// Name of the Secret: that of Postgres, or that of Redis if there is no other.
    pub name: String,
}

/// The store that a credential is for.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Postgres.
    #[default]
    Postgres,
    /// Redis or Valkey.
    Redis,
}

impl BackendKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Postgres, Self::Redis];

    /// The word as it stands in names of Secrets and in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
        }
    }

    /// Name of the Secret of a ClusterService: `<name>-postgres` or `<name>-redis`.
    pub fn secret_name(self, cluster_service: &str) -> String {
        format!("{cluster_service}-{}", self.as_str())
    }

    /// The ClusterService and the store that a Secret is called after, if it is called so.
    pub fn of_secret_name(secret: &str) -> Option<(&str, Self)> {
        Self::ALL.into_iter().find_map(|kind| {
            let service = secret.strip_suffix(kind.as_str())?.strip_suffix('-')?;
            (!service.is_empty()).then_some((service, kind))
        })
    }
}

/// One credential of a service, without anything secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialStatus {
    /// The store that it is for.
    pub backend: BackendKind,
    /// Name of the Secret.
    pub secret_name: String,
    /// The login in force.
    pub username: String,
    /// Number of the password in force: 1, 2, 3 ….
    pub generation: i64,
    /// Since when it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub rotated_at: Option<Time>,
    /// Until when the login before stays valid at most; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub previous_until: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_named_after_its_service_and_store_and_back() {
        for kind in BackendKind::ALL {
            let name = kind.secret_name("billing-api");
            assert_eq!(
                BackendKind::of_secret_name(&name),
                Some(("billing-api", kind))
            );
        }
        for name in ["", "postgres", "-postgres", "billing", "billing-postgresql"] {
            assert_eq!(BackendKind::of_secret_name(name), None, "{name}");
        }
    }
}
