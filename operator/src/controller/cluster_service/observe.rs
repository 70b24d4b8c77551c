//! Observe: collects what a pass decides on. Mostly from memory; a Lease that the label watch does not
//! show, or whose holder fell silent, is read by name.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::ListParams, core::DeserializeGuard};
use kube_runtime::reflector::{ObjectRef, Store};
use leasehold_crds::{ClusterId, ClusterScope, ClusterService, LeaderStrategy, Settings, keys};
use tokio::time::Instant;

use crate::{
    belief::{
        Guarded, Heard, LeaseBelief, LeaseReading, LeaseState, Sighting, key,
        partitions::PartitionFacts, record::shortened,
    },
    context::Context,
    credential::reports::OfService,
    error::{Action, Error},
};

/// Reading one Lease by name.
pub const GET_LEASE: Action = Action {
    verb: "get",
    group: "coordination.k8s.io",
    resource: "leases",
};

/// Reading the member Leases of a cluster id.
pub const LIST_LEASES: Action = Action {
    verb: "list",
    ..GET_LEASE
};

/// All that one pass needs to know.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The object itself.
    pub service: ClusterService,
    /// Its cluster id.
    pub cluster_id: ClusterId,
    /// Since when the operator knows it.
    pub first_seen: Instant,
    /// The other ClusterServices of the same id.
    pub peers: Vec<ClusterService>,
    /// The leader Lease.
    pub leader: LeaderFacts,
    /// The settings Lease.
    pub settings: SettingsFacts,
    /// The table of the partitions, and the pods that take part.
    pub partitions: PartitionFacts,
    /// A handoff that takes longer is stuck.
    pub stuck_after: Duration,
    /// Why the leader is not known now, if so.
    pub blind: Option<Blind>,
    /// What the controller of credentials last found.
    pub reports: OfService,
}

impl Facts {
    /// It is declared to have partitions.
    pub fn is_partitioned(&self) -> bool {
        self.service.spec.leader_strategy == Some(LeaderStrategy::Partitioned)
    }

    /// It is the oldest of its id: its spec counts, and it cleans up.
    pub fn is_oldest(&self) -> bool {
        let mut peers = self.peers.iter();
        peers.all(|peer| age(peer) > age(&self.service))
    }
}

/// Orders by age; the uid decides within one second.
pub fn age(service: &ClusterService) -> (Option<jiff::Timestamp>, String) {
    let metadata = &service.metadata;
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, metadata.uid.clone().unwrap_or_default())
}

/// What is known of the leader Lease.
#[derive(Clone, Debug)]
pub struct LeaderFacts {
    /// What it means now.
    pub state: LeaseState,
    /// Its newest reading.
    pub reading: Option<LeaseReading>,
    /// The terms seen, oldest first.
    pub log: Vec<Sighting>,
    /// A Lease of that name without our labels, with its holder.
    pub unlabelled: Option<Option<String>>,
}

/// What is known of the settings Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingsFacts {
    /// There is none.
    Absent,
    /// The operator made it.
    Ours {
        /// What it says, if that can be read.
        settings: Option<Settings>,
        /// uids of its owners.
        owners: BTreeSet<String>,
        /// It carries our labels.
        is_labelled: bool,
    },
    /// Somebody else made it; how that was recognised.
    Foreign(String),
}

/// Why the operator cannot tell who leads.
#[derive(Clone, Debug, PartialEq)]
pub struct Blind {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Message of the condition.
    pub message: String,
}

/// Collects the facts about one ClusterService.
pub async fn observe(
    context: &Context,
    store: &Store<Guarded>,
    service: &ClusterService,
    cluster_id: ClusterId,
) -> Facts {
    let namespace = service.metadata.namespace.clone().unwrap_or_default();
    let name = service.metadata.name.clone().unwrap_or_default();
    let beliefs = &context.beliefs;
    let peers = peers(context, store, service, &cluster_id);
    let lease = cluster_id.leader_lease_name();
    let (unlabelled, blind) = match service.spec.cluster_scope {
        ClusterScope::Cluster => look_closer(context, &namespace, &cluster_id).await,
        ClusterScope::Node => (None, None),
    };
    let blind = blind.or(look_at_members(context, &namespace, &cluster_id).await);
    let belief = beliefs.lease(&namespace, &lease);
    let leader = LeaderFacts {
        state: belief
            .as_ref()
            .map_or(LeaseState::Absent, LeaseBelief::state),
        reading: belief.as_ref().and_then(|it| it.reading().cloned()),
        log: belief
            .map(|it| it.log().iter().cloned().collect())
            .unwrap_or_default(),
        unlabelled,
    };
    let settings = beliefs
        .lease(&namespace, &cluster_id.settings_lease_name())
        .and_then(|belief| belief.reading().map(|it| settings_facts(it, &cluster_id)))
        .unwrap_or(SettingsFacts::Absent);
    Facts {
        service: service.clone(),
        first_seen: beliefs
            .first_seen(&namespace, &name)
            .unwrap_or_else(Instant::now),
        partitions: beliefs.partitions(&namespace, cluster_id.as_str(), Instant::now()),
        stuck_after: context.timers.stuck_after,
        cluster_id,
        peers,
        leader,
        settings,
        blind,
        reports: context.credentials.reports.of(&(namespace, name)),
    }
}

