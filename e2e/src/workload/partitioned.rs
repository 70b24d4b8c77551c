//! The work of one partition: its keys are counters in the guarded store, which
//! it raises, reads and then counts up, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Claim, Fence, PartitionGuard, RaiseError};
use leasehold_core::id::FencingToken;

use super::journal::Journal;
use super::nanos;
use super::options::Options;
use crate::error::Result;
use crate::history::{self, Event, Line};
use crate::ledger::Verdict;
use crate::partitions::keys::{self, Slot};
use crate::partitions::ledger::Client;

/// A store that gives no answer is asked again after this.
const AGAIN: Duration = Duration::from_millis(100);

/// What all partitions of a process share.
#[derive(Clone)]
pub(super) struct Partitions {
    pub(super) journal: Journal,
    pub(super) store: Option<Arc<Client>>,
    pub(super) options: Arc<Options>,
}

impl Partitions {
    /// Works until another member takes the partition over; dropped when it is lost.
    pub(super) async fn run(self, guard: PartitionGuard) {
        let layout = guard.layout();
        let slot = Slot {
            generation: layout.generation(),
            count: layout.count(),
            partition: guard.partition().number(),
        };
        let mut tenure = Tenure {
            partitions: self,
            guard: guard.clone(),
            slot,
            values: BTreeMap::new(),
            drained: false,
        };
        tenure.begin();
        tokio::select! {
            // What was asked of the store may have arrived; nobody waits for the answer.
            () = tenure.write() => {}
            () = guard.draining() => {}
        }
        tenure.drain().await;
    }
}

/// One ownership in the history: its first line when the work begins, its last
/// when the work ends or is dropped.
struct Tenure {
    partitions: Partitions,
    guard: PartitionGuard,
    slot: Slot,
    /// The counters as they were read, and counted up since.
    values: BTreeMap<String, u64>,
    drained: bool,
}

impl Tenure {
    fn begin(&self) {
        let remaining = Some(nanos(self.guard.remaining()));
        self.note(&Line {
            remaining,
            ..self.line(Event::Gained)
        });
    }

    /// Writes one key after the other, as long as the guard answers yes.
    async fn write(&mut self) {
        if !self.load().await {
            return self.wait_for_the_end().await;
        }
        let all: Vec<String> = self.values.keys().cloned().collect();
        let mut writes = tokio::time::interval(self.partitions.options.write_every);
        writes.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut next = all.iter().cycle();
        loop {
            writes.tick().await;
            if !self.write_once(next.next()).await {
                return self.wait_for_the_end().await;
            }
        }
    }

    /// The guard has failed, or the store has seen a later owner: the loss is on its way.
    async fn wait_for_the_end(&self) {
        self.guard.lost().await;
    }

    /// H9: from now on the store refuses whoever owned these keys before; only
    /// then is anything read. False if the guard failed or the token is stale.
    async fn load(&mut self) -> bool {
        let Some(store) = self.partitions.store.clone() else {
            return true;
        };
        let fence = Shown {
            store: &store,
            slot: self.slot,
            writer: self.partitions.journal.identity(),
        };
        // The positive control raises nothing.
        let raises = !self.partitions.options.unfenced;
        if raises && !self.raise(&fence).await {
            return false;
        }
        for key in keys::of(self.slot, self.partitions.options.keys) {
            let value = loop {
                match store.read(&key).await {
                    Ok(value) => break value,
                    Err(_) if self.guard.check().is_err() => return false,
                    Err(_) => tokio::time::sleep(AGAIN).await,
                }
            };
            self.values.insert(key, value);
        }
        true
    }

    /// Raises the fence (H9), however long that takes. False if the guard failed or is stale.
    async fn raise(&self, fence: &Shown<'_>) -> bool {
        loop {
            match self.guard.raise(fence).await {
                Ok(_) => return true,
                Err(RaiseError::Store(verdict @ Verdict::Refused(_))) => {
                    self.report(history::now(), None, Ok(verdict), None);
                    return false;
                }
                Err(RaiseError::Store(_)) => tokio::time::sleep(AGAIN).await,
                Err(_) => return false,
            }
        }
    }

    /// One guarded write, or, without a key, one answer of the guard.
    async fn write_once(&mut self, key: Option<&String>) -> bool {
        let asked = history::now();
        let token = match self.guard.check() {
            Ok(token) => token,
            Err(lost) => {
                self.note(&Line {
                    reason: lost.to_string(),
                    ..self.line(Event::CheckFailed)
                });
                return false;
            }
        };
        let remaining = Some(nanos(self.guard.remaining()));
        let stored = self.partitions.store.clone().zip(key);
        let Some((store, key)) = stored else {
            self.note(&Line {
                t: asked,
                remaining,
                ..self.line(Event::Held)
            });
            self.guard.progress();
            return true;
        };
        let value = self.values.get(key).copied().unwrap_or_default() + 1;
        let verdict = self.put(&store, token, key, value).await;
        let taken = matches!(verdict, Ok(Verdict::Accepted));
        let refused = matches!(verdict, Ok(Verdict::Refused(_)));
        self.report(asked, remaining, verdict, Some((key, value)));
        self.guard.progress();
        if taken {
            self.values.insert(key.clone(), value);
            return true;
        }
        // Whether it was taken is not known: what the store says now counts.
        !refused && self.load().await
    }

