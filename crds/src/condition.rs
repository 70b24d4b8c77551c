//! Condition types and reasons: the words by which status and people talk about the state of an object.

/// Type: everything that the spec asks for is in force.
pub const READY: &str = "Ready";
/// Type: somebody holds the leader Lease and it has not expired.
pub const LEADER_ELECTED: &str = "LeaderElected";
/// Type: every partition has a living owner that waits for nobody.
pub const PARTITIONS_OWNED: &str = "PartitionsOwned";
/// Type: a pod has not given up a partition for long, so that its next owner cannot begin.
pub const HANDOFF_STUCK: &str = "HandoffStuck";
/// Type: pods of two revisions live, and newcomers stand by.
pub const ROLLOUT_HOLD: &str = "RolloutHold";
/// Type: the leader runs with values that differ from the spec, since its code fixes them.
pub const SETTINGS_MISMATCH: &str = "SettingsMismatch";
/// Type: the login on the Postgres server works, tried by logging in.
pub const POSTGRES_READY: &str = "PostgresReady";
/// Type: the user on the Redis server works, tried by logging in.
pub const REDIS_READY: &str = "RedisReady";
/// Type: no password is older than it should be, and no login before is left.
pub const CREDENTIALS_CURRENT: &str = "CredentialsCurrent";
/// Type: `spec.paused` is set.
pub const PAUSED: &str = "Paused";
/// Type: nothing will change until somebody acts.
pub const STALLED: &str = "Stalled";

/// Type, of a BackendClass: the server answers, and lets the admin in.
pub const REACHABLE: &str = "Reachable";
/// Type, of a BackendClass: its version is one that this operator works with.
pub const VERSION_SUPPORTED: &str = "VersionSupported";
/// Type, of a BackendClass: it is a primary that takes writes.
pub const WRITABLE: &str = "Writable";
/// Type, of a BackendClass: the admin may do what is needed.
pub const ADMIN_RIGHTS: &str = "AdminRights";
/// Type, of a BackendClass: users of Redis outlive a restart by themselves; a warning if not.
pub const PERSISTENCE: &str = "Persistence";
/// Type, of a BackendClass: the certificate was checked as far as `verify-full` asks; a warning if not.
pub const TLS_VERIFIED: &str = "TlsVerified";
/// Type, of a BackendClass: Redis lets nobody in without a password; a warning if it does.
pub const DEFAULT_USER_CLOSED: &str = "DefaultUserClosed";
/// Type, of a BackendClass: Redis evicts no key that has no lifetime; a warning if it does.
pub const KEYS_KEPT: &str = "KeysKept";
/// Type, of a BackendClass: services name it, so that its deletion waits.
pub const IN_USE: &str = "InUse";

