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

/// Field manager of everything the operator applies.
pub const FIELD_MANAGER: &str = "leasehold-operator";

/// Reason of the one Event per leadership change (R3).
pub const EVENT_REASON: &str = "LeadershipChanged";
/// Reason of the one Event per change of the table that moves partitions.
pub const EVENT_REASON_REBALANCED: &str = "PartitionsRebalanced";
/// Reason of the one Event per handoff that does not end.
pub const EVENT_REASON_STUCK: &str = "HandoffStuck";
