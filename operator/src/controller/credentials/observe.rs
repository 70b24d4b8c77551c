//! Who a service is, whether it may have logins, and what it wants of which server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use kube_runtime::reflector::Store;
use leasehold_core::credential::Policy;
use leasehold_crds::{
    ClusterService, DeletionPolicy, PostgresSpec, Privileges, RedisProfile, RedisSpec, TlsMode,
    cluster_service::BackendKind, keys,
};

use super::{
    account::{Account, Asks},
    command,
    say::Trouble,
};
use crate::{
    backend::{Subject, postgres, redis},
    belief::Guarded,
    context::Context,
    controller::cluster_service::{
        observe::peers,
        plan::{conflict_among, conflict_message},
    },
    credential::{
        names::Names,
        secret::{Binding, Endpoint},
        servers::Served,
    },
    error::Error,
};

/// What both stores need to know.
pub struct Ground {
    /// Who the service is.
    pub names: Names,
    /// The other ClusterServices of its id.
    pub peers: Vec<ClusterService>,
}

/// Collects what both stores need to know, or says why nothing may be made.
pub async fn ground(
    service: &ClusterService,
    context: &Context,
    store: &Store<Guarded>,
) -> Result<Ground, Trouble> {
    let namespace = service.namespace().unwrap_or_default();
    let name = service.name_any();
    let cluster_id = service
        .cluster_id()
        .map_err(|error| Trouble::Spec(error.to_string()))?;
    let peers = peers(context, store, service, &cluster_id);
    if let Some(conflict) = conflict_among(service, &peers) {
        return Err(Trouble::Peers(conflict_message(&conflict)));
    }
    let installation = context.installation.id().await;
    let installation = installation.map_err(|error| Trouble::Installation(error.to_string()))?;
    let tenant = context.tenants.get(&namespace).await?;
    let is_leaving = service.metadata.deletion_timestamp.is_some();
    let tenant = tenant
        .filter(|it| is_leaving || !it.is_terminating)
        .ok_or_else(|| Error::Terminating {
            namespace: namespace.clone(),
        })?;
    Ok(Ground {
        names: Names {
            installation: installation.to_owned(),
            namespace,
            namespace_uid: tenant.uid.clone(),
            cluster_id: cluster_id.to_string(),
            service: name,
        },
        peers,
    })
}

/// What a service wants of one store, and the server that it wants it of.
pub async fn account(
    service: &ClusterService,
    context: &Context,
    kind: BackendKind,
    ground: &Ground,
) -> Result<Account, Trouble> {
    let spec = &service.spec;
    let class = match kind {
        BackendKind::Postgres => spec.postgres.as_ref().map(|it| &it.class_name),
        BackendKind::Redis => spec.redis.as_ref().map(|it| &it.class_name),
    };
    let class = class.cloned().unwrap_or_default();
    account_at(service, context, kind, ground, class).await
}

/// What a service that names a store no more had there, as its Secret tells.
pub async fn former_account(
    service: &ClusterService,
    context: &Context,
    kind: BackendKind,
    ground: &Ground,
    (class, database): (&str, Option<&str>),
) -> Result<Account, Trouble> {
    let mut as_it_was = service.clone();
    let class_name = class.to_owned();
    match kind {
        BackendKind::Postgres => {
            let database = database.filter(|it| *it != ground.names.owner());
            as_it_was.spec.postgres = Some(PostgresSpec {
                class_name,
                database: database.map(str::to_owned),
                ..PostgresSpec::default()
            });
        }
        BackendKind::Redis => {
            as_it_was.spec.redis = Some(RedisSpec {
                class_name,
                ..RedisSpec::default()
            });
        }
    }
    account_at(&as_it_was, context, kind, ground, class.to_owned()).await
}

