//! Rules about Markdown and the Makefile: links lead somewhere, hosts are known, recipes stay short.

use std::collections::BTreeSet;

use super::source::generated;
use super::{File, Finding};

const RECIPE_LINES_MAX: usize = 3;

/// Hosts that a tracked file may name. Everything else is a machine of somebody, or will not last.
const HOSTS: [&str; 11] = [
    "apache.org",
    "crates.io",
    "docs.rs",
    "github.com",
    "go.dev",
    "golang.org",
    "k8s.io",
    "kubernetes.io",
    "localhost",
    "rust-lang.org",
    "rustup.rs",
];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut paths: BTreeSet<&str> = BTreeSet::new();
    for file in files {
        // A link may point at a file or at any folder above it.
        let mut path = file.path.as_str();
        paths.insert(path);
        while let Some((folder, _)) = path.rsplit_once('/') {
            paths.insert(folder);
            path = folder;
        }
    }
    let mut findings = Vec::new();
    for file in files {
        if file.is("md") {
            links(file, &paths, &mut findings);
        }
        if file.path == "Makefile" {
            recipes(file, &mut findings);
        }
        if !generated(&file.path) && file.path != "LICENSE" {
            hosts(file, &mut findings);
        }
    }
    findings
}

fn links(file: &File, paths: &BTreeSet<&str>, findings: &mut Vec<Finding>) {
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for target in link_targets(line) {
            if target.contains("://") || target.starts_with('#') || target.starts_with("mailto:") {
                continue;
            }
            let target_path = target
                .split('#')
                .next()
                .unwrap_or(target)
                .trim_end_matches('/');
            match resolve(&file.path, target_path) {
                Some(path) if path.is_empty() || paths.contains(path.as_str()) => {}
                _ => {
                    let message = format!("link to `{target}` leads nowhere");
                    findings.push(Finding::error(&file.path, index + 1, message));
                }
            }
        }
    }
}

/// The targets of `[text](target)`; what stands in backticks is code.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, _)| {
        let in_code = line[..at].matches('`').count() % 2 == 1;
        let target = line[at + 2..].split([')', ' ']).next()?;
        (!in_code && !target.is_empty()).then_some(target)
    })
}

/// A path relative to the file that names it, from the root; none if it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn hosts(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        for scheme in ["http://", "https://"] {
            for (at, _) in line.match_indices(scheme) {
                let rest = &line[at + scheme.len()..];
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-');
                let host = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
                if !known_host(host) {
                    let message =
                        format!("host `{host}` is not on the list in xtask/src/tidy/prose.rs");
                    findings.push(Finding::error(&file.path, index + 1, message));
                }
            }
        }
    }
}

fn known_host(host: &str) -> bool {
    // Made up at run time (`http://{address}`), loopback, inside a cluster, or reserved for examples.
    host.is_empty()
        || host.starts_with("127.")
        || !host.contains('.')
        || ["svc", "local", "example", "invalid", "test"]
            .iter()
            .any(|end| host.ends_with(&format!(".{end}")))
        || host == "example.com"
        || HOSTS
            .iter()
            .any(|known| host == *known || host.ends_with(&format!(".{known}")))
}

fn recipes(file: &File, findings: &mut Vec<Finding>) {
    let mut target: Option<(&str, usize)> = None;
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with('\t') {
            if let Some((name, lines)) = &mut target {
                *lines += 1;
                if *lines == RECIPE_LINES_MAX + 1 {
                    let message = format!(
                        "recipe of `{name}` has more than {RECIPE_LINES_MAX} lines: move it to scripts/"
                    );
                    findings.push(Finding::error(&file.path, index + 1, message));
                }
            }
        } else if let Some((name, rest)) = line.split_once(':')
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        {
            target = Some((name, 0));
            if !rest.contains("## ") {
                findings.push(Finding::error(
                    &file.path,
                    index + 1,
                    format!("target `{name}` has no `## help`"),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn findings(files: &[File]) -> Vec<String> {
        check(files).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn links_to_files_folders_and_anchors_are_accepted() {
        let text = "[a](b.md) [c](b.md#x) [d](../crds/) [e](#here) [f](https://github.com/x) `[g](nowhere)`\n```\n[h](nowhere)\n```\n";
        let files = [
            file("docs/a.md", text),
            file("docs/b.md", ""),
            file("crds/src/lib.rs", ""),
        ];
        assert_eq!(findings(&files), Vec::<String>::new());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let files = [file(
            "docs/a.md",
            "[a](gone.md)\n[b](../../outside.md)\n[c](../gone/)\n",
        )];
        assert_eq!(findings(&files).len(), 3);
    }

    #[test]
    fn unknown_hosts_are_found() {
        let unknown = ["https:/", "/mirror.acme.io/x"].concat();
        let text = format!(
            "{unknown}\nhttps://docs.rs/x http://127.0.0.1:80 https://kubernetes.default.svc http://{{address}}/\n"
        );
        assert_eq!(
            findings(&[file("a.txt", &text)]),
            ["host `mirror.acme.io` is not on the list in xtask/src/tidy/prose.rs"]
        );
    }

    #[test]
    fn long_recipes_and_targets_without_help_are_found() {
        let good = "a: b ## Does it\n\tx\n\ty\n\tz\n";
        assert_eq!(findings(&[file("Makefile", good)]), Vec::<String>::new());
        assert_eq!(
            findings(&[file("Makefile", &format!("{good}\tw\n"))]).len(),
            1
        );
        assert_eq!(findings(&[file("Makefile", "a: b\n\tx\n")]).len(), 1);
    }
}
