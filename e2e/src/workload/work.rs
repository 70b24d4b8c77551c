//! The work of a leader: guarded writes into the ledger, and an answer of the
//! guard written down as often as asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Claim, Fence, Leadership, RaiseError};
use leasehold_core::id::FencingToken;

use super::journal::Journal;
use super::nanos;
use super::options::{Hang, Options};
use crate::history::{self, Event, Line};
use crate::ledger::{Ledger, Verdict};

/// The work of one service; shared by all its leaderships.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) journal: Journal,
    pub(super) ledger: Option<Ledger>,
    pub(super) options: Arc<Options>,
    /// Counts writes; what is written is its value.
    pub(super) counter: Arc<AtomicU64>,
    /// Set by SIGUSR1.
    pub(super) hang: Arc<AtomicBool>,
}

impl Work {
    /// Works until the shutdown begins; dropped when leadership is lost.
    pub(super) async fn run(self, leadership: Leadership) {
        let mut tenure = Tenure::begin(&self, &leadership);
        if let Some(ledger) = &self.ledger {
            // H9: from now on the store refuses whoever led before.
            match leadership
                .raise(&Shown {
                    ledger,
                    writer: self.journal.identity(),
                })
                .await
            {
                Ok(_) | Err(RaiseError::Lost(_)) => {}
                Err(RaiseError::Store(verdict)) => self.report(&leadership, Ok(verdict), None),
                Err(_) => return,
            }
        }
        let mut writes = tokio::time::interval(self.options.write_every);
        writes.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = leadership.draining() => break,
                _ = writes.tick() => {}
            }
            self.hang_if_asked().await;
            if !self.write_once(&leadership) {
                return;
            }
        }
        self.journal.write(&self.journal.of(
            Event::Draining,
            leadership.term(),
            leadership.token(),
        ));
        self.finish_work_in_flight(&leadership).await;
        tenure.drained();
    }

    /// One guarded write, if the guard still answers yes.
    fn write_once(&self, leadership: &Leadership) -> bool {
        let asked = history::now();
        match leadership.check() {
            Ok(token) => {
                let line = self.journal.of(Event::Held, leadership.term(), token);
                let remaining = Some(nanos(leadership.remaining()));
                self.journal.write(&Line {
                    t: asked,
                    remaining,
                    ..line
                });
                if let Some(ledger) = &self.ledger {
                    let value = self.counter.fetch_add(1, Ordering::Relaxed);
                    self.append(ledger, leadership, token, value);
                }
                leadership.progress();
                true
            }
            Err(lost) => {
                let line =
                    self.journal
                        .of(Event::CheckFailed, leadership.term(), leadership.token());
                self.journal.write(&Line {
                    reason: lost.to_string(),
                    ..line
                });
                false
            }
        }
    }

    fn append(&self, ledger: &Ledger, leadership: &Leadership, token: FencingToken, value: u64) {
        let identity = self.journal.identity();
        let verdict = if self.options.unfenced {
            ledger.append_unfenced(token, identity, value)
        } else {
            ledger.append(token, identity, value)
        };
        self.report(leadership, verdict, Some(value));
    }

    fn report(&self, leadership: &Leadership, verdict: crate::Result<Verdict>, value: Option<u64>) {
        let (event, reason) = match verdict {
            Ok(Verdict::Accepted) => (Event::Write, String::new()),
            Ok(Verdict::Refused(stale)) => (Event::Refused, stale.to_string()),
            Ok(Verdict::Unavailable) => (Event::Unavailable, "the ledger is busy".to_owned()),
            Err(error) => (Event::Unavailable, error.to_string()),
        };
        let line = self
            .journal
            .of(event, leadership.term(), leadership.token());
        self.journal.write(&Line {
            value,
            reason,
            ..line
        });
    }

    /// Work that was begun before the shutdown goes on under the lease (E10).
    async fn finish_work_in_flight(&self, leadership: &Leadership) {
        let begun = history::now();
        while history::now() - begun < nanos(self.options.drain_work) {
            tokio::time::sleep(self.options.write_every.min(self.options.drain_work)).await;
            if !self.write_once(leadership) {
                return;
            }
        }
    }

    async fn hang_if_asked(&self) {
        if !self.hang.load(Ordering::Relaxed) {
            return;
        }
        self.journal.write(&self.journal.line(Event::Hung));
        match self.options.hang {
            Some(Hang::Wait) => std::future::pending().await,
            Some(Hang::Block) => loop {
                std::thread::park();
            },
            None => {}
        }
    }
}

