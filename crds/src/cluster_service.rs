//! The kind `ClusterService`: what a service wants of its cluster, and what the operator sees of it.
#![allow(clippy::struct_field_names)] // units belong to the names of the API
#![allow(unreachable_pub)] // the derive of the schema makes twins of the structs inside functions

mod credentials;
mod partitions;
mod rotation;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    names::{ClusterId, InvalidClusterId},
    settings::LeaseSettings,
};

pub use credentials::{
    BackendKind, BindingStatus, CredentialStatus, DeletionPolicy, PostgresSpec, Privileges,
    RESERVED_NAMES, RESERVED_PREFIXES, RedisProfile, RedisSpec,
};
pub use partitions::{LastRebalance, MembersStatus, PartitionsStatus, PerPod};
pub use rotation::{RotationDurations, RotationSpec};

/// Longest name of a ClusterService: its Events are called `<name>.leader.<uid8>-<from>-<to>.gap` (R3).
pub const NAME_LENGTH_MAX: usize = 200;
/// How many leadership changes `status.history` keeps.
pub const HISTORY_LENGTH_MAX: usize = 10;

/// Deciseconds a heartbeat may need: I + k(A + R) with k = 2 and R = A/4, in whole numbers (`trust-ends-first`).
macro_rules! needed_trust {
    () => {
        "self.heartbeatSeconds * 10 + self.attemptTimeoutSeconds * 25"
    };
}
/// Deciseconds of trust, V: the largest with V/(1-ρ) + S <= D/(1+ρ), ρ = 1 %, rounded down to 0.1 s.
macro_rules! trusted_time {
    () => {
        "(self.durationSeconds * 1000 - self.stopBudgetSeconds * 1010) * 99 / 10100"
    };
}

/// Whole numbers only, so that schema and code agree to the last digit.
const TIMING_RULE: &str = concat!(needed_trust!(), " <= ", trusted_time!());
/// `.format` of whole numbers stays within the cost budget of the API server; joining strings does not.
const TIMING_MESSAGE: &str = concat!(
    "'heartbeatSeconds + 2.5 x attemptTimeoutSeconds is %d.%d s, ",
    "but durationSeconds and stopBudgetSeconds leave only %d.%d s of trusted time; ",
    "raise durationSeconds or lower the others'.format([",
    "(",
    needed_trust!(),
    ") / 10, (",
    needed_trust!(),
    ") % 10, ",
    trusted_time!(),
    " > 0 ? ",
    trusted_time!(),
    " / 10 : 0, ",
    trusted_time!(),
    " > 0 ? ",
    trusted_time!(),
    " % 10 : 0])",
);

/// What a ClusterService with this strategy has, in the rules below.
macro_rules! partitioned {
    ($object:literal) => {
        concat!(
            "(has(",
            $object,
            ".leaderStrategy) && ",
            $object,
            ".leaderStrategy == 'partitioned')"
        )
    };
}
/// The hash in force; the schema gives it no default, since other strategies have none.
macro_rules! hash {
    ($object:literal) => {
        concat!(
            "(has(",
            $object,
            ".hash) ? ",
            $object,
            ".hash : 'cs-hash/1')"
        )
    };
}

const PARTITIONS_REQUIRED: &str = concat!("!", partitioned!("self"), " || has(self.partitions)");
const PARTITIONS_FORBIDDEN: &str = concat!(partitioned!("self"), " || !has(self.partitions)");
const HASH_FORBIDDEN: &str = concat!(partitioned!("self"), " || !has(self.hash)");
/// Leaving a hash out means the default, so adding it may be a change and may be none.
const HASH_IMMUTABLE: &str = concat!(
    "!(",
    partitioned!("self"),
    " && ",
    partitioned!("oldSelf"),
    ") || ",
    hash!("self"),
    " == ",
    hash!("oldSelf"),
);
const HASH_MESSAGE: &str = concat!(
    "'hash is immutable, since another one would move every key: found %s, allowed is %s; ",
    "make a ClusterService with another clusterId instead'.format([",
    hash!("self"),
    ", ",
    hash!("oldSelf"),
    "])",
);

