//! What becomes of the login before: how long it is kept, and from when on that counts.

use super::super::Slot;
use super::super::judge::{Judged, Standing};
use super::super::plan::{Marks, Step, Waiting, Which};
use super::super::server::LoginState;
use super::{COUNT_EVERY, SKEW, View, set};
use crate::time::WallTime;

/// What the former login asks for.
pub(super) enum Former {
    /// There is none.
    Gone,
    /// To wait, and when to look again.
    Waits(Waiting, WallTime),
    /// To be done first.
    Needs(Step),
}

impl View<'_> {
    pub(super) fn former(&self, current: Slot) -> Former {
        let slot = current.other();
        let login = self.server.login(slot);
        let Some(former) = self.previous else {
            return match login {
                LoginState::Ours { generation, .. } => Former::Needs(Step::KeepStray {
                    generation: *generation,
                }),
                LoginState::Absent | LoginState::Foreign(_) => Former::Gone,
            };
        };
        let since = self.stored.previous_since.unwrap_or(self.now);
        let latest = since.after(self.policy.max_grace.max(self.policy.grace));
        let earliest = if self.policy.pooled {
            latest
        } else {
            since.after(self.policy.grace)
        };
        let mends = former.standing == Standing::Unset && self.now < earliest;
        if former.entry.slot == current {
            return Former::Needs(Step::ForgetPrevious); // edited: that login is in use
        }
        match login {
            _ if mends => Former::Needs(set(Which::Previous, &former)),
            LoginState::Absent | LoginState::Foreign(_) => Former::Needs(Step::ForgetPrevious),
            LoginState::Ours { generation, .. }
                if self.policy.counts && former.generation != Some(*generation) =>
            {
                Former::Needs(Step::KeepStray {
                    generation: *generation,
                })
            }
            LoginState::Ours { sessions, .. } => {
                let open = *sessions;
                let is_over = self.now >= latest || self.now >= earliest && open == 0;
                let soon = latest.min(self.now.after(COUNT_EVERY));
                match former.generation {
                    Some(generation) if is_over => {
                        Former::Needs(Step::EndPrevious { slot, generation })
                    }
                    _ if self.policy.pooled => {
                        Former::Waits(Waiting::Pooled { until: latest }, latest)
                    }
                    _ if self.now < earliest => {
                        Former::Waits(Waiting::Grace { until: earliest }, earliest)
                    }
                    _ => Former::Waits(
                        Waiting::Sessions {
                            open,
                            until: latest,
                        },
                        soon,
                    ),
                }
            }
        }
    }

    /// What the annotations should say, if they do not.
    pub(super) fn marks(&self, current: &Judged<'_>) -> Option<Marks> {
        let is_date = |date: &WallTime| !date.is_beyond(self.now, SKEW);
        let rotated_at = self.stored.rotated_at.filter(is_date);
        let since = self.stored.previous_since.filter(is_date);
        let generation = current.generation?;
        let previous = self
            .previous
            .and_then(|former| Some((former.entry, former.generation?)));
        let is_current_right = current.entry.generation == Some(generation) && rotated_at.is_some();
        let is_previous_right = previous.is_none_or(|(entry, generation)| {
            entry.generation == Some(generation) && since.is_some()
        });
        if is_current_right && is_previous_right {
            return None;
        }
        // With all annotations gone nobody knows which trigger was handled: none rotates again.
        let is_wiped = current.entry.generation.is_none();
        let trigger = if is_wiped {
            &self.policy.trigger
        } else {
            &self.stored.trigger
        };
        Some(Marks {
            generation,
            previous: previous.map(|(_, generation)| (generation, since.unwrap_or(self.now))),
            rotated_at: rotated_at.unwrap_or(self.now),
            trigger: trigger.clone(),
        })
    }
}
