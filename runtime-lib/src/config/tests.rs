//! Garbage in every variable, all of it reported at once.

use super::*;

fn read(variables: &[(&str, &str)]) -> (Environment, Vec<String>) {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Environment::read(&variables.collect())
}

#[test]
fn an_empty_environment_decides_nothing() {
    assert_eq!(
        read(&[("PATH", "/bin")]),
        (Environment::default(), Vec::new())
    );
}

#[test]
fn every_variable_is_read() {
    let (environment, problems) = read(&[
        ("LEASEHOLD_LEASES_DRIVER", "kubernetes"),
        ("LEASEHOLD_CLUSTER_ID", "orders"),
        ("LEASEHOLD_TOKEN_ERA", "3"),
        ("LEASEHOLD_NAMESPACE", "shop"),
        ("LEASEHOLD_NODE_ID", "laptop"),
        ("LEASEHOLD_CLUSTER", "true"),
        ("LEASEHOLD_LEASE_PRESET", "calm"),
        ("LEASEHOLD_HEARTBEAT", "15s"),
        ("LEASEHOLD_DRAIN_TIMEOUT", "1500ms"),
        ("LEASEHOLD_REPLICAS", "3"),
        ("LEASEHOLD_EXPECT_MULTI_NODE", "true"),
        ("LEASEHOLD_ALLOW_MEMORY_MULTI_NODE", "true"),
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
    ]);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(environment.driver, Some(Driver::Kubernetes));
    assert_eq!(
        environment.timing.unwrap().heartbeat(),
        Duration::from_secs(15)
    );
    assert_eq!(
        environment.timing.unwrap().lease_duration(),
        Duration::from_mins(1)
    );
    assert_eq!(environment.drain_timeout, Some(Duration::from_millis(1500)));
    assert!(environment.clustered && environment.in_pod && environment.expects_multi_node);
}

#[test]
fn garbage_in_every_variable_is_reported_in_one_go() {
    for garbage in [
        "",
        " ",
        "garbage!",
        "-1",
        "NaN",
        "99999999999999999999",
        "tr\u{fc}e",
        "inf",
    ] {
        let names: Vec<String> = KNOWN.iter().map(|name| format!("{PREFIX}{name}")).collect();
        let variables: Vec<(&str, &str)> =
            names.iter().map(|name| (name.as_str(), garbage)).collect();
        let (_, problems) = read(&variables);
        for name in &names {
            if name.ends_with("_URL") {
                continue; // `binding` judges it, if the program asks for one
            }
            // Names may be made of digits, and a node id of anything but our separators.
            let is_name = name.ends_with("CLUSTER_ID") || name.ends_with("NAMESPACE");
            let is_node = name.ends_with("NODE_ID") && !garbage.trim().is_empty();
            let is_label = name.ends_with("REVISION") || name.ends_with("ZONE");
            if is_label && label(garbage).is_some() {
                continue;
            }
            if is_node || (is_name && LeaseKey::new(garbage).is_ok()) {
                continue;
            }
            let named = problems
                .iter()
                .any(|problem| problem.starts_with(name.as_str()));
            assert!(named, "{name}={garbage:?} in {problems:#?}");
        }
    }
}

#[test]
fn a_refusal_names_the_variable_what_was_found_and_what_is_allowed() {
    let (_, problems) = read(&[("LEASEHOLD_LEASES_DRIVER", "nats")]);
    assert_eq!(
        problems,
        ["LEASEHOLD_LEASES_DRIVER: found \"nats\", allowed is memory or kubernetes"]
    );
    let (_, problems) = read(&[("LEASEHOLD_HEARTBEAT", "9")]);
    assert!(
        problems[0]
            .starts_with("LEASEHOLD_HEARTBEAT: lease: heartbeat plus two attempts take 14 s")
    );
}

#[test]
fn an_unknown_variable_names_the_closest_known_one() {
    let (_, problems) = read(&[("LEASEHOLD_CLUSTR_ID", "x")]);
    assert_eq!(
        problems,
        ["LEASEHOLD_CLUSTR_ID: no such variable; the closest is LEASEHOLD_CLUSTER_ID"]
    );
}

#[test]
fn variables_that_kubernetes_makes_for_a_service_of_our_name_are_ignored() {
    let (_, problems) = read(&[
        ("LEASEHOLD_PORT", "tcp://10.0.0.7:8080"),
        ("LEASEHOLD_PORT_8080_TCP", "tcp://10.0.0.7:8080"),
        ("LEASEHOLD_PORT_8080_TCP_ADDR", "10.0.0.7"),
        ("LEASEHOLD_PORT_8080_TCP_PORT", "8080"),
        ("LEASEHOLD_PORT_8080_TCP_PROTO", "tcp"),
        ("LEASEHOLD_SERVICE_HOST", "10.0.0.7"),
        ("LEASEHOLD_SERVICE_PORT", "8080"),
        ("LEASEHOLD_SERVICE_PORT_METRICS", "8080"),
        ("LEASEHOLD_OPERATOR_SERVICE_HOST", "10.0.0.8"),
        ("LEASEHOLD_OPERATOR_PORT_443_TCP", "tcp://10.0.0.8:443"),
    ]);
    assert_eq!(problems, Vec::<String>::new());
    let (_, problems) = read(&[("LEASEHOLD_PORT", "8080")]);
    assert_eq!(problems.len(), 1, "a plain number is no Service's variable");
}

#[test]
fn variables_of_the_operator_are_left_to_it() {
    let (_, problems) = read(&[("LEASEHOLD_OPERATOR_NAMESPACES", "shop")]);
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn memory_is_refused_wherever_several_processes_are_expected() {
    for variables in [
        &[("LEASEHOLD_REPLICAS", "2")][..],
        &[("LEASEHOLD_EXPECT_MULTI_NODE", "true")],
        &[("LEASEHOLD_CLUSTER", "true")],
        &[("KUBERNETES_SERVICE_HOST", "10.0.0.1")],
    ] {
        let (environment, _) = read(variables);
        let problems = environment.problems_with_memory();
        assert_eq!(problems.len(), 1, "{variables:?}: {problems:?}");
        assert!(problems[0].contains("LEASEHOLD_LEASES_DRIVER=kubernetes"));
        let allowed = Environment {
            allows_memory_multi_node: true,
            ..environment
        };
        assert_eq!(allowed.problems_with_memory(), Vec::<String>::new());
    }
    let (environment, _) = read(&[
        ("LEASEHOLD_REPLICAS", "3"),
        ("LEASEHOLD_EXPECT_MULTI_NODE", "true"),
    ]);
    assert_eq!(environment.problems_with_memory().len(), 2, "all at once");
    let (environment, _) = read(&[("LEASEHOLD_REPLICAS", "1")]);
    assert_eq!(environment.problems_with_memory(), Vec::<String>::new());
}
