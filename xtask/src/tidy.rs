//! House rules as a check: what a reviewer would otherwise have to look for.
//!
//! | Part | Rules |
//! | --- | --- |
//! | [`source`] | module comment first, file length, file and module names, no PATCH in the lease path, machine paths, temporary folders |
//! | [`arrows`] | which crate may depend on which, and what the core may depend on |
//! | [`citations`] | cited rule ids and guarantees exist; guarantees name tests that exist |
//! | [`prose`] | links in Markdown lead somewhere; web hosts are known; Makefile recipes stay short |
//!
//! Every rule is a pure function from texts to findings, so that each has a test that it finds something.

mod arrows;
mod citations;
mod prose;
mod source;

use std::fmt;
use std::path::Path;
use std::process::Command;

/// Runs every rule over the files that git knows or would add, and prints what it found.
///
/// # Errors
/// The number of findings, or why the tree could not be read.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let files = read_tree(root)?;
    let mut findings = Vec::new();
    findings.extend(source::check(&files));
    findings.extend(arrows::check(&arrows::packages(root)?));
    findings.extend(citations::check(&files));
    findings.extend(prose::check(&files));

    let errors = findings
        .iter()
        .filter(|f| f.severity == Severity::Error)
        .count();
    for finding in &findings {
        eprintln!("{finding}");
    }
    if errors > 0 {
        return Err(format!("{errors} findings"));
    }
    println!("tidy: {} files follow the house rules", files.len());
    Ok(())
}

/// One text file of the repository.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Path from the root, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|e| e == extension)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Error,
    Notice,
}

/// One place where a house rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    severity: Severity,
    path: String,
    /// Counted from 1; 0 means the whole file.
    line: usize,
    message: String,
}

impl Finding {
    fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path: path.into(),
            line,
            message: message.into(),
        }
    }

    fn notice(path: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Notice,
            path: path.into(),
            line: 0,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.severity {
            Severity::Error => "error",
            Severity::Notice => "notice",
        };
        match self.line {
            0 => write!(f, "tidy {kind}: {}: {}", self.path, self.message),
            line => write!(f, "tidy {kind}: {}:{line}: {}", self.path, self.message),
        }
    }
}

/// Every text file that git tracks or would add.
fn read_tree(root: &Path) -> Result<Vec<File>, String> {
    let listing = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run git ls-files: {e}"))?;
    if !listing.status.success() {
        return Err(format!(
            "git ls-files: {}",
            String::from_utf8_lossy(&listing.stderr).trim()
        ));
    }
    let mut files = Vec::new();
    for path in listing
        .stdout
        .split(|byte| *byte == 0)
        .filter(|p| !p.is_empty())
    {
        let path = String::from_utf8_lossy(path).into_owned();
        // A file removed from the tree but not yet from the index, or one that is not text, has no house rules.
        if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
            files.push(File { path, text });
        }
    }
    Ok(files)
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File {
        path: path.into(),
        text: text.into(),
    }
}
