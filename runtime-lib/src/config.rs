//! `LEASEHOLD_*` variables to checked values. Every problem is found, none is silently ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::id::Identity;
use leasehold_core::lease::LeaseTiming;
use leasehold_core::partition::PARTITIONS_MAX;
use leasehold_core::time::Duration;

use crate::key::LeaseKey;

const PREFIX: &str = "LEASEHOLD_";

/// Largest weight of a member.
pub(crate) const WEIGHT_MAX: u32 = 1000;

/// Every variable that is read, without the prefix.
const KNOWN: [&str; 18] = [
    "ALLOW_MEMORY_MULTI_NODE",
    "CLUSTER",
    "CLUSTER_ID",
    "DRAIN_TIMEOUT",
    "EXPECT_MULTI_NODE",
    "HEARTBEAT",
    "LEASES_DRIVER",
    "LEASE_PRESET",
    "NAMESPACE",
    "NODE_ID",
    "PARTITIONS",
    "POSTGRES_URL", // read by `binding`
    "REDIS_URL",    // the same
    "REPLICAS",
    "REVISION",
    "TOKEN_ERA",
    "WEIGHT",
    "ZONE",
];

/// Beginnings of names that other programs of this project read, and judge themselves.
const OF_OTHER_PROGRAMS: [&str; 8] = [
    "CANDIDATE",
    "CONTROL_PLANE",
    "E2E_",
    "FAULTS",
    "OPERATOR_",
    "PROCESS_NODE",
    "QUIET_SECONDS",
    "STATE",
];

/// A lease store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    Memory,
    Kubernetes,
}

/// What the environment says. `None` leaves it to the next source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    pub(crate) driver: Option<Driver>,
    pub(crate) cluster_id: Option<LeaseKey>,
    pub(crate) token_era: Option<u32>,
    pub(crate) namespace: Option<String>,
    pub(crate) node_id: Option<String>,
    pub(crate) clustered: bool,
    pub(crate) timing: Option<LeaseTiming>,
    pub(crate) drain_timeout: Option<Duration>,
    pub(crate) partitions: Option<u16>,
    pub(crate) revision: Option<Arc<str>>,
    pub(crate) zone: Option<Arc<str>>,
    pub(crate) weight: Option<u32>,
    pub(crate) replicas: Option<u32>,
    pub(crate) expects_multi_node: bool,
    pub(crate) allows_memory_multi_node: bool,
    /// The process runs in a pod: the kubelet says where the API server is.
    pub(crate) in_pod: bool,
}

impl Environment {
    /// Reads the variables; the second part lists every problem.
    pub(crate) fn read(variables: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let mut reader = Reader {
            variables,
            problems: Vec::new(),
        };
        reader.refuse_unknown();
        let timing = reader.timing();
        let environment = Self {
            driver: reader.take("LEASES_DRIVER", "memory or kubernetes", |text| match text {
                "memory" => Some(Driver::Memory),
                "kubernetes" => Some(Driver::Kubernetes),
                _ => None,
            }),
            cluster_id: reader.take(
                "CLUSTER_ID",
                "a DNS label: 1 to 63 characters of a-z, 0-9 and '-', with a letter or digit first and last",
                |text| LeaseKey::new(text).ok(),
            ),
            token_era: reader.take("TOKEN_ERA", "a whole number from 0 to 4294967295", parse),
            namespace: reader.take("NAMESPACE", "the name of a namespace (a DNS label)", |text| {
                LeaseKey::new(text).ok().map(|key| key.to_string())
            }),
            node_id: reader.take(
                "NODE_ID",
                "1 to 200 characters without '#', '_', spaces or control characters",
                |text| {
                    let fits = text.len() <= 200 && !text.contains('_');
                    (fits && Identity::new(text).is_ok()).then(|| text.to_owned())
                },
            ),
            clustered: reader.take("CLUSTER", TRUE_OR_FALSE, parse).unwrap_or(false),
            timing,
            drain_timeout: reader.take("DRAIN_TIMEOUT", DURATION, seconds),
            partitions: reader.take("PARTITIONS", "a whole number from 1 to 4096", |text| {
                text.parse()
                    .ok()
                    .filter(|count| (1..=PARTITIONS_MAX).contains(count))
            }),
            revision: reader.take("REVISION", LABEL, label),
            zone: reader.take("ZONE", LABEL, label),
            weight: reader.take("WEIGHT", "a whole number from 1 to 1000", |text| {
                text.parse()
                    .ok()
                    .filter(|weight| (1..=WEIGHT_MAX).contains(weight))
            }),
            replicas: reader.take("REPLICAS", "a whole number from 0", parse),
            expects_multi_node: reader
                .take("EXPECT_MULTI_NODE", TRUE_OR_FALSE, parse)
                .unwrap_or(false),
            allows_memory_multi_node: reader
                .take("ALLOW_MEMORY_MULTI_NODE", TRUE_OR_FALSE, parse)
                .unwrap_or(false),
            in_pod: variables.contains_key("KUBERNETES_SERVICE_HOST"),
        };
        (environment, reader.problems)
    }

