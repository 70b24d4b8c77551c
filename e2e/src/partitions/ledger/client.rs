//! The way from a pod to the keyed ledger.

use std::time::Duration;

use leasehold_core::fence::Stale;
use leasehold_core::id::FencingToken;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::super::keys::Slot;
use super::{Answer, Request, Shown};
use crate::error::{Error, Result, Step};
use crate::ledger::Verdict;

/// A request takes no longer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A client with one connection, made again when it breaks.
#[derive(Debug)]
pub struct Client {
    address: String,
    connection: Mutex<Option<BufStream<TcpStream>>>,
}

impl Client {
    /// A client of the ledger with this URL.
    pub fn to(url: &str) -> Result<Self> {
        let address = url.strip_prefix("ledger://").ok_or_else(|| {
            Error::new(format!("found {url:?}, allowed is ledger://<host>:<port>"))
        })?;
        Ok(Self {
            address: address.to_owned(),
            connection: Mutex::default(),
        })
    }

    /// Shows the token for all hashes of the slot (H9).
    pub async fn raise(&self, slot: Slot, token: FencingToken, writer: &str) -> Result<Verdict> {
        let shown = shown(slot, token, writer);
        verdict(self.ask(&Request::Raise(shown)).await?, token)
    }

    /// The value of a key; 0 if it was never written.
    pub async fn read(&self, key: &str) -> Result<u64> {
        match self.ask(&Request::Read(key.to_owned())).await? {
            Answer::Value(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    /// Sets a key.
    pub async fn write(
        &self,
        slot: Slot,
        token: FencingToken,
        writer: &str,
        key: &str,
        value: u64,
        fenced: bool,
    ) -> Result<Verdict> {
        let request = Request::Write {
            shown: shown(slot, token, writer),
            key: key.to_owned(),
            value,
            fenced,
        };
        verdict(self.ask(&request).await?, token)
    }

    async fn ask(&self, request: &Request) -> Result<Answer> {
        let asking = || format!("asking the ledger at {}", self.address);
        let mut place = self.connection.lock().await;
        // Whoever is dropped in the middle leaves no connection with half an answer in it.
        let connection = place.take();
        let work = async {
            let mut connection = if let Some(connection) = connection {
                connection
            } else {
                let stream = TcpStream::connect(&self.address).await?;
                stream.set_nodelay(true)?;
                BufStream::new(stream)
            };
            let mut text = serde_json::to_vec(request)?;
            text.push(b'\n');
            connection.write_all(&text).await?;
            connection.flush().await?;
            let mut line = String::new();
            connection.read_line(&mut line).await?;
            let answer: Answer = serde_json::from_str(&line)?;
            Ok::<_, Error>((connection, answer))
        };
        let answered = tokio::time::timeout(ANSWER_MAX, work).await.step(asking)?;
        let (connection, answer) = answered.step(asking)?;
        *place = Some(connection);
        Ok(answer)
    }
}

fn shown(slot: Slot, token: FencingToken, writer: &str) -> Shown {
    Shown {
        slot,
        token: token.to_string(),
        writer: writer.to_owned(),
    }
}

fn verdict(answer: Answer, shown: FencingToken) -> Result<Verdict> {
    match answer {
        Answer::Taken => Ok(Verdict::Accepted),
        Answer::Stale(highest) => Ok(Verdict::Refused(Stale {
            shown,
            highest: highest.parse()?,
        })),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(answer: &Answer) -> Error {
    Error::new(format!("the ledger answered {answer:?}"))
}
