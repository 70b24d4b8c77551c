//! A secret text in every shape in which a program could let it out: as it is, percent-encoded, as JSON
//! or Debug prints it, as a list of bytes, as hex, and as base64 at whatever place of a longer text.

use std::fmt::Write as _;

/// Shorter texts stand anywhere by chance.
pub const LENGTH_MIN: usize = 12;

/// See the module. It has no Debug: it is a secret.
pub struct Needle {
    name: String,
    shapes: Vec<String>,
}

impl Needle {
    /// Of a text, which the name tells without giving it away. None if it is too short to look for.
    pub fn new(name: &str, text: &str) -> Option<Self> {
        if text.len() < LENGTH_MIN {
            return None;
        }
        let bytes = text.as_bytes();
        let mut shapes = vec![
            text.to_owned(),
            escaped(text),
            percent(text, |byte| format!("%{byte:02X}")),
            percent(text, |byte| format!("%{byte:02x}")),
            joined(bytes, ", "),
            joined(bytes, ","),
            hex(bytes),
            hex(bytes).to_ascii_uppercase(),
        ];
        shapes.extend((0..3).map(|before| base64(bytes, before)));
        shapes.sort();
        shapes.dedup();
        Some(Self {
            name: name.to_owned(),
            shapes,
        })
    }

    /// What may be said of it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it stands in a text, in any shape.
    pub fn is_in(&self, text: &str) -> bool {
        self.shapes.iter().any(|shape| text.contains(shape))
    }
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.trim_matches('"').to_owned()
}

fn percent(text: &str, encoded: impl Fn(u8) -> String) -> String {
    let byte = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            encoded(byte)
        }
    };
    text.bytes().map(byte).collect()
}

fn joined(bytes: &[u8], between: &str) -> String {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    numbers.join(between)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // to a String: it cannot fail
        text
    })
}

/// What of the base64 of a longer text follows from this part alone, if so many bytes (modulo 3) stand
/// before it.
fn base64(bytes: &[u8], before: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = bytes.len() * 8;
    let bit = |at: usize| (bytes[at / 8] >> (7 - at % 8)) & 1;
    // The first letter that holds no bit of what stands before.
    let first = (6 - (before * 8) % 6) % 6;
    (first..bits)
        .step_by(6)
        .filter(|at| at + 6 <= bits)
        .map(|at| {
            let letter = (at..at + 6).fold(0, |letter, at| letter << 1 | usize::from(bit(at)));
            char::from(LETTERS[letter])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Needle, base64};

    #[test]
    fn base64_is_found_wherever_the_text_stands() {
        // Of "a secret", "xa secret", "xxa secret".
        assert_eq!(base64(b"a secret", 0), "YSBzZWNyZX");
        assert!("eGEgc2VjcmV0".contains(&base64(b"a secret", 1)));
        assert!("eHhhIHNlY3JldA==".contains(&base64(b"a secret", 2)));
        assert!(base64(b"a secret", 1).len() >= 9);
    }

    #[test]
    fn every_shape_is_found_and_nothing_else() {
        let needle = Needle::new("canary", "can/ary \"one\"").unwrap();
        for text in [
            "x can/ary \"one\" x",
            "postgres://u:can%2Fary%20%22one%22@host",
            "can%2fary%20%22one%22",
            r#"{"password":"can/ary \"one\""}"#,
            "[99, 97, 110, 47, 97, 114, 121, 32, 34, 111, 110, 101, 34]",
            "63616e2f61727920226f6e6522",
            "Y2FuL2FyeSAib25lIg==",
        ] {
            assert!(needle.is_in(text), "{text}");
        }
        for text in ["", "can/ary", "can/ary one", "63616e2f6172"] {
            assert!(!needle.is_in(text), "{text}");
        }
        assert!(Needle::new("short", "edited").is_none());
    }
}
