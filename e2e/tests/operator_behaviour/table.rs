//! Hands that write the Leases of partitions, as members and leaders do.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use leasehold_crds::keys;
use leasehold_e2e::{Result, Step as _, TestNamespace};
use serde_json::{Value, json};

use super::stage::identity;

/// Timing with the shortest duration that the rule allows.
pub(crate) const SHORT: [(&str, i32); 4] = [
    ("durationSeconds", 5),
    ("heartbeatSeconds", 1),
    ("attemptTimeoutSeconds", 1),
    ("stopBudgetSeconds", 1),
];

/// The spec of a partitioned service.
pub(crate) fn partitioned(cluster_id: &str, partitions: u16) -> Value {
    let lease: serde_json::Map<String, Value> = SHORT
        .iter()
        .map(|(field, seconds)| ((*field).to_owned(), json!(seconds)))
        .collect();
    json!({
        "clusterScope": "cluster", "leaderStrategy": "partitioned", "clusterId": cluster_id,
        "partitions": partitions, "lease": lease,
    })
}

/// What a member says of itself; it is held for an hour under its first incarnation.
#[derive(Clone)]
pub(crate) struct Member<'a> {
    pub(crate) pod: &'a str,
    pub(crate) acked: u64,
    pub(crate) owned: &'a [u16],
    pub(crate) partitions: u16,
    pub(crate) duration: i32,
}

impl<'a> Member<'a> {
    pub(crate) fn new(pod: &'a str, partitions: u16) -> Self {
        Self {
            pod,
            acked: 0,
            owned: &[],
            partitions,
            duration: 3600,
        }
    }

    pub(crate) fn acks(self, acked: u64, owned: &'a [u16]) -> Self {
        Self {
            acked,
            owned,
            ..self
        }
    }

    fn text(&self) -> String {
        let mut bits = vec![0_u8; usize::from(self.partitions).div_ceil(8)];
        for partition in self.owned {
            bits[usize::from(*partition) / 8] |= 1 << (partition % 8);
        }
        let acked = (self.acked > 0).then_some(self.acked);
        let record = json!({
            "version": 1, "layout": layout(self.partitions), "acked": acked,
            "owned": ByteString(bits), "hash": "cs-hash/1", "revision": "r1",
        });
        record.to_string()
    }

    /// Writes or renews its Lease.
    pub(crate) async fn renew(&self, namespace: &TestNamespace<'_>, id: &str) -> Result<Lease> {
        write_member(namespace, id, self.pod, &self.text(), |spec| {
            spec["holderIdentity"] = json!(identity(self.pod));
            spec["leaseDurationSeconds"] = json!(self.duration);
            spec["leaseTransitions"] = json!(1);
        })
        .await
    }

    /// Empties its Lease, as it does at its end.
    pub(crate) async fn leave(&self, namespace: &TestNamespace<'_>, id: &str) -> Result<Lease> {
        write_member(namespace, id, self.pod, &self.text(), |spec| {
            spec["holderIdentity"] = json!("");
            spec["leaseDurationSeconds"] = json!(1);
        })
        .await
    }
}

fn layout(partitions: u16) -> Value {
    json!({"generation": 1, "hash": "cs-hash/1", "partitions": partitions})
}

/// Writes a member Lease with this annotation.
pub(crate) async fn write_member(
    namespace: &TestNamespace<'_>,
    id: &str,
    pod: &str,
    text: &str,
    change: impl FnOnce(&mut Value),
) -> Result<Lease> {
    let name = format!("{id}.member.{pod}");
    write(namespace, id, &name, keys::LEASE_MEMBER, |lease| {
        lease["metadata"]["annotations"][keys::ANNOTATION_MEMBER] = json!(text);
        lease["spec"]["renewTime"] = json!(format!("{:.6}", jiff::Timestamp::now()));
        change(&mut lease["spec"]);
    })
    .await
}

/// A table: owner and predecessors of each partition, by index into `members`, all since `epoch`.
pub(crate) struct Table<'a> {
    pub(crate) epoch: u64,
    pub(crate) members: &'a [&'a str],
    pub(crate) parts: Vec<(usize, Vec<usize>)>,
    pub(crate) moves: u16,
}

impl Table<'_> {
    fn text(&self) -> String {
        let parts: Vec<String> = self
            .parts
            .iter()
            .map(|(owner, prev)| {
                let prev: Vec<String> = prev.iter().map(ToString::to_string).collect();
                let prev = prev.join(",");
                format!("{owner}{}{prev}", if prev.is_empty() { "" } else { "/" })
            })
            .collect();
        let members: Vec<String> = self.members.iter().map(|it| format!("{it}#1")).collect();
        let table = json!({
            "version": 1, "layout": layout(u16::try_from(self.parts.len()).unwrap()),
            "epochs": [self.epoch], "members": members, "parts": parts.join(" "),
            "rebalance": {"reason": "a test", "moves": self.moves, "least": self.moves},
        });
        table.to_string()
    }

    /// Publishes it.
    pub(crate) async fn publish(&self, namespace: &TestNamespace<'_>, id: &str) -> Result<Lease> {
        write_assignment(namespace, id, &self.text()).await
    }
}

/// Writes the assignment Lease with this annotation.
pub(crate) async fn write_assignment(
    namespace: &TestNamespace<'_>,
    id: &str,
    text: &str,
) -> Result<Lease> {
    let name = format!("{id}.assignment");
    write(namespace, id, &name, keys::LEASE_ASSIGNMENT, |lease| {
        lease["metadata"]["annotations"][keys::ANNOTATION_ASSIGNMENT] = json!(text);
        lease["spec"]["holderIdentity"] = json!(identity("a"));
        lease["spec"]["leaseDurationSeconds"] = json!(5);
        lease["spec"]["leaseTransitions"] = json!(0);
    })
    .await
}

async fn write(
    namespace: &TestNamespace<'_>,
    id: &str,
    name: &str,
    kind: &str,
    change: impl FnOnce(&mut Value),
) -> Result<Lease> {
    let leases: Api<Lease> = namespace.api();
    let found = leases.get_opt(name).await?;
    let is_new = found.is_none();
    let mut lease = match found {
        Some(found) => serde_json::to_value(found)?,
        None => json!({"metadata": {"name": name, "annotations": {}}, "spec": {}}),
    };
    lease["metadata"]["labels"][keys::LABEL_CLUSTER_ID] = json!(id);
    lease["metadata"]["labels"][keys::LABEL_LEASE] = json!(kind);
    change(&mut lease);
    let lease: Lease = serde_json::from_value(lease)?;
    let params = PostParams::default();
    let written = if is_new {
        leases.create(&params, &lease).await
    } else {
        leases.replace(name, &params, &lease).await
    };
    written.step(|| format!("writing Lease {name}"))
}

/// Names of the member Leases that there are.
pub(crate) async fn members(namespace: &TestNamespace<'_>, id: &str) -> Result<BTreeSet<String>> {
    let leases: Api<Lease> = namespace.api();
    let listed = leases.list(&kube::api::ListParams::default()).await?;
    let prefix = format!("{id}.member.");
    let names = listed.items.into_iter().filter_map(|it| it.metadata.name);
    Ok(names
        .filter_map(|it| it.strip_prefix(&prefix).map(str::to_owned))
        .collect())
}
