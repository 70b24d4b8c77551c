//! What is counted, for Prometheus. Labels are from closed lists: never a name, key or message.

use std::{sync::atomic::AtomicI64, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use crate::error::{Action, Error};

/// Every metric of the operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: Family<ResultLabels, Counter>,
    reconcile_seconds: Histogram,
    writes: Family<WriteLabels, Counter>,
    watch_failures: Family<WatchLabels, Counter>,
    /// Leadership changes that this replica announced.
    pub leadership_changes: Counter,
    /// Changes of a table that this replica announced.
    pub rebalances: Counter,
    /// Member Leases that this replica collected.
    pub members_collected: Counter,
    /// 1 while this replica leads.
    pub leading: Gauge<i64, AtomicI64>,
    /// ClusterServices known.
    pub services: Gauge<i64, AtomicI64>,
    /// Leases known.
    pub leases: Gauge<i64, AtomicI64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    verb: &'static str,
    resource: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    resource: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("leasehold_operator");
        let reconciles = Family::default();
        registry.register(
            "reconcile",
            "Passes over one object, by result",
            reconciles.clone(),
        );
        let reconcile_seconds = Histogram::new(exponential_buckets(0.001, 4.0, 8));
        registry.register(
            "reconcile_duration_seconds",
            "How long a pass over one object took",
            reconcile_seconds.clone(),
        );
        let writes = Family::default();
        registry.register(
            "writes",
            "Writes to the API server, by result",
            writes.clone(),
        );
        let watch_failures = Family::default();
        registry.register(
            "watch_failures",
            "Interruptions of watches",
            watch_failures.clone(),
        );
        let leadership_changes = Counter::default();
        registry.register(
            "leadership_changes",
            "Leadership changes that this replica announced",
            leadership_changes.clone(),
        );
        let rebalances = Counter::default();
        registry.register(
            "rebalances",
            "Changes of a table of partitions that this replica announced",
            rebalances.clone(),
        );
        let members_collected = Counter::default();
        registry.register(
            "members_collected",
            "Member Leases of vanished pods that this replica collected",
            members_collected.clone(),
        );
        let leading = Gauge::default();
        registry.register("leading", "1 while this replica leads", leading.clone());
        let services = Gauge::default();
        registry.register(
            "cluster_services",
            "ClusterServices known",
            services.clone(),
        );
        let leases = Gauge::default();
        registry.register("leases", "Leases known", leases.clone());
        Self {
            registry,
            reconciles,
            reconcile_seconds,
            writes,
            watch_failures,
            leadership_changes,
            rebalances,
            members_collected,
            leading,
            services,
            leases,
        }
    }
}

impl Metrics {
    /// Counts one pass.
    pub fn reconciled(&self, took: Duration, error: Option<&Error>) {
        let result = error.map_or("ok", Error::class);
        self.reconciles
            .get_or_create(&ResultLabels { result })
            .inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// Counts one write.
    pub fn wrote(&self, action: Action, error: Option<&Error>) {
        let labels = WriteLabels {
            verb: action.verb,
            resource: action.resource,
            result: error.map_or("ok", Error::class),
        };
        self.writes.get_or_create(&labels).inc();
    }

    /// Counts one interruption of a watch.
    pub fn watch_failed(&self, resource: &'static str) {
        self.watch_failures
            .get_or_create(&WatchLabels { resource })
            .inc();
    }

    /// The text that Prometheus reads.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_in_the_text() {
        let metrics = Metrics::default();
        let action = Action {
            verb: "create",
            group: "events.k8s.io",
            resource: "events",
        };
        metrics.wrote(action, None);
        metrics.wrote(action, Some(&Error::NotLeading));
        metrics.reconciled(Duration::from_millis(3), None);
        metrics.leading.set(1);
        let text = metrics.encode().unwrap();
        for line in [
            r#"leasehold_operator_writes_total{verb="create",resource="events",result="ok"} 1"#,
            r#"leasehold_operator_writes_total{verb="create",resource="events",result="not_leading"} 1"#,
            r#"leasehold_operator_reconcile_total{result="ok"} 1"#,
            "leasehold_operator_leading 1",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
