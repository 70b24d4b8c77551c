//! Members that come and go: after a few losses their name receives nothing for a growing time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backoff::Backoff;
use crate::partition::planner::interface::Pace;
use crate::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Damping {
    losses: BTreeMap<Arc<str>, Vec<Instant>>,
    until: BTreeMap<Arc<str>, Instant>,
}

impl Damping {
    /// A life of that name ended unannounced.
    pub(crate) fn lost(&mut self, name: &Arc<str>, pace: &Pace, now: Instant) {
        let losses = self.losses.entry(Arc::clone(name)).or_default();
        losses.retain(|at| now < at.after(pace.flap_window));
        losses.push(now);
        let over = losses.len().saturating_sub(pace.flap_losses.max(1) - 1);
        if over == 0 {
            return;
        }
        let backoff = Backoff {
            first: pace.flap_first,
            ceiling: pace.flap_max,
        };
        let times = u32::try_from(over).unwrap_or(u32::MAX);
        self.until
            .insert(Arc::clone(name), now.after(backoff.delay(times, 0)));
    }

    /// Drops what is over.
    pub(crate) fn forget(&mut self, pace: &Pace, now: Instant) {
        self.until.retain(|_, until| now < *until);
        self.losses.retain(|_, losses| {
            let last = losses.last().copied();
            last.is_some_and(|at| now < at.after(pace.flap_window))
        });
    }

    /// It receives nothing now.
    pub(crate) fn damps(&self, name: &str) -> bool {
        self.until.contains_key(name)
    }

    /// Until when it receives nothing.
    pub(crate) fn until(&self, name: &str, now: Instant) -> Option<Instant> {
        self.until.get(name).copied().filter(|until| now < *until)
    }
}
