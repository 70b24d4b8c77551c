//! What the operator believes about one Lease: its newest reading, since when, and the terms it saw.
//!
//! Every revision that a watch delivers passes through [`LeaseBelief::note`] in order, so no term is
//! lost to a cache that only knows the newest one (R3). Expiry is judged by the local clock since
//! receipt alone; a remote time is never compared (E3).

use std::{collections::VecDeque, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use leasehold_core::election::observer::{Change, Ended, Observer};
use tokio::time::Instant;

use super::record::{LeaseReading, shortened};

/// How many terms are kept for a reconcile that is late (a standby keeps them too).
const LOG_LENGTH_MAX: usize = 64;

/// The newest reading of one Lease, and what led to it.
#[derive(Clone, Debug)]
pub struct LeaseBelief {
    reading: Option<LeaseReading>,
    received: Instant,
    lapse: Lapse,
    vacated: Option<Ending>,
    observer: Observer,
    log: VecDeque<Sighting>,
}

/// Whether the holder still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// Renewed in time, as far as we know.
    No,
    /// No news for the whole duration; the watch may be deaf, so a read must confirm it.
    Suspected,
    /// A read showed the same revision after the whole duration.
    Confirmed,
}

/// How news of a Lease came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// From a LIST or GET: revisions before it may have been missed.
    ByList,
    /// From a watch: the very next revision.
    ByWatch,
}

/// One term as it was first seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// uid of the Lease.
    pub uid: String,
    /// Number of the leadership.
    pub term: i64,
    /// Identity of the holder, never kilobytes of it.
    pub holder: String,
    /// When the holder says it began.
    pub since: Option<Time>,
    /// Who held it before, if seen.
    pub from: Option<String>,
    /// How the leadership before ended, as far as it was seen.
    pub ending: Ending,
    /// Identity and term of the last release that the Lease tells of (E5).
    pub released: Option<(String, i64)>,
    /// How it came in.
    pub heard: Heard,
    /// When it came in.
    pub at: Instant,
}

/// How a leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its holder gave it back.
    Released,
    /// It was not renewed for its duration.
    Expired,
    /// The Lease was deleted.
    Deleted,
    /// Somebody other than the holder emptied it.
    Emptied,
    /// Somebody wrote another holder while it was held.
    Overwritten,
    /// The same pod began anew: restarted, or lost and regained.
    Restarted,
    /// Nobody saw it end.
    Unknown,
}

impl Ending {
    /// The word in status and Events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Deleted => "deleted",
            Self::Emptied => "emptied",
            Self::Overwritten => "overwritten",
            Self::Restarted => "restarted",
            Self::Unknown => "unknown",
        }
    }
}

/// What a Lease means now, for people.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseState {
    /// There is none.
    Absent,
    /// There is one without a holder; how the last leadership ended.
    Vacant(Ending),
    /// Somebody holds it.
    Held,
    /// Its holder did not renew it for its duration.
    Expired,
    /// It holds what no candidate writes.
    Malformed(String),
}

impl LeaseBelief {
    /// Nothing heard yet.
    pub fn new(now: Instant) -> Self {
        Self {
            reading: None,
            received: now,
            lapse: Lapse::No,
            vacated: None,
            observer: Observer::new(),
            log: VecDeque::new(),
        }
    }