/// Reasons are stable: scripts may match on them.
pub mod reason {
    /// All is as declared.
    pub const SETTLED: &str = "Settled";
    /// Nothing is elected, since the scope is `node`.
    pub const NODE_SCOPED: &str = "NodeScoped";
    /// The leader Lease is held and has not expired.
    pub const HELD: &str = "Held";
    /// No leader Lease exists (yet).
    pub const NO_LEASE: &str = "NoLease";
    /// The last leader gave the Lease up by itself.
    pub const RELEASED: &str = "Released";
    /// The Lease was emptied by somebody other than its holder.
    pub const EMPTIED: &str = "Emptied";
    /// The holder did not renew for the lease duration.
    pub const EXPIRED: &str = "Expired";
    /// The leader Lease holds values that no candidate writes.
    pub const LEASE_MALFORMED: &str = "LeaseMalformed";
    /// A Lease of the needed name exists, but it serves something else.
    pub const LEASE_FOREIGN: &str = "LeaseForeign";
    /// An older ClusterService has the same cluster id and other settings.
    pub const CLUSTER_ID_CONFLICT: &str = "ClusterIdConflict";
    /// The spec cannot be used; the schema of another version may have let it in.
    pub const SPEC_INVALID: &str = "SpecInvalid";
    /// The operator lacks a permission.
    pub const PERMISSION_DENIED: &str = "PermissionDenied";
    /// The API server refused a write for another reason.
    pub const WRITE_FAILED: &str = "WriteFailed";
    /// The operator does not see the Leases.
    pub const LEASES_UNSEEN: &str = "LeasesUnseen";
    /// The namespace is being deleted.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The leader's code fixes values that differ from the spec.
    pub const FIXED_IN_CODE: &str = "FixedInCode";
    /// The leader's code fixes nothing, or the same values.
    pub const IN_STEP: &str = "InStep";
    /// The annotation of the fixed values cannot be read.
    pub const FIXED_MALFORMED: &str = "FixedMalformed";
    /// `spec.paused` is true.
    pub const PAUSED_BY_SPEC: &str = "PausedBySpec";
    /// `spec.paused` is false.
    pub const RUNNING: &str = "Running";
    /// Every partition is owned.
    pub const ALL_OWNED: &str = "AllOwned";
    /// Partitions wait until their former owners have finished.
    pub const REBALANCING: &str = "Rebalancing";
    /// Partitions have no living owner.
    pub const UNOWNED: &str = "Unowned";
    /// No assignment Lease exists (yet).
    pub const NO_TABLE: &str = "NoTable";
    /// The assignment Lease holds what this version cannot read.
    pub const TABLE_UNREADABLE: &str = "TableUnreadable";
    /// A member Lease holds what this version cannot read.
    pub const MEMBERS_UNREADABLE: &str = "MembersUnreadable";
    /// A pod has not acknowledged a handoff for long.
    pub const NOT_ACKNOWLEDGED: &str = "NotAcknowledged";
    /// No handoff takes long.
    pub const FLOWING: &str = "Flowing";
    /// Newcomers of another revision stand by without partitions.
    pub const REVISIONS_COEXIST: &str = "RevisionsCoexist";
    /// No newcomer stands by.
    pub const NO_HOLD: &str = "NoHold";
    /// Nothing keeps the object from its goal for good.
    pub const PROGRESSING: &str = "Progressing";

    /// The login was made and tried.
    pub const PROVISIONED: &str = "Provisioned";
    /// The login is being made.
    pub const PROVISIONING: &str = "Provisioning";
    /// No BackendClass of this name exists, or it is of the other kind.
    pub const CLASS_MISSING: &str = "ClassMissing";
    /// The BackendClass exists but cannot be used now; its own conditions say why.
    pub const CLASS_NOT_READY: &str = "ClassNotReady";
    /// The BackendClass does not allow this namespace, or does not exist.
    pub const NOT_PERMITTED: &str = "NotPermitted";
    /// A Secret of the needed name exists that is not ours.
    pub const SECRET_CONFLICT: &str = "SecretConflict";
    /// A Secret that is referred to is missing, or lacks a key.
    pub const SECRET_INVALID: &str = "SecretInvalid";
    /// A role, user, database or schema of the needed name exists that is not ours.
    pub const ROLE_CONFLICT: &str = "RoleConflict";
    /// The server does not answer.
    pub const BACKEND_UNREACHABLE: &str = "BackendUnreachable";
    /// The server refuses a login.
    pub const LOGIN_REFUSED: &str = "LoginRefused";
    /// The server answered with an error.
    pub const BACKEND_REFUSED: &str = "BackendRefused";
    /// The admin lacks a right on the server.
    pub const PERMISSION_MISSING: &str = "PermissionMissing";
    /// A new password is on its way.
    pub const ROTATING: &str = "Rotating";
    /// The login before is still used, or within its grace period.
    pub const WAITING_FOR_SESSIONS: &str = "WaitingForSessions";
    /// Every password is as new as it should be, and no login before is left.
    pub const CURRENT: &str = "Current";
    /// An annotation asks to say what would be done, and to do nothing.
    pub const PLAN_ONLY: &str = "PlanOnly";
    /// What was made on a server is being removed.
    pub const REMOVING: &str = "Removing";
    /// Something on the server keeps a role from being removed.
    pub const HELD_BACK: &str = "HeldBack";
    /// The installation id is not known.
    pub const INSTALLATION_UNKNOWN: &str = "InstallationUnknown";
    /// Nothing was found wrong.
    pub const AS_NEEDED: &str = "AsNeeded";
    /// It could not be found out.
    pub const NOT_CHECKED: &str = "NotChecked";
    /// Services name the class.
    pub const SERVICES_USE_IT: &str = "ServicesUseIt";
    /// No service names the class.
    pub const UNUSED: &str = "Unused";
}
