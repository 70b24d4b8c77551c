//! What an onlooker sees of an election it takes no part in: an ordered list of changes.
//!
//! An onlooker never judges whether a lease lapsed; it reports what records say. What a gap in its
//! view hides is said as [`Missed`], never silently merged (R3).

use crate::id::{LeaseUid, Term};
use crate::lease::Versioned;

/// A change that an onlooker saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Somebody leads under a new term.
    Gained {
        /// Which life of the record; with the term it names the leadership (R3).
        uid: LeaseUid,
        /// The term.
        term: Term,
        /// The new holder.
        holder: String,
        /// The holder before, if one was seen.
        previous: Option<String>,
        /// How the leadership before ended, as far as it was seen.
        ended: Ended,
        /// Terms between the last one seen and this one.
        missed: Option<Missed>,
    },
    /// Nobody holds the lease any more.
    Vacated {
        /// The term that ended.
        term: Term,
        /// Who held it.
        holder: String,
        /// How it ended.
        ended: Ended,
    },
}

/// How a leadership ended, as an onlooker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// No leadership was seen before.
    NotSeen,
    /// Its holder gave it back.
    Released,
    /// Somebody else emptied the holder.
    Emptied,
    /// The record was deleted.
    Deleted,
    /// Another holder took over: it was not renewed, or it was overwritten.
    TakenOver,
    /// The same pod began anew: its process was restarted, or lost and regained the lease.
    Restarted,
}

/// Terms of one record that nobody observed, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The first.
    pub from: Term,
    /// The last.
    pub to: Term,
}

impl Missed {
    /// How many terms were not observed.
    pub fn count(self) -> u32 {
        self.to.number() - self.from.number() + 1
    }
}

/// Turns states of one lease key, in order, into changes.
#[derive(Clone, Debug, Default)]
pub struct Observer {
    uid: Option<LeaseUid>,
    term: Option<Term>,
    holder: Option<String>,
    previous: Option<String>,
    ended: Option<Ended>,
}

impl Observer {
    /// An onlooker that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// An onlooker that goes on after `term` of `uid`, as recorded elsewhere (R3: after a start).
    pub fn resume(uid: LeaseUid, term: Term, holder: Option<String>) -> Self {
        Self {
            uid: Some(uid),
            term: Some(term),
            holder,
            previous: None,
            ended: None,
        }
    }

    /// Notes the next state; `None` means that the record is deleted.
    pub fn note(&mut self, state: Option<&Versioned>) -> Vec<Change> {
        let mut changes = Vec::new();
        let Some(state) = state else {
            self.vacate(Ended::Deleted, &mut changes);
            return changes;
        };
        let same_life = self.uid.as_ref() == Some(&state.uid);
        if !same_life && self.uid.is_some() {
            self.vacate(Ended::Deleted, &mut changes);
        }
        match &state.record.holder {
            None => {
                let how = if same_life && self.term < Some(state.record.term) {
                    // Another term came and went unseen: its end is not that of the term we saw.
                    Ended::TakenOver
                } else if state.record.is_released() {
                    Ended::Released
                } else {
                    Ended::Emptied
                };
                self.vacate(how, &mut changes);
            }
            Some(holder) => self.hold(state, holder, same_life, &mut changes),
        }
        self.uid = Some(state.uid.clone());
        changes
    }

    fn vacate(&mut self, ended: Ended, changes: &mut Vec<Change>) {
        let Some(holder) = self.holder.take() else {
            return;
        };
        let term = self.term.unwrap_or_default();
        self.previous = Some(holder.clone());
        self.ended = Some(ended);
        changes.push(Change::Vacated {
            term,
            holder,
            ended,
        });
    }

    fn hold(
        &mut self,
        state: &Versioned,
        holder: &str,
        same_life: bool,
        changes: &mut Vec<Change>,
    ) {
        let term = state.record.term;
        let same_term = same_life && self.term == Some(term);
        if same_term && self.holder.as_deref() == Some(holder) {
            return;
        }
        let missed = self.missed(term, same_life);
        let (previous, ended) = match self.holder.take() {
            Some(before) if same_pod(&before, holder) => (Some(before), Ended::Restarted),
            Some(before) => (Some(before), Ended::TakenOver),
            None => (
                self.previous.take(),
                self.ended.take().unwrap_or(Ended::NotSeen),
            ),
        };
        self.term = Some(term);
        self.holder = Some(holder.to_owned());
        (self.previous, self.ended) = (None, None);
        changes.push(Change::Gained {
            uid: state.uid.clone(),
            term,
            holder: holder.to_owned(),
            previous,
            ended,
            missed,
        });
    }

    fn missed(&self, term: Term, same_life: bool) -> Option<Missed> {
        let from = self.term.filter(|_| same_life)?.next();
        (from < term).then(|| Missed {
            from,
            to: Term::new(term.number() - 1),
        })
    }
}

fn same_pod(before: &str, after: &str) -> bool {
    before == after
        || crate::id::pod_uid(before).is_some_and(|uid| crate::id::pod_uid(after) == Some(uid))
}

#[cfg(test)]
mod tests;
