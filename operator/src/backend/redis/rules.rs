//! The whole rule list of a user: every rule an argument of its own, `reset` first, in one command.
//!
//! `ACL SETUSER` adds to what is there, so without `reset` a rule that somebody added would stay. No part
//! of a resource becomes a rule by itself: a profile is one of three lists, the prefix is checked letter
//! by letter, and there are no selectors, which a server does not check for blanks.

use std::fmt;

use secrecy::ExposeSecret as _;

use super::Wants;
use crate::{
    backend::{BackendError, Slot, Subject, Verifier},
    credential::names,
};

/// How much of the server a service may use. Keys and channels outside its prefix are refused by each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Everything but what reaches others. Names and counts of keys can be seen by `SCAN`, `DBSIZE`,
    /// `INFO` and `CLIENT TRACKING`, since clients and frameworks need these.
    #[default]
    Default,
    /// As `Default`, but writes nothing and publishes nothing.
    ReadOnly,
    /// As `Default`, without any command that tells of the names or counts of others.
    Strict,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Default, Self::ReadOnly, Self::Strict];

    /// Its rules about commands, in the order in which they are sent. Each exists since 7.0.
    pub fn commands(self) -> impl Iterator<Item = &'static str> {
        let more: &[&str] = match self {
            Self::Default => &["+info"],
            Self::ReadOnly => &["+info", "-@write", "-publish", "-spublish"],
            Self::Strict => &["-scan", "-dbsize", "-pubsub", "-client|tracking"],
        };
        COMMANDS.iter().chain(more).copied()
    }

    fn keys(self) -> &'static str {
        match self {
            Self::Default | Self::Strict => "~",
            Self::ReadOnly => "%R~",
        }
    }
}

/// What no service may do, after everything is allowed.
const COMMANDS: [&str; 17] = [
    "+@all",
    "-@dangerous", // FLUSHALL, KEYS, SORT (reads by patterns), SWAPDB, CLIENT KILL …
    "-@admin",
    "-function",     // libraries are shared by all users
    "-script|flush", // so are scripts
    "-script|kill",
    "-script|debug", // stops the server for everybody
    "-randomkey",
    "-memory", // sizes of others, and a purge that all of them feel
    "+memory|usage",
    "-pubsub|channels",
    "-pubsub|shardchannels",
    "-cluster|getkeysinslot",
    "-cluster|countkeysinslot",
    // Servers older than their repair look at other keys than these write to: the only one of PFMERGE,
    // the last STORE of the other two.
    "-pfmerge",
    "-georadius",
    "-georadiusbymember",
];

/// What one user may do.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Rules {
    profile: Profile,
    prefix: String,
}

impl Rules {
    /// Refuses a prefix that means something in a pattern, or could end one.
    pub(super) fn of(subject: &Subject<Wants>) -> Result<Self, BackendError> {
        let prefix = subject.names.key_prefix();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:{}".contains(&byte);
        if prefix.len() < 2 || !prefix.ends_with(':') || !prefix.bytes().all(is_plain) {
            return Err(BackendError::Invalid {
                field: "clusterId",
                problem: format!(
                    "found the key prefix {prefix:?}; allowed are letters, digits, '-', '_', '.', ':', '{{' and '}}', and a ':' at its end"
                ),
            });
        }
        Ok(Self {
            profile: subject.wants.profile,
            prefix,
        })
    }

    /// The pattern of its keys.
    pub(super) fn keys(&self) -> String {
        format!("{}{}*", self.profile.keys(), self.prefix)
    }

    /// The pattern of its channels.
    pub(super) fn channels(&self) -> String {
        format!("&{}*", self.prefix)
    }

    /// What it may run.
    pub(super) fn commands(&self) -> impl Iterator<Item = &'static str> {
        self.profile.commands()
    }

    /// What `ACL SETUSER` gets after the name.
    pub(super) fn arguments(&self, hash: &Hash) -> Vec<String> {
        let mut rules = vec![
            "reset".to_owned(),
            "on".to_owned(),
            "sanitize-payload".to_owned(),
            format!("#{}", hash.0),
            self.keys(),
            "resetchannels".to_owned(), // `reset` gives all channels where acl-pubsub-default says so
            self.channels(),
        ];
        rules.extend(self.commands().map(str::to_owned));
        rules
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {}", self.profile, self.prefix)
    }
}

/// SHA-256 of a password in lower-case hex, as a server keeps it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hash(String);

