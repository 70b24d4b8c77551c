//! Names: the cluster id, and the object names that follow from it.

use std::{fmt, str::FromStr};

/// Names one leadership (and later one set of partitions) in a namespace: a DNS label.
///
/// A label has no dots, so that `<cluster-id>.leader` can be split without doubt
/// and rights can be granted by the first label of a Lease's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(String);

/// Longest cluster id: one DNS label.
pub const CLUSTER_ID_LENGTH_MAX: usize = 63;

impl ClusterId {
    /// The checked cluster id.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidClusterId> {
        let text = text.into();
        let problem = if text.is_empty() {
            Problem::Empty
        } else if text.len() > CLUSTER_ID_LENGTH_MAX {
            Problem::TooLong(text.len())
        } else if let Some(found) = text
            .chars()
            .find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-'))
        {
            Problem::Character(found)
        } else if text.starts_with('-') || text.ends_with('-') {
            Problem::Hyphen
        } else {
            return Ok(Self(text));
        };
        Err(InvalidClusterId {
            text: shortened(&text),
            problem,
        })
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of the Lease that the elected pod holds.
    pub fn leader_lease_name(&self) -> String {
        format!("{}.leader", self.0)
    }

    /// Name of the Lease that carries the table of the partitions.
    pub fn assignment_lease_name(&self) -> String {
        format!("{}.assignment", self.0)
    }

    /// Name of the Lease of a member: of a pod, or of a node outside of pods.
    pub fn member_lease_name(&self, member: &str) -> String {
        format!("{}.member.{member}", self.0)
    }

    /// Name of the Lease through which the operator hands settings to the pods.
    pub fn settings_lease_name(&self) -> String {
        format!("{}.settings", self.0)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ClusterId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterId {
    type Err = InvalidClusterId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

/// Why a text is no cluster id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidClusterId {
    text: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    Empty,
    TooLong(usize),
    Character(char),
    Hyphen,
}

impl fmt::Display for InvalidClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster id {:?}: ", self.text)?;
        match self.problem {
            Problem::Empty => f.write_str("it is empty")?,
            Problem::TooLong(length) => write!(f, "it has {length} characters")?,
            Problem::Character(found) => write!(f, "{found:?} is not allowed")?,
            Problem::Hyphen => f.write_str("it begins or ends with a hyphen")?,
        }
        write!(
            f,
            "; allowed is a DNS label: 1 to {CLUSTER_ID_LENGTH_MAX} characters of a-z, 0-9 and '-', \
             with a letter or digit first and last"
        )
    }
}

impl std::error::Error for InvalidClusterId {}

/// Error messages quote what was found, but never kilobytes of it.
fn shortened(text: &str) -> String {
    const QUOTED_MAX: usize = 80;
    if text.chars().count() <= QUOTED_MAX {
        return text.to_owned();
    }
    let mut quoted: String = text.chars().take(QUOTED_MAX).collect();
    quoted.push('…');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dns_label_is_a_cluster_id_and_names_its_leases() {
        for text in ["a", "0", "a-b", "billing-2", &"x".repeat(63)] {
            assert_eq!(ClusterId::new(text).unwrap().as_str(), text);
        }
        let id: ClusterId = "billing".parse().unwrap();
        assert_eq!(id.leader_lease_name(), "billing.leader");
        assert_eq!(id.settings_lease_name(), "billing.settings");
        assert_eq!(id.assignment_lease_name(), "billing.assignment");
        assert_eq!(id.member_lease_name("web-0"), "billing.member.web-0");
    }

    #[test]
    fn anything_else_is_refused_with_what_was_found_and_what_is_allowed() {
        for (text, found) in [
            ("", "it is empty"),
            ("a.b", "'.' is not allowed"),
            ("Billing", "'B' is not allowed"),
            ("a_b", "'_' is not allowed"),
            ("größe", "'ö' is not allowed"),
            ("-a", "begins or ends with a hyphen"),
            ("a-", "begins or ends with a hyphen"),
            (&"x".repeat(64), "it has 64 characters"),
        ] {
            let message = ClusterId::new(text).unwrap_err().to_string();
            assert!(message.contains(found), "{text:?}: {message}");
            assert!(message.contains("1 to 63 characters of a-z"), "{message}");
        }
    }

    #[test]
    fn a_huge_text_is_quoted_in_part_only() {
        let message = ClusterId::new("é".repeat(10_000)).unwrap_err().to_string();
        assert!(message.chars().count() < 300, "{message}");
    }
}