    /// Takes in the next reading (`None`: deleted); true if a reconcile should look at it.
    pub fn note(&mut self, reading: Option<LeaseReading>, heard: Heard, now: Instant) -> bool {
        let is_news = match (&self.reading, &reading) {
            (Some(old), Some(new)) => (&old.uid, &old.revision) != (&new.uid, &new.revision),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        if !is_news {
            return false;
        }
        self.note_changes(reading.as_ref(), heard, now);
        let matters = self.lapse != Lapse::No || differs(self.reading.as_ref(), reading.as_ref());
        self.reading = reading;
        self.received = now;
        self.lapse = Lapse::No;
        matters
    }

    fn note_changes(&mut self, new: Option<&LeaseReading>, heard: Heard, now: Instant) {
        if new.is_some_and(|new| new.problem.is_some() || new.state.is_none()) {
            return; // a malformed record names no leadership
        }
        let taken_over = self.ending_of_takeover(heard, now);
        for change in self.observer.note(new.and_then(|new| new.state.as_ref())) {
            match change {
                Change::Vacated { ended, .. } => self.vacated = Some(ending(ended, taken_over)),
                Change::Gained {
                    uid,
                    term,
                    holder,
                    previous,
                    ended,
                    ..
                } => {
                    let sighting = Sighting {
                        uid: uid.as_str().to_owned(),
                        term: term.number().into(),
                        holder: shortened(&holder),
                        since: new.and_then(|new| new.since.clone()),
                        from: previous.as_deref().map(shortened),
                        ending: ending(ended, taken_over),
                        released: new
                            .and_then(|new| new.state.as_ref())
                            .and_then(|state| state.record.released.as_ref())
                            .map(|stamp| (stamp.identity.to_string(), stamp.term.number().into())),
                        heard,
                        at: now,
                    };
                    self.vacated = None;
                    self.log.push_back(sighting);
                    if self.log.len() > LOG_LENGTH_MAX {
                        self.log.pop_front();
                    }
                }
            }
        }
    }

    /// A holder that follows a holder: by waiting, or by writing over it?
    fn ending_of_takeover(&self, heard: Heard, now: Instant) -> Ending {
        // A candidate may have heard of the last renewal a little earlier than we did.
        let waited = self.duration() * 9 / 10;
        if self.lapse != Lapse::No || now.saturating_duration_since(self.received) >= waited {
            Ending::Expired
        } else if heard == Heard::ByWatch {
            Ending::Overwritten
        } else {
            Ending::Unknown
        }
    }

    /// The published duration; a Lease without one counts as client-go's usual 15 s.
    fn duration(&self) -> Duration {
        const UNPUBLISHED: Duration = Duration::from_secs(15);
        self.reading
            .as_ref()
            .and_then(LeaseReading::duration)
            .unwrap_or(UNPUBLISHED)
    }

    /// True once, when the holder was silent for its duration: a reconcile should confirm it.
    pub fn suspect(&mut self, now: Instant) -> bool {
        let is_held = self
            .reading
            .as_ref()
            .is_some_and(|it| it.holder().is_some());
        let is_due = now.saturating_duration_since(self.received) >= self.duration();
        let suspected = is_held && is_due && self.lapse == Lapse::No;
        if suspected {
            self.lapse = Lapse::Suspected;
        }
        suspected
    }

    /// A silent holder awaits a read that confirms it.
    pub fn is_suspected(&self) -> bool {
        self.lapse == Lapse::Suspected
    }

    /// A read showed that nothing was written since.
    pub fn confirm_lapse(&mut self) {
        if self.lapse == Lapse::Suspected {
            self.lapse = Lapse::Confirmed;
        }
    }

    /// What it means now.
    pub fn state(&self) -> LeaseState {
        let Some(reading) = &self.reading else {
            return LeaseState::Absent;
        };
        if let Some(problem) = &reading.problem {
            return LeaseState::Malformed(problem.clone());
        }
        match (reading.holder(), self.lapse) {
            (None, _) => LeaseState::Vacant(self.vacated.unwrap_or(Ending::Unknown)),
            (Some(_), Lapse::Confirmed) => LeaseState::Expired,
            (Some(_), Lapse::No | Lapse::Suspected) => LeaseState::Held,
        }
    }

    /// How long ago the newest revision came in.
    pub fn unchanged_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.received)
    }

    /// The newest reading.
    pub fn reading(&self) -> Option<&LeaseReading> {
        self.reading.as_ref()
    }

    /// The terms seen, oldest first.
    pub fn log(&self) -> &VecDeque<Sighting> {
        &self.log
    }
}

fn ending(ended: Ended, taken_over: Ending) -> Ending {
    match ended {
        Ended::NotSeen => Ending::Unknown,
        Ended::Released => Ending::Released,
        Ended::Emptied => Ending::Emptied,
        Ended::Deleted => Ending::Deleted,
        Ended::TakenOver => taken_over,
        Ended::Restarted => Ending::Restarted,
    }
}

/// A renewal changes times and the attempt stamp only, and concerns nobody.
fn differs(old: Option<&LeaseReading>, new: Option<&LeaseReading>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return old.is_some() != new.is_some();
    };
    let what_matters = |it: &LeaseReading| {
        (
            (
                it.uid.clone(),
                it.holder().map(str::to_owned),
                it.term(),
                it.labels.clone(),
            ),
            (
                it.problem.clone(),
                it.fixed.clone(),
                it.settings_generation.clone(),
            ),
            (it.settings.clone(), it.owners.clone()),
        )
    };
    what_matters(old) != what_matters(new)
}

#[cfg(test)]
mod tests;
