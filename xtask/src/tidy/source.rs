//! Rules about source files: their first line, length, names and forbidden words.

use super::{File, Finding};

const LINES_NOTICE: usize = 400;
const LINES_MAX: usize = 600;

/// Names that say nothing; the thing has a noun.
const EMPTY_NAMES: [&str; 11] = [
    "util", "utils", "utility", "helper", "helpers", "common", "manager", "handler", "handlers",
    "misc", "mod",
];

/// In two parts, so that this file does not find itself.
const TEMPORARY: [&str; 2] = ["temp_", "dir()"];

/// They remove what they make however their owner ends, by a process of its own or by `down`.
const SWEPT: [&str; 2] = ["e2e/src/control_plane/folder.rs", "e2e/tests/demo.rs"];

/// In two parts, so that this file does not find itself.
const MACHINE_PATHS: [[&str; 2]; 4] = [
    ["/work", "/"],
    ["/root", "/"],
    ["/home", "/"],
    ["/Users", "/"],
];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if ["rs", "go", "sh"].iter().any(|e| file.is(e)) {
            length(file, &mut findings);
            names(file, &mut findings);
        }
        if file.is("rs") {
            module_comment(file, &mut findings);
            module_names(file, &mut findings);
            patch(file, &mut findings);
            temporary(file, &mut findings);
        }
        if !generated(&file.path) {
            machine_paths(file, &mut findings);
        }
    }
    findings
}

/// Written by tools, not by people.
pub(super) fn generated(path: &str) -> bool {
    path.ends_with("Cargo.lock") || path.ends_with("go.sum") || path.ends_with("go.mod")
}

fn length(file: &File, findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        let message = format!("{lines} lines, at most {LINES_MAX}: a second concern moved in");
        findings.push(Finding::error(&file.path, 0, message));
    } else if lines > LINES_NOTICE {
        let message = format!("{lines} lines: above {LINES_NOTICE} needs a reason in review");
        findings.push(Finding::notice(&file.path, message));
    }
}

fn names(file: &File, findings: &mut Vec<Finding>) {
    for part in file.path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if EMPTY_NAMES.contains(&stem) {
            let message = format!("`{part}` names no thing; no file or folder is called that");
            findings.push(Finding::error(&file.path, 0, message));
        }
    }
}

fn module_comment(file: &File, findings: &mut Vec<Finding>) {
    let first = file.text.lines().next().unwrap_or("");
    if !first.starts_with("//! ") {
        let message = "the first line must be a `//!` comment that says what the file is for";
        findings.push(Finding::error(&file.path, 1, message));
    } else if first.to_lowercase().contains("placeholder") {
        findings.push(Finding::error(
            &file.path,
            1,
            "a placeholder is no module comment",
        ));
    }
}

fn module_names(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|w| *w == "mod") else {
            continue;
        };
        let visible = words[..at].iter().all(|w| w.starts_with("pub"));
        let Some(name) = words.get(at + 1) else {
            continue;
        };
        let name = name.trim_end_matches([';', '{']);
        if visible && EMPTY_NAMES.contains(&name) {
            let message = format!("module `{name}` names no thing");
            findings.push(Finding::error(&file.path, index + 1, message));
        }
    }
}

/// E1: the library writes Leases by POST and PUT; a PATCH is no compare-and-swap.
fn patch(file: &File, findings: &mut Vec<Finding>) {
    if !file.path.starts_with("runtime-lib/src/") {
        return;
    }
    for (index, line) in code_lines(&file.text) {
        if line.contains(".patch(") || line.contains("Patch::") || line.contains("Method::PATCH") {
            let message =
                "the lease path never uses PATCH (E1): replace with resourceVersion and uid";
            findings.push(Finding::error(&file.path, index, message));
        }
    }
}

