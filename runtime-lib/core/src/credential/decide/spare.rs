//! Which login can be spared when a new password needs one, and which is kept beside it.

use super::super::Slot;
use super::super::judge::{Judged, Standing, largest};
use super::super::plan::{Keep, Step, Why};
use super::super::server::LoginState;
use super::super::stored::Entry;
use super::View;

impl View<'_> {
    /// A new password, in the slot that can best be spared.
    pub(super) fn begin(&self, why: Why) -> Step {
        let kept = self.most_needed();
        let current = self.stored.current.as_ref();
        let slot = kept
            .or(current.map(|entry| entry.slot))
            .map_or(Slot::A, Slot::other);
        if let LoginState::Foreign(_) = self.server.login(slot) {
            return self.conflict(slot);
        }
        let is_kept_there = |entry: &Entry| Some(entry.slot) == kept && entry.slot != slot;
        let previous = match (&self.stored.previous, current, kept) {
            (Some(previous), _, _) if is_kept_there(previous) => Keep::AsItIs,
            (_, None, Some(kept)) => self.bare(kept), // without a current entry nothing else names it
            _ => Keep::Nothing,
        };
        Step::WriteNext {
            generation: slot.generation_above(largest(self.stored, self.server)),
            previous,
            why,
        }
    }

    /// The login that most clients use: the current one, unless it is dead and the server knows better.
    fn most_needed(&self) -> Option<Slot> {
        let current = self.current.map(|current| current.entry.slot);
        if self.current.is_some_and(|current| current.is_sound()) {
            return current;
        }
        let alive = |slot: &Slot| self.is_alive(*slot);
        let is_later = |slot: &Slot| match self.server.login(*slot) {
            LoginState::Ours { generation, .. } if self.policy.counts => {
                let ours = self.current.and_then(|current| current.entry.generation);
                ours.is_none_or(|ours| ours < *generation)
            }
            _ => false,
        };
        if let Some(slot) = current.filter(|slot| alive(slot) && !is_later(slot)) {
            return Some(slot); // its password was edited, its clients still know the real one
        }
        Slot::ALL
            .into_iter()
            .filter(alive)
            .max_by_key(|slot| self.weight(*slot))
    }

    /// Of two logins the Secret names neither as the current one; the heavier stays.
    fn weight(&self, slot: Slot) -> u64 {
        let former = self.stored.previous.as_ref().map(|entry| entry.slot);
        match self.server.login(slot) {
            LoginState::Ours { generation, .. } if self.policy.counts => *generation,
            LoginState::Ours { .. } if former == Some(slot) => 0,
            LoginState::Ours { sessions, .. } => sessions.saturating_add(1),
            LoginState::Absent | LoginState::Foreign(_) => 0,
        }
    }

    /// A password was staged for a login that has a later one, which the Secret does not know: it was
    /// put back from long ago. Clients may use the later one, so it gets its grace.
    pub(super) fn later_than_staged(&self) -> Option<u64> {
        let staged = self.next.filter(|next| next.standing == Standing::Dead)?;
        let current = self.current.filter(Judged::is_sound)?;
        match self.server.login(staged.entry.slot) {
            LoginState::Ours { generation, .. }
                if self.policy.counts
                    && current.entry.slot != staged.entry.slot
                    && staged
                        .entry
                        .generation
                        .is_some_and(|ours| ours < *generation) =>
            {
                Some(*generation)
            }
            _ => None,
        }
    }

    pub(super) fn kept_in_the_turn(&self, slot: Slot) -> Keep {
        let other = slot.other();
        match (self.current, &self.stored.previous) {
            (Some(current), _) if current.entry.slot == other && current.is_sound() => {
                Keep::Current
            }
            (_, Some(previous)) if previous.slot == other && self.is_alive(other) => Keep::AsItIs,
            _ if self.is_alive(other) => self.bare(other),
            _ => Keep::Nothing,
        }
    }

    fn bare(&self, slot: Slot) -> Keep {
        let current = self
            .stored
            .current
            .as_ref()
            .filter(|entry| entry.slot == slot);
        match self.server.login(slot) {
            LoginState::Ours { generation, .. } => {
                let counted = current
                    .filter(|_| !self.policy.counts)
                    .and_then(|entry| entry.generation);
                Keep::Bare {
                    generation: counted.unwrap_or(*generation),
                }
            }
            LoginState::Absent | LoginState::Foreign(_) => Keep::Nothing,
        }
    }
}
