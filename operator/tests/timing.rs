//! The timing rule of the schema and the timing type of the code accept the same timings.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use kube::{CustomResourceExt, core::cel::Validator};
use leasehold_core::lease::LeaseTiming;
use leasehold_crds::ClusterService;
use serde_json::{Value, json};

/// The schema of `spec.lease`, with its bounds and its rule.
fn schema() -> Value {
    let crd = serde_json::to_value(ClusterService::crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["lease"].clone()
}

fn schema_accepts(schema: &Value, [d, i, a, s]: [u64; 4]) -> bool {
    let lease = json!({
        "durationSeconds": d, "heartbeatSeconds": i, "attemptTimeoutSeconds": a, "stopBudgetSeconds": s,
    });
    let fields = schema["properties"].as_object().unwrap();
    let is_within = fields.iter().all(|(name, field)| {
        let value = lease[name].as_f64().unwrap();
        value >= field["minimum"].as_f64().unwrap() && value <= field["maximum"].as_f64().unwrap()
    });
    is_within && Validator::new().validate(schema, &lease, None).is_ok()
}

fn code_accepts([d, i, a, s]: [u64; 4]) -> bool {
    let [d, i, a, s] = [d, i, a, s].map(Duration::from_secs);
    LeaseTiming::new(d, i, a, s).is_ok()
}

#[test]
fn schema_and_code_accept_the_same_timings() {
    let schema = schema();
    let (mut accepted, mut refused) = (0, 0);
    let mut compare = |timing: [u64; 4]| {
        let expected = code_accepts(timing);
        assert_eq!(
            schema_accepts(&schema, timing),
            expected,
            "duration, heartbeat, attempt, stop: {timing:?}"
        );
        if expected {
            accepted += 1;
        } else {
            refused += 1;
        }
    };
    for d in [0_u64, 1, 2, 5, 6, 7, 15, 30, 60, 101, 3600, 3601] {
        for s in [0_u64, 1, 3, 5, 29, 60] {
            for a in [0_u64, 1, 2, 5, 11] {
                // Around the edge, where one wrong digit shows.
                let trusted = (d * 1000).saturating_sub(s * 1010) * 99 / 10_100;
                let edge = trusted.saturating_sub(a * 25) / 10;
                for i in [0, 1, edge.saturating_sub(1), edge, edge + 1, edge + 2] {
                    compare([d, i, a, s]);
                }
            }
        }
    }
    for preset in [[15, 5, 2, 3], [6, 2, 1, 1], [60, 20, 5, 5]] {
        assert!(
            code_accepts(preset) && schema_accepts(&schema, preset),
            "{preset:?}"
        );
    }
    assert!(
        accepted > 100 && refused > 100,
        "{accepted} accepted, {refused} refused"
    );
}
