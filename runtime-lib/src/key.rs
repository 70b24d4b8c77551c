//! The lease key: names one leadership within a namespace.

use std::fmt;

/// Longest key: one DNS label.
const LENGTH_MAX: usize = 63;

/// A checked cluster id. It becomes the first label of a Lease's name, so it is a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey(String);

/// A text that is no cluster id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {found:?}, allowed is a DNS label: 1 to {LENGTH_MAX} characters of a-z, 0-9 and '-', \
     with a letter or digit first and last"
)]
pub struct InvalidKey {
    found: String,
}

impl LeaseKey {
    /// Checks and wraps a cluster id.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let ends = text.starts_with('-') || text.ends_with('-');
        if text.is_empty() || text.len() > LENGTH_MAX || ends || !text.bytes().all(allowed) {
            return Err(InvalidKey {
                found: text.chars().take(80).collect(),
            });
        }
        Ok(Self(text))
    }

    /// The cluster id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_dns_label() {
        for good in ["a", "0", "orders-2", &"x".repeat(63)] {
            assert_eq!(LeaseKey::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a.b", "A", "a_b", "-a", "a-", "ä", &"x".repeat(64)] {
            let message = LeaseKey::new(bad).unwrap_err().to_string();
            assert!(message.contains("1 to 63 characters"), "{bad}: {message}");
        }
    }

    #[test]
    fn a_huge_text_is_quoted_in_part_only() {
        assert!(
            LeaseKey::new("é".repeat(10_000))
                .unwrap_err()
                .to_string()
                .len()
                < 400
        );
    }
}
