//! The counters of one partition in one store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Fence, RaiseError};
use leasehold_core::fence::Claim;

use super::Work;
use crate::error::Error;
use crate::history::{self, Event, Line};
use crate::ledger::Verdict;
use crate::partitions::keys;
use crate::partitions::stores::Store;
use crate::workload::nanos;

/// A store that gives no answer is asked again after this.
const AGAIN: Duration = Duration::from_millis(100);

pub(super) struct Account {
    store: Arc<Store>,
    /// The counters as they were read, and counted up since.
    values: BTreeMap<String, u64>,
    /// A write that was sent and not answered: it may have been carried out, or may be yet.
    asked: Option<(String, u64)>,
}

impl Account {
    pub(super) fn of(store: Arc<Store>) -> Self {
        Self {
            store,
            values: BTreeMap::new(),
            asked: None,
        }
    }

    /// Writes one key after the other, as long as the guard answers yes.
    pub(super) async fn write(&mut self, work: &Work) {
        if self.load(work).await {
            let all: Vec<String> = self.values.keys().cloned().collect();
            let mut next = all.iter().cycle();
            let mut writes = work.ticks(work.partitions.stores.len());
            loop {
                writes.tick().await;
                if !self.write_once(work, next.next()).await {
                    break;
                }
            }
        }
        work.wait_for_the_end().await;
    }

    /// H9: from now on the store refuses whoever owned these keys before; only
    /// then is anything read. False if the guard failed or the token is stale.
    async fn load(&mut self, work: &Work) -> bool {
        // The positive control raises nothing.
        let raises = !work.partitions.options.unfenced;
        if raises && !self.raise(work).await {
            return false;
        }
        let mut values = BTreeMap::new();
        for key in keys::of(work.slot, work.partitions.options.keys) {
            let value = loop {
                match self.store.read(&key).await {
                    Ok(value) => break value,
                    Err(_) if work.guard.check().is_err() => return false,
                    Err(_) => tokio::time::sleep(AGAIN).await,
                }
            };
            values.insert(key, value);
        }
        self.values = values;
        self.asked = None;
        true
    }

    /// Raises the fence (H9), however long that takes. False if the guard failed or is stale.
    async fn raise(&self, work: &Work) -> bool {
        let fence = Raised {
            store: &self.store,
            work,
        };
        loop {
            match work.guard.raise(&fence).await {
                Ok(_) => return true,
                Err(RaiseError::Store(verdict @ Verdict::Refused(_))) => {
                    work.report(&self.store, Ok(verdict), None, work.line(Event::Refused));
                    return false;
                }
                Err(RaiseError::Store(_)) => tokio::time::sleep(AGAIN).await,
                Err(_) => return false,
            }
        }
    }

    /// One guarded write, or, without a key, one answer of the guard.
    async fn write_once(&mut self, work: &Work, key: Option<&String>) -> bool {
        let t = history::now();
        let Some(claim) = work.check() else {
            return false;
        };
        let line = Line {
            t,
            remaining: Some(nanos(work.guard.remaining())),
            ..work.line(Event::Held)
        };
        let Some(key) = key else {
            work.note(&line);
            work.guard.progress();
            return true;
        };
        let value = self.values.get(key).copied().unwrap_or_default() + 1;
        self.asked = Some((key.clone(), value));
        let fenced = !work.partitions.options.unfenced;
        let shown = work.shown(claim);
        let verdict = self.store.write(&shown, key, value, fenced).await;
        let taken = matches!(verdict, Ok(Verdict::Accepted));
        let refused = matches!(verdict, Ok(Verdict::Refused(_)));
        work.report(&self.store, verdict, Some((key, value)), line);
        work.guard.progress();
        if taken {
            self.asked = None;
            self.values.insert(key.clone(), value);
            return true;
        }
        if refused {
            self.asked = None;
            return false;
        }
        // Whether it was taken is not known: what the store says now counts.
        self.load(work).await
    }

    /// Nobody waits any longer: the checker must know that it may have arrived.
    pub(super) fn give_up_answer(&self, work: &Work) {
        if let Some((key, value)) = &self.asked {
            let dropped = Err(Error::new("not waited for"));
            let line = work.line(Event::Unavailable);
            work.report(&self.store, dropped, Some((key, *value)), line);
        }
    }

    /// A write that was decided before the loss and arrives only now. Not to the key whose last
    /// write may arrive as well: that would be the same value twice.
    pub(super) fn write_late(&self, work: &Work) {
        let asked = self.asked.as_ref().map(|(key, _)| key);
        let mut known = self.values.iter().filter(|(key, _)| Some(*key) != asked);
        let Some((key, value)) = known.next() else {
            return;
        };
        let (key, value) = (key.clone(), *value + 1);
        let store = Arc::clone(&self.store);
        let work = work.clone();
        let claim = Claim::new(work.guard.range(), work.guard.token());
        tokio::spawn(async move {
            let fenced = !work.partitions.options.unfenced;
            let shown = work.shown(claim);
            let verdict = store.write(&shown, &key, value, fenced).await;
            let line = work.line(Event::Refused);
            work.report(&store, verdict, Some((&key, value)), line);
        });
    }
}

/// The store as a fence that the library raises (H9).
struct Raised<'a> {
    store: &'a Store,
    work: &'a Work,
}

impl Fence for Raised<'_> {
    type Error = Verdict;

    async fn raise(&self, claim: Claim) -> Result<(), Verdict> {
        match self.store.raise(&self.work.shown(claim)).await {
            Ok(Verdict::Accepted) => Ok(()),
            Ok(verdict) => Err(verdict),
            Err(_) => Err(Verdict::Unavailable),
        }
    }
}
