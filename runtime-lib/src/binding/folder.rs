//! A folder with one file for each value, read as one version.
//!
//! Kubernetes writes the files of a volume into a new folder, and then renames a link `..data` to
//! it; `username` and the others are links through that one. So the target of `..data` names the
//! version, and whoever reads in that target reads nothing else.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{BindingKind, ROOT, file};
use crate::error::StartError;

/// The link that Kubernetes puts in place as a whole.
const DATA: &str = "..data";

/// Largest file, in bytes: a whole Secret has no more.
const FILE_MAX: u64 = 1 << 20;

/// How often a folder may change under a reader.
const READS_MAX: usize = 10;

/// Every file that means something. Others, such as what a rotation prepares, are not read.
const NAMES: [&str; 10] = [
    "ca.crt",
    "database",
    "host",
    "key-prefix",
    "password",
    "port",
    "sslmode",
    "type",
    "uri",
    "username",
];

/// What tells two states of a folder apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Put in place as a whole: where `..data` points to.
    Whole(PathBuf),
    /// Files that change one by one: inode, length and time of each.
    Loose(Vec<Option<Stamp>>),
}

/// Which file stands under a name, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    length: u64,
    modified: Option<SystemTime>,
}

/// The contents of all files, each of the same version, or why one was not read. No `Debug`: there
/// are passwords.
pub(super) struct Files {
    pub(super) folder: PathBuf,
    pub(super) version: Version,
    pub(super) contents: BTreeMap<&'static str, Result<Vec<u8>, String>>,
}

/// Reads all files of one version.
pub(super) fn read(folder: &Path) -> Result<Files, String> {
    for _ in 0..READS_MAX {
        let before = version(folder)?;
        let source = match &before {
            Version::Whole(target) => folder.join(target),
            Version::Loose(_) => folder.to_owned(),
        };
        let found = NAMES.iter().filter_map(|name| {
            let content = content(&source.join(name))?;
            Some((*name, content))
        });
        let contents = found.collect();
        if version(folder)? == before {
            return Ok(Files {
                folder: folder.to_owned(),
                version: before,
                contents,
            });
        }
    }
    Err(format!(
        "{}: changes faster than it can be read",
        folder.display()
    ))
}

/// The present version. Costs one call where `..data` exists.
pub(super) fn version(folder: &Path) -> Result<Version, String> {
    let unreadable = |error| format!("{}: cannot be read: {error}", folder.display());
    match std::fs::read_link(folder.join(DATA)) {
        Ok(target) => return Ok(Version::Whole(target)),
        // Not there, or no link: a folder that is written in another way.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {}
        Err(error) => return Err(unreadable(error)),
    }
    if !std::fs::metadata(folder).map_err(unreadable)?.is_dir() {
        return Err(format!("{}: is no folder", folder.display()));
    }
    let stamps = NAMES.iter().map(|name| stamp(&folder.join(name)));
    Ok(Version::Loose(stamps.collect()))
}

/// The one folder under `root` that says it is of this kind.
pub(super) fn of_kind(root: &Path, kind: BindingKind) -> Result<PathBuf, StartError> {
    let unreadable = |error: io::Error| {
        StartError::new(format!(
            "{ROOT}: {}: cannot be read: {error}",
            root.display()
        ))
    };
    let mut ours = Vec::new();
    let mut others = Vec::new();
    for entry in std::fs::read_dir(root).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || !path.is_dir() {
            continue;
        }
        match content(&path.join("type")) {
            Some(Ok(word)) if word == kind.word().as_bytes() => ours.push(path),
            _ => others.push(name.into_owned()),
        }
    }
    ours.sort();
    others.sort();
    let root = root.display();
    match ours.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(StartError::new(format!(
            "{}: not set, and under {ROOT} ({root}) no folder has a file `type` that says {}; \
             found: {}",
            kind.variable(),
            kind.word(),
            listed(&others)
        ))),
        several => {
            let names = several.iter().filter_map(|path| path.file_name());
            let names: Vec<String> = names
                .map(|name| name.to_string_lossy().into_owned())
                .collect();
            Err(StartError::new(format!(
                "{ROOT}: under {root} there are several of type {}: {}; name one in code, with \
                 Binding::folder",
                kind.word(),
                listed(&names)
            )))
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    names.join(", ")
}

/// None if there is no such file.
fn content(path: &Path) -> Option<Result<Vec<u8>, String>> {
    let opened = File::open(path);
    if matches!(&opened, Err(error) if error.kind() == ErrorKind::NotFound) {
        return None;
    }
    let read = opened.and_then(|file| {
        let mut bytes = Vec::new();
        file.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    Some(match read {
        Ok(bytes) if bytes.len() as u64 > FILE_MAX => {
            Err(format!("is too large, allowed are {FILE_MAX} bytes"))
        }
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(format!("cannot be read: {error}")),
    })
}

#[cfg(unix)]
fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        inode: metadata.ino(),
        length: metadata.len(),
        modified: metadata.modified().ok(),
    })
}

#[cfg(not(unix))]
fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        inode: 0,
        length: metadata.len(),
        modified: metadata.modified().ok(),
    })
}

impl Files {
    /// The name of one file, for people.
    pub(super) fn name(&self, name: &str) -> String {
        file(&self.folder, name)
    }
}
