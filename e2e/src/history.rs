//! What happened, one JSON object a line: written by workloads, by the chaos
//! runner and by observers, read by the checker.
//!
//! Times are nanoseconds of the boot-time clock, which all processes of one
//! machine share and which goes on while a process is stopped; so lines of
//! different processes can be put in order.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::{Result, Step};
use crate::partitions::keys::Slot;

/// One line of a history. Absent fields are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Nanoseconds of the boot-time clock.
    pub t: u64,
    /// What happened.
    pub event: Event,
    /// Whose line it is: the identity of a process in the election, or what a
    /// runner of faults calls itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// The cluster id whose leadership it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// The partition it is about, under a partitioned service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// The term, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<u32>,
    /// The fencing token, `<era>.<revision>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How long the guard would still hold without a renewal, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// The store of a guarded write, where there are several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub store: String,
    /// The key of a guarded write, where the store has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The value of a guarded write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The process; of a fault: the process it hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The pod that a fault hit; pids mean nothing there, each has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// What kind of fault begins or ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Why, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The kinds of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The process runs and campaigns.
    #[default]
    Started,
    /// The work was started with a new token.
    Gained,
    /// `check()` passed: the guard was valid at this instant.
    Held,
    /// `check()` failed at this instant.
    CheckFailed,
    /// A guarded write was accepted.
    Write,
    /// A guarded write was refused by its token.
    Refused,
    /// The guarded store gave no answer in time.
    Unavailable,
    /// The shutdown began; work in flight goes on under the lease.
    Draining,
    /// The work in flight has ended.
    Drained,
    /// The leadership ended.
    Lost,
    /// The work hangs, as asked for.
    Hung,
    /// An observer saw a change of leadership.
    Observed,
    /// An observer missed changes.
    Missed,
    /// Somebody from outside disturbed the run; `reason` says how.
    Fault,
    /// Such a disturbance ended.
    FaultEnded,
    /// The process ends.
    Exit,
}

/// What the checker must know of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A process was killed: its guard ended with it.
    Kill,
    /// A process was stopped where it stood; its guard runs out by the clock.
    Pause,
    /// Somebody outside the election changed or deleted the Lease: for up to V
    /// after it two guards may hold, and tokens still keep writes in order.
    Edit,
    /// Nobody could be elected until this fault ended.
    Outage,
}

/// Now, on the clock of histories.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanos
}

impl Line {
    /// A line about now.
    pub fn new(event: Event) -> Self {
        Self {
            t: now(),
            event,
            ..Self::default()
        }
    }
}

/// Writes lines to a file that several processes may share, or to standard
/// output, where `kubectl logs` shows them.
#[derive(Debug)]
pub struct Writer {
    file: Option<Mutex<File>>,
}

impl Writer {
    /// Appends to `path`.
    pub fn to_file(path: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.step(|| format!("opening the history {}", path.display()))?;
        Ok(Self {
            file: Some(Mutex::new(file)),
        })
    }

    /// Prints.
    pub fn to_stdout() -> Self {
        Self { file: None }
    }

    /// Writes one line by a single call, so that lines of several processes in
    /// one file do not mix.
    pub fn write(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        match &self.file {
            Some(file) => file
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(&text),
            None => io::stdout().lock().write_all(&text),
        }
    }
}

/// Reads histories and puts their lines in the order of time. The last line of
/// a file may be cut short by the end of its writer.
pub fn read(paths: &[impl AsRef<Path>]) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for path in paths {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).step(|| format!("reading {}", path.display()))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (number, line) in whole.lines().enumerate() {
            let line: Line = serde_json::from_str(line)
                .step(|| format!("{}, line {}", path.display(), number + 1))?;
            lines.push(line);
        }
    }
    lines.sort_by_key(|line| line.t);
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::{Event, Line, Writer, now, read};

    #[test]
    fn lines_of_two_writers_are_read_in_the_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let (one, two) = (
            Writer::to_file(&path).unwrap(),
            Writer::to_file(&path).unwrap(),
        );
        let early = Line {
            t: 1,
            token: Some("0.7".to_owned()),
            ..Line::new(Event::Gained)
        };
        let late = Line {
            t: 2,
            ..Line::new(Event::Lost)
        };
        two.write(&late).unwrap();
        one.write(&early).unwrap();
        std::fs::File::options().append(true).open(&path).unwrap();
        assert_eq!(read(&[&path]).unwrap(), [early, late]);
    }

    #[test]
    fn the_clock_of_histories_goes_on() {
        let before = now();
        assert!(now() >= before && before > 0);
    }

    #[test]
    fn a_line_that_is_no_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        std::fs::write(&path, "{\"t\":1,\"event\":\"gained\"}\nnonsense\n").unwrap();
        let error = read(&[&path]).unwrap_err();
        assert!(error.mentions("line 2"), "{error}");
    }
}