    async fn put(
        &self,
        store: &Client,
        token: FencingToken,
        key: &str,
        value: u64,
    ) -> Result<Verdict> {
        let writer = self.partitions.journal.identity();
        let fenced = !self.partitions.options.unfenced;
        store
            .write(self.slot, token, writer, key, value, fenced)
            .await
    }

    /// Work that was begun before goes on, and then ends.
    async fn drain(&mut self) {
        self.note(&self.line(Event::Draining));
        let wanted = self.partitions.options.drain_work;
        if !wanted.is_zero() {
            // Either way the drain is over.
            let _ = tokio::time::timeout(wanted, self.write()).await;
        }
        self.drained = self.guard.check().is_ok();
    }

    fn report(
        &self,
        asked: u64,
        remaining: Option<u64>,
        verdict: Result<Verdict>,
        set: Option<(&String, u64)>,
    ) {
        let (event, reason) = match verdict {
            Ok(Verdict::Accepted) => (Event::Write, String::new()),
            Ok(Verdict::Refused(stale)) => (Event::Refused, stale.to_string()),
            Ok(Verdict::Unavailable) => (Event::Unavailable, "no answer".to_owned()),
            Err(error) => (Event::Unavailable, error.to_string()),
        };
        self.note(&Line {
            t: asked,
            remaining,
            key: set.map(|(key, _)| key.clone()),
            value: set.map(|(_, value)| value),
            reason,
            ..self.line(event)
        });
    }

    fn line(&self, event: Event) -> Line {
        let journal = &self.partitions.journal;
        Line {
            slot: Some(self.slot),
            ..journal.of(event, self.guard.incarnation(), self.guard.token())
        }
    }

    fn note(&self, line: &Line) {
        self.partitions.journal.write(line);
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        let event = if self.drained {
            Event::Drained
        } else {
            Event::Lost
        };
        let reason = match self.guard.check() {
            Ok(_) => String::new(),
            Err(lost) => lost.to_string(),
        };
        self.note(&Line {
            reason,
            ..self.line(event)
        });
        if !self.drained && self.partitions.options.late_write {
            self.write_late();
        }
    }
}

impl Tenure {
    /// A write that was decided before the loss and arrives only now.
    fn write_late(&self) {
        let Some(store) = self.partitions.store.clone() else {
            return;
        };
        let Some((key, value)) = self.values.iter().next() else {
            return;
        };
        let (key, value) = (key.clone(), *value + 1);
        let late = Late {
            partitions: self.partitions.clone(),
            line: self.line(Event::Refused),
            slot: self.slot,
            token: self.guard.token(),
        };
        tokio::spawn(async move { late.write(&store, key, value).await });
    }
}

/// What a late write needs of its tenure.
struct Late {
    partitions: Partitions,
    line: Line,
    slot: Slot,
    token: FencingToken,
}

impl Late {
    async fn write(self, store: &Client, key: String, value: u64) {
        let writer = self.partitions.journal.identity();
        let fenced = !self.partitions.options.unfenced;
        let asked = store.write(self.slot, self.token, writer, &key, value, fenced);
        let (event, reason) = match asked.await {
            Ok(Verdict::Accepted) => (Event::Write, "late".to_owned()),
            Ok(Verdict::Refused(stale)) => (Event::Refused, stale.to_string()),
            Ok(Verdict::Unavailable) | Err(_) => return,
        };
        self.partitions.journal.write(&Line {
            t: history::now(),
            event,
            reason,
            key: Some(key),
            value: Some(value),
            ..self.line
        });
    }
}

/// The store as a fence that the library raises (H9). Its fences are kept for
/// ranges of hashes, so raising a range reaches every parent.
struct Shown<'a> {
    store: &'a Client,
    slot: Slot,
    writer: &'a str,
}

impl Fence for Shown<'_> {
    type Error = Verdict;

    async fn raise(&self, claim: Claim) -> Result<(), Verdict> {
        match self.store.raise(self.slot, claim.token, self.writer).await {
            Ok(Verdict::Accepted) => Ok(()),
            Ok(verdict) => Err(verdict),
            Err(_) => Err(Verdict::Unavailable),
        }
    }
}
