//! The beliefs as `/debug/cluster` shows them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tokio::time::Instant;

use super::{
    Beliefs, WatchState,
    partitions::{AssignmentFacts, PartitionsBelief},
    record,
};

/// The beliefs as `/debug/cluster` shows them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeliefsView {
    watches: BTreeMap<String, WatchState>,
    clusters: BTreeMap<String, BTreeSet<String>>,
    leases: Vec<LeaseView>,
    partitions: BTreeMap<String, PartitionsView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LeaseView {
    lease: String,
    holder: Option<String>,
    term: i64,
    revision: String,
    state: String,
    unchanged_for_ms: u128,
    terms_seen: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartitionsView {
    table: String,
    members: BTreeMap<String, String>,
}

impl PartitionsView {
    fn of(belief: &PartitionsBelief, now: Instant) -> Self {
        let facts = belief.facts(now);
        let table = match facts.assignment {
            AssignmentFacts::Absent => "none".to_owned(),
            AssignmentFacts::Unreadable(problem) => format!("unreadable: {problem}"),
            AssignmentFacts::Table(table) => format!(
                "epoch {}: {} owned, {} moving, {} unowned",
                table.epoch, table.owned, table.moving, table.unowned
            ),
        };
        let members = facts.members.into_iter().map(|member| {
            let text = format!(
                "incarnation {}, {:?}, owns {}, unchanged for {} ms{}",
                member.state.incarnation,
                member.life,
                member.owns,
                member.unchanged_for.as_millis(),
                member
                    .problem
                    .map_or(String::new(), |problem| format!(", unreadable: {problem}"))
            );
            (member.pod, text)
        });
        Self {
            table,
            members: members.collect(),
        }
    }
}

impl Beliefs {
    /// The beliefs for the debug view.
    pub fn view(&self, now: Instant) -> BeliefsView {
        let inner = self.inner();
        let leases = inner
            .leases
            .iter()
            .filter_map(|((namespace, name), belief)| {
                let reading = belief.reading()?;
                Some(LeaseView {
                    lease: format!("{namespace}/{name}"),
                    holder: reading.holder().map(record::shortened),
                    term: reading.term(),
                    revision: reading.revision.clone(),
                    state: format!("{:?}", belief.state()),
                    unchanged_for_ms: belief.unchanged_for(now).as_millis(),
                    terms_seen: belief.log().len(),
                })
            })
            .collect();
        let clusters = inner
            .clusters
            .iter()
            .map(|((namespace, id), names)| (format!("{namespace}/{id}"), names.clone()))
            .collect();
        let partitions = inner.partitions.iter().map(|((namespace, id), belief)| {
            let cluster = format!("{namespace}/{id}");
            (cluster, PartitionsView::of(belief, now))
        });
        BeliefsView {
            watches: inner.watches.clone(),
            clusters,
            leases,
            partitions: partitions.collect(),
        }
    }
}
