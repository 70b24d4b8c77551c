//! The committed YAML says what the types say.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::Path};

use serde_json::Value;

#[test]
fn the_committed_crds_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wanted = leasehold_crds::all();
    assert!(!wanted.is_empty());
    for (name, crd) in wanted {
        let text = fs::read_to_string(folder.join(&name)).unwrap();
        let found: Value = serde_yaml::from_str(&text).unwrap();
        let wanted = serde_json::to_value(crd).unwrap();
        assert_eq!(found, wanted, "{name}: run `cargo xtask crds`");
    }
}

#[test]
fn a_default_of_lease_spells_out_every_field() {
    // A defaulted object is checked by the rule before the defaults of its own fields are filled in.
    let (_, crd) = leasehold_crds::all().remove(0);
    let crd = serde_json::to_value(crd).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let lease = &spec["properties"]["lease"];
    let fields = lease["properties"].as_object().unwrap();
    let defaults = lease["default"].as_object().unwrap();
    assert_eq!(fields.len(), 4);
    for (name, field) in fields {
        assert_eq!(field["default"], defaults[name], "{name}");
    }
}

#[test]
fn every_field_explains_itself() {
    fn visit(path: &str, schema: &Value, silent: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let is_status_or_spec = path == ".spec" || path == ".status";
            if field["description"].as_str().is_none_or(str::is_empty) && !is_status_or_spec {
                silent.push(path.clone());
            }
            visit(&path, field, silent);
            visit(&path, &field["items"], silent);
        }
    }
    for (_, crd) in leasehold_crds::all() {
        let crd = serde_json::to_value(crd).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut silent = Vec::new();
        visit("", schema, &mut silent);
        assert_eq!(
            silent,
            Vec::<String>::new(),
            "fields without a description for kubectl explain"
        );
    }
}
