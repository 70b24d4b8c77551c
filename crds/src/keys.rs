//! Label, annotation, field-manager and reason constants: every string that two programs must spell alike.

/// API group of everything we define.
pub const GROUP: &str = "leasehold.dev";

/// Label on every Lease of ours: the cluster id it serves.
pub const LABEL_CLUSTER_ID: &str = "leasehold.dev/cluster-id";
/// Label on every Lease of ours: what the Lease is for, one of the `LEASE_*` values.
pub const LABEL_LEASE: &str = "leasehold.dev/lease";
/// Value of [`LABEL_LEASE`] on the Lease that the elected pod holds.
pub const LEASE_LEADER: &str = "leader";
/// Value of [`LABEL_LEASE`] on the Leases of the members of a partitioned cluster id.
pub const LEASE_MEMBER: &str = "member";
/// Value of [`LABEL_LEASE`] on the Lease that carries the table of the partitions.
pub const LEASE_ASSIGNMENT: &str = "assignment";
/// Value of [`LABEL_LEASE`] on the Lease through which the operator hands settings to the pods.
pub const LEASE_SETTINGS: &str = "settings";

/// Annotation on leader, member and assignment Leases: stamp of the last write, `<identity>#<transitions>#<n>` (E2, E5).
pub const ANNOTATION_ATTEMPT: &str = "leasehold.dev/attempt";
/// Annotation on leader and member Leases: the holder emptied it itself, `<identity>#<transitions>` (E5).
pub const ANNOTATION_RELEASED: &str = "leasehold.dev/released";
/// Annotation on the settings Lease: a [`Settings`](crate::settings::Settings) as JSON.
pub const ANNOTATION_SETTINGS: &str = "leasehold.dev/settings";
/// Annotation on the leader Lease: the settings generation that the leader follows.
pub const ANNOTATION_SETTINGS_GENERATION: &str = "leasehold.dev/settings-generation";
/// Annotation on the leader Lease: values fixed in code, as [`Fixed`](crate::settings::Fixed) JSON.
pub const ANNOTATION_FIXED: &str = "leasehold.dev/fixed";

/// Annotation on a member Lease: what the member runs, as versioned JSON (H3).
pub const ANNOTATION_MEMBER: &str = "leasehold.dev/member";
/// Annotation on the assignment Lease: the table of the partitions, as versioned JSON (H2).
pub const ANNOTATION_ASSIGNMENT: &str = "leasehold.dev/assignment";

/// Label on a BackendClass: the namespace of its Secrets, and so the operator that it is for. Needed where
/// several operators serve one cluster.
pub const LABEL_CLASS_NAMESPACE: &str = "leasehold.dev/class-namespace";

/// Label on every Secret of ours: the store that it is for, `postgres` or `redis`.
pub const LABEL_CREDENTIAL: &str = "leasehold.dev/credential";
/// Label on every Secret of ours: the ClusterService, if its name fits a label.
pub const LABEL_CLUSTER_SERVICE: &str = "leasehold.dev/cluster-service";
/// Annotation on a Secret of ours: number of the password in force.
pub const ANNOTATION_GENERATION: &str = "leasehold.dev/generation";
/// Annotation on a Secret of ours: number of the staged password.
pub const ANNOTATION_NEXT_GENERATION: &str = "leasehold.dev/next-generation";
/// Annotation on a Secret of ours: number of the password before.
pub const ANNOTATION_PREVIOUS_GENERATION: &str = "leasehold.dev/previous-generation";
/// Annotation on a Secret of ours: since when the password in force is (C3).
pub const ANNOTATION_ROTATED_AT: &str = "leasehold.dev/rotated-at";
/// Annotation on a Secret of ours: since when the login before is one (C3).
pub const ANNOTATION_PREVIOUS_SINCE: &str = "leasehold.dev/previous-since";
/// Annotation on a Secret of ours: the trigger that was last obeyed.
pub const ANNOTATION_TRIGGER: &str = "leasehold.dev/trigger";
/// Annotation on a Secret of ours: installation, namespace uid and name of whom it was made for (C7).
pub const ANNOTATION_OWNER_MARK: &str = "leasehold.dev/owner-mark";
/// Annotation on a Secret of ours: the BackendClass at whose server its login is, to end it there also
/// when the ClusterService does not name it any more.
pub const ANNOTATION_CLASS: &str = "leasehold.dev/class";