    /// Why a store in memory would be a lie here: every process would lead for itself.
    pub(crate) fn problems_with_memory(&self) -> Vec<String> {
        if self.allows_memory_multi_node {
            return Vec::new();
        }
        let way_out = "set LEASEHOLD_LEASES_DRIVER=kubernetes, or, if every process may lead for \
                       itself, LEASEHOLD_ALLOW_MEMORY_MULTI_NODE=true";
        let mut problems = Vec::new();
        if let Some(replicas) = self.replicas.filter(|replicas| *replicas > 1) {
            problems.push(format!(
                "LEASEHOLD_REPLICAS={replicas} with leases in memory; {way_out}"
            ));
        }
        if self.expects_multi_node {
            problems.push(format!(
                "LEASEHOLD_EXPECT_MULTI_NODE=true with leases in memory; {way_out}"
            ));
        }
        if self.clustered {
            problems.push(format!(
                "LEASEHOLD_CLUSTER=true with leases in memory; {way_out}"
            ));
        }
        if self.in_pod && problems.is_empty() && self.replicas != Some(1) {
            problems.push(format!(
                "a cluster-scoped service in a pod with leases in memory; {way_out}, or \
                 LEASEHOLD_REPLICAS=1 if there is only one"
            ));
        }
        problems
    }
}

const TRUE_OR_FALSE: &str = "true or false";
const LABEL: &str = "a label's value: 1 to 63 characters of a-z, A-Z, 0-9, '-', '_' and '.', \
     with a letter or digit first and last";
const DURATION: &str = "a duration such as 25, 25s, 1500ms or 2m";

struct Reader<'a> {
    variables: &'a BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// Reads one variable; what is found and not allowed becomes a problem.
    fn take<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.variables.get(&format!("{PREFIX}{name}"))?;
        let value = read(text);
        if value.is_none() {
            self.refuse(name, text, allowed);
        }
        value
    }

    fn refuse(&mut self, name: &str, text: &str, allowed: &str) {
        let found: String = text.chars().take(80).collect();
        self.problems.push(format!(
            "{PREFIX}{name}: found {found:?}, allowed is {allowed}"
        ));
    }

    fn refuse_unknown(&mut self) {
        for (name, value) in self.variables {
            let Some(name) = name.strip_prefix(PREFIX) else {
                continue;
            };
            let of_others = OF_OTHER_PROGRAMS
                .iter()
                .any(|other| name.starts_with(other));
            if KNOWN.contains(&name) || of_others || is_service_link(name, value) {
                continue;
            }
            let shown: String = name.chars().take(80).collect();
            self.problems.push(format!(
                "{PREFIX}{shown}: no such variable; the closest is {PREFIX}{}",
                closest(name)
            ));
        }
    }

    /// A preset, or the default with another heartbeat; both are checked by the inequality.
    fn timing(&mut self) -> Option<LeaseTiming> {
        let preset = self.take("LEASE_PRESET", "fast, default or calm", |text| match text {
            "fast" => Some(LeaseTiming::FAST),
            "default" => Some(LeaseTiming::DEFAULT),
            "calm" => Some(LeaseTiming::CALM),
            _ => None,
        });
        let Some(heartbeat) = self.take("HEARTBEAT", DURATION, seconds) else {
            return preset;
        };
        let base = preset.unwrap_or_default();
        let timing = LeaseTiming::new(
            base.lease_duration(),
            heartbeat,
            base.attempt_timeout(),
            base.stop_budget(),
        );
        match timing {
            Ok(timing) => Some(timing),
            Err(error) => {
                self.problems.push(format!("{PREFIX}HEARTBEAT: {error}"));
                None
            }
        }
    }
}

/// The value of a Kubernetes label, not empty.
fn label(text: &str) -> Option<Arc<str>> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: char| c.is_ascii_alphanumeric();
    let framed = text.starts_with(ends) && text.ends_with(ends);
    (framed && text.len() <= 63 && text.chars().all(allowed)).then(|| text.into())
}

fn parse<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Seconds, or a number with a unit. At most an hour.
fn seconds(text: &str) -> Option<Duration> {
    let (number, scale) = if let Some(number) = text.strip_suffix("ms") {
        (number, 0.001)
    } else if let Some(number) = text.strip_suffix('s') {
        (number, 1.0)
    } else if let Some(number) = text.strip_suffix('m') {
        (number, 60.0)
    } else {
        (text, 1.0)
    };
    let number: f64 = number.parse().ok()?;
    let duration = Duration::try_from_secs_f64(number * scale).ok()?;
    (duration <= Duration::from_hours(1)).then_some(duration)
}

/// Variables that Kubernetes makes for a Service whose name begins with ours.
fn is_service_link(name: &str, value: &str) -> bool {
    let protocols = ["tcp://", "udp://", "sctp://"];
    let is_address = protocols.iter().any(|protocol| value.starts_with(protocol));
    let has = |part: &str| name == part || name.ends_with(&format!("_{part}"));
    let of_port = name.split("PORT_").nth(1).is_some_and(|rest| {
        let mut parts = rest.split('_');
        let number = parts.next().is_some_and(|n| n.parse::<u16>().is_ok());
        number
            && parts
                .next()
                .is_some_and(|p| matches!(p, "TCP" | "UDP" | "SCTP"))
    });
    has("SERVICE_HOST")
        || has("SERVICE_PORT")
        || name.contains("SERVICE_PORT_")
        || (has("PORT") && is_address)
        || of_port
}

/// The known name that takes the fewest edits.
fn closest(name: &str) -> &'static str {
    let name: Vec<char> = name.chars().take(80).collect();
    KNOWN
        .into_iter()
        .min_by_key(|known| edits(&name, known))
        .unwrap_or("CLUSTER_ID")
}

/// Levenshtein distance.
fn edits(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests;