/// A path that a test composes outlives the test that fails, and often the one that passes.
fn temporary(file: &File, findings: &mut Vec<Finding>) {
    if SWEPT.contains(&file.path.as_str()) {
        return;
    }
    let mark = TEMPORARY.concat();
    for (index, line) in code_lines(&file.text) {
        if line.contains(&mark) {
            let message = "a folder of a test goes with it: use tempfile::tempdir()";
            findings.push(Finding::error(&file.path, index, message));
        }
    }
}

/// Paths of one machine; they mean nothing on another.
fn machine_paths(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        for mark in MACHINE_PATHS.map(|parts| parts.concat()) {
            let found = line.match_indices(&mark).any(|(at, _)| {
                // Part of a longer path or address is something else, e.g. `target/work/`.
                !line[..at]
                    .chars()
                    .next_back()
                    .is_some_and(|c| c.is_alphanumeric() || "._-}$".contains(c))
            });
            if found {
                let message = format!("`{mark}` is a path of one machine");
                findings.push(Finding::error(&file.path, index + 1, message));
            }
        }
    }
}

/// Lines that are not comments, with their number from 1.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::super::{Severity, file};
    use super::*;

    fn errors(path: &str, text: &str) -> Vec<String> {
        check(&[file(path, text)])
            .into_iter()
            .filter(|f| f.severity == Severity::Error)
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        assert_eq!(
            errors("a/lease.rs", "//! What a lease is.\n\npub mod timing;\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_file_without_a_module_comment_is_found() {
        assert_eq!(errors("a/lease.rs", "use std::fmt;\n").len(), 1);
        assert_eq!(errors("a/lease.rs", "//! placeholder\n").len(), 1);
        assert_eq!(errors("a/lease.rs", "").len(), 1);
    }

    #[test]
    fn a_file_of_601_lines_is_found_and_one_of_600_is_not() {
        let long = |lines: usize| format!("//! Long.\n{}", "\n".repeat(lines - 1));
        assert_eq!(errors("a/long.rs", &long(600)).len(), 0);
        assert_eq!(errors("a/long.rs", &long(601)).len(), 1);
        let notices = check(&[file("a/long.rs", &long(401))]);
        assert_eq!(notices.len(), 1);
        assert_eq!(notices[0].severity, Severity::Notice);
    }

    #[test]
    fn empty_names_are_found_in_files_folders_and_modules() {
        assert_eq!(errors("a/util.rs", "//! X.\n").len(), 1);
        assert_eq!(errors("a/common/lease.rs", "//! X.\n").len(), 1);
        assert_eq!(errors("a/lease/mod.rs", "//! X.\n").len(), 1);
        assert_eq!(
            errors("a/lease.rs", "//! X.\npub(crate) mod helpers {\n}\n").len(),
            1
        );
        assert_eq!(
            errors("a/utilisation.rs", "//! X.\n// a mod helpers in prose\n").len(),
            0
        );
    }

    #[test]
    fn patch_is_found_in_the_library_and_allowed_in_the_operator() {
        let text = "//! X.\napi.patch(name, &params, &body)\n";
        assert_eq!(errors("runtime-lib/src/store.rs", text).len(), 1);
        assert_eq!(errors("operator/src/apply.rs", text).len(), 0);
        assert_eq!(
            errors("runtime-lib/src/store.rs", "//! X.\n// never .patch(\n").len(),
            0
        );
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        let home = ["/ho", "me/anna/x"].concat();
        assert_eq!(errors("docs/a.md", &format!("see {home}\n")).len(), 1);
        assert_eq!(
            errors("docs/a.md", "see target/work/x and $HOME/work/y\n").len(),
            0
        );
    }

    #[test]
    fn a_temporary_path_that_a_test_composes_is_found() {
        let text = format!("//! X.\nlet path = std::env::{};\n", TEMPORARY.concat());
        assert_eq!(errors("a/lease.rs", &text).len(), 1);
        assert_eq!(errors(SWEPT[0], &text).len(), 0);
        let swept = "//! X.\nlet folder = tempfile::tempdir().unwrap();\n";
        assert_eq!(errors("a/lease.rs", swept).len(), 0);
    }
}