async fn account_at(
    service: &ClusterService,
    context: &Context,
    kind: BackendKind,
    ground: &Ground,
    class: String,
) -> Result<Account, Trouble> {
    let served = context.servers.get(&class, &ground.names.namespace).await?;
    let names = ground.names.clone();
    let (asks, endpoint) = match kind {
        BackendKind::Postgres => postgres_of(service, &served, names.clone()),
        BackendKind::Redis => redis_of(service, &served, names.clone()),
    }
    .ok_or_else(|| {
        Trouble::Spec(format!(
            "BackendClass {class} is no {} class",
            kind.as_str()
        ))
    })?;
    Ok(Account {
        kind,
        address: address(&endpoint),
        class: class.clone(),
        asks,
        binding: Binding {
            names,
            class,
            endpoint,
            owner: owner(service),
        },
        policy: policy(service, kind, &served)?,
        served,
        adopts: command::adopts(service),
        plans_only: command::plans_only(service),
    })
}

fn postgres_of(
    service: &ClusterService,
    served: &Served,
    names: Names,
) -> Option<(Asks, Endpoint)> {
    let (wanted, backend) = (
        service.spec.postgres.as_ref()?,
        served.spec.postgres.as_ref()?,
    );
    let wants = postgres::Wants {
        database: wanted.database.clone(),
        schema: wanted.schema.clone(),
        privileges: match wanted.privileges {
            Privileges::Owner => postgres::Privileges::Owner,
            Privileges::ReadWrite => postgres::Privileges::ReadWrite,
            Privileges::ReadOnly => postgres::Privileges::ReadOnly,
        },
        connection_limit: wanted
            .connection_limit
            .and_then(|it| u32::try_from(it).ok()),
    };
    let endpoint = Endpoint::Postgres {
        host: backend.host.clone(),
        port: u16::try_from(backend.port).ok()?,
        database: wants.database(&names),
        ssl_mode: backend.tls.mode.as_str().to_owned(),
        ca: served.authority.clone(),
    };
    Some((Asks::Postgres(Subject { names, wants }), endpoint))
}

fn redis_of(service: &ClusterService, served: &Served, names: Names) -> Option<(Asks, Endpoint)> {
    let (wanted, backend) = (service.spec.redis.as_ref()?, served.spec.redis.as_ref()?);
    let wants = redis::Wants {
        profile: match wanted.profile {
            RedisProfile::Default => redis::Profile::Default,
            RedisProfile::ReadOnly => redis::Profile::ReadOnly,
            RedisProfile::Strict => redis::Profile::Strict,
        },
    };
    let (host, port) = backend.nodes.first()?.rsplit_once(':')?;
    let endpoint = Endpoint::Redis {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().ok()?,
        has_tls: backend.tls.mode != TlsMode::Disable,
        ca: served.authority.clone(),
    };
    Some((Asks::Redis(Subject { names, wants }), endpoint))
}

fn address(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Postgres { host, port, .. } | Endpoint::Redis { host, port, .. } => {
            format!("{host}:{port}")
        }
    }
}

fn policy(service: &ClusterService, kind: BackendKind, served: &Served) -> Result<Policy, Trouble> {
    let rotation = &service.spec.rotation;
    let durations = rotation.durations().map_err(Trouble::Spec)?;
    let is_pooled = served.spec.postgres.as_ref().is_some_and(|it| it.pooled);
    let command = service.annotations().get(keys::ANNOTATION_ROTATE);
    // One text for both, so that a change of either asks once.
    let trigger = match (&rotation.trigger, command) {
        (None, None) => None,
        (Some(trigger), None) => Some(trigger.clone()),
        (trigger, Some(command)) => Some(format!(
            "{}|{command}",
            trigger.as_deref().unwrap_or_default()
        )),
    };
    Ok(Policy {
        interval: durations.interval,
        grace: durations.grace_period,
        max_grace: durations.max_grace,
        counts: kind == BackendKind::Postgres,
        pooled: kind == BackendKind::Postgres && is_pooled,
        trigger,
        deletion: None,
    })
}

/// Under `Delete` alone the Secret goes with its service.
fn owner(service: &ClusterService) -> Option<OwnerReference> {
    (service.spec.deletion_policy == DeletionPolicy::Delete)
        .then(|| service.controller_owner_ref(&()))
        .flatten()
}