/// The other ClusterServices of an id, without those that are going.
pub fn peers(
    context: &Context,
    store: &Store<Guarded>,
    service: &ClusterService,
    cluster_id: &ClusterId,
) -> Vec<ClusterService> {
    let (namespace, name) = key(service);
    context
        .beliefs
        .sharing(&namespace, cluster_id.as_str())
        .into_iter()
        .filter(|peer| *peer != name)
        .filter_map(|peer| store.get(&ObjectRef::new(&peer).within(&namespace)))
        .filter_map(|peer| peer.0.as_ref().ok().cloned())
        .filter(|peer| peer.metadata.deletion_timestamp.is_none())
        .collect()
}

/// Reads the member Leases if one of them is silent: the watch may be deaf.
async fn look_at_members(
    context: &Context,
    namespace: &str,
    cluster_id: &ClusterId,
) -> Option<Blind> {
    let id = cluster_id.as_str();
    if !context.beliefs.is_member_suspected(namespace, id) {
        return None;
    }
    let api: Api<DeserializeGuard<Lease>> = Api::namespaced(context.client.clone(), namespace);
    let members = ListParams::default().labels(&format!(
        "{}={id},{}={}",
        keys::LABEL_CLUSTER_ID,
        keys::LABEL_LEASE,
        keys::LEASE_MEMBER
    ));
    // Asked before the answer was made: what it does not show was gone by then.
    match context
        .within(LIST_LEASES, namespace, api.list(&members))
        .await
    {
        Ok(listed) => {
            let beliefs = &context.beliefs;
            beliefs.note_members(namespace, id, &listed.items, Instant::now());
            None
        }
        Err(error) => Some(Blind {
            reason: error.reason(),
            message: format!("Who takes part is not known: {error}"),
        }),
    }
}

/// Reads the leader Lease by name if the watch cannot be the last word: it shows none (a lost label
/// looks like a deletion, E4), or its holder is silent (the watch may be deaf).
async fn look_closer(
    context: &Context,
    namespace: &str,
    cluster_id: &ClusterId,
) -> (Option<Option<String>>, Option<Blind>) {
    let name = cluster_id.leader_lease_name();
    let belief = context.beliefs.lease(namespace, &name);
    let is_clear = belief
        .as_ref()
        .is_some_and(|it| it.reading().is_some() && !it.is_suspected());
    if is_clear {
        return (None, context.watch_problem(namespace));
    }
    match read_lease(context, namespace, &name).await {
        Err(error) => {
            let message = format!("Who leads is not known: {error}");
            (
                None,
                Some(Blind {
                    reason: error.reason(),
                    message,
                }),
            )
        }
        Ok(None) => {
            context
                .beliefs
                .note_reading(namespace, &name, None, Heard::ByList, Instant::now());
            (None, None)
        }
        Ok(Some(lease)) => {
            let reading = LeaseReading::of(&lease);
            if !reading.is_labelled(cluster_id.as_str(), keys::LEASE_LEADER) {
                return (Some(reading.holder().map(shortened)), None);
            }
            let now = Instant::now();
            context
                .beliefs
                .note_reading(namespace, &name, Some(reading), Heard::ByList, now);
            context.beliefs.confirm_lapse(namespace, &name);
            (None, None)
        }
    }
}

/// Reads one Lease by name; an undecodable one is a value.
pub async fn read_lease(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Option<DeserializeGuard<Lease>>, Error> {
    let api: Api<DeserializeGuard<Lease>> = Api::namespaced(context.client.clone(), namespace);
    context
        .within(GET_LEASE, namespace, api.get_opt(name))
        .await
}

/// Whose settings Lease it is: ours if it carries the labels or the annotation that only we write.
pub fn settings_facts(reading: &LeaseReading, cluster_id: &ClusterId) -> SettingsFacts {
    let is_labelled = reading.is_labelled(cluster_id.as_str(), keys::LEASE_SETTINGS);
    if !is_labelled && reading.settings.is_none() {
        return SettingsFacts::Foreign(format!(
            "lacks the labels {}={cluster_id} and {}={}",
            keys::LABEL_CLUSTER_ID,
            keys::LABEL_LEASE,
            keys::LEASE_SETTINGS
        ));
    }
    if let Some(holder) = reading.holder() {
        return SettingsFacts::Foreign(format!("is held by {}", shortened(holder)));
    }
    SettingsFacts::Ours {
        settings: reading
            .settings
            .as_deref()
            .and_then(|text| Settings::parse(text).ok()),
        owners: reading.owners.clone(),
        is_labelled,
    }
}
