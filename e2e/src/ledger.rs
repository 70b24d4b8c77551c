//! A guarded store as small as can be: an append-only file that remembers the
//! highest fencing token it was shown and refuses every lower one
//! (`token-travels`). It is shared by processes; an advisory lock makes each
//! append one step.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_core::fence::{Fence, Stale};
use leasehold_core::id::FencingToken;
use serde::{Deserialize, Serialize};

use crate::error::{Result, Step};
use crate::{history, wait};

/// A paused process may hold the lock; whoever waits gives up after this.
const LOCK_MAX: Duration = Duration::from_secs(1);

/// The file of a ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The token the entry came with.
    pub token: String,
    /// Who wrote it.
    pub writer: String,
    /// When, in nanoseconds of the boot-time clock.
    pub t: u64,
    /// What was written; none if only the fence was raised (H9).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
}

/// What a guarded store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Written.
    Accepted,
    /// Decided under an older token than one the ledger has seen.
    Refused(Stale),
    /// No answer in time; nothing was written.
    Unavailable,
}

impl Ledger {
    /// The ledger at `path`, made on the first write.
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Appends `value` under `token`.
    pub fn append(&self, token: FencingToken, writer: &str, value: u64) -> Result<Verdict> {
        self.admit(token, writer, Some(value))
    }

    /// Shows `token` without writing a value, so that lower ones are refused
    /// from now on (H9).
    pub fn raise(&self, token: FencingToken, writer: &str) -> Result<Verdict> {
        self.admit(token, writer, None)
    }

    /// Appends without asking the fence. This is the positive control: with it
    /// in place of [`Ledger::append`] the checker must find stale writes.
    pub fn append_unfenced(
        &self,
        token: FencingToken,
        writer: &str,
        value: u64,
    ) -> Result<Verdict> {
        let Some(mut file) = self.lock()? else {
            return Ok(Verdict::Unavailable);
        };
        self.write(&mut file, token, writer, Some(value))
    }

    /// Everything in the ledger, in the order in which it was written.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).step(|| format!("opening {}", self.path.display())),
        };
        let mut text = String::new();
        file.read_to_string(&mut text)
            .step(|| format!("reading {}", self.path.display()))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| parse(&self.path, line)).collect()
    }

    fn admit(&self, token: FencingToken, writer: &str, value: Option<u64>) -> Result<Verdict> {
        let Some(mut file) = self.lock()? else {
            return Ok(Verdict::Unavailable);
        };
        let (newest, whole) = newest_entry(&self.path, &mut file)?;
        // Only the newest entry matters: tokens in the file never shrink.
        let highest = match newest {
            Some(entry) => Some(
                entry
                    .token
                    .parse()
                    .step(|| self.path.display().to_string())?,
            ),
            None => None,
        };
        if let Err(stale) = Fence::at(highest).admit(token) {
            return Ok(Verdict::Refused(stale));
        }
        // A writer that died in the middle of a line leaves no entry.
        file.set_len(whole)
            .step(|| format!("repairing {}", self.path.display()))?;
        self.write(&mut file, token, writer, value)
    }

    fn write(
        &self,
        file: &mut File,
        token: FencingToken,
        writer: &str,
        value: Option<u64>,
    ) -> Result<Verdict> {
        let entry = Entry {
            token: token.to_string(),
            writer: writer.to_owned(),
            t: history::now(),
            value,
        };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        let writing = || format!("writing {}", self.path.display());
        file.seek(SeekFrom::End(0)).step(writing)?;
        file.write_all(&line).step(writing)?;
        Ok(Verdict::Accepted)
    }

    /// The file, locked until it is dropped; none if somebody holds it for long.
    fn lock(&self) -> Result<Option<File>> {
        let opening = || format!("opening {}", self.path.display());
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&self.path)
            .step(opening)?;
        let mut outcome = Err(TryLockError::WouldBlock);
        wait::blocking(LOCK_MAX, || {
            outcome = file.try_lock();
            !matches!(outcome, Err(TryLockError::WouldBlock))
        });
        match outcome {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).step(opening),
        }
    }
}

