//! A guarded store of counters, one for each key, as a server on loopback. It
//! keeps a fence for every hash, which an owner raises over its whole range
//! before it reads (H9), and refuses what was decided under a lower token.
//!
//! A client that is paused holds nothing here: each request is one step.

mod client;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::fence::{Claim, KeyRange, RangeFences, Stale};
use leasehold_core::id::FencingToken;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::keys::{self, Slot};
use crate::error::{Result, Step};
use crate::history;
pub use client::Client;

/// Something the store took, in the order in which it took it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in nanoseconds of the boot-time clock.
    pub t: u64,
    /// The partition under which it was decided.
    pub slot: Slot,
    /// The token it came with.
    pub token: String,
    /// Who wrote it.
    pub writer: String,
    /// The key and its new value; none if only the fence was raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<(String, u64)>,
}

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Request {
    /// Show the token for the whole range.
    Raise(Shown),
    /// The value of a key; 0 if it was never written.
    Read(String),
    /// Set a key to a value; without the fence only for the positive control.
    Write {
        shown: Shown,
        key: String,
        value: u64,
        fenced: bool,
    },
}

/// Under what something is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Shown {
    slot: Slot,
    token: String,
    writer: String,
}

/// What the store answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Answer {
    Taken,
    Value(u64),
    /// A higher token was shown before: this one.
    Stale(String),
    /// The request cannot be understood.
    Wrong(String),
}

/// The server; it ends when it is dropped.
#[derive(Debug)]
pub struct KeyedLedger {
    path: PathBuf,
    address: std::net::SocketAddr,
    serving: JoinHandle<()>,
}

impl KeyedLedger {
    /// Serves on a free port; what it takes is appended to `path`.
    pub async fn start(path: &Path) -> Result<Self> {
        let starting = || format!("starting the ledger {}", path.display());
        let file = File::options().create(true).append(true).open(path);
        let state = State {
            fences: RangeFences::default(),
            values: BTreeMap::new(),
            file: file.step(starting)?,
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.step(starting)?;
        let address = listener.local_addr().step(starting)?;
        let serving = tokio::spawn(serve(listener, Arc::new(Mutex::new(state))));
        Ok(Self {
            path: path.to_owned(),
            address,
            serving,
        })
    }

    /// How a client finds it.
    pub fn url(&self) -> String {
        format!("ledger://{}", self.address)
    }

    /// The file of what it took.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KeyedLedger {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Everything a store took, from its file.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    let reading = || format!("reading {}", path.display());
    let mut lines = BufReader::new(File::open(path).step(reading)?);
    let mut entries = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        lines.read_until(b'\n', &mut line).step(reading)?;
        // A line without its end is still being written.
        if line.last() != Some(&b'\n') {
            return Ok(entries);
        }
        let entry = serde_json::from_slice(&line);
        entries.push(
            entry
                .step(|| format!("entry {}", entries.len() + 1))
                .step(reading)?,
        );
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    clients.spawn(answer_all(stream, Arc::clone(&state)));
                }
            }
            Some(_) = clients.join_next() => {}
        }
    }
}

/// Ends with the connection.
async fn answer_all(stream: TcpStream, state: Arc<Mutex<State>>) -> std::io::Result<()> {
    let _ = stream.set_nodelay(true);
    let (reading, mut writing) = stream.into_split();
    let mut lines = tokio::io::BufReader::new(reading).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match serde_json::from_str(&line) {
            Ok(request) => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                state.answer(request)
            }
            Err(error) => Answer::Wrong(error.to_string()),
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        writing.write_all(&text).await?;
    }
    Ok(())
}

struct State {
    fences: RangeFences,
    values: BTreeMap<String, u64>,
    file: File,
}

impl State {
    fn answer(&mut self, request: Request) -> Answer {
        let outcome = match request {
            Request::Read(key) => Ok(Answer::Value(
                self.values.get(&key).copied().unwrap_or_default(),
            )),
            Request::Raise(shown) => self.raise(shown),
            Request::Write {
                shown,
                key,
                value,
                fenced,
            } => self.write(shown, key, value, fenced),
        };
        outcome.unwrap_or_else(|error| Answer::Wrong(error.to_string()))
    }

    fn raise(&mut self, shown: Shown) -> Result<Answer> {
        let token: FencingToken = shown.token.parse()?;
        let (from, until) = shown.slot.range();
        let from = u64::try_from(from).unwrap_or(u64::MAX);
        let range = KeyRange::new(from, until).step(|| format!("{} has no hashes", shown.slot))?;
        match self.fences.raise(Claim::new(range, token)) {
            Ok(()) => self.take(shown, None),
            Err(stale) => Ok(refusal(stale)),
        }
    }

    fn write(&mut self, shown: Shown, key: String, value: u64, fenced: bool) -> Result<Answer> {
        let token: FencingToken = shown.token.parse()?;
        let hash = keys::hash(&key);
        if !shown.slot.holds(hash) {
            return Ok(Answer::Wrong(format!("{key} is none of {}", shown.slot)));
        }
        if fenced && let Err(stale) = self.fences.admit(hash, token) {
            return Ok(refusal(stale));
        }
        self.values.insert(key.clone(), value);
        self.take(shown, Some((key, value)))
    }

    fn take(&mut self, shown: Shown, set: Option<(String, u64)>) -> Result<Answer> {
        let entry = Entry {
            t: history::now(),
            slot: shown.slot,
            token: shown.token,
            writer: shown.writer,
            set,
        };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        self.file.write_all(&line).step(|| "writing the ledger")?;
        Ok(Answer::Taken)
    }
}

fn refusal(stale: Stale) -> Answer {
    Answer::Stale(stale.highest.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Client, KeyedLedger, read};
    use crate::ledger::Verdict;
    use crate::partitions::keys::{self, Slot};
    use leasehold_core::id::FencingToken;

    fn token(revision: u64) -> FencingToken {
        format!("0.{revision}").parse().unwrap()
    }

    fn slot(count: u16, key: &str) -> Slot {
        let slots = (0..count).map(|partition| Slot {
            generation: u32::from(count),
            count,
            partition,
        });
        let mut slots = slots.filter(|slot| slot.holds(keys::hash(key)));
        slots.next().unwrap()
    }

    #[tokio::test]
    async fn a_child_that_raised_shuts_out_the_owner_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledger = KeyedLedger::start(&path).await.unwrap();
        let (old, new) = (Client::to(&ledger.url()), Client::to(&ledger.url()));
        let (old, new) = (old.unwrap(), new.unwrap());
        let key = "order-1";
        let (parent, child) = (slot(64, key), slot(96, key));
        old.raise(parent, token(5), "a").await.unwrap();
        let taken = old.write(parent, token(5), "a", key, 1, true).await;
        assert_eq!(taken.unwrap(), Verdict::Accepted);
        assert_eq!(
            new.raise(child, token(9), "b").await.unwrap(),
            Verdict::Accepted
        );
        assert_eq!(new.read(key).await.unwrap(), 1);
        let refused = old.write(parent, token(5), "a", key, 2, true).await;
        assert!(matches!(refused.unwrap(), Verdict::Refused(_)));
        let raised = old.raise(parent, token(8), "a").await.unwrap();
        assert!(matches!(raised, Verdict::Refused(_)), "{raised:?}");
        // The positive control: without the fence it is taken.
        let taken = old.write(parent, token(5), "a", key, 2, false).await;
        assert_eq!(taken.unwrap(), Verdict::Accepted);
        assert_eq!(read(&path).unwrap().len(), 4);
    }
}
