//! Accepted and rejected objects against the rules of the schema.
//!
//! The first line of a rejected sample says who finds it (`cel` or `schema`) and a part of the message.
//! Here the CEL rules are run; patterns, bounds and enums need a real API server, which the cluster
//! tests put every sample to. A second document is an update of the first.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::Path};

use kube::{CustomResourceExt, core::cel::Validator};
use leasehold_crds::{BackendClass, ClusterService};
use serde::Deserialize;
use serde_json::Value;

struct Sample {
    name: String,
    expectation: Option<(String, String)>,
    documents: Vec<Value>,
}

fn samples(folder: &str) -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/samples")
        .join(folder);
    let mut samples: Vec<Sample> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let expectation = text
                .strip_prefix("# ")
                .and_then(|rest| rest.lines().next())
                .and_then(|line| line.split_once(": "))
                .map(|(finder, part)| (finder.to_owned(), part.to_owned()));
            let documents = serde_yaml::Deserializer::from_str(&text)
                .map(|document| Value::deserialize(document).unwrap())
                .collect();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            Sample {
                name,
                expectation,
                documents,
            }
        })
        .collect();
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    samples
}

/// Messages of the CEL rules that the last document breaks, as an API server would run them.
fn broken_rules(sample: &Sample) -> Vec<String> {
    let crd = match sample.documents[0]["kind"].as_str() {
        Some("ClusterService") => ClusterService::crd(),
        Some("BackendClass") => BackendClass::crd(),
        other => panic!("{}: kind {other:?}", sample.name),
    };
    let crd = serde_json::to_value(crd).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let documents: Vec<Value> = sample
        .documents
        .iter()
        .map(|it| without_nulls(it.clone()))
        .collect();
    let (new, old) = match documents.as_slice() {
        [new] => (new, None),
        [old, new] => (new, Some(old)),
        other => panic!("{}: {} documents", sample.name, other.len()),
    };
    match Validator::new().validate_with_defaults(schema, new, old) {
        Ok(()) => Vec::new(),
        Err(errors) => errors
            .into_vec()
            .into_iter()
            .map(|it| it.to_string())
            .collect(),
    }
}

/// The API server drops nulls of fields that are not nullable before it fills in defaults.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, field)| !field.is_null())
                .map(|(name, field)| (name, without_nulls(field)))
                .collect(),
        ),
        other => other,
    }
}

/// Reads an object with its type, and what its type reads further.
fn read(document: &Value) {
    let document = without_nulls(document.clone());
    if document["kind"] == "BackendClass" {
        let object: BackendClass = serde_json::from_value(document).unwrap();
        assert!(object.spec.kind().is_some() && object.spec.admin_secret().is_some());
        return;
    }
    let object: ClusterService = serde_json::from_value(document).unwrap();
    object.cluster_id().unwrap();
    object.spec.rotation.durations().unwrap();
}

#[test]
fn accepted_samples_break_no_rule_and_are_read_by_the_types() {
    let samples = samples("accepted");
    assert!(samples.len() >= 30);
    for sample in samples {
        assert_eq!(
            broken_rules(&sample),
            Vec::<String>::new(),
            "{}",
            sample.name
        );
        for document in &sample.documents {
            read(document);
        }
    }
}

#[test]
fn rejected_samples_break_the_rule_that_their_first_line_names() {
    let mut run = 0;
    for sample in samples("rejected") {
        let (finder, part) = sample.expectation.clone().unwrap();
        match finder.as_str() {
            "cel" => {
                let broken = broken_rules(&sample);
                assert!(
                    broken.iter().any(|it| it.contains(&part)),
                    "{}: {broken:?}",
                    sample.name
                );
                run += 1;
            }
            "schema" => {}
            other => panic!("{}: found {other:?}, allowed: cel, schema", sample.name),
        }
    }
    assert!(run >= 60, "only {run} samples for CEL");
}
