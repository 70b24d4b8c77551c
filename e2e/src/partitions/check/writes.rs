//! The judgement on what one store took: it believes the store's own order, and
//! nothing that clients say but which of their writes they do not know about.

use std::collections::BTreeMap;

use leasehold_core::id::FencingToken;

use super::Violation;
use crate::error::{Result, Step};
use crate::partitions::keys::{self, Slot};
use crate::partitions::ledger::Entry;

/// What one store took so far.
pub(super) struct Writes<'a, F> {
    store: &'a str,
    /// Whether a writer does not know what became of a write: token, key, value.
    is_unknown: F,
    /// Ranges of hashes, and the token that was raised for them.
    raised: Vec<((u128, u128), FencingToken)>,
    /// Of each key: the highest token that wrote it, and its value with the token of the last write.
    highest: BTreeMap<&'a str, FencingToken>,
    values: BTreeMap<&'a str, (u64, &'a str)>,
    writers: BTreeMap<(Slot, &'a str), &'a str>,
}

impl<'a, F: Fn(&str, &str, u64) -> bool> Writes<'a, F> {
    pub(super) fn of(store: &'a str, is_unknown: F) -> Self {
        Self {
            store,
            is_unknown,
            raised: Vec::new(),
            highest: BTreeMap::new(),
            values: BTreeMap::new(),
            writers: BTreeMap::new(),
        }
    }

    /// The next entry.
    pub(super) fn take(&mut self, entry: &'a Entry, violations: &mut Vec<Violation>) -> Result<()> {
        let about = || format!("{}: entry of {} at {}", self.store, entry.writer, entry.t);
        let token: FencingToken = entry.token.parse().step(about)?;
        let writer = self.writers.entry((entry.slot, &entry.token));
        let first = *writer.or_insert(&entry.writer);
        if first != entry.writer {
            violations.push(Violation::OneTokenTwoWriters {
                store: self.store.to_owned(),
                token: entry.token.clone(),
                writers: [first.to_owned(), entry.writer.clone()],
            });
        }
        match &entry.set {
            None => self.raise(entry.slot, token),
            Some((key, value)) => {
                self.in_order(entry, key, token, violations);
                self.counts_up(entry, key, *value, violations);
            }
        }
        Ok(())
    }

    /// What is raised stays so: a raise that was overtaken may be written down late.
    fn raise(&mut self, slot: Slot, token: FencingToken) {
        let (from, until) = slot.range();
        self.raised
            .retain(|((first, end), other)| *first < from || until < *end || *other > token);
        self.raised.push(((from, until), token));
    }

    /// `token-travels`: no token after a higher one, whether that wrote or was raised.
    fn in_order(
        &mut self,
        entry: &'a Entry,
        key: &'a str,
        token: FencingToken,
        violations: &mut Vec<Violation>,
    ) {
        let hash = u128::from(keys::hash(key));
        let raised = self.raised.iter();
        let raised = raised.filter(|((from, until), _)| (*from..*until).contains(&hash));
        let shown = raised.map(|(_, token)| *token);
        let shown = shown.chain(self.highest.get(key).copied()).max();
        if let Some(shown) = shown.filter(|shown| *shown > token) {
            violations.push(Violation::WriteOutOfOrder {
                store: self.store.to_owned(),
                key: key.to_owned(),
                writer: entry.writer.clone(),
                token: entry.token.clone(),
                after: shown.to_string(),
            });
        }
        self.highest
            .insert(key, shown.map_or(token, |shown| shown.max(token)));
    }

    /// Whoever writes has read what was written before. One exception: who got no answer reads, and
    /// writes the same once more, while the first of the two may still arrive.
    fn counts_up(
        &mut self,
        entry: &'a Entry,
        key: &'a str,
        value: u64,
        violations: &mut Vec<Violation>,
    ) {
        let token = entry.token.as_str();
        let (before, by) = self.values.insert(key, (value, token)).unwrap_or_default();
        let repeats = value == before && by == token && (self.is_unknown)(token, key, value);
        if value != before + 1 && !repeats {
            violations.push(Violation::UpdateLost {
                store: self.store.to_owned(),
                key: key.to_owned(),
                before,
                value,
            });
        }
    }
}
