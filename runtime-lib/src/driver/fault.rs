//! A store that fails on demand: for tests of what the election makes of it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::election::{Purpose, Write};
use leasehold_core::lease::Versioned;
use leasehold_core::partition::Listing;
use leasehold_core::time::Duration;

use super::{Answer, Feed, LeaseStore, Marks, MemberFeed, StoreError, WriteFailed};
use crate::key::LeaseKey;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is not carried out, and the caller learns why.
    Refuse(StoreError),
    /// The write is carried out, but its answer is lost (E2).
    LoseAnswer,
    /// No answer comes before the request's limit; nothing is carried out.
    Hang,
}

type Meets = Box<dyn Fn(&LeaseKey) -> bool + Send + Sync>;

/// Passes requests on to another store, until told to fail.
pub struct FaultStore {
    inner: Arc<dyn LeaseStore>,
    writes: Mutex<Option<Fault>>,
    reads: Mutex<Option<Fault>>,
    meets: Mutex<Option<Meets>>,
    delay_millis: AtomicU64,
    renewals: AtomicUsize,
    requests: AtomicUsize,
}

impl FaultStore {
    /// A store that passes everything on.
    pub fn new(inner: Arc<dyn LeaseStore>) -> Self {
        Self {
            inner,
            writes: Mutex::default(),
            reads: Mutex::default(),
            meets: Mutex::default(),
            delay_millis: AtomicU64::new(0),
            renewals: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
        }
    }

    /// From now on, every write meets this fault; `None` heals.
    pub fn fail_writes(&self, fault: Option<Fault>) {
        *self.writes.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// From now on, every read and list meets this fault; `None` heals.
    pub fn fail_reads(&self, fault: Option<Fault>) {
        *self.reads.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// From now on, only requests for these keys meet a fault; a list counts for the key it is for.
    pub fn only(&self, keys: impl Fn(&LeaseKey) -> bool + Send + Sync + 'static) {
        *self.meets.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(keys));
    }

    /// From now on, every request takes this long.
    pub fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.delay_millis.store(millis, Ordering::SeqCst);
    }

    /// Renewals that were carried out.
    pub fn renewals(&self) -> usize {
        self.renewals.load(Ordering::SeqCst)
    }

    /// Requests that were asked for.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    async fn wait(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let millis = self.delay_millis.load(Ordering::SeqCst);
        if millis > 0 {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }

    fn fault(&self, cell: &Mutex<Option<Fault>>, key: &LeaseKey) -> Option<Fault> {
        let meets = self.meets.lock().unwrap_or_else(PoisonError::into_inner);
        if meets.as_ref().is_some_and(|meets| !meets(key)) {
            return None;
        }
        cell.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a read or a list meets.
    async fn reading(
        &self,
        verb: &'static str,
        key: &LeaseKey,
        limit: Duration,
    ) -> Result<(), StoreError> {
        self.wait().await;
        match self.fault(&self.reads, key) {
            None => Ok(()),
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::LoseAnswer | Fault::Hang) => {
                tokio::time::sleep(limit).await;
                Err(lost(verb, limit))
            }
        }
    }
}

fn lost(verb: &'static str, limit: Duration) -> StoreError {
    StoreError::TimedOut { verb, limit }
}

impl LeaseStore for FaultStore {
    fn read<'a>(
        &'a self,
        key: &'a LeaseKey,
        limit: Duration,
    ) -> Answer<'a, Result<Option<Versioned>, StoreError>> {
        Box::pin(async move {
            self.reading("get", key, limit).await?;
            self.inner.read(key, limit).await
        })
    }

    fn list<'a>(
        &'a self,
        key: &'a LeaseKey,
        limit: Duration,
    ) -> Answer<'a, Result<Listing, StoreError>> {
        Box::pin(async move {
            self.reading("list", key, limit).await?;
            self.inner.list(key, limit).await
        })
    }

    fn write<'a>(
        &'a self,
        key: &'a LeaseKey,
        write: &'a Write,
        marks: &'a Marks,
        limit: Duration,
    ) -> Answer<'a, Result<Versioned, WriteFailed>> {
        Box::pin(async move {
            self.wait().await;
            let fault = self.fault(&self.writes, key);
            match fault {
                Some(Fault::Refuse(error)) => return Err(WriteFailed::Failed(error)),
                Some(Fault::Hang) => {
                    tokio::time::sleep(limit).await;
                    return Err(WriteFailed::Failed(lost("update", limit)));
                }
                None | Some(Fault::LoseAnswer) => {}
            }
            let written = self.inner.write(key, write, marks, limit).await;
            if written.is_ok() && write.purpose == Purpose::Renew {
                self.renewals.fetch_add(1, Ordering::SeqCst);
            }
            if fault == Some(Fault::LoseAnswer) {
                tokio::time::sleep(limit).await;
                return Err(WriteFailed::Failed(lost("update", limit)));
            }
            written
        })
    }

    fn watch(&self, key: &LeaseKey) -> Feed {
        self.inner.watch(key)
    }

    fn watch_members(&self, key: &LeaseKey) -> MemberFeed {
        self.inner.watch_members(key)
    }
}
