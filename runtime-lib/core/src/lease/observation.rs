//! What we saw of a record, when by our own clock, and from when on the lease is vacant (E3, E5).

use crate::id::Term;
use crate::lease::record::Versioned;
use crate::rules::{Rule, Rules};
use crate::time::{Duration, Instant};

/// Everything a candidate knows about a lease key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Observation {
    seen: Seen,
    held: Option<Held>,
    term_max: Term,
    rules: Rules,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
enum Seen {
    #[default]
    Nothing,
    Absent {
        since: Instant,
    },
    Present {
        state: Versioned,
        since: Instant,
    },
}

/// The newest revision with a holder whose end we have not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    since: Instant,
    published: Duration,
}

/// From when on a candidate may claim, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vacancy {
    /// The first instant at which a claim is allowed.
    pub from: Instant,
    /// What makes it so.
    pub why: Vacant,
}

/// Why a lease is or will be vacant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacant {
    /// There is no record.
    Absent,
    /// The last holder released it.
    Released,
    /// Somebody else emptied or deleted it, so its last holder may still act until it lapses.
    Emptied,
    /// Its holder did not renew it.
    Lapsed,
}

impl Observation {
    /// Nothing seen yet.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Notes the newest state; returns false if it says nothing new.
    pub fn note(&mut self, state: Option<&Versioned>, now: Instant) -> bool {
        let Some(state) = state else {
            if matches!(self.seen, Seen::Absent { .. }) {
                return false;
            }
            self.seen = Seen::Absent { since: now };
            return true;
        };
        if self
            .state()
            .is_some_and(|old| old.revision == state.revision && old.uid == state.uid)
        {
            return false;
        }
        self.term_max = self.term_max.max(state.record.term);
        let published = state.record.duration.unwrap_or_default();
        let waits = self.rules.has(Rule::E5EmptiedByOthers);
        if state.record.holder.is_some() {
            let restarts = self.rules.has(Rule::E3WaitRestarts);
            let since = self
                .held
                .filter(|_| !restarts)
                .map_or(now, |held| held.since);
            self.held = Some(Held { since, published });
        } else if state.record.is_released() || !waits {
            self.held = None;
        } else {
            // E5: never saw a held revision: the emptied one starts the wait, later edits do not.
            self.held = self.held.or(Some(Held {
                since: now,
                published,
            }));
        }
        self.seen = Seen::Present {
            state: state.clone(),
            since: now,
        };
        true
    }

    /// Starts the wait anew: a claim met a newer revision (E3).
    pub fn restart_wait(&mut self, now: Instant) {
        if let Some(held) = &mut self.held {
            held.since = now;
        }
    }

    /// The newest state, if there is a record.
    pub fn state(&self) -> Option<&Versioned> {
        match &self.seen {
            Seen::Present { state, .. } => Some(state),
            Seen::Nothing | Seen::Absent { .. } => None,
        }
    }

    /// When the newest state was received.
    pub fn since(&self) -> Option<Instant> {
        match &self.seen {
            Seen::Present { since, .. } | Seen::Absent { since } => Some(*since),
            Seen::Nothing => None,
        }
    }

    /// The highest term seen, also across a deletion (E7).
    pub fn term_max(&self) -> Term {
        self.term_max
    }

    /// From when on the lease may be claimed by a candidate whose own duration is `own`; `None`
    /// before anything was seen.
    pub fn vacancy(&self, own: Duration) -> Option<Vacancy> {
        let since = self.since()?;
        let holder = self.state().and_then(|state| state.record.holder.as_ref());
        let Some(held) = self.held else {
            let why = if self.state().is_some() {
                Vacant::Released
            } else {
                Vacant::Absent
            };
            return Some(Vacancy { from: since, why });
        };
        let wait = if self.rules.has(Rule::E3PublishedDuration) {
            held.published.max(own)
        } else {
            own
        };
        let why = if holder.is_some() {
            Vacant::Lapsed
        } else {
            Vacant::Emptied
        };
        Some(Vacancy {
            from: held.since.after(wait),
            why,
        })
    }
}

#[cfg(test)]
mod tests;
