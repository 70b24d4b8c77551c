//! From what a class says to a server, in the words of its driver. Connects to nothing.

use leasehold_crds::{
    BackendClassSpec, PostgresBackend, RedisBackend, RedisTopology, TlsMode, TlsSpec,
};

use super::Server;
use crate::{
    backend::{BackendError, postgres, redis},
    credential::admin::AdminCredential,
};

/// The server that a class speaks of.
pub(super) fn server(
    spec: &BackendClassSpec,
    admin: &AdminCredential,
    authority: Option<String>,
) -> Result<Server, BackendError> {
    match (&spec.postgres, &spec.redis) {
        (Some(backend), None) => Ok(Server::Postgres(postgres(backend, admin, authority)?)),
        (None, Some(backend)) => Ok(Server::Redis(redis(backend, admin, authority)?)),
        (None, None) | (Some(_), Some(_)) => Err(BackendError::Invalid {
            field: "spec",
            problem: "exactly one of postgres and redis is needed".to_owned(),
        }),
    }
}

fn postgres(
    backend: &PostgresBackend,
    admin: &AdminCredential,
    ca: Option<String>,
) -> Result<postgres::Server, BackendError> {
    let port = u16::try_from(backend.port).map_err(|_| BackendError::Invalid {
        field: "postgres.port",
        problem: format!("found {}; allowed: 1 to 65535", backend.port),
    })?;
    let mode = match backend.tls.mode {
        TlsMode::VerifyFull => postgres::TlsMode::VerifyFull,
        TlsMode::VerifyCa => postgres::TlsMode::VerifyCa,
        TlsMode::Require => postgres::TlsMode::Require,
        TlsMode::Disable => postgres::TlsMode::Disable,
    };
    let endpoint = postgres::Endpoint {
        host: backend.host.clone(),
        port,
        database: backend.database.clone(),
        tls: postgres::Tls { mode, ca },
        pooled: backend.pooled,
    };
    let admin = postgres::Admin {
        username: admin.username.clone(),
        password: admin.password.clone(),
    };
    Ok(postgres::Server::new(endpoint, admin))
}

fn redis(
    backend: &RedisBackend,
    admin: &AdminCredential,
    ca: Option<String>,
) -> Result<redis::Server, BackendError> {
    let nodes = backend.nodes.iter().map(|node| node.parse());
    let nodes = nodes.collect::<Result<Vec<redis::Address>, _>>()?;
    let sentinel = admin.sentinel.clone();
    let sentinel = sentinel.map(|(username, password)| redis::Admin { username, password });
    let topology = match backend.topology {
        RedisTopology::Standalone => redis::Topology::Standalone,
        RedisTopology::Replicated => redis::Topology::Replicated,
        RedisTopology::Cluster => redis::Topology::Cluster,
        RedisTopology::Sentinel => redis::Topology::Sentinel {
            master: backend
                .master_name
                .clone()
                .ok_or_else(|| BackendError::Invalid {
                    field: "redis.masterName",
                    problem: "found none; topology Sentinel needs it".to_owned(),
                })?,
            admin: sentinel,
        },
    };
    let mut endpoint = redis::Endpoint::new(topology, nodes);
    endpoint.announced = announced(backend.announced_hosts.as_deref().unwrap_or_default());
    endpoint.tls = tls(&backend.tls, ca)?;
    endpoint.persist = if backend.persist {
        redis::Persist::Rewrite
    } else {
        redis::Persist::AclFile
    };
    let admin = redis::Admin {
        username: Some(admin.username.clone()),
        password: admin.password.clone(),
    };
    redis::Server::new(endpoint, admin)
}

fn announced(hosts: &[String]) -> redis::Announced {
    if hosts.is_empty() {
        redis::Announced::Refused
    } else if hosts.iter().any(|host| host == "*") {
        redis::Announced::Followed
    } else {
        redis::Announced::On(hosts.to_vec())
    }
}

/// A Redis that is not who it says would get the admin's password, so it is verified or clear.
fn tls(tls: &TlsSpec, ca: Option<String>) -> Result<Option<redis::Tls>, BackendError> {
    match tls.mode {
        TlsMode::VerifyFull => Ok(Some(redis::Tls { ca })),
        TlsMode::Disable => Ok(None),
        TlsMode::VerifyCa | TlsMode::Require => Err(BackendError::Invalid {
            field: "redis.tls.mode",
            problem: format!("found {}; allowed: verify-full, disable", tls.mode.as_str()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn admin() -> AdminCredential {
        AdminCredential {
            username: "adm".to_owned(),
            password: "canary".to_owned().into(),
            sentinel: Some((None, "canary".to_owned().into())),
        }
    }

    fn made(spec: Value) -> Result<Server, BackendError> {
        let spec: BackendClassSpec = serde_json::from_value(spec).unwrap();
        server(&spec, &admin(), None)
    }

    #[test]
    fn a_class_becomes_a_server_that_shows_no_password() {
        let secret = json!({"name": "a"});
        for spec in [
            json!({"postgres": {"host": "db", "adminSecretRef": secret}}),
            json!({"redis": {"nodes": ["[fd00::5]:6379"], "adminSecretRef": secret}}),
            json!({"redis": {
                "topology": "Sentinel", "masterName": "m", "nodes": ["a:1", "b:1"],
                "announcedHosts": ["*"], "adminSecretRef": secret,
            }}),
        ] {
            let text = format!("{:?}", made(spec).unwrap());
            assert!(!text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn what_an_older_schema_let_in_is_refused_by_its_field() {
        let secret = json!({"name": "a"});
        for (spec, field) in [
            (json!({}), "spec"),
            (
                json!({"postgres": {"host": "db", "port": 70000, "adminSecretRef": secret}}),
                "postgres.port",
            ),
            (
                json!({"redis": {"nodes": ["a:1"], "tls": {"mode": "require"}, "adminSecretRef": secret}}),
                "redis.tls.mode",
            ),
            (
                json!({"redis": {"nodes": ["a:1"], "topology": "Sentinel", "adminSecretRef": secret}}),
                "redis.masterName",
            ),
            (
                json!({"redis": {"nodes": ["a"], "adminSecretRef": secret}}),
                "nodes",
            ),
        ] {
            let message = made(spec).unwrap_err().to_string();
            assert!(message.starts_with(field), "{message}");
        }
    }

    #[test]
    fn announced_nodes_are_followed_only_as_far_as_the_class_says() {
        let hosts = |hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|it| (*it).to_owned()).collect();
            announced(&hosts)
        };
        assert_eq!(hosts(&[]), redis::Announced::Refused);
        assert_eq!(hosts(&["a", "*"]), redis::Announced::Followed);
        assert_eq!(
            hosts(&[".svc"]),
            redis::Announced::On(vec![".svc".to_owned()])
        );
    }
}
