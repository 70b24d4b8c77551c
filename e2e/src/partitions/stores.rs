//! The guarded stores of a partitioned service behind one interface: our own
//! ledger, a Postgres and a Redis. Each takes counters under tokens, and keeps
//! what it took in an order of its own, for the checker.

pub mod postgres;
pub mod redis;
mod servers;

use std::path::Path;
use std::time::Duration;

use leasehold::fence::FenceError;
use leasehold_core::fence::{Claim, Stale};

use super::keys::Slot;
use super::ledger;
use crate::error::{Error, Result, Step};
use crate::ledger::Verdict;
pub use servers::Stores;

/// A request takes no longer; whether it was carried out is then not known.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Those of a service wait for each other, and there may be one for each partition.
const RAISE_MAX: Duration = Duration::from_secs(10);

/// Under what something is asked of a store.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The partition.
    pub slot: Slot,
    /// Its hashes and its token.
    pub claim: Claim,
    /// Who asks.
    pub writer: String,
}

impl Shown {
    /// What the store writes down about it.
    fn entry(&self, set: Option<(&str, u64)>) -> ledger::Entry {
        ledger::Entry {
            t: crate::history::now(),
            slot: self.slot,
            token: self.claim.token.to_string(),
            writer: self.writer.clone(),
            set: set.map(|(key, value)| (key.to_owned(), value)),
        }
    }
}

/// The way from a pod to one store.
pub enum Store {
    /// Ours, over TCP.
    Ledger(ledger::Client),
    /// A table.
    Postgres(postgres::Client),
    /// A hash.
    Redis(redis::Client),
}

impl Store {
    /// The store with this URL, guarded for `service`. It connects when it is first asked.
    pub fn to(url: &str, service: &str) -> Result<Self> {
        // Without what comes behind it: that may be a password.
        match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("ledger") => ledger::Client::to(url).map(Self::Ledger),
            Some("postgres") => postgres::Client::to(url, service).map(Self::Postgres),
            Some("redis") => redis::Client::to(url, service).map(Self::Redis),
            other => Err(Error::new(format!(
                "found a URL of {:?}, allowed are ledger, postgres and redis",
                other.unwrap_or_default()
            ))),
        }
    }

    /// The stores in a file with a URL in each line.
    pub fn all_in(path: &Path, service: &str) -> Result<Vec<Self>> {
        let reading = || format!("reading stores from {}", path.display());
        let text = std::fs::read_to_string(path).step(reading)?;
        let urls = text.lines().filter(|line| !line.is_empty());
        urls.map(|url| Self::to(url, service).step(reading))
            .collect()
    }

    /// What histories call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ledger(_) => "ledger",
            Self::Postgres(_) => "postgres",
            Self::Redis(_) => "redis",
        }
    }

    /// Shows the token for all hashes of the partition (H9).
    pub async fn raise(&self, shown: &Shown) -> Result<Verdict> {
        self.in_time("raising a fence", RAISE_MAX, async {
            match self {
                Self::Ledger(client) => {
                    client
                        .raise(shown.slot, shown.claim.token, &shown.writer)
                        .await
                }
                Self::Postgres(client) => client.raise(shown).await,
                Self::Redis(client) => client.raise(shown).await,
            }
        })
        .await
    }

    /// The value of a key; 0 if it was never written.
    pub async fn read(&self, key: &str) -> Result<u64> {
        self.in_time("reading", ANSWER_MAX, async {
            match self {
                Self::Ledger(client) => client.read(key).await,
                Self::Postgres(client) => client.read(key).await,
                Self::Redis(client) => client.read(key).await,
            }
        })
        .await
    }

    /// Sets a key; without its fence only for the positive control.
    pub async fn write(
        &self,
        shown: &Shown,
        key: &str,
        value: u64,
        fenced: bool,
    ) -> Result<Verdict> {
        self.in_time("writing", ANSWER_MAX, async {
            match self {
                Self::Ledger(client) => {
                    let token = shown.claim.token;
                    let asked = client.write(shown.slot, token, &shown.writer, key, value, fenced);
                    asked.await
                }
                Self::Postgres(client) => client.write(shown, key, value, fenced).await,
                Self::Redis(client) => client.write(shown, key, value, fenced).await,
            }
        })
        .await
    }

    async fn in_time<T>(
        &self,
        what: &str,
        longest: Duration,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let step = || format!("{}: {what}", self.name());
        let answered = tokio::time::timeout(longest, work).await;
        answered.step(step)?.step(step)
    }
}

/// What a fence of the library answered. Fences that a store has lost are raised again by whoever
/// gets no answer, so that is none either.
fn verdict(answer: Result<(), FenceError>) -> Result<Verdict> {
    match answer {
        Ok(()) => Ok(Verdict::Accepted),
        Err(FenceError::Stale { claim, highest, .. }) => Ok(Verdict::Refused(Stale {
            shown: claim.token,
            highest,
        })),
        Err(error) => Err(error.into()),
    }
}
