//! The stores of one run, with the servers that they are in.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{postgres, redis};
use crate::error::{Result, Step};
use crate::partitions::ledger::{Entry, KeyedLedger};
use crate::servers::{Postgres, Redis};

/// The ledger, which costs nothing, and perhaps a Postgres and a Redis.
pub struct Stores {
    ledger: KeyedLedger,
    real: Option<(Postgres, Redis)>,
    service: String,
    folder: PathBuf,
}

impl Stores {
    /// Starts them. Their histories and the file of their URLs go into `folder`.
    pub async fn start(folder: &Path, service: &str, with_servers: bool) -> Result<Self> {
        let ledger = KeyedLedger::start(&folder.join("ledger.jsonl")).await?;
        let real = if with_servers {
            Some(Box::pin(start_servers(service)).await?)
        } else {
            None
        };
        let stores = Self {
            ledger,
            real,
            service: service.to_owned(),
            folder: folder.to_owned(),
        };
        stores.write_urls()?;
        Ok(stores)
    }

    /// A file with the URL of each of them. It holds passwords.
    pub fn urls(&self) -> PathBuf {
        self.folder.join("stores")
    }

    /// What histories call them.
    pub fn names(&self) -> Vec<&'static str> {
        let real = self.real.iter().flat_map(|_| ["postgres", "redis"]);
        std::iter::once("ledger").chain(real).collect()
    }

    /// The Postgres, to disturb it.
    pub fn postgres(&self) -> Option<&Postgres> {
        self.real.as_ref().map(|(postgres, _)| postgres)
    }

    /// The file of what a store took: of the ledger always, of the others since
    /// [`Stores::dump`].
    pub fn history(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.jsonl"))
    }

    /// Writes down what the servers took so far.
    pub async fn dump(&self) -> Result<()> {
        let Some((postgres, redis)) = &self.real else {
            return Ok(());
        };
        let client = postgres::Client::to(postgres.url(), &self.service)?;
        self.write("postgres", &client.history().await?)?;
        let client = redis::Client::to(redis.url(), &self.service)?;
        self.write("redis", &client.history().await?)
    }

    fn write(&self, name: &str, entries: &[Entry]) -> Result<()> {
        let path = self.history(name);
        let mut text = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut text, entry)?;
            text.push(b'\n');
        }
        std::fs::write(&path, text).step(|| format!("writing {}", path.display()))
    }

    fn write_urls(&self) -> Result<()> {
        let path = self.urls();
        let writing = || format!("writing {}", path.display());
        let mut options = std::fs::File::options();
        options.create(true).write(true).truncate(true).mode(0o600);
        let mut file = options.open(&path).step(writing)?;
        let mut urls = self.ledger.url();
        if let Some((postgres, redis)) = &self.real {
            urls = format!("{urls}\n{}\n{}", postgres.url(), redis.url());
        }
        writeln!(file, "{urls}").step(writing)
    }
}

async fn start_servers(service: &str) -> Result<(Postgres, Redis)> {
    let (postgres, redis) = tokio::try_join!(Postgres::start(), Redis::start())?;
    let client = postgres::Client::to(postgres.url(), service)?;
    client.create().await.step(|| "preparing Postgres")?;
    Ok((postgres, redis))
}