/// A service that behaves as one cluster: who leads it, and how leaders are found.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "leasehold.dev",
    version = "v1alpha1",
    kind = "ClusterService",
    plural = "clusterservices",
    singular = "clusterservice",
    shortname = "csvc",
    category = "leasehold",
    namespaced,
    doc = "A service that behaves as one cluster: who leads it, and how leaders are found.",
    status = "ClusterServiceStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Ready", type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.leaderStrategy"),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.leader.pod"),
    printcolumn(name = "Partitions", type_ = "integer", json_path = ".status.partitions.total"),
    printcolumn(name = "Owned", type_ = "integer", json_path = ".status.partitions.owned"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".status.members.ready"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Term", type_ = "integer", json_path = ".status.leader.term", priority = 1),
    printcolumn(name = "Since", type_ = "date", json_path = ".status.leader.since", priority = 1),
    printcolumn(
        name = "Epoch", type_ = "integer", json_path = ".status.partitions.epoch", priority = 1
    ),
    printcolumn(
        name = "Secret", type_ = "string", json_path = ".status.binding.name", priority = 1
    ),
    printcolumn(
        name = "Reason", type_ = "string", priority = 1,
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    validation = Rule::new("size(self.metadata.name) <= 200")
        .message("metadata.name may have at most 200 characters, since Events are named after it"),
    validation = Rule::new(
        "has(self.spec.clusterId) || (size(self.metadata.name) <= 63 && !self.metadata.name.contains('.'))"
    )
    .message("metadata.name is no DNS label (at most 63 characters, no dots), so spec.clusterId must be set"),
    validation = Rule::new(
        "(has(self.spec.clusterId) ? self.spec.clusterId : self.metadata.name) == \
         (has(oldSelf.spec.clusterId) ? oldSelf.spec.clusterId : oldSelf.metadata.name)"
    )
    .message("spec.clusterId is immutable, since it names the Leases; make a new ClusterService instead")
    .reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.clusterScope != 'cluster' || has(self.leaderStrategy)")
        .message("leaderStrategy is required with clusterScope 'cluster'; allowed: leader-elected, partitioned")
        .reason(Reason::FieldValueRequired),
    validation = Rule::new("self.clusterScope == 'cluster' || !has(self.leaderStrategy)")
        .message("leaderStrategy needs clusterScope 'cluster'; with 'node' nothing is elected")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(PARTITIONS_REQUIRED)
        .message("partitions: found none, but leaderStrategy is 'partitioned'; allowed: 1 to 4096")
        .reason(Reason::FieldValueRequired),
    validation = Rule::new(PARTITIONS_FORBIDDEN)
        .message("partitions: allowed only with leaderStrategy 'partitioned'")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(HASH_FORBIDDEN)
        .message("hash: allowed only with leaderStrategy 'partitioned'")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(HASH_IMMUTABLE)
        .message(Message::Expression(HASH_MESSAGE.into()))
        .reason(Reason::FieldValueForbidden),
)]
pub struct ClusterServiceSpec {
    /// What one instance is: `node`: each pod is one, nothing is elected; `cluster`: all pods together
    /// are one, and leaderStrategy says who acts. Running pods keep theirs until they are restarted.
    #[serde(default)]
    pub cluster_scope: ClusterScope,

    /// How the acting pod is found; required if and only if clusterScope is `cluster`.
    /// `leader-elected`: one pod holds the Lease `<clusterId>.leader` and acts.
    /// `partitioned`: the keys are cut into partitions, and each partition is run by exactly one pod;
    /// the leader spreads them over the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LeaderStrategy")]
    pub leader_strategy: Option<LeaderStrategy>,