/// Annotation on a ClusterService: any changed text is a forced rotation.
pub const ANNOTATION_ROTATE: &str = "leasehold.dev/rotate";
/// Annotation on a ClusterService: `true` lists what would be done on servers, and does nothing.
pub const ANNOTATION_PLAN_ONLY: &str = "leasehold.dev/plan-only";
/// Annotation on a ClusterService that is being deleted: `true` lets it go without its cleanup.
pub const ANNOTATION_FORCE_DELETE: &str = "leasehold.dev/force-delete";
/// Annotation on a ClusterService: `true` takes over what another namespace of the same name left (C7).
pub const ANNOTATION_ADOPT: &str = "leasehold.dev/adopt";
/// Finalizer of a ClusterService with deletionPolicy `Delete`, and of a BackendClass while services use it.
pub const FINALIZER_CREDENTIALS: &str = "leasehold.dev/credentials";

/// Type of the Secret of a Postgres login.
pub const SECRET_TYPE_POSTGRES: &str = "servicebinding.io/postgresql";
/// Type of the Secret of a Redis user.
pub const SECRET_TYPE_REDIS: &str = "servicebinding.io/redis";
/// Keys of the Secrets; each has one place where it is spelt.
pub mod secret {
    /// What the credential is for: `postgresql` or `redis`.
    pub const TYPE: &str = "type";
    /// Who made it: `leasehold`.
    pub const PROVIDER: &str = "provider";
    /// Host of the server.
    pub const HOST: &str = "host";
    /// Port of the server.
    pub const PORT: &str = "port";
    /// The login in force.
    pub const USERNAME: &str = "username";
    /// Its password.
    pub const PASSWORD: &str = "password";
    /// Database of the service (Postgres).
    pub const DATABASE: &str = "database";
    /// Prefix of the keys and channels of the service (Redis).
    pub const KEY_PREFIX: &str = "key-prefix";
    /// All of it as one URI.
    pub const URI: &str = "uri";
    /// How the server's certificate is to be checked (Postgres).
    pub const SSLMODE: &str = "sslmode";
    /// The trusted certificate authority, as PEM.
    pub const CA_CERT: &str = "ca.crt";
    /// What the server keeps of the password (C6).
    pub const VERIFIER: &str = "verifier";
    /// Staged login (C2).
    pub const NEXT_USERNAME: &str = "next-username";
    /// Staged password (C2).
    pub const NEXT_PASSWORD: &str = "next-password";
    /// What the server keeps of the staged password.
    pub const NEXT_VERIFIER: &str = "next-verifier";
    /// The login before (C2).
    pub const PREVIOUS_USERNAME: &str = "previous-username";
    /// The password before, if known.
    pub const PREVIOUS_PASSWORD: &str = "previous-password";
    /// What the server keeps of the password before, if known.
    pub const PREVIOUS_VERIFIER: &str = "previous-verifier";
}

/// Field manager of everything the operator applies.
pub const FIELD_MANAGER: &str = "leasehold-operator";

/// Reason of the one Event per leadership change (R3).
pub const EVENT_REASON: &str = "LeadershipChanged";
/// Reason of the one Event per change of the table that moves partitions.
pub const EVENT_REASON_REBALANCED: &str = "PartitionsRebalanced";
/// Reason of the one Event per handoff that does not end.
pub const EVENT_REASON_STUCK: &str = "HandoffStuck";
