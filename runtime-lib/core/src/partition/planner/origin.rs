//! What the next table may grow from now: the present one, one cut anew, or a lost one (H7, H8).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::partition::Layout;
use crate::rules::Rule;
use crate::time::Instant;

use super::assignment::{Assignment, Says};
use super::base::{Base, Origin};
use super::cast::Person;
use super::interface::Concern;
use super::membership::Standing;
use super::{Planner, publish};

impl Planner {
    /// What the next table grows from, as soon as there may be one.
    pub(super) fn base(
        &mut self,
        now: Instant,
        concerns: &mut BTreeSet<Concern>,
    ) -> Option<Arc<Base>> {
        let wanted = self.config.wanted;
        if Layout::new(1, wanted.hash, wanted.count).is_err() {
            let count = wanted.count;
            concerns.insert(Concern::WantedCount { count });
        }
        if let Some(base) = &self.base {
            return Some(Arc::clone(base));
        }
        let never = self.is_first();
        if let Assignment::Present { says, .. } = &self.assignment {
            match says {
                Says::Newer(reason) => {
                    let reason = Arc::clone(reason);
                    concerns.insert(Concern::TableNewer { reason });
                    return None;
                }
                Says::Garbage(reason) => {
                    let reason = Arc::clone(reason);
                    concerns.insert(Concern::TableUnreadable { reason });
                }
                Says::Table(_) => {}
            }
        } else if !never {
            concerns.insert(Concern::TableMissing);
        }
        let rules = self.config.rules;
        if !never && rules.has(Rule::H7PrevAll) {
            let due = self.rebuild_at()?;
            if now < due {
                return None;
            }
            // H2: the epoch is of a list that was asked for after the wait.
            if matches!(&self.assignment, Assignment::Absent { asked, .. } if *asked < due) {
                self.doubt();
                return None;
            }
        }
        let alone = never && !self.has_tried;
        Base::rebuilt(&self.members, wanted, alone, rules).map(Arc::new)
    }

    /// There has never been a table; see the top of `planner.rs`.
    fn is_first(&self) -> bool {
        let absent = matches!(self.assignment, Assignment::Absent { .. });
        let mut records = self.members.records();
        absent
            && !self.has_seen
            && self.config.leader_term.number() <= 1
            && records.all(|record| {
                record.is_some_and(|record| record.acked.is_none() && record.layout.is_none())
            })
    }

    /// H7: nobody without a Lease can run anything any more.
    pub(super) fn rebuild_at(&self) -> Option<Instant> {
        let own = self.config.timing.lease_duration();
        let since = self.members.began()?.after(own);
        Some(since.max(self.members.all_lapsed_at().unwrap_or(since)))
    }

    /// H8: the table cut anew, or the number that has to wait until no handoff runs.
    pub(super) fn layout(&self, base: &Base, people: &[Person]) -> (Option<Base>, Option<u16>) {
        let count = self.config.wanted.count;
        let Ok(layout) = base.layout.resized(count) else {
            return (None, None);
        };
        if base.origin != Origin::Table || count == base.layout.count() {
            return (None, None);
        }
        let unsure = |person: &Person| {
            person.owns > 0 && matches!(person.standing, Standing::Silent | Standing::Missing)
        };
        let rules = self.config.rules;
        if people.iter().any(unsure) || publish::has_handoffs(base, people, rules) {
            return (None, Some(count));
        }
        (Some(base.resized(layout, rules)), None)
    }
}
