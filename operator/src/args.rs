//! Flags and environment of the operator.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};
use leasehold_crds::ClusterId;

/// Shows who leads each ClusterService, hands settings to its pods, and announces every change.
#[derive(Clone, Debug, Parser)]
#[command(name = "leasehold-operator", version)]
pub struct Args {
    /// What to do instead of running.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Namespace to serve; may be given more than once or with commas. Default: all namespaces.
    #[arg(
        long = "namespace",
        env = "LEASEHOLD_OPERATOR_NAMESPACES",
        value_delimiter = ',',
        value_parser = namespace
    )]
    pub namespaces: Vec<String>,

    /// Where /livez, /readyz, /metrics and /debug/cluster are served.
    #[arg(
        long,
        env = "LEASEHOLD_OPERATOR_METRICS_ADDRESS",
        default_value = "0.0.0.0:8080"
    )]
    pub metrics_address: SocketAddr,

    /// Kubeconfig to use. Default: the pod's service account, else $KUBECONFIG or ~/.kube/config.
    #[arg(long, global = true)]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of the operator's own leader Lease. Default: that of the pod or the kubeconfig.
    /// Replicas that share it must serve the same namespaces.
    #[arg(long, env = "LEASEHOLD_OPERATOR_LEASE_NAMESPACE", value_parser = namespace)]
    pub lease_namespace: Option<String>,

    /// Namespace of the Secrets that BackendClasses name. Default: that of the operator's own leader
    /// Lease. An operator that serves some namespaces alone leaves classes alone whose Secret it lacks.
    #[arg(long, env = "LEASEHOLD_OPERATOR_CLASS_NAMESPACE", value_parser = namespace)]
    pub class_namespace: Option<String>,

    /// Whether Secrets are watched, by metadata alone. Without that a changed or deleted one is noticed
    /// on the next slow pass.
    #[arg(
        long,
        env = "LEASEHOLD_OPERATOR_SECRETS_WATCH",
        default_value = "true",
        action = clap::ArgAction::Set
    )]
    pub secrets_watch: bool,

    /// What tells this installation apart on servers that several share; part of the name of each login,
    /// so never change it. Default: the uid of the namespace kube-system.
    #[arg(long, env = "LEASEHOLD_OPERATOR_INSTALLATION_ID", value_parser = installation)]
    pub installation_id: Option<String>,

    /// How often each server is asked, by one query, whether it still shows the logins that were made
    /// there, such as 60s or 5m. Default: 60s.
    #[arg(long, env = "LEASEHOLD_OPERATOR_DRIFT_INTERVAL", value_parser = interval)]
    pub drift_interval: Option<Interval>,

    /// How log lines look.
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,

    /// Dies right after so many changes of Secrets, finalizers and servers, for tests.
    #[arg(long, hide = true)]
    pub crash_after_effects: Option<u64>,

    /// Divides every wait of the operator, so that tests see hours in minutes.
    #[arg(long, hide = true, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub timers_divisor: u32,
}

/// What the program does besides being the operator.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Prints who owns which partition of a ClusterService, and what its handoffs wait for.
    Partitions {
        /// Name of the ClusterService.
        name: String,
        /// Its namespace. Default: that of the kubeconfig or the pod.
        #[arg(short = 'n', long = "namespace", value_name = "NAMESPACE", value_parser = namespace)]
        namespace: Option<String>,
    },
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// A duration that is longer than nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

fn interval(text: &str) -> Result<Interval, String> {
    let duration = leasehold_crds::duration::parse(text).map_err(|error| error.to_string())?;
    if duration < Duration::from_secs(1) {
        return Err(format!("found {text}; allowed: 1s or longer"));
    }
    Ok(Interval(duration))
}

/// A namespace is a DNS label, as a cluster id is.
fn namespace(text: &str) -> Result<String, String> {
    ClusterId::new(text).map(|id| id.to_string()).map_err(|_| {
        "a namespace is a DNS label: 1 to 63 characters of a-z, 0-9 and '-', with a letter or digit first and last"
            .to_owned()
    })
}

/// It stands in comments on servers and is hashed into names there.
fn installation(text: &str) -> Result<String, String> {
    ClusterId::new(text).map(|id| id.to_string()).map_err(|_| {
        "an installation id is 1 to 63 characters of a-z, 0-9 and '-', with a letter or digit first and last"
            .to_owned()
    })
}

impl Args {
    /// The regions to serve: each namespace, or one region for all.
    pub fn regions(&self) -> Vec<Option<String>> {
        if self.namespaces.is_empty() {
            return vec![None];
        }
        let mut namespaces = self.namespaces.clone();
        namespaces.sort();
        namespaces.dedup();
        namespaces.into_iter().map(Some).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, String> {
        Args::try_parse_from([&["leasehold-operator"], flags].concat())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_all_namespaces_are_served() {
        assert_eq!(parse(&[]).unwrap().regions(), [None]);
    }

    #[test]
    fn secrets_are_watched_unless_that_is_switched_off() {
        assert!(parse(&[]).unwrap().secrets_watch);
        assert!(!parse(&["--secrets-watch=false"]).unwrap().secrets_watch);
    }

    #[test]
    fn namespaces_may_be_repeated_or_joined_and_count_once() {
        let args = parse(&["--namespace", "b,a", "--namespace", "a"]).unwrap();
        assert_eq!(args.regions(), [Some("a".to_owned()), Some("b".to_owned())]);
    }

    #[test]
    fn partitions_are_asked_for_by_name_with_the_flags_in_any_place() {
        for flags in [
            ["partitions", "billing", "-n", "demo", "--kubeconfig", "k"],
            [
                "--kubeconfig",
                "k",
                "partitions",
                "--namespace",
                "demo",
                "billing",
            ],
        ] {
            let args = parse(&flags).unwrap();
            assert_eq!(args.kubeconfig, Some(PathBuf::from("k")));
            let command = Command::Partitions {
                name: "billing".into(),
                namespace: Some("demo".into()),
            };
            assert_eq!(args.command, Some(command));
        }
        let message = parse(&["partitions"]).unwrap_err();
        assert!(message.contains("<NAME>"), "{message}");
        let message = parse(&["partitions", "billing", "-n", "Demo"]).unwrap_err();
        assert!(message.contains("DNS label"), "{message}");
    }

    #[test]
    fn bad_flags_name_the_flag_what_was_found_and_what_is_allowed() {
        for (flags, parts) in [
            (
                ["--namespace", "Demo"],
                ["--namespace", "Demo", "DNS label"],
            ),
            (
                ["--metrics-address", "8080"],
                ["--metrics-address", "8080", "socket address"],
            ),
            (
                ["--timers-divisor", "0"],
                ["--timers-divisor", "0", "1..=1000"],
            ),
            (
                ["--log-format", "xml"],
                ["--log-format", "xml", "text, json"],
            ),
            (
                ["--secrets-watch", "ture"],
                ["--secrets-watch", "ture", "true, false"],
            ),
            (
                ["--installation-id", "a b"],
                ["--installation-id", "a b", "1 to 63 characters"],
            ),
        ] {
            let message = parse(&flags).unwrap_err();
            for part in parts {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
    }
}