impl Hash {
    /// Refuses anything that is none: it would become a rule of another kind.
    pub(super) fn of(verifier: &Verifier) -> Result<Self, BackendError> {
        let text = verifier.0.expose_secret();
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 64 || !text.bytes().all(is_hex) {
            return Err(BackendError::Invalid {
                field: "verifier",
                problem: "found no SHA-256; it must be 64 lower-case hexadecimal digits".to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }
}

/// Name of a user, if a server takes it as one and it is one of ours.
pub(super) fn user(subject: &Subject<Wants>, slot: Slot) -> Result<String, BackendError> {
    let name = subject.names.login(slot);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.starts_with(names::PREFIX) || !name.bytes().all(is_plain) {
        return Err(BackendError::Invalid {
            field: "metadata.name",
            problem: format!(
                "found the user {name:?}; allowed are letters, digits, '-', '_' and '.'"
            ),
        });
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backend::redis::verifier, credential::names::Names};
    use proptest::prelude::*;

    fn subject(namespace: &str, id: &str, name: &str, profile: Profile) -> Subject<Wants> {
        Subject {
            names: Names {
                installation: "8a5f".to_owned(),
                namespace: namespace.to_owned(),
                namespace_uid: "u-1".to_owned(),
                cluster_id: id.to_owned(),
                service: name.to_owned(),
            },
            wants: Wants { profile },
        }
    }

    fn arguments(subject: &Subject<Wants>, password: &str) -> Result<Vec<String>, BackendError> {
        let mut all = vec![user(subject, Slot::A)?];
        let hash = Hash::of(&verifier(&password.into()))?;
        all.extend(Rules::of(subject)?.arguments(&hash));
        Ok(all)
    }

    #[test]
    fn the_rules_of_a_user_start_with_reset_and_stand_one_in_an_argument() {
        let wanted = arguments(
            &subject("demo", "orders", "orders", Profile::Default),
            "abc",
        );
        let wanted = wanted.unwrap();
        assert!(wanted[0].starts_with("lh_demo_orders_"), "{wanted:?}");
        let expected = "reset on sanitize-payload \
             #ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad \
             ~demo:orders:* resetchannels &demo:orders:* +@all -@dangerous -@admin -function \
             -script|flush -script|kill -script|debug -randomkey -memory +memory|usage \
             -pubsub|channels -pubsub|shardchannels -cluster|getkeysinslot \
             -cluster|countkeysinslot -pfmerge -georadius -georadiusbymember +info";
        assert_eq!(wanted[1..].join(" "), expected);
    }

    #[test]
    fn a_pattern_in_a_prefix_and_a_verifier_that_is_none_are_refused() {
        for id in ["*", "a*", "a?", "[a]", "a b", "a\nb", "a) (~*", "ä", "a\\"] {
            let found = Rules::of(&subject("demo", id, "orders", Profile::Default));
            assert!(matches!(found, Err(BackendError::Invalid { .. })), "{id}");
        }
        for text in [
            "",
            "nopass",
            &"A".repeat(64),
            &"a".repeat(63),
            &format!("{} ", "a".repeat(63)),
        ] {
            assert!(Hash::of(&Verifier(text.into())).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_resource_yields_a_rule_of_another_shape(
            namespace in "[ -~\n\u{e9}*]{0,70}", id in "[ -~\n()*&~+]{0,70}", name in "[ -~\n()]{0,70}",
            password in "\\PC{0,40}", which in 0..3_usize, is_sane in any::<bool>(),
        ) {
            let profile = Profile::ALL[which];
            let sane = |text: &str| text.replace(|c: char| !c.is_ascii_lowercase(), "-");
            let subject = if is_sane {
                subject(&sane(&namespace), &sane(&id), &sane(&name), profile)
            } else {
                subject(&namespace, &id, &name, profile)
            };
            let found = arguments(&subject, &password);
            prop_assert!(!is_sane || found.is_ok());
            if let Ok(found) = found {
                let plain = arguments(&self::subject("a", "b", "c", profile), "x").unwrap();
                prop_assert_eq!(found.len(), plain.len());
                for (index, (one, other)) in found.iter().zip(&plain).enumerate() {
                    prop_assert!(!one.contains([' ', '(', ')', '\n', '\r', '\0', '\t']), "{:?}", one);
                    let varies = [0, 4, 5, 7].contains(&index);
                    prop_assert!(varies || one == other, "{} for {}", one, other);
                    prop_assert_eq!(one.matches('*').count(), other.matches('*').count());
                    prop_assert_eq!(one.as_bytes()[0], other.as_bytes()[0]);
                }
            }
        }
    }
}
