//! A user as a server shows it, by `ACL LIST` or `ACL GETUSER`.
//!
//! 7.0 works the rules about commands out anew and prints others than were sent; 7.2 and Valkey keep
//! them. So they stay a list here, whose meaning `meaning` tells.

use std::collections::BTreeSet;

use redis::Value;
use sha2::{Digest as _, Sha256};

use crate::backend::hex;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// It may log in.
    pub(super) is_on: bool,
    /// Any password will do.
    pub(super) is_open: bool,
    /// SHA-256 of each password, oldest first.
    pub(super) hashes: Vec<String>,
    /// Patterns of keys: `~…`, `%R~…` or `%W~…`.
    pub(super) keys: BTreeSet<String>,
    /// Patterns of channels: `&…`.
    pub(super) channels: BTreeSet<String>,
    /// Rules about commands, in order.
    pub(super) commands: Vec<String>,
    /// Anything else: selectors, and what newer servers know.
    pub(super) others: BTreeSet<String>,
}

impl Shown {
    /// A line of `ACL LIST`, and whose it is.
    pub(super) fn from_line(line: &str) -> Option<(String, Self)> {
        let mut words = line.split_ascii_whitespace();
        if words.next()? != "user" {
            return None;
        }
        let name = words.next()?.to_owned();
        let mut shown = Self::default();
        let mut selector: Option<String> = None;
        for word in words {
            if selector.is_none() && !word.starts_with('(') {
                shown.take(word);
                continue;
            }
            let mut text = selector.take().map_or_else(String::new, |text| text + " ");
            text.push_str(word);
            if word.ends_with(')') {
                shown.others.insert(text);
            } else {
                selector = Some(text);
            }
        }
        shown.others.extend(selector);
        Some((name, shown))
    }

    /// The answer of `ACL GETUSER`; none if there is no such user, or it is no answer of that command.
    pub(super) fn from_answer(answer: Value) -> Option<Self> {
        let fields: Vec<(Value, Value)> = match answer {
            Value::Map(fields) => fields,
            Value::Array(flat) => {
                let mut flat = flat.into_iter();
                std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect()
            }
            _ => return None,
        };
        let mut shown = Self::default();
        for (name, value) in fields {
            let name: String = redis::from_redis_value(name).ok()?;
            match name.as_str() {
                "passwords" => {
                    let hashes: Vec<String> = redis::from_redis_value(value).ok()?;
                    shown.hashes.extend(hashes);
                }
                "selectors" => {
                    let selectors: Vec<Value> = redis::from_redis_value(value).ok()?;
                    let texts = selectors.iter().map(|one| format!("({one:?})"));
                    shown.others.extend(texts);
                }
                "flags" | "commands" | "keys" | "channels" => shown.take_all(value)?,
                _ => {
                    shown.others.insert(format!("{name} {value:?}"));
                }
            }
        }
        Some(shown)
    }

    /// What it is, in few letters: changes with every rule of it. What its rules about commands come to
    /// is told by the caller.
    pub(super) fn digest(&self, commands: &str) -> String {
        let mut hash = Sha256::new();
        hash.update([u8::from(self.is_on), u8::from(self.is_open)]);
        hash.update(commands.as_bytes());
        hash.update(u64::MAX.to_be_bytes()); // no text is as long: the end of a list
        let lists: [&mut dyn Iterator<Item = &String>; 4] = [
            &mut self.hashes.iter(),
            &mut self.keys.iter(),
            &mut self.channels.iter(),
            &mut self.others.iter(),
        ];
        for list in lists {
            for text in list {
                hash.update((text.len() as u64).to_be_bytes());
                hash.update(text.as_bytes());
            }
            hash.update(u64::MAX.to_be_bytes());
        }
        short(&hash.finalize())
    }

    // A list of texts, or one text with blanks between its words (keys and channels since 7.0).
    fn take_all(&mut self, value: Value) -> Option<()> {
        let texts: Vec<String> = if matches!(value, Value::Array(_) | Value::Set(_)) {
            redis::from_redis_value(value).ok()?
        } else {
            vec![redis::from_redis_value(value).ok()?]
        };
        for text in texts {
            text.split_ascii_whitespace()
                .for_each(|word| self.take(word));
        }
        Some(())
    }

    fn take(&mut self, word: &str) {
        match word {
            "on" => self.is_on = true,
            "off" => self.is_on = false,
            "nopass" => self.is_open = true,
            "resetkeys" | "resetchannels" | "resetpass" | "sanitize-payload" | "alldbs" => {}
            "allkeys" => {
                self.keys.insert("~*".to_owned());
            }
            "allchannels" => {
                self.channels.insert("&*".to_owned());
            }
            "allcommands" => self.commands.push("+@all".to_owned()),
            "nocommands" => self.commands.push("-@all".to_owned()),
            _ => match word.as_bytes().first() {
                Some(b'#') => self.hashes.push(word[1..].to_owned()),
                Some(b'~' | b'%') => {
                    self.keys.insert(word.replacen("%RW~", "~", 1));
                }
                Some(b'&') => {
                    self.channels.insert(word.to_owned());
                }
                Some(b'+' | b'-') => self.commands.push(word.to_owned()),
                _ => {
                    self.others.insert(word.to_owned());
                }
            },
        }
    }
}

/// The first letters of a hash.
pub(super) fn short(hash: &[u8]) -> String {
    hex(&hash[..hash.len().min(8)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn texts<const N: usize>(all: [&str; N]) -> Value {
        Value::Array(all.map(text).to_vec())
    }

    #[test]
    fn a_line_and_an_answer_of_the_same_user_are_alike() {
        let line = "user lh_x_a on sanitize-payload #ab %R~demo:x:* resetchannels &demo:x:* +@all -@admin +info";
        let (name, line) = Shown::from_line(line).unwrap();
        let answer = Shown::from_answer(Value::Array(vec![
            text("flags"),
            texts(["on", "sanitize-payload"]),
            text("passwords"),
            texts(["ab"]),
            text("commands"),
            text("+@all -@admin +info"),
            text("keys"),
            text("%R~demo:x:*"),
            text("channels"),
            text("&demo:x:*"),
            text("selectors"),
            Value::Array(vec![]),
        ]))
        .unwrap();
        assert_eq!(name, "lh_x_a");
        assert_eq!(line, answer);
        assert_eq!(line.digest("x"), answer.digest("x"));
        assert!(line.is_on && line.others.is_empty() && line.commands.len() == 3);
    }

    #[test]
    fn a_selector_is_one_thing_and_never_taken_for_rules_of_the_user() {
        let line = "user x on #ab ~a:* &a:* +@all (~* resetchannels +@all) (~b +get)";
        let (_, shown) = Shown::from_line(line).unwrap();
        assert_eq!(shown.keys.len(), 1);
        assert_eq!(shown.others.len(), 2, "{:?}", shown.others);
    }

    #[test]
    fn what_a_newer_server_says_is_kept_and_nothing_is_no_user() {
        let (_, shown) = Shown::from_line("user x off nopass db=0,1 -@all").unwrap();
        assert!(!shown.is_on && shown.is_open);
        assert_eq!(shown.others.iter().next().unwrap(), "db=0,1");
        assert!(Shown::from_answer(Value::Nil).is_none());
        assert!(Shown::from_line("").is_none());
    }

    #[test]
    fn a_digest_tells_the_lists_apart() {
        let parse = |line: &str| Shown::from_line(line).unwrap().1.digest("x");
        assert_ne!(parse("user x on ~a ~b"), parse("user x on ~a &b"));
        assert_eq!(parse("user x on ~a ~b"), parse("user y ~b ~a on"));
    }
}
