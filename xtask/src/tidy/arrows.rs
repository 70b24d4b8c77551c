//! Which crate may depend on which: imports point downwards only.
//!
//! ```text
//!   programs    operator              e2e             xtask
//!   I/O         runtime-lib  ◄─────────┤                │
//!                     │      \ feature kubernetes only  │
//!   meaning     runtime-lib/core      crds  ◄───────────┘
//! ```

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Finding;

/// What each crate may import of ours. A dependency that only tests use is free to point anywhere but upwards.
const ARROWS: [(&str, &[&str]); 6] = [
    ("leasehold-core", &[]),
    ("leasehold-crds", &[]),
    ("leasehold", &["leasehold-core", "leasehold-crds"]),
    (
        "leasehold-operator",
        &["leasehold-core", "leasehold-crds", "leasehold"],
    ),
    (
        "leasehold-e2e",
        &[
            "leasehold-core",
            "leasehold-crds",
            "leasehold",
            "leasehold-operator",
        ],
    ),
    ("xtask", &["leasehold-crds"]),
];

/// `core-is-deaf`: everything the deciding code may link. Whatever is not here can wait, connect or look at a clock.
const CORE_MAY_LINK: [&str; 1] = ["thiserror"];

/// The API types know no client and no async runtime.
const CRDS_MUST_NOT_LINK: [&str; 4] = ["tokio", "kube-runtime", "reqwest", "hyper"];

/// One crate of the workspace, as its manifest declares it.
#[derive(Debug, Clone, Default)]
pub(super) struct Package {
    name: String,
    manifest: String,
    dependencies: Vec<Dependency>,
    /// Feature name and what it switches on.
    features: Vec<(String, Vec<String>)>,
}

#[derive(Debug, Clone, Default)]
struct Dependency {
    name: String,
    /// Whether only tests see it.
    dev: bool,
    optional: bool,
}

/// Reads the manifests through cargo.
pub(super) fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let prefix = format!("{}/", root.display());
    Ok(items(&metadata["packages"])
        .map(|package| from_metadata(package, &prefix))
        .collect())
}

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        match ARROWS.iter().find(|(name, _)| *name == package.name) {
            Some((_, allowed)) => check_arrows(package, allowed, &mut findings),
            None => findings.push(Finding::error(
                &package.manifest,
                0,
                format!(
                    "crate `{}` has no place in the arrows of xtask/src/tidy/arrows.rs",
                    package.name
                ),
            )),
        }
    }
    for (name, _) in ARROWS {
        if !packages.iter().any(|p| p.name == name) {
            findings.push(Finding::error(
                "Cargo.toml",
                0,
                format!("crate `{name}` is gone from the workspace"),
            ));
        }
    }
    findings
}

fn check_arrows(package: &Package, allowed: &[&str], findings: &mut Vec<Finding>) {
    let mut refuse = |message: String| findings.push(Finding::error(&package.manifest, 0, message));
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let ours = ARROWS.iter().any(|(crate_name, _)| *crate_name == name);
        // A crate may name itself in its tests, to switch on a feature there.
        if ours && !allowed.contains(&name) && !(dependency.dev && name == package.name) {
            refuse(format!(
                "`{}` must not depend on `{name}`: imports point downwards only",
                package.name
            ));
        }
        if dependency.dev {
            continue;
        }
        if package.name == "leasehold-core" && !CORE_MAY_LINK.contains(&name) {
            refuse(format!("the core must not link `{name}` (`core-is-deaf`)"));
        }
        if package.name == "leasehold-crds" && CRDS_MUST_NOT_LINK.contains(&name) {
            refuse(format!(
                "API types must not link `{name}`: no client, no runtime"
            ));
        }
        if package.name == "leasehold" && name == "leasehold-crds" && !dependency.optional {
            refuse("`leasehold-crds` must be optional: only feature `kubernetes` needs it".into());
        }
    }
    if package.name == "leasehold" {
        for (feature, enables) in &package.features {
            let crds = enables
                .iter()
                .any(|e| e.trim_start_matches("dep:") == "leasehold-crds");
            if crds && feature != "kubernetes" && feature != "leasehold-crds" {
                refuse(format!(
                    "feature `{feature}` must not switch on `leasehold-crds`"
                ));
            }
            if feature == "default" && !enables.is_empty() {
                refuse("features are off by default: the memory driver needs none".into());
            }
        }
    }
}

