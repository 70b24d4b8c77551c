//! What happens, as numbers. Labels come from closed lists; no key, holder or token is ever one.

use leasehold_core::election::{Purpose, WriteOutcome};

#[cfg(feature = "metrics")]
pub(crate) use exposed::expose;

pub(crate) fn count_write(purpose: Purpose, outcome: &WriteOutcome) {
    #[cfg(feature = "metrics")]
    exposed::count_request(purpose_text(purpose), outcome_text(outcome));
    let _ = (purpose, outcome);
}

pub(crate) fn count_read(answered: bool) {
    #[cfg(feature = "metrics")]
    exposed::count_request("read", if answered { "done" } else { "failed" });
    let _ = answered;
}

/// Partitions whose owner changed by a table that was published here.
pub(crate) fn count_moves(moves: u16) {
    #[cfg(feature = "metrics")]
    exposed::count_moves(moves);
    let _ = moves;
}

#[cfg(feature = "metrics")]
fn purpose_text(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Claim => "claim",
        Purpose::Renew => "renew",
        Purpose::Release => "release",
        Purpose::Publish => "publish",
        Purpose::Fence => "fence",
    }
}

#[cfg(feature = "metrics")]
fn outcome_text(outcome: &WriteOutcome) -> &'static str {
    match outcome {
        WriteOutcome::Done(_) => "done",
        WriteOutcome::Conflict => "conflict",
        WriteOutcome::Refused { .. } => "refused",
        WriteOutcome::Unknown => "unknown",
    }
}

#[cfg(feature = "metrics")]
mod exposed {
    use std::sync::OnceLock;

    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::registry::Registry;

    use crate::signal;
    use crate::view::ServiceStatus;

    type Labels = Vec<(&'static str, String)>;

    fn requests() -> &'static Family<Labels, Counter> {
        static REQUESTS: OnceLock<Family<Labels, Counter>> = OnceLock::new();
        REQUESTS.get_or_init(Family::default)
    }

    pub(super) fn count_request(purpose: &'static str, outcome: &'static str) {
        let labels = vec![
            ("purpose", purpose.to_owned()),
            ("outcome", outcome.to_owned()),
        ];
        requests().get_or_create(&labels).inc();
    }

    fn moves() -> &'static Counter {
        static MOVES: OnceLock<Counter> = OnceLock::new();
        MOVES.get_or_init(Counter::default)
    }

    pub(super) fn count_moves(count: u16) {
        moves().inc_by(count.into());
    }

    /// What a process has of partitions, over all of its services.
    fn register_partitions(registry: &mut Registry, services: &[ServiceStatus]) {
        let all = || {
            services
                .iter()
                .filter_map(|status| status.partitions.as_ref())
        };
        let family = |counts: &[(&'static str, &'static str, usize)]| {
            let family = Family::<Labels, Gauge>::default();
            for (label, value, count) in counts {
                family
                    .get_or_create(&vec![(*label, (*value).to_owned())])
                    .set(i64::try_from(*count).unwrap_or(i64::MAX));
            }
            family
        };
        let partitions = family(&[
            ("state", "owned", all().map(|status| status.owned).sum()),
            (
                "state",
                "draining",
                all().map(|status| status.draining).sum(),
            ),
            ("state", "waiting", all().map(|status| status.waiting).sum()),
        ]);
        registry.register(
            "partitions",
            "Partitions of this process: whose work runs, was asked to finish, or waits for a \
             former owner",
            partitions,
        );
        let states = [
            "candidate",
            "joining",
            "member",
            "leaving",
            "ending",
            "stopped",
        ];
        let counts = states.map(|state| {
            let count = all().filter(|status| status.state == state).count();
            ("state", state, count)
        });
        registry.register(
            "memberships",
            "Partitioned services of this process by the state of its membership",
            family(&counts),
        );
        registry.register(
            "partition_moves",
            "Partitions whose owner changed by tables that this process published",
            moves().clone(),
        );
    }

    /// All families as OpenMetrics text, without the final EOF line.
    pub(crate) fn expose(services: &[ServiceStatus]) -> String {
        let mut registry = Registry::with_prefix("leasehold");
        registry.register(
            "lease_requests",
            "Requests to the lease store",
            requests().clone(),
        );
        let signals = Family::<Labels, Counter>::default();
        for key in signal::ALL {
            let labels = vec![("key", key.to_owned())];
            signals.get_or_create(&labels).inc_by(signal::counted(key));
        }
        registry.register("signal", "Occurrences of each log key", signals);
        let roles = Family::<Labels, Gauge>::default();
        for role in [
            "node",
            "candidate",
            "leader",
            "draining",
            "ending",
            "stopped",
        ] {
            let count = services.iter().filter(|status| status.role == role).count();
            let labels = vec![("role", role.to_owned())];
            roles
                .get_or_create(&labels)
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        registry.register("services", "Services of this process by role", roles);
        register_partitions(&mut registry, services);
        let trust = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
        let margins = services.iter().flat_map(|status| {
            let as_member = status.partitions.as_ref();
            [
                status.trusted_for_s,
                as_member.and_then(|status| status.trusted_for_s),
            ]
        });
        let margins = margins.flatten();
        trust.set(margins.reduce(f64::min).unwrap_or(0.0));
        registry.register(
            "trust_remaining_min_seconds",
            "Shortest remaining trust of all leaderships and memberships of this process; 0 without \
             any",
            trust,
        );
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &registry) {
            tracing::warn!(%error, "metrics cannot be encoded");
        }
        text.truncate(text.trim_end_matches("# EOF\n").len());
        text
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn every_family_is_exposed_with_labels_from_closed_lists() {
            count_request("renew", "done");
            let text = expose(&[]);
            for part in [
                "leasehold_lease_requests_total{purpose=\"renew\",outcome=\"done\"}",
                "leasehold_signal_total{key=\"leadership.changed\"}",
                "leasehold_services{role=\"leader\"} 0",
                "leasehold_partitions{state=\"waiting\"} 0",
                "leasehold_memberships{state=\"member\"} 0",
                "leasehold_partition_moves_total",
                "leasehold_trust_remaining_min_seconds 0.0",
            ] {
                assert!(text.contains(part), "{part} in {text}");
            }
            assert!(!text.contains("# EOF"));
        }
    }
}
