//! What a Lease is for, by its name. A cluster id has no dots, so the first one ends it.

/// A Lease of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// Who leads this cluster id.
    Leader(&'a str),
    /// What is declared for it.
    Settings(&'a str),
    /// The table of its partitions.
    Assignment(&'a str),
    /// One pod that takes part: cluster id and name of the pod.
    Member(&'a str, &'a str),
}

impl<'a> Purpose<'a> {
    /// Reads it out of the name of a Lease; `None` if no Lease of ours is called so.
    pub fn of(name: &'a str) -> Option<Self> {
        let (id, rest) = name.split_once('.')?;
        match rest {
            "leader" => Some(Self::Leader(id)),
            "settings" => Some(Self::Settings(id)),
            "assignment" => Some(Self::Assignment(id)),
            _ => {
                let pod = rest.strip_prefix("member.")?;
                (!pod.is_empty()).then_some(Self::Member(id, pod))
            }
        }
    }

    /// The cluster id.
    pub fn cluster_id(self) -> &'a str {
        match self {
            Self::Leader(id) | Self::Settings(id) | Self::Assignment(id) | Self::Member(id, _) => {
                id
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_its_lease_is_for() {
        for (name, purpose) in [
            ("billing.leader", Some(Purpose::Leader("billing"))),
            ("billing.settings", Some(Purpose::Settings("billing"))),
            ("billing.assignment", Some(Purpose::Assignment("billing"))),
            (
                "billing.member.a-0",
                Some(Purpose::Member("billing", "a-0")),
            ),
            // Names of pods may have dots, also these.
            (
                "billing.member.x.leader",
                Some(Purpose::Member("billing", "x.leader")),
            ),
            ("billing.member.", None),
            ("billing.member", None),
            ("billing.leader.old", None),
            ("billing", None),
        ] {
            assert_eq!(Purpose::of(name), purpose, "{name}");
        }
    }
}
