//! What we saw of a record, when by our own clock, and from when on the lease is vacant (E3, E5).

use crate::id::{LeaseUid, Term};
use crate::lease::record::Versioned;
use crate::rules::{Rule, Rules};
use crate::time::{Duration, Instant};

/// Everything a candidate knows about a lease key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Observation {
    seen: Seen,
    held: Option<Held>,
    /// What was held when the record was deleted and made anew.
    former: Option<Held>,
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    since: Instant,
    published: Duration,
    uid: LeaseUid,
    term: Term,
    stamped: bool,
}

impl Held {
    /// E5: is this holder's end what the empty record `state` says? Not after a deletion: a record
    /// made anew says nothing of it. Nor if the same term has lost its stamps.
    fn is_over(&self, state: &Versioned) -> bool {
        let record = &state.record;
        let by_stamp = record.released.as_ref();
        let by_stamp = by_stamp.is_some_and(|stamp| stamp.term == record.term);
        let of_a_peer = record.term > self.term || !self.stamped;
        self.uid == state.uid && record.is_released() && (by_stamp || of_a_peer)
    }
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
        let held = Held {
            since: now,
            published: state.record.duration.unwrap_or_default(),
            uid: state.uid.clone(),
            term: state.record.term,
            stamped: state.record.is_stamped(),
        };
        let waits = self.rules.has(Rule::E5EmptiedByOthers);
        if state.record.holder.is_some() {
            let restarts = self.rules.has(Rule::E3WaitRestarts);
            let kept = self.held.as_ref().filter(|_| !restarts);
            let since = kept.map_or(now, |held| held.since);
            let before = self.held.replace(Held { since, ..held });
            if let Some(before) = before.filter(|before| before.uid != state.uid) {
                self.former = Some(before);
            }
        } else if !waits {
            self.held = None;
        } else if let Some(before) = &self.held {
            // The wait goes on from the held revision, whatever is edited meanwhile.
            if before.is_over(state) {
                self.held = None;
            }
        } else if !state.record.is_released() {
            self.held = Some(held); // never saw a held revision: the emptied one starts the wait
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

    /// Nobody may take a term up to this one again (H1).
    pub fn raise_term(&mut self, term: Term) {
        self.term_max = self.term_max.max(term);
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
        let Some(held) = &self.held else {
            let why = if self.state().is_some() {
                Vacant::Released
            } else {
                Vacant::Absent
            };
            return Some(Vacancy { from: since, why });
        };
        let why = if holder.is_some() {
            Vacant::Lapsed
        } else {
            Vacant::Emptied
        };
        Some(Vacancy {
            from: self.due(held, own),
            why,
        })
    }

    /// Until when somebody may still act under a record that was deleted and made anew since (E5).
    pub fn former_life(&self, own: Duration) -> Option<Instant> {
        self.former.as_ref().map(|held| self.due(held, own))
    }

    fn due(&self, held: &Held, own: Duration) -> Instant {
        let published = self.rules.has(Rule::E3PublishedDuration);
        let wait = if published { held.published } else { own };
        held.since.after(wait.max(own))
    }
}

#[cfg(test)]
mod tests;