fn from_metadata(package: &Value, prefix: &str) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let manifest = text(&package["manifest_path"]);
    Package {
        name: text(&package["name"]),
        manifest: manifest
            .strip_prefix(prefix)
            .unwrap_or(&manifest)
            .to_owned(),
        dependencies: items(&package["dependencies"])
            .map(|dependency| Dependency {
                name: text(&dependency["name"]),
                dev: dependency["kind"] == "dev",
                optional: dependency["optional"] == true,
            })
            .collect(),
        features: package["features"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, enables)| (name.clone(), items(enables).map(text).collect()))
            .collect(),
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace that follows the arrows.
    fn workspace() -> Vec<Package> {
        ARROWS
            .iter()
            .map(|(name, allowed)| Package {
                name: (*name).into(),
                manifest: format!("{name}/Cargo.toml"),
                dependencies: allowed
                    .iter()
                    .map(|to| Dependency {
                        name: (*to).into(),
                        dev: false,
                        optional: *to == "leasehold-crds",
                    })
                    .collect(),
                features: vec![("default".into(), vec![])],
            })
            .collect()
    }

    fn with(name: &str, dependency: Dependency) -> Vec<Finding> {
        let mut packages = workspace();
        let package = packages
            .iter_mut()
            .find(|p| p.name == name)
            .expect("in the workspace");
        package.dependencies.retain(|d| d.name != dependency.name);
        package.dependencies.push(dependency);
        check(&packages)
    }

    fn link(name: &str) -> Dependency {
        Dependency {
            name: name.into(),
            dev: false,
            optional: false,
        }
    }

    #[test]
    fn a_workspace_that_follows_the_arrows_has_no_findings() {
        assert_eq!(check(&workspace()), vec![]);
    }

    #[test]
    fn an_arrow_that_points_upwards_is_found() {
        assert_eq!(with("leasehold-crds", link("leasehold")).len(), 1);
        assert_eq!(with("xtask", link("leasehold-core")).len(), 1);
    }

    #[test]
    fn a_core_that_links_a_runtime_is_found_and_a_core_that_tests_with_one_is_not() {
        assert_eq!(with("leasehold-core", link("tokio")).len(), 1);
        assert_eq!(
            with(
                "leasehold-core",
                Dependency {
                    dev: true,
                    ..link("proptest")
                }
            ),
            vec![]
        );
    }

    #[test]
    fn api_types_outside_the_kubernetes_feature_are_found() {
        assert_eq!(with("leasehold", link("leasehold-crds")).len(), 1);
        let mut packages = workspace();
        let library = packages
            .iter_mut()
            .find(|p| p.name == "leasehold")
            .expect("in the workspace");
        library
            .features
            .push(("metrics".into(), vec!["dep:leasehold-crds".into()]));
        assert_eq!(check(&packages).len(), 1);
    }

    #[test]
    fn a_feature_that_is_on_by_default_is_found() {
        let mut packages = workspace();
        let library = packages
            .iter_mut()
            .find(|p| p.name == "leasehold")
            .expect("in the workspace");
        library.features[0].1.push("kubernetes".into());
        assert_eq!(check(&packages).len(), 1);
    }

    #[test]
    fn a_crate_without_a_place_and_a_missing_crate_are_found() {
        let mut packages = workspace();
        packages[0].name = "leasehold-extras".into();
        assert_eq!(check(&packages).len(), 2);
    }

    #[test]
    fn manifests_are_read_as_cargo_shows_them() {
        let metadata = serde_json::json!({
            "name": "leasehold", "manifest_path": "/x/runtime-lib/Cargo.toml",
            "dependencies": [{"name": "kube", "kind": null, "optional": true}, {"name": "insta", "kind": "dev", "optional": false}],
            "features": {"kubernetes": ["dep:kube"]},
        });
        let package = from_metadata(&metadata, "/x/");
        assert_eq!(package.manifest, "runtime-lib/Cargo.toml");
        assert!(package.dependencies[0].optional && !package.dependencies[0].dev);
        assert!(package.dependencies[1].dev);
        assert_eq!(
            package.features,
            vec![("kubernetes".to_owned(), vec!["dep:kube".to_owned()])]
        );
    }
}
