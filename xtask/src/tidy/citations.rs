//! Rules and guarantees are cited by name in code; a name that leads nowhere is an error.
//!
//! A rule id (`E5`, `R3`, `H9`, `C2`) in a comment must be a heading of `docs/protocol.md`.
//! A guarantee in brackets and backticks in a comment must be a heading of `docs/guarantees.md`
//! or a row of the invariants in `ARCHITECTURE.md`.
//! A guarantee names its code and its tests; both must exist.

use std::collections::BTreeSet;

use super::{File, Finding};

const PROTOCOL: &str = "docs/protocol.md";
const GUARANTEES: &str = "docs/guarantees.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The families of rules in the protocol. A letter that is not here is no citation.
const FAMILIES: [char; 4] = ['C', 'E', 'H', 'R'];

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let text = |path: &str| {
        files
            .iter()
            .find(|f| f.path == path)
            .map_or("", |f| f.text.as_str())
    };
    let rules = headings(text(PROTOCOL));
    let mut names = headings(text(GUARANTEES));
    names.extend(table_names(text(ARCHITECTURE)));

    let mut findings = Vec::new();
    for (path, set) in [(PROTOCOL, &rules), (GUARANTEES, &names)] {
        if set.is_empty() {
            findings.push(Finding::error(
                path,
                0,
                "missing, or without headings: nothing can be cited",
            ));
        }
    }
    // This file speaks of citations without making any.
    for file in files
        .iter()
        .filter(|f| f.is("rs") && !f.path.ends_with("tidy/citations.rs"))
    {
        for (line, comment) in comments(&file.text) {
            for id in rule_ids(comment).filter(|id| !rules.contains(*id)) {
                let message = format!("rule `{id}` is not a heading of {PROTOCOL}");
                findings.push(Finding::error(&file.path, line, message));
            }
            for name in bracketed_names(comment).filter(|name| !names.contains(*name)) {
                let message = format!("`{name}` is neither in {GUARANTEES} nor in {ARCHITECTURE}");
                findings.push(Finding::error(&file.path, line, message));
            }
        }
    }
    findings.extend(proofs(files, text(GUARANTEES)));
    findings
}

/// Each guarantee has a line of code and a line of tests, and every test named there exists.
fn proofs(files: &[File], guarantees: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut tests = BTreeSet::new();
    for file in files {
        if file.is("rs") {
            tests.extend(file.text.lines().filter_map(function_name));
        }
        if file.path.contains("transcripts/") {
            tests.extend(
                file.path
                    .rsplit('/')
                    .next()
                    .and_then(|name| name.strip_suffix(".txt")),
            );
        }
    }
    let mut section: Option<(&str, usize, [bool; 2])> = None;
    let close = |section: Option<(&str, usize, [bool; 2])>, findings: &mut Vec<Finding>| {
        if let Some((name, line, [code, tests])) = section
            && !(code && tests)
        {
            let message = format!("`{name}` needs one line `Code: …` and one line `Tests: …`");
            findings.push(Finding::error(GUARANTEES, line, message));
        }
    };
    for (index, line) in guarantees.lines().enumerate() {
        if line.starts_with('#') {
            close(section.take(), &mut findings);
            section = heading(line).map(|name| (name, index + 1, [false; 2]));
        } else if let Some((_, _, seen)) = &mut section {
            seen[0] |= line.starts_with("Code: ");
            if let Some(cited) = line.strip_prefix("Tests: ") {
                seen[1] = true;
                for name in
                    backticked(cited).filter(|name| is_snake_case(name) && !tests.contains(name))
                {
                    let message = format!("no test is called `{name}`");
                    findings.push(Finding::error(GUARANTEES, index + 1, message));
                }
            }
        }
    }
    close(section, &mut findings);
    findings
}

/// First words of `##` headings, without backticks.
fn headings(markdown: &str) -> BTreeSet<&str> {
    markdown.lines().filter_map(heading).collect()
}

fn heading(line: &str) -> Option<&str> {
    let title = line.strip_prefix("## ")?;
    let first = title.split_whitespace().next()?.trim_matches('`');
    let cited = rule_ids(first).next() == Some(first) || is_kebab_case(first);
    cited.then_some(first)
}

/// Names in the first column of tables: `| `name` | … |`.
fn table_names(markdown: &str) -> BTreeSet<&str> {
    markdown
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|name| is_kebab_case(name))
        .collect()
}

/// The comment part of each line that has one, with its number from 1.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let at = line
            .match_indices("//")
            .map(|(at, _)| at)
            .find(|at| !line[..*at].ends_with(':'))?;
        Some((index + 1, &line[at..]))
    })
}