    /// Into how many partitions the keys are cut; required if and only if leaderStrategy is
    /// `partitioned`. Running pods go over to a changed number without a restart, partition by
    /// partition; a further change waits until the one before has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 4096))]
    pub partitions: Option<i32>,

    /// How a key becomes the number that decides its partition; only with leaderStrategy
    /// `partitioned`. `cs-hash/1`, the default, for keys of any kind; `k8s-range/1` for UIDs, as the
    /// API server's sharded watch cuts them. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Hash")]
    pub hash: Option<Hash>,

    /// Name of the cluster, a DNS label; default is metadata.name. Two ClusterServices of one namespace
    /// with the same id share one leader (rolling upgrades between differently named services); their
    /// other settings must then be equal. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "String",
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub cluster_id: Option<String>,

    /// Timing of the election. Running pods follow a change without a restart, except for values
    /// that their code fixes (condition SettingsMismatch).
    /// Presets (duration/heartbeat/attemptTimeout/stopBudget): default 15/5/2/3, fast 6/2/1/1,
    /// calm 60/20/5/5.
    #[serde(default)]
    pub lease: LeaseSpec,

    /// A login on a Postgres server, which the Secret `<name>-postgres` holds. Taking the field away does what
    /// deletionPolicy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PostgresSpec")]
    pub postgres: Option<PostgresSpec>,

    /// A user of a Redis or Valkey server, which the Secret `<name>-redis` holds. Taking the field away does
    /// what deletionPolicy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RedisSpec")]
    pub redis: Option<RedisSpec>,

    /// When the passwords of postgres and redis change. No request fails because of it.
    #[serde(default)]
    pub rotation: RotationSpec,

    /// What happens to logins, Secrets and data when the ClusterService is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// While true the operator writes nothing but status and Events, and asks nothing of servers.
    /// Elections go on, they do not need the operator.
    #[serde(default)]
    pub paused: bool,
}

/// What one instance of the service is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterScope {
    /// Each pod is an instance of its own; nothing is elected.
    #[default]
    Node,
    /// All pods together are one instance.
    Cluster,
}

/// How the acting pod of a cluster is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LeaderStrategy {
    /// One pod holds the leader Lease and acts.
    LeaderElected,
    /// Each partition of the keys is run by exactly one pod.
    Partitioned,
}

impl LeaderStrategy {
    /// The value as it is spelt in the API and in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeaderElected => "leader-elected",
            Self::Partitioned => "partitioned",
        }
    }
}

/// How a key becomes a number of 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Hash {
    /// For keys of any kind.
    #[default]
    #[serde(rename = "cs-hash/1")]
    CsHash1,
    /// For UIDs, as the API server's sharded watch cuts them.
    #[serde(rename = "k8s-range/1")]
    K8sRange1,
}

impl Hash {
    /// The value as it is spelt in the API and in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CsHash1 => "cs-hash/1",
            Self::K8sRange1 => "k8s-range/1",
        }
    }
}

/// Timing of the election, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(TIMING_RULE).message(Message::Expression(TIMING_MESSAGE.into())))]
pub struct LeaseSpec {
    /// How long others wait for a silent leader before one of them takes over. A crash costs about this.
    #[serde(default = "duration_default")]
    #[schemars(range(min = 1, max = 3600))]
    pub duration_seconds: i32,
    /// How often the leader renews its Lease: the steady load is one write per heartbeat.
    #[serde(default = "heartbeat_default")]
    #[schemars(range(min = 1, max = 3600))]
    pub heartbeat_seconds: i32,
    /// How long one renewal may take before it is given up and tried again.
    #[serde(default = "attempt_timeout_default")]
    #[schemars(range(min = 1, max = 3600))]
    pub attempt_timeout_seconds: i32,
    /// How long the work may need to stop once the leader can no longer trust its Lease.
    #[serde(default = "stop_budget_default")]
    #[schemars(range(min = 1, max = 3600))]
    pub stop_budget_seconds: i32,
}

