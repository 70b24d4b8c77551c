//! What rules about commands allow on one server.
//!
//! Two lists of rules are the same if they allow the same: servers print other rules than they were
//! given, each version its own, and each has other commands in a category. So the lists are worked out
//! with the categories of that server.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use sha2::{Digest as _, Sha256};

use super::{
    rules::Rules,
    shown::{Shown, short},
};

/// Commands of a server by category, subcommands as `container|name`.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalog {
    categories: BTreeMap<String, BTreeSet<String>>,
    all: BTreeSet<String>,
}

/// What a list of rules comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Allowed {
    commands: BTreeSet<String>,
    // Also what a module brings, or the next version.
    has_future: bool,
    // Rules about what this server does not list: one argument of a command, commands of a module.
    others: BTreeSet<String>,
}

impl Catalog {
    /// From the answers of `ACL CAT`.
    pub(super) fn new(categories: impl IntoIterator<Item = (String, Vec<String>)>) -> Self {
        let mut catalog = Self::default();
        for (name, commands) in categories {
            catalog.all.extend(commands.iter().cloned());
            let members = catalog.categories.entry(name).or_default();
            members.extend(commands);
        }
        catalog
    }

    /// In what a user differs from what is wanted, in words. Which password it has is left to the caller.
    pub(super) fn differences(&self, shown: &Shown, rules: &Rules) -> Vec<String> {
        let mut found = Vec::new();
        let mut differs = |what: &str, found_text: String| {
            found.push(format!("{what}: found {found_text}"));
        };
        if !shown.is_on {
            differs("login", "off".to_owned());
        }
        if shown.is_open {
            differs("password", "none is asked for".to_owned());
        }
        if shown.hashes.len() != 1 {
            differs("passwords", shown.hashes.len().to_string());
        }
        if !shown.keys.iter().eq([&rules.keys()]) {
            differs("keys", format!("{:?}", shown.keys));
        }
        if !shown.channels.iter().eq([&rules.channels()]) {
            differs("channels", format!("{:?}", shown.channels));
        }
        if !shown.others.is_empty() {
            differs("more", format!("{:?}", shown.others));
        }
        let wanted = self.allowed(rules.commands());
        let allowed = self.allowed(shown.commands.iter().map(String::as_str));
        if wanted != allowed {
            let more: Vec<_> = allowed.commands.difference(&wanted.commands).collect();
            let less: Vec<_> = wanted.commands.difference(&allowed.commands).collect();
            let rest = &allowed.others;
            differs(
                "commands",
                format!("{more:?} too many, {less:?} too few, {rest:?} besides"),
            );
        }
        found
    }

    /// A digest of what rules about commands allow: 7.0 prints the same rights in an order of chance.
    pub(super) fn digest(&self, rules: &[String]) -> String {
        let allowed = self.allowed(rules.iter().map(String::as_str));
        let mut hash = Sha256::new();
        hash.update([u8::from(allowed.has_future)]);
        for name in allowed.commands.iter().chain(&allowed.others) {
            hash.update(name.as_bytes());
            hash.update([0]); // no name holds one
        }
        short(&hash.finalize())
    }

    fn allowed<'a>(&self, rules: impl IntoIterator<Item = &'a str>) -> Allowed {
        let mut allowed = Allowed::default();
        for rule in rules {
            let rule = rule.to_ascii_lowercase();
            let is_added = rule.starts_with('+');
            let name = &rule[1..];
            if name == "@all" {
                allowed = Allowed::default();
                if is_added {
                    allowed.has_future = true;
                    allowed.commands.clone_from(&self.all);
                }
                continue;
            }
            let named: Vec<&String> = match name.strip_prefix('@') {
                Some(category) => self.category(category),
                None => self.command(name).collect(),
            };
            if named.is_empty() {
                allowed.other(&rule, name, is_added);
            }
            for command in named {
                if is_added {
                    allowed.commands.insert(command.clone());
                } else {
                    allowed.commands.remove(command);
                }
            }
        }
        // A container cannot be run; its subcommands can.
        let is_container = |name: &String| self.command(name).nth(1).is_some();
        allowed.commands.retain(|name| !is_container(name));
        allowed
    }

    // A category holds containers with all that is in them.
    fn category(&self, name: &str) -> Vec<&String> {
        let members = self.categories.get(name).into_iter().flatten();
        members.flat_map(|member| self.command(member)).collect()
    }

    // The command itself, and its subcommands if it has some.
    fn command<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a String> {
        let from = (Bound::Included(name), Bound::Unbounded);
        let near = self.all.range::<str, _>(from);
        near.take_while(move |found| found.starts_with(name))
            .filter(move |found| matches!(found.as_bytes().get(name.len()), None | Some(b'|')))
    }
}

