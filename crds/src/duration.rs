//! Durations in the API: texts such as `5m`, `1h30m` or `250ms`, as Go and the Gateway API write them.
//!
//! One to four whole numbers of up to five digits, each with its unit. Schema and code accept the same
//! texts, so a duration that was stored can be read.

use std::{fmt, time::Duration};

/// The texts that are allowed, as a regular expression for the schema.
macro_rules! duration_pattern {
    () => {
        "^([0-9]{1,5}(h|m|s|ms)){1,4}$"
    };
}
pub(crate) use duration_pattern;

/// What error messages say is allowed.
macro_rules! duration_allowed {
    () => {
        "one to four whole numbers of up to five digits, each with a unit of h, m, s or ms, such as 90m or 1h30m"
    };
}
pub(crate) use duration_allowed;

const PARTS_MAX: usize = 4;
const DIGITS_MAX: usize = 5;

/// Reads a duration of the API.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration(text.chars().take(40).collect());
    let mut rest = text;
    let mut total = Duration::ZERO;
    for _ in 0..PARTS_MAX {
        let digits = rest
            .find(|it: char| !it.is_ascii_digit())
            .filter(|digits| (1..=DIGITS_MAX).contains(digits))
            .ok_or_else(invalid)?;
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| invalid())?;
        let (part, after) = unit(number, after).ok_or_else(invalid)?;
        total = total.saturating_add(part);
        rest = after;
        if rest.is_empty() {
            return Ok(total);
        }
    }
    Err(invalid())
}

/// The duration that a number and the unit after it make, and what follows.
fn unit(number: u64, text: &str) -> Option<(Duration, &str)> {
    let seconds = |each: u64| Duration::from_secs(number.saturating_mul(each));
    // "ms" before "m": the longer unit wins, as it does in Go.
    if let Some(after) = text.strip_prefix("ms") {
        return Some((Duration::from_millis(number), after));
    }
    let (unit, after) = text.split_at_checked(1)?;
    match unit {
        "h" => Some((seconds(3600), after)),
        "m" => Some((seconds(60), after)),
        "s" => Some((seconds(1), after)),
        _ => None,
    }
}

/// A text that is no duration; it is quoted, but never kilobytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDuration(String);

impl fmt::Display for InvalidDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found {:?}; allowed: {}", self.0, duration_allowed!())
    }
}

impl std::error::Error for InvalidDuration {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_with_units_add_up() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("0h0m", 0),
            ("250ms", 250),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("30m1h", 5_400_000),
            ("1h2m3s4ms", 3_723_004),
            ("99999h", 359_996_400_000),
            ("1m1ms", 60_001),
        ] {
            assert_eq!(
                parse(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_was_found_and_what_is_allowed() {
        for text in [
            "",
            "10",
            "0",
            "1h30",
            "-5s",
            "+5s",
            "1e9h",
            "1.5h",
            "5",
            "m",
            "5 m",
            " 5m",
            "5m ",
            "5M",
            "5d",
            "5us",
            "100000s",
            "1h1h1h1h1h",
            "５m",
            "5m\u{0}",
            "5é",
            "1h\n",
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(&format!("found {text:?}")), "{message}");
            assert!(message.contains("such as 90m or 1h30m"), "{message}");
        }
        let message = parse(&"é".repeat(10_000)).unwrap_err().to_string();
        assert!(message.chars().count() < 250, "{message}");
    }
}
