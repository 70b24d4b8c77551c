//! `cargo xtask crds`: the CRD YAML from the types of `leasehold-crds`, and the check that it is current.

use std::{fs, path::Path};

const HEADER: &str = "# Generated from crds/src by `cargo xtask crds`; do not edit.\n";

/// Writes every CRD into `crds/`.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    for (name, text) in rendered()? {
        let path = root.join("crds").join(&name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("wrote crds/{name}");
    }
    Ok(())
}

/// Fails if a CRD in `crds/` differs from its types, or has none.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let folder = root.join("crds");
    let wanted = rendered()?;
    for (name, text) in &wanted {
        let path = folder.join(name);
        let found = fs::read_to_string(&path).map_err(|error| format!("crds/{name}: {error}"))?;
        if found != *text {
            let line = found
                .lines()
                .zip(text.lines())
                .take_while(|(a, b)| a == b)
                .count()
                + 1;
            return Err(format!(
                "crds/{name} differs from the types from line {line}; run `cargo xtask crds`"
            ));
        }
    }
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_yaml = Path::new(&name)
            .extension()
            .is_some_and(|end| end == "yaml");
        if is_yaml && !wanted.iter().any(|(known, _)| *known == name) {
            return Err(format!("crds/{name} belongs to no kind; remove it"));
        }
    }
    Ok(())
}

fn rendered() -> Result<Vec<(String, String)>, String> {
    leasehold_crds::all()
        .into_iter()
        .map(|(name, crd)| {
            let yaml = serde_yaml::to_string(&crd).map_err(|error| format!("{name}: {error}"))?;
            Ok((name, format!("{HEADER}{yaml}")))
        })
        .collect()
}
