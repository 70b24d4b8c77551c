//! What a candidate believes and waits for, for logs, the debug view and status.

use crate::id::{FencingToken, Term};
use crate::lease::{Vacancy, Vacant};
use crate::time::Instant;

use super::{Election, Role};

/// A snapshot of one candidate's belief.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The holder in the newest record seen.
    pub holder: Option<String>,
    /// The term in the newest record seen.
    pub term: Term,
    /// The own token and the end of its trust, while leading.
    pub leading: Option<(FencingToken, Instant)>,
    /// What it waits for.
    pub waiting: Waiting,
    /// Failed requests in a row.
    pub failures: u32,
}

/// What a candidate waits for. Whoever waits can say for what, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// For the first news from the store.
    News,
    /// For the lease to become vacant.
    Vacancy(Vacancy),
    /// For the answer to a request.
    Answer,
    /// To try again after a failure.
    Retry(Instant),
    /// For the process to be healthy again.
    Health,
    /// As leader: for the next heartbeat.
    Heartbeat(Instant),
    /// For the drain to finish.
    Drain {
        /// When it is cut off.
        until: Instant,
    },
    /// For the work of an ended term to end.
    WorkToEnd,
    /// For nothing: it is shut down.
    Nothing,
}

impl Election {
    /// What this candidate believes and waits for.
    pub fn view(&self) -> View {
        let state = self.seen.state();
        let leading = match &self.role {
            Role::Leader(leading) => Some((leading.token, leading.trusted_until)),
            _ => None,
        };
        View {
            holder: state.and_then(|state| state.record.holder.clone()),
            term: self.seen.term_max(),
            leading,
            waiting: self.waiting(),
            failures: self.failures,
        }
    }

    fn waiting(&self) -> Waiting {
        match &self.role {
            Role::Stopped => Waiting::Nothing,
            Role::Ending(ending) if !ending.work_ended => Waiting::WorkToEnd,
            Role::Leader(leading) => match &leading.drain {
                Some(drain) => Waiting::Drain { until: drain.until },
                None => Waiting::Heartbeat(leading.renew_at.max(self.retry_at)),
            },
            _ if self.request.is_some() => Waiting::Answer,
            Role::Candidate { .. } if !self.healthy => Waiting::Health,
            _ if self.read_due || matches!(self.role, Role::Ending(_)) => {
                Waiting::Retry(self.retry_at)
            }
            _ => self.claim_from().map_or(Waiting::News, |vacancy| {
                if self.retry_at > vacancy.from {
                    Waiting::Retry(self.retry_at)
                } else {
                    Waiting::Vacancy(vacancy)
                }
            }),
        }
    }
}

impl core::fmt::Display for Vacant {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Absent => "there is no lease",
            Self::Released => "its holder released it",
            Self::Emptied => "somebody else emptied or deleted it",
            Self::Lapsed => "its holder does not renew it",
        })
    }
}
