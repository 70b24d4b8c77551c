//! The part of the status about partitions: counts, so that it stays small whatever their number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the partitions fare, by the newest table and the member Leases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartitionsStatus {
    /// How many there are in the table; after a change of the spec it follows when the leader goes over.
    pub total: i32,
    /// Those whose owner lives and either shows that it runs them or waits for nobody.
    pub owned: i32,
    /// Those whose owner lives and waits until a former one has finished.
    pub moving: i32,
    /// Those without an owner, or whose owner's Lease is gone, given up or expired.
    pub unowned: i32,
    /// Fewest and most partitions of one living pod; absent without pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PerPod")]
    pub per_pod: Option<PerPod>,
    /// Epoch of the newest table.
    pub epoch: i64,
    /// What the newest table changed.
    pub last_rebalance: LastRebalance,
}

/// Spread of the partitions over the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerPod {
    /// Partitions of the pod that has the fewest.
    pub min: i32,
    /// Partitions of the pod that has the most.
    pub max: i32,
}

/// One change of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastRebalance {
    /// Why, in the words of the leader.
    pub reason: String,
    /// Partitions that got another owner.
    pub moves: i32,
    /// The least number of moves that any plan needs.
    pub least: i32,
    /// From the table to all partitions being owned, on the operator's clock, in whole seconds;
    /// absent until then, and if the operator did not see it begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub seconds: Option<i64>,
}

/// The pods that take part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MembersStatus {
    /// Those that renew their member Lease, say something readable, and do not leave.
    pub ready: i32,
    /// Those whose member Lease is held.
    pub total: i32,
}