/// The ledger as a fence that the library raises (H9).
struct Shown<'a> {
    ledger: &'a Ledger,
    writer: &'a str,
}

impl Fence for Shown<'_> {
    type Error = Verdict;

    async fn raise(&self, claim: Claim) -> Result<(), Verdict> {
        match self.ledger.raise(claim.token, self.writer) {
            Ok(Verdict::Accepted) => Ok(()),
            Ok(verdict) => Err(verdict),
            Err(_) => Err(Verdict::Unavailable),
        }
    }
}

/// One leadership in the history: its first line when the work begins, its
/// last when the work ends or is dropped.
struct Tenure {
    work: Work,
    leadership: Leadership,
    ended: Arc<AtomicBool>,
    /// Asks the guard from outside the executor, if that is wanted.
    asking: Option<std::thread::Thread>,
    drained: bool,
}

impl Tenure {
    fn begin(work: &Work, leadership: &Leadership) -> Self {
        let asked = history::now();
        let line = work
            .journal
            .of(Event::Gained, leadership.term(), leadership.token());
        let remaining = Some(nanos(leadership.remaining()));
        work.journal.write(&Line {
            t: asked,
            remaining,
            ..line
        });
        let ended = Arc::new(AtomicBool::new(false));
        let asking = work.options.check_every.map(|every| {
            watch_guard(
                work.journal.clone(),
                leadership.clone(),
                every,
                Arc::clone(&ended),
            )
        });
        Self {
            work: work.clone(),
            leadership: leadership.clone(),
            ended,
            asking,
            drained: false,
        }
    }

    fn drained(&mut self) {
        self.drained = true;
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(asking) = &self.asking {
            asking.unpark();
        }
        let event = if self.drained {
            Event::Drained
        } else {
            Event::Lost
        };
        let journal = &self.work.journal;
        let (term, token) = (self.leadership.term(), self.leadership.token());
        let reason = match self.leadership.check() {
            Ok(_) => String::new(),
            Err(lost) => lost.to_string(),
        };
        journal.write(&Line {
            reason,
            ..journal.of(event, term, token)
        });
        if !self.drained
            && self.work.options.late_write
            && let Some(ledger) = &self.work.ledger
        {
            // A write that was decided before the loss and arrives only now.
            let value = self.work.counter.fetch_add(1, Ordering::Relaxed);
            self.work.append(ledger, &self.leadership, token, value);
        }
    }
}

/// Asks the guard from a thread of its own until it says no: what a service
/// that acts outside the executor would see, also right after a pause (E9).
fn watch_guard(
    journal: Journal,
    leadership: Leadership,
    every: Duration,
    ended: Arc<AtomicBool>,
) -> std::thread::Thread {
    let asking = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            let asked = history::now();
            match leadership.check() {
                Ok(token) => {
                    let line = journal.of(Event::Held, leadership.term(), token);
                    let remaining = Some(nanos(leadership.remaining()));
                    journal.write(&Line {
                        t: asked,
                        remaining,
                        ..line
                    });
                }
                Err(lost) => {
                    let line =
                        journal.of(Event::CheckFailed, leadership.term(), leadership.token());
                    journal.write(&Line {
                        t: asked,
                        reason: lost.to_string(),
                        ..line
                    });
                    return;
                }
            }
            std::thread::park_timeout(every);
        }
    });
    asking.thread().clone()
}