fn duration_default() -> i32 {
    LeaseSpec::default().duration_seconds
}

fn heartbeat_default() -> i32 {
    LeaseSpec::default().heartbeat_seconds
}

fn attempt_timeout_default() -> i32 {
    LeaseSpec::default().attempt_timeout_seconds
}

fn stop_budget_default() -> i32 {
    LeaseSpec::default().stop_budget_seconds
}

impl Default for LeaseSpec {
    /// The preset `default`.
    fn default() -> Self {
        Self {
            duration_seconds: 15,
            heartbeat_seconds: 5,
            attempt_timeout_seconds: 2,
            stop_budget_seconds: 3,
        }
    }
}

impl From<LeaseSpec> for LeaseSettings {
    fn from(spec: LeaseSpec) -> Self {
        Self {
            duration_seconds: spec.duration_seconds.into(),
            heartbeat_seconds: spec.heartbeat_seconds.into(),
            attempt_timeout_seconds: spec.attempt_timeout_seconds.into(),
            stop_budget_seconds: spec.stop_budget_seconds.into(),
        }
    }
}

/// What the operator sees. All of it but `history` and the seconds of the last rebalance is derived and
/// can be wiped (`status-is-derived`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterServiceStatus {
    /// metadata.generation that this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,

    /// Ready, LeaderElected, SettingsMismatch, Paused, Stalled; with leaderStrategy `partitioned` also
    /// PartitionsOwned, HandoffStuck and RolloutHold; with postgres or redis also PostgresReady,
    /// RedisReady and CredentialsCurrent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Who leads; absent while nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Leader")]
    pub leader: Option<Leader>,

    /// How the partitions fare; which pod owns which stands in the Lease `<clusterId>.assignment`,
    /// and `leasehold-operator partitions <name>` prints it. Absent without a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PartitionsStatus")]
    pub partitions: Option<PartitionsStatus>,

    /// The pods that take part, by their member Leases; only with leaderStrategy `partitioned`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MembersStatus")]
    pub members: Option<MembersStatus>,

    /// The Secret that workloads bind to, by the Service Binding specification; absent without
    /// postgres and redis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BindingStatus")]
    pub binding: Option<BindingStatus>,

    /// The credentials, without anything secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["backend".into()]))]
    pub credentials: Vec<CredentialStatus>,

    /// The last ten leadership changes, newest first; it outlives their Events. Absent until the
    /// operator has looked for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<LeadershipTerm>", length(max = 10))]
    pub history: Option<Vec<LeadershipTerm>>,
}

/// The leader of now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Leader {
    /// Identity in the Lease, unique per process.
    pub holder: String,
    /// Name of the leading pod; outside of pods, the name by which the process goes.
    pub pod: String,
    /// Number of this leadership, for people; programs use the fencing token.
    pub term: i64,
    /// When this leadership began, as the leader says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub since: Option<Time>,
}

/// One leadership in the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeadershipTerm {
    /// uid of the Lease; another uid means that the Lease was deleted and made again.
    pub lease_uid: String,
    /// Number of this leadership.
    pub term: i64,
    /// Identity in the Lease.
    pub holder: String,
    /// Name of the leading pod; outside of pods, the name by which the process goes.
    pub pod: String,
    /// When it began, as the leader says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub since: Option<Time>,
    /// How the leadership before it ended, as far as it was seen: released, expired, deleted,
    /// emptied, overwritten, restarted (the same pod began anew) or unknown; absent for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub previous_ended: Option<String>,
    /// How many changes directly before it nobody observed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: i64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape serde asks for
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl ClusterService {
    /// The cluster id in force: `spec.clusterId`, else the object's name.
    pub fn cluster_id(&self) -> Result<ClusterId, InvalidClusterId> {
        ClusterId::new(
            self.spec
                .cluster_id
                .clone()
                .unwrap_or_else(|| self.name_any()),
        )
    }
}
