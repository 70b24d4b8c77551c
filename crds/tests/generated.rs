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
fn a_default_of_an_object_spells_out_every_default_of_its_fields() {
    // A defaulted object is checked by its rules before the defaults of its own fields are filled in.
    fn visit(path: &str, schema: &Value, seen: &mut usize) {
        let fields = schema["properties"].as_object();
        if let (Some(defaults), Some(fields)) = (schema["default"].as_object(), fields) {
            *seen += 1;
            for (name, field) in fields {
                let of_field = field.get("default");
                assert_eq!(of_field, defaults.get(name), "{path}.{name}");
            }
        }
        for (name, field) in fields.into_iter().flatten() {
            visit(&format!("{path}.{name}"), field, seen);
        }
    }
    let mut seen = 0;
    for (name, crd) in leasehold_crds::all() {
        let crd = serde_json::to_value(crd).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        visit(&name, schema, &mut seen);
    }
    assert_eq!(seen, 4, "lease, rotation, and tls of each backend");
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