/// `E5`, `H10`, `R3`, `C2`: a family letter and one or two digits that stand alone.
fn rule_ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| {
            let mut chars = word.chars();
            chars.next().is_some_and(|c| FAMILIES.contains(&c))
                && (2..=3).contains(&word.len())
                && chars.all(|c| c.is_ascii_digit())
        })
}

/// Kebab-case names in backticks within one pair of brackets: (`a-name`), (`a-name`, `another-name`).
fn bracketed_names(comment: &str) -> impl Iterator<Item = &str> {
    comment
        .split('(')
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|inside| inside.starts_with('`') && inside.ends_with('`'))
        .flat_map(|inside| inside.split(", "))
        .filter_map(|name| name.strip_prefix('`')?.strip_suffix('`'))
        .filter(|name| is_kebab_case(name))
}

fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// `fn a_name(…`, also behind `pub(crate) async`; or `a_name => …` in a list from which a macro makes tests.
fn function_name(line: &str) -> Option<&str> {
    let after = line.trim_start();
    if let Some((name, _)) = after.split_once(" => ") {
        return Some(name).filter(|name| is_snake_case(name));
    }
    let after = after.strip_prefix("pub ").unwrap_or(after);
    let after = after.strip_prefix("pub(crate) ").unwrap_or(after);
    let after = after.strip_prefix("async ").unwrap_or(after);
    after.strip_prefix("fn ")?.split(['(', '<']).next()
}

fn is_kebab_case(name: &str) -> bool {
    name.contains('-')
        && name
            .split('-')
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase()))
}

fn is_snake_case(name: &str) -> bool {
    name.contains('_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const RULES: &str = "# Protocol\n\n## E1 Writes\n\n## E10 Draining\n";
    const PROMISES: &str = "# Guarantees\n\n## `token-travels`\n\nCode: `fence.rs`\nTests: `a_lower_token_is_refused`\n\n## What is not promised\n";
    const TEST: &str = "//! Tests.\n#[test]\nfn a_lower_token_is_refused() {}\n";

    fn tree(code: &str, guarantees: &str) -> Vec<String> {
        let files = [
            file(PROTOCOL, RULES),
            file(GUARANTEES, guarantees),
            file(ARCHITECTURE, "| `core-is-deaf` | reads no clock |\n"),
            file("a/tests.rs", TEST),
            file("a/lease.rs", code),
        ];
        check(&files).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn citations_that_lead_somewhere_have_no_findings() {
        let code = "//! Renews (E1, E10) and keeps (`token-travels`) and (`core-is-deaf`, `token-travels`).\n";
        assert_eq!(tree(code, PROMISES), Vec::<String>::new());
    }

    #[test]
    fn a_rule_that_does_not_exist_is_found_in_comments_only() {
        assert_eq!(tree("//! See E11.\n", PROMISES).len(), 1);
        assert_eq!(tree("//! X.\nlet E11 = 1; // and E12\n", PROMISES).len(), 1);
        assert_eq!(
            tree(
                "//! An E0599, an E1x or a V8 is no rule.\nlet url = \"https://E11/\";\n",
                PROMISES
            )
            .len(),
            0
        );
    }

    #[test]
    fn a_guarantee_that_does_not_exist_is_found() {
        assert_eq!(tree("//! Holds (`token-stays`).\n", PROMISES).len(), 1);
        assert_eq!(
            tree(
                "//! The value `leader-elected` is not a citation.\n",
                PROMISES
            )
            .len(),
            0
        );
    }

    #[test]
    fn a_guarantee_without_code_or_tests_is_found() {
        assert_eq!(
            tree("//! X.\n", "## `token-travels`\n\nCode: `fence.rs`\n").len(),
            1
        );
        assert_eq!(
            tree(
                "//! X.\n",
                "## `token-travels`\n\nTests: `a_lower_token_is_refused`\n"
            )
            .len(),
            1
        );
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        let findings = tree(
            "//! X.\n",
            &PROMISES.replace("a_lower_token_is_refused", "a_token_flies"),
        );
        assert_eq!(findings, ["no test is called `a_token_flies`"]);
    }

    #[test]
    fn tests_behind_visibility_or_in_a_list_of_a_macro_are_known() {
        for (line, name) in [
            ("fn a_b() {", Some("a_b")),
            ("    pub(crate) async fn a_b(", Some("a_b")),
            ("    a_b => \"scenario\",", Some("a_b")),
            ("Some(a) => b,", None),
            ("let a_b = 1;", None),
        ] {
            assert_eq!(function_name(line), name, "{line}");
        }
    }

    #[test]
    fn an_empty_protocol_is_found() {
        let files = [
            file(PROTOCOL, ""),
            file(GUARANTEES, PROMISES),
            file("a/tests.rs", TEST),
        ];
        assert_eq!(check(&files).len(), 1);
    }
}