/// The newest whole entry of the file, and where it ends. Only the end of the
/// file is read: a ledger of a long run has many entries.
fn newest_entry(path: &Path, file: &mut File) -> Result<(Option<Entry>, u64)> {
    const TAIL: u64 = 8 * 1024; // several times the longest entry
    let reading = || format!("reading {}", path.display());
    let length = file.seek(SeekFrom::End(0)).step(reading)?;
    let start = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start)).step(reading)?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).step(reading)?;
    let Some(end) = tail.iter().rposition(|&byte| byte == b'\n') else {
        return Ok((None, start));
    };
    let begin = tail[..end]
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let line = String::from_utf8_lossy(&tail[begin..end]);
    Ok((Some(parse(path, &line)?), start + u64::try_from(end + 1)?))
}

fn parse(path: &Path, line: &str) -> Result<Entry> {
    serde_json::from_str(line).step(|| format!("{}, entry {line:?}", path.display()))
}

/// The first place where tokens of a ledger shrink, if there is one.
pub fn first_stale(entries: &[Entry]) -> Result<Option<(Entry, Entry)>> {
    let mut newest: Option<(FencingToken, &Entry)> = None;
    for entry in entries {
        let token: FencingToken = entry
            .token
            .parse()
            .step(|| format!("entry of {}", entry.writer))?;
        if let Some((highest, before)) = newest
            && token < highest
        {
            return Ok(Some((before.clone(), entry.clone())));
        }
        newest = Some((token, entry));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Verdict, first_stale};
    use leasehold_core::id::FencingToken;
    use std::io::Write as _;

    fn token(text: &str) -> FencingToken {
        text.parse().unwrap()
    }

    /// A ledger, and the folder that goes with the test.
    fn ledger() -> (tempfile::TempDir, Ledger) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(&folder.path().join("ledger"));
        (folder, ledger)
    }

    #[test]
    fn a_lower_token_is_refused_and_leaves_no_entry() {
        let (_folder, ledger) = ledger();
        assert_eq!(
            ledger.append(token("0.7"), "a", 1).unwrap(),
            Verdict::Accepted
        );
        assert_eq!(ledger.raise(token("0.9"), "b").unwrap(), Verdict::Accepted);
        assert!(matches!(
            ledger.append(token("0.7"), "a", 2).unwrap(),
            Verdict::Refused(_)
        ));
        let values: Vec<_> = ledger
            .entries()
            .unwrap()
            .iter()
            .map(|entry| entry.value)
            .collect();
        assert_eq!(values, [Some(1), None]);
    }

    #[test]
    fn without_the_fence_the_stale_write_is_found() {
        let (_folder, ledger) = ledger();
        ledger.append(token("0.9"), "b", 1).unwrap();
        assert_eq!(first_stale(&ledger.entries().unwrap()).unwrap(), None);
        ledger.append_unfenced(token("0.7"), "a", 2).unwrap();
        let (before, stale) = first_stale(&ledger.entries().unwrap()).unwrap().unwrap();
        assert_eq!((before.writer.as_str(), stale.writer.as_str()), ("b", "a"));
    }

    #[test]
    fn a_line_cut_short_by_a_crash_is_no_entry() {
        let (_folder, ledger) = ledger();
        ledger.append(token("0.7"), "a", 1).unwrap();
        let mut file = std::fs::File::options()
            .append(true)
            .open(&ledger.path)
            .unwrap();
        file.write_all(b"{\"token\":\"0.9").unwrap();
        assert_eq!(
            ledger.append(token("0.8"), "b", 2).unwrap(),
            Verdict::Accepted
        );
        assert_eq!(ledger.entries().unwrap().len(), 2);
    }

    #[test]
    fn a_ledger_whose_lock_is_held_answers_unavailable() {
        let (_folder, ledger) = ledger();
        ledger.append(token("0.7"), "a", 1).unwrap();
        let file = std::fs::File::open(&ledger.path).unwrap();
        file.lock().unwrap();
        assert_eq!(
            ledger.append(token("0.8"), "b", 2).unwrap(),
            Verdict::Unavailable
        );
    }
}
