//! What a published table must be, and how it must end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_core::election::Write;
use leasehold_core::lease::Contents;
use leasehold_core::partition::Member;
use proptest::prelude::*;

use crate::world::World;

impl World {
    pub(crate) fn check_publish(&mut self, write: &Write) -> Result<(), TestCaseError> {
        let Contents::Table(table) = &write.record.contents else {
            return Err(TestCaseError::fail("a publish without a table"));
        };
        self.published += 1;
        prop_assert_eq!(table.problem(), None);
        let mut sorted = table.members.clone();
        sorted.sort();
        sorted.dedup();
        prop_assert_eq!(&sorted, &table.members, "in order, without repetition");
        for (partition, part) in table.entries() {
            let own = part.owner.is_some_and(|owner| part.prev.contains(&owner));
            prop_assert!(!own, "{} waits for itself", partition);
        }
        let Some(before) = self.planner.table() else {
            return Ok(());
        };
        prop_assert!(table.epoch > before.epoch, "epochs grow");
        if table.layout == before.layout {
            for ((_, new), (partition, old)) in table.entries().zip(before.entries()) {
                let same = table.owner(partition) == before.owner(partition);
                let (kept, made) = (new.epoch == old.epoch, new.epoch == table.epoch);
                prop_assert!(if same { kept } else { made }, "the epoch of {}", partition);
            }
        } else {
            prop_assert_eq!(table.layout.generation(), before.layout.generation() + 1);
        }
        Ok(())
    }

    /// Everything belongs to somebody who lives and stays, if there is anybody; false if not.
    pub(crate) fn check_settled(&self) -> Result<bool, TestCaseError> {
        let Some(table) = self.stored().filter(|table| table.problem().is_none()) else {
            return Ok(false);
        };
        let ready: BTreeSet<Member> = self
            .leases
            .iter()
            .filter(|(_, lease)| match &lease.record.contents {
                Contents::Member(record) => {
                    let fits = record.hash == table.layout.hash() && !record.draining;
                    lease.record.holder.is_some() && fits
                }
                _ => false,
            })
            .map(|(name, lease)| Member::new(Arc::clone(name), lease.record.term))
            .collect();
        if ready.is_empty() {
            return Ok(false);
        }
        let mut shares: BTreeMap<&Member, usize> = ready.iter().map(|m| (m, 0)).collect();
        for partition in table.layout.partitions() {
            let owner = table.owner(partition);
            let share = owner.and_then(|owner| shares.get_mut(owner));
            prop_assert!(
                share.is_some(),
                "{partition} belongs to {owner:?} of {ready:?}"
            );
            if let Some(share) = share {
                *share += 1;
            }
        }
        let (most, least) = (shares.values().max(), shares.values().min());
        let uneven = most
            .zip(least)
            .is_some_and(|(most, least)| most - least > 1);
        prop_assert!(!uneven, "{shares:?}");
        Ok(true)
    }
}
