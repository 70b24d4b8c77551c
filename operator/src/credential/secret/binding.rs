//! For whom a Secret is made, and the keys that follow from that: where the server is, and as whom to
//! log in there.

use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use leasehold_core::credential::Slot;
use leasehold_crds::cluster_service::BackendKind;
use leasehold_crds::keys::{self, secret};

use crate::credential::names::Names;

/// Longest value of a label.
const LABEL_MAX: usize = 63;

/// The place of one Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// Who the service is.
    pub names: Names,
    /// The BackendClass of its store.
    pub class: String,
    /// Where its store is, as its clients see it.
    pub endpoint: Endpoint,
    /// With `deletionPolicy: Delete` the ClusterService; with `Retain` none, so that nothing collects it.
    pub owner: Option<OwnerReference>,
}

/// How a client reaches its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Postgres.
    Postgres {
        /// Name or address.
        host: String,
        /// Usually 5432.
        port: u16,
        /// Of the service.
        database: String,
        /// `verify-full`, `verify-ca`, `require` or `disable`.
        ssl_mode: String,
        /// PEM of the authority, if it is not one that systems know.
        ca: Option<String>,
    },
    /// A Redis or Valkey.
    Redis {
        /// Name or address.
        host: String,
        /// Usually 6379.
        port: u16,
        /// TLS, as `rediss`.
        has_tls: bool,
        /// PEM of the authority, if it is not one that systems know.
        ca: Option<String>,
    },
}

/// Every key that follows from a binding; a Secret has the others only of passwords.
pub(super) const DERIVED: [&str; 10] = [
    secret::TYPE,
    secret::PROVIDER,
    secret::HOST,
    secret::PORT,
    secret::USERNAME,
    secret::DATABASE,
    secret::KEY_PREFIX,
    secret::URI,
    secret::SSLMODE,
    secret::CA_CERT,
];

impl Endpoint {
    /// Which store it is.
    pub fn backend(&self) -> BackendKind {
        match self {
            Self::Postgres { .. } => BackendKind::Postgres,
            Self::Redis { .. } => BackendKind::Redis,
        }
    }

    /// The type of its Secret.
    pub fn secret_type(&self) -> &'static str {
        match self {
            Self::Postgres { .. } => keys::SECRET_TYPE_POSTGRES,
            Self::Redis { .. } => keys::SECRET_TYPE_REDIS,
        }
    }

    fn host(&self) -> (&str, u16, Option<&str>) {
        match self {
            Self::Postgres { host, port, ca, .. } | Self::Redis { host, port, ca, .. } => {
                (host, *port, ca.as_deref())
            }
        }
    }
}

impl Binding {
    /// Name of the Secret.
    pub fn secret_name(&self) -> String {
        self.endpoint.backend().secret_name(&self.names.service)
    }

    /// What the Secret says about whose it is (C7).
    pub fn mark(&self) -> String {
        let Names {
            installation,
            namespace_uid,
            service,
            ..
        } = &self.names;
        format!("installation={installation} namespace-uid={namespace_uid} name={service}")
    }

    /// Labels of ours. None is copied from the ClusterService: a label of a GitOps tool would get the
    /// Secret pruned.
    pub(super) fn labels(&self) -> Vec<(&'static str, &str)> {
        let all = [
            (keys::LABEL_CREDENTIAL, self.endpoint.backend().as_str()),
            (keys::LABEL_CLUSTER_ID, self.names.cluster_id.as_str()),
            (keys::LABEL_CLUSTER_SERVICE, self.names.service.as_str()),
        ];
        all.into_iter()
            .filter(|(_, value)| value.len() <= LABEL_MAX)
            .collect()
    }

    /// What a key of [`DERIVED`] says, for the login of this slot and its password.
    pub(super) fn derived(&self, key: &str, slot: Slot, password: &str) -> Option<String> {
        let (host, port, ca) = self.endpoint.host();
        let text = str::to_owned;
        match (key, &self.endpoint) {
            (secret::TYPE, Endpoint::Postgres { .. }) => Some(text("postgresql")),
            (secret::TYPE, Endpoint::Redis { .. }) => Some(text("redis")),
            (secret::PROVIDER, _) => Some(text("leasehold")),
            (secret::HOST, _) => Some(text(host)),
            (secret::PORT, _) => Some(port.to_string()),
            (secret::USERNAME, _) => Some(self.names.login(slot)),
            (secret::DATABASE, Endpoint::Postgres { database, .. }) => Some(database.clone()),
            (secret::SSLMODE, Endpoint::Postgres { ssl_mode, .. }) => Some(ssl_mode.clone()),
            (secret::KEY_PREFIX, Endpoint::Redis { .. }) => Some(self.names.key_prefix()),
            (secret::CA_CERT, _) => ca.map(text),
            (secret::URI, _) => Some(self.uri(&self.names.login(slot), password)),
            _ => None,
        }
    }

    fn uri(&self, user: &str, password: &str) -> String {
        let (host, port, _) = self.endpoint.host();
        let host = if host.contains(':') && !host.starts_with('[') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let authority = format!("{}:{}@{host}:{port}", encoded(user), encoded(password));
        match &self.endpoint {
            Endpoint::Postgres {
                database, ssl_mode, ..
            } => {
                format!(
                    "postgresql://{authority}/{}?sslmode={ssl_mode}",
                    encoded(database)
                )
            }
            Endpoint::Redis { has_tls, .. } => {
                let scheme = if *has_tls { "rediss" } else { "redis" };
                format!("{scheme}://{authority}")
            }
        }
    }
}

/// Percent-encodes all but what a URI allows everywhere.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}"); // writing to a String cannot fail
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uri_would_misread_is_encoded() {
        assert_eq!(encoded("aZ09-._~"), "aZ09-._~");
        assert_eq!(encoded("p@s:s/w?d#%ü"), "p%40s%3As%2Fw%3Fd%23%25%C3%BC");
    }
}
