//! News of partitions: they come in bursts, so they are gathered and looked at with the next sweep.

use std::collections::BTreeSet;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{ResourceExt, core::DeserializeGuard};
use leasehold_crds::keys;
use tokio::time::Instant;

use super::{
    Beliefs, Heard, Inner, Key, LeaseReading,
    partitions::{PartitionFacts, PartitionsBelief},
    purpose::Purpose,
    record,
};

impl Beliefs {
    /// The partitions of a cluster id, as a pass sees them.
    pub fn partitions(&self, namespace: &str, cluster_id: &str, now: Instant) -> PartitionFacts {
        let key = (namespace.to_owned(), cluster_id.to_owned());
        let mut inner = self.inner();
        let is_stirred = inner.stirred.contains(&key);
        let Some(belief) = inner.partitions.get_mut(&key) else {
            return PartitionFacts::default();
        };
        if is_stirred {
            // Else the same news would be shown twice: before and after the sweep that reviews them.
            belief.review(now, record::in_whole_seconds(jiff::Timestamp::now()));
        }
        belief.facts(now)
    }

    /// A silent member of a cluster id awaits a read that confirms it.
    pub fn is_member_suspected(&self, namespace: &str, cluster_id: &str) -> bool {
        let key = (namespace.to_owned(), cluster_id.to_owned());
        let inner = self.inner();
        inner
            .partitions
            .get(&key)
            .is_some_and(PartitionsBelief::is_suspected)
    }

    /// A complete, newer LIST of the member Leases of a cluster id.
    pub fn note_members(
        &self,
        namespace: &str,
        cluster_id: &str,
        listed: &[DeserializeGuard<Lease>],
        now: Instant,
    ) {
        let mut inner = self.inner();
        let mut pods = BTreeSet::new();
        for lease in listed {
            let name = lease.name_any();
            if let Some(purpose @ Purpose::Member(id, pod)) = Purpose::of(&name)
                && id == cluster_id
            {
                pods.insert(pod.to_owned());
                let reading = Some(LeaseReading::of(lease));
                inner.note_partitions(namespace, purpose, reading, Heard::ByList, now);
            }
        }
        let key = (namespace.to_owned(), cluster_id.to_owned());
        let Some(belief) = inner.partitions.get_mut(&key) else {
            return;
        };
        for pod in belief.unlisted(|pod| pods.contains(pod)) {
            belief.note_member(&pod, None, now);
        }
        belief.confirm_lapses();
        // A pass is under way that looks at it; the review is due all the same.
        inner.stirred.insert(key);
    }
}

impl Inner {
    /// Takes in a reading of an assignment or member Lease; one with the labels of another cluster id is
    /// none of this one's.
    pub(super) fn note_partitions(
        &mut self,
        namespace: &str,
        purpose: Purpose<'_>,
        reading: Option<LeaseReading>,
        heard: Heard,
        now: Instant,
    ) {
        let key = (namespace.to_owned(), purpose.cluster_id().to_owned());
        let label = |reading: &LeaseReading| {
            reading
                .labels
                .get(keys::LABEL_CLUSTER_ID)
                .map(String::as_str)
                == Some(key.1.as_str())
        };
        let reading = reading.filter(label);
        let belief = self.partitions.entry(key.clone()).or_default();
        let matters = match purpose {
            Purpose::Member(_, pod) => belief.note_member(pod, reading, now),
            _ => belief.note_assignment(reading, heard, now),
        };
        if matters {
            self.stirred.insert(key);
        } else if belief.count() == 0 {
            self.partitions.remove(&key);
        }
    }

    /// Names of the assignment and member Leases that a complete LIST of a region did not show.
    pub(super) fn unlisted(&self, region: Option<&str>, listed: &BTreeSet<Key>) -> Vec<Key> {
        let mut gone = Vec::new();
        for ((namespace, id), belief) in &self.partitions {
            if region.is_some_and(|region| region != namespace) {
                continue;
            }
            let is_listed = |name: String| listed.contains(&(namespace.clone(), name));
            let members = belief.unlisted(|pod| is_listed(format!("{id}.member.{pod}")));
            gone.extend(
                members
                    .into_iter()
                    .map(|pod| format!("{id}.member.{pod}"))
                    .map(|name| (namespace.clone(), name)),
            );
            let assignment = format!("{id}.assignment");
            if belief.has_assignment() && !is_listed(assignment.clone()) {
                gone.push((namespace.clone(), assignment));
            }
        }
        gone
    }

    /// The cluster ids whose partitions had news, or a member that fell silent.
    pub(super) fn review(&mut self, now: Instant) -> BTreeSet<Key> {
        let mut stirred = std::mem::take(&mut self.stirred);
        for (key, belief) in &mut self.partitions {
            if belief.suspect(now) {
                stirred.insert(key.clone());
            }
        }
        for key in &stirred {
            let Some(belief) = self.partitions.get_mut(key) else {
                continue;
            };
            belief.review(now, record::in_whole_seconds(jiff::Timestamp::now()));
            if belief.count() == 0 {
                self.partitions.remove(key);
            }
        }
        stirred
    }
}
