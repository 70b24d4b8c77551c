//! The work of one partition: its keys are counters in guarded stores, which it
//! raises, reads and then counts up, one after the other, in each store by itself.

mod account;

use std::sync::Arc;

use futures::future::join_all;
use leasehold::PartitionGuard;
use leasehold_core::fence::Claim;

use super::journal::Journal;
use super::nanos;
use super::options::Options;
use crate::error::Result;
use crate::history::{self, Event, Line};
use crate::ledger::Verdict;
use crate::partitions::keys::Slot;
use crate::partitions::stores::{Shown, Store};
use account::Account;

/// What all partitions of a process share.
#[derive(Clone)]
pub(super) struct Partitions {
    pub(super) journal: Journal,
    pub(super) stores: Arc<[Arc<Store>]>,
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
        let stores = self.stores.iter();
        let mut tenure = Tenure {
            accounts: stores.map(|store| Account::of(Arc::clone(store))).collect(),
            work: Work {
                partitions: self,
                guard: guard.clone(),
                slot,
            },
            drained: false,
        };
        tenure.work.begin();
        tokio::select! {
            // What was asked of a store may have arrived; nobody waits for the answer.
            () = tenure.write() => {}
            () = guard.draining() => {}
        }
        tenure.drain().await;
    }
}

/// One ownership in the history: its first line when the work begins, its last
/// when the work ends or is dropped.
struct Tenure {
    work: Work,
    accounts: Vec<Account>,
    drained: bool,
}

impl Tenure {
    /// In all stores at once, as long as the guard answers yes. No store waits for another.
    async fn write(&mut self) {
        let Self { work, accounts, .. } = self;
        let work = &*work;
        if accounts.is_empty() {
            return work.hold().await;
        }
        join_all(accounts.iter_mut().map(|account| account.write(work))).await;
    }

    /// Work that was begun before goes on, and then ends.
    async fn drain(&mut self) {
        self.work.note(&self.work.line(Event::Draining));
        self.give_up_answers();
        let wanted = self.work.partitions.options.drain_work;
        if !wanted.is_zero() {
            // Either way the drain is over.
            let _ = tokio::time::timeout(wanted, self.write()).await;
        }
        self.drained = self.work.guard.check().is_ok();
    }

    /// Requests that were dropped may have arrived.
    fn give_up_answers(&self) {
        for account in &self.accounts {
            account.give_up_answer(&self.work);
        }
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.give_up_answers();
        let event = if self.drained {
            Event::Drained
        } else {
            Event::Lost
        };
        let reason = match self.work.guard.check() {
            Ok(_) => String::new(),
            Err(lost) => lost.to_string(),
        };
        self.work.note(&Line {
            reason,
            ..self.work.line(event)
        });
        if !self.drained && self.work.partitions.options.late_write {
            for account in &self.accounts {
                account.write_late(&self.work);
            }
        }
    }
}

/// What the stores of one tenure share.
#[derive(Clone)]
struct Work {
    partitions: Partitions,
    guard: PartitionGuard,
    slot: Slot,
}

impl Work {
    fn begin(&self) {
        let remaining = Some(nanos(self.guard.remaining()));
        self.note(&Line {
            remaining,
            ..self.line(Event::Gained)
        });
    }

    /// Without a store: answers of the guard, as long as it says yes.
    async fn hold(&self) {
        let mut answers = self.ticks(1);
        loop {
            answers.tick().await;
            let t = history::now();
            if self.check().is_none() {
                return self.wait_for_the_end().await;
            }
            let remaining = Some(nanos(self.guard.remaining()));
            self.note(&Line {
                t,
                remaining,
                ..self.line(Event::Held)
            });
            self.guard.progress();
        }
    }

    /// Each of so many stores is written that much less often.
    fn ticks(&self, stores: usize) -> tokio::time::Interval {
        let stores = u32::try_from(stores).unwrap_or(u32::MAX);
        let mut ticks = tokio::time::interval(self.partitions.options.write_every * stores);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks
    }

    /// The guard has failed, or a store has seen a later owner: the loss is on its way.
    async fn wait_for_the_end(&self) {
        self.guard.lost().await;
    }

    /// The claim for one write; none, and a line, if the guard says no.
    fn check(&self) -> Option<Claim> {
        match self.guard.claim() {
            Ok(claim) => Some(claim),
            Err(lost) => {
                self.note(&Line {
                    reason: lost.to_string(),
                    ..self.line(Event::CheckFailed)
                });
                None
            }
        }
    }

    fn shown(&self, claim: Claim) -> Shown {
        Shown {
            slot: self.slot,
            claim,
            writer: self.partitions.journal.identity().to_owned(),
        }
    }

    /// What came of a request to a store.
    fn report(
        &self,
        store: &Store,
        verdict: Result<Verdict>,
        set: Option<(&str, u64)>,
        line: Line,
    ) {
        let (event, reason) = match verdict {
            Ok(Verdict::Accepted) => (Event::Write, String::new()),
            Ok(Verdict::Refused(stale)) => (Event::Refused, stale.to_string()),
            Ok(Verdict::Unavailable) => (Event::Unavailable, "no answer".to_owned()),
            Err(error) => (Event::Unavailable, error.to_string()),
        };
        self.note(&Line {
            event,
            store: store.name().to_owned(),
            key: set.map(|(key, _)| key.to_owned()),
            value: set.map(|(_, value)| value),
            reason,
            ..line
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
