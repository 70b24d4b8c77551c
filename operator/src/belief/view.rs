//! The beliefs as `/debug/cluster` shows them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tokio::time::Instant;

use super::{Beliefs, WatchState, record};

/// The beliefs as `/debug/cluster` shows them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeliefsView {
    watches: BTreeMap<String, WatchState>,
    clusters: BTreeMap<String, BTreeSet<String>>,
    leases: Vec<LeaseView>,
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
        BeliefsView {
            watches: inner.watches.clone(),
            clusters,
            leases,
        }
    }
}