impl Allowed {
    fn other(&mut self, rule: &str, name: &str, is_added: bool) {
        if is_added {
            self.others.remove(&format!("-{name}"));
        } else if self.others.remove(&format!("+{name}")) {
            return;
        }
        self.others.insert(rule.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::{
            Subject,
            redis::{Profile, Wants},
        },
        credential::names::Names,
    };

    fn catalog() -> Catalog {
        let list = |name: &str, commands: &[&str]| {
            let commands = commands.iter().map(|one| (*one).to_owned()).collect();
            (name.to_owned(), commands)
        };
        Catalog::new([
            list(
                "read",
                &["get", "scan", "dbsize", "randomkey", "memory|usage"],
            ),
            list("write", &["set", "flushall"]),
            list("dangerous", &["flushall", "info", "keys", "client|kill"]),
            list("admin", &["client|kill"]),
            list(
                "scripting",
                &[
                    "eval",
                    "script|flush",
                    "script|load",
                    "script|kill",
                    "script|debug",
                ],
            ),
            list(
                "slow",
                &[
                    "script",
                    "memory",
                    "memory|purge",
                    "client",
                    "client|tracking",
                    "function",
                    "function|load",
                    "cluster",
                    "cluster|info",
                    "cluster|getkeysinslot",
                    "cluster|countkeysinslot",
                    "pubsub",
                    "pubsub|channels",
                    "pubsub|numsub",
                    "pubsub|shardchannels",
                    "publish",
                    "spublish",
                    "pfmerge",
                    "georadius",
                    "georadiusbymember",
                ],
            ),
        ])
    }

    fn rules(profile: Profile) -> Rules {
        let names = Names {
            installation: "8a5f".to_owned(),
            namespace: "demo".to_owned(),
            namespace_uid: "u-1".to_owned(),
            cluster_id: "x".to_owned(),
            service: "x".to_owned(),
        };
        let wants = Wants { profile };
        Rules::of(&Subject { names, wants }).unwrap()
    }

    fn differences(line: &str, profile: Profile) -> Vec<String> {
        let (_, shown) = Shown::from_line(line).unwrap();
        catalog().differences(&shown, &rules(profile))
    }

    #[test]
    fn another_list_of_the_same_meaning_is_in_shape() {
        // The form of 7.0: categories of its own choice, subcommands added one by one.
        let printed = "user u on sanitize-payload #ab ~demo:x:* resetchannels &demo:x:* +@all -@admin \
             -@scripting +eval +script|load -function -flushall -keys -randomkey -memory +memory|usage \
             -pubsub|channels -pubsub|shardchannels -cluster|countkeysinslot -cluster|getkeysinslot \
             -georadiusbymember -pfmerge -georadius";
        assert_eq!(differences(printed, Profile::Default), [""; 0]);
        let strict = differences(printed, Profile::Strict);
        assert_eq!(strict.len(), 1, "{strict:?}");
        assert!(strict[0].contains("\"dbsize\""), "{strict:?}");
    }

    #[test]
    fn every_kind_of_drift_is_seen() {
        let sent: Vec<_> = Profile::Default.commands().collect();
        let sent = format!("user u on #ab ~demo:x:* &demo:x:* {}", sent.join(" "));
        assert_eq!(differences(&sent, Profile::Default), [""; 0]);
        let drifts = [
            (" on ", " off "),
            (" on ", " on nopass "),
            ("#ab", "#ab #cd"),
            ("#ab", ""),
            ("~demo:x:*", "~*"),
            ("~demo:x:*", "%R~demo:x:*"),
            ("~demo:x:*", "~demo:x:* ~other"),
            ("&demo:x:*", "&*"),
            ("&demo:x:*", "resetchannels"),
            ("+info", "+info +keys"),
            ("+info", ""),
            ("+info", "+info +client|kill"),
            ("+info", "+info -get"),
            ("+info", "+info +ft.search"),
            ("+info", "+info -ft.search"),
            ("+info", "+info +@nothing"),
            ("+info", "+info (~* +@all)"),
            ("+@all", "-@all +@read +@write +@slow +@scripting"), // the same today, not tomorrow
        ];
        for (from, to) in drifts {
            let line = sent.replacen(from, to, 1);
            assert_ne!(line, sent, "{from}");
            assert_ne!(differences(&line, Profile::Default), [""; 0], "{to}");
        }
    }

    #[test]
    fn what_is_taken_away_again_leaves_nothing() {
        let catalog = catalog();
        let plain = catalog.allowed(["+@all", "-@dangerous"]);
        assert_eq!(
            plain,
            catalog.allowed(["+get", "+@all", "+keys", "-@dangerous"])
        );
        assert_eq!(
            plain,
            catalog.allowed(["+@all", "-@dangerous", "+select|1", "-select|1"])
        );
        assert_ne!(
            plain,
            catalog.allowed(["+@all", "-@dangerous", "+select|1"])
        );
    }
}
