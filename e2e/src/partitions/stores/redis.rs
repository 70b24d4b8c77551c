//! Counters in a hash of Redis, guarded by the library's fences in the same server.

use leasehold::Fence as _;
use leasehold::fence::{Commands, RedisFences};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use super::{ANSWER_MAX, Shown, verdict};
use crate::error::{Result, Step};
use crate::ledger::Verdict;
use crate::partitions::ledger::Entry;

/// A client with one connection, made again when it breaks.
pub struct Client {
    connection: ConnectionManager,
    fences: RedisFences,
    counters: String,
    history: String,
}

impl Client {
    /// A client of the Redis with this URL.
    pub fn to(url: &str, service: &str) -> Result<Self> {
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(ANSWER_MAX))
            .set_connection_timeout(Some(ANSWER_MAX));
        let connection = redis::Client::open(url)?.get_connection_manager_lazy(config)?;
        Ok(Self {
            fences: RedisFences::new(connection.clone(), service)?,
            connection,
            counters: format!("{{{service}}}:counters"),
            history: format!("{{{service}}}:history"),
        })
    }

    pub(super) async fn raise(&self, shown: &Shown) -> Result<Verdict> {
        let verdict = verdict(self.fences.raise(shown.claim).await)?;
        if verdict == Verdict::Accepted {
            // Later than the raise: whatever follows it here came after it.
            let entry = serde_json::to_string(&shown.entry(None))?;
            let mut push = redis::cmd("RPUSH");
            push.arg(&self.history).arg(entry);
            let _: u64 = push.query_async(&mut self.connection.clone()).await?;
        }
        Ok(verdict)
    }

    pub(super) async fn read(&self, key: &str) -> Result<u64> {
        let mut get = redis::cmd("HGET");
        get.arg(&self.counters).arg(key);
        let found: Option<u64> = get.query_async(&mut self.connection.clone()).await?;
        Ok(found.unwrap_or_default())
    }

    /// Nothing else happens between the check, the counter and the history.
    pub(super) async fn write(
        &self,
        shown: &Shown,
        key: &str,
        value: u64,
        fenced: bool,
    ) -> Result<Verdict> {
        let value = value.to_string();
        let entry = serde_json::to_string(&shown.entry(Some((key, value.parse()?))))?;
        if fenced {
            let commands = Commands::new()
                .command("HSET", &[&self.counters], &[key, &value])
                .command("RPUSH", &[&self.history], &[&entry]);
            let written = self.fences.write::<(u64, u64)>(shown.claim, &commands);
            return verdict(written.await.map(|_| ()));
        }
        let mut commands = redis::pipe();
        commands.atomic();
        commands
            .cmd("HSET")
            .arg(&self.counters)
            .arg(key)
            .arg(&value);
        commands.cmd("RPUSH").arg(&self.history).arg(&entry);
        let _: (u64, u64) = commands.query_async(&mut self.connection.clone()).await?;
        Ok(Verdict::Accepted)
    }

    /// Everything it took, in its own order.
    pub async fn history(&self) -> Result<Vec<Entry>> {
        const PAGE: usize = 10_000; // one answer of a Redis that others use as well
        let mut entries = Vec::new();
        loop {
            let mut page = redis::cmd("LRANGE");
            let last = entries.len() + PAGE - 1;
            page.arg(&self.history).arg(entries.len()).arg(last);
            let lines: Vec<String> = page.query_async(&mut self.connection.clone()).await?;
            for line in &lines {
                let entry = serde_json::from_str(line);
                entries.push(entry.step(|| format!("history of Redis, entry {line:?}"))?);
            }
            if lines.len() < PAGE {
                return Ok(entries);
            }
        }
    }
}
