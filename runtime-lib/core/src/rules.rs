//! The protocol rules as values, so that tests can switch one off and prove that it is missed.
//!
//! In every build without feature `controls` the set is complete and constant: no code path of a
//! production program can switch a rule off.

/// A rule of `docs/protocol.md` that the election machine applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// E2: trust counts from the instant before the write was sent.
    E2TrustFromSend,
    /// E2: a write with an unknown outcome extends no trust before its stamp was read.
    E2UnknownIsNoTrust,
    /// Trust ends before the lease does (the timing inequality's margin).
    TrustMargin,
    /// E3: the wait restarts with every newer revision.
    E3WaitRestarts,
    /// E3: the wait is the longer of the published and the own duration.
    E3PublishedDuration,
    /// E4: watch events older than the own last acknowledged write are ignored.
    E4OldNewsIgnored,
    /// E5: a holder emptied by somebody else is waited for.
    E5EmptiedByOthers,
    /// E6: a foreign holder, an emptied holder or another uid ends the term at once.
    E6EndsAtOnce,
    /// E6: lost and regained is two terms.
    E6TwoTerms,
    /// E6: a release only replaces the revision of the own last write.
    E6ReleaseOwnRevision,
    /// E7: the token is the revision of the acquiring write.
    E7RevisionIsToken,
    /// E10: the leader goes on renewing while it drains.
    E10RenewWhileDraining,
    /// `release-after-drain`: no release before the work ended.
    ReleaseAfterDrain,
    /// H1: a member is a pod and an incarnation.
    H1Incarnation,
    /// H2: an epoch is the revision on which the publish was based.
    H2EpochIsRevision,
    /// H3: a release is an acknowledged epoch and a clear bit.
    H3Acknowledged,
    /// H4: predecessors that are not seen released stay predecessors.
    H4PrevCarries,
    /// H5: a silent member is fenced before its partitions are given away.
    H5FenceFirst,
    /// H6: a missing member Lease shows nothing.
    H6MissingIsNoRelease,
    /// H7: after a lost table every living member acknowledges the new one.
    H7PrevAll,
    /// H8: a partition of a new layout waits for all overlapping parents.
    H8ParentsReleased,
}

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Rules {
    #[cfg(feature = "controls")]
    off: u32,
}

impl Rules {
    /// Every rule in force.
    pub const ALL: Self = Self {
        #[cfg(feature = "controls")]
        off: 0,
    };

    /// All rules but one, for a positive control.
    #[cfg(feature = "controls")]
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self {
            off: self.off | 1 << rule as u32,
        }
    }

    /// Is `rule` in force?
    #[cfg(feature = "controls")]
    pub(crate) const fn has(self, rule: Rule) -> bool {
        self.off & 1 << rule as u32 == 0
    }

    /// Is `rule` in force? Without feature `controls`: always.
    #[cfg(not(feature = "controls"))]
    #[allow(clippy::unused_self)] // the same call in both builds
    pub(crate) const fn has(self, _rule: Rule) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_in_force() {
        assert!(Rules::ALL.has(Rule::E2TrustFromSend) && Rules::ALL.has(Rule::ReleaseAfterDrain));
    }

    #[cfg(feature = "controls")]
    #[test]
    fn only_the_named_rules_are_off() {
        let first = Rules::ALL.without(Rule::E2TrustFromSend);
        assert!(!first.has(Rule::E2TrustFromSend) && first.has(Rule::E2UnknownIsNoTrust));
        let both = first
            .without(Rule::ReleaseAfterDrain)
            .without(Rule::E2TrustFromSend);
        assert!(!both.has(Rule::E2TrustFromSend) && !both.has(Rule::ReleaseAfterDrain));
        assert!(both.has(Rule::E10RenewWhileDraining));
    }
}
