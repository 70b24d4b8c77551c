//! The judgement on a run of partitioned pods: no store took a write out of the
//! order of tokens or over one that its writer had not read, no two could act for one hash at once, nothing was
//! without an owner for long, and something happened.

mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::keys::Slot;
use super::ledger::Entry;
use super::tables::Table;
use super::tenures::{Tenure, Tenures};
use crate::error::Result;
use crate::history::{Event, Fault, Line};
use writes::Writes;

/// What a run is held to.
#[derive(Clone, Copy, Debug)]
pub struct Demands {
    /// V: how long guards may overlap after somebody edited a Lease.
    pub trusted: Duration,
    /// Longest time that a hash may be without an owner, outages aside.
    pub unowned_max: Duration,
    /// How long after an outage a hash may be without an owner.
    pub recovery_max: Duration,
    /// Fewest tables for the run to say anything.
    pub tables_min: usize,
}

/// A span on the clock of histories, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from: u64,
    /// Its end.
    pub until: u64,
}

impl Span {
    /// All of time.
    pub const ALWAYS: Self = Self {
        from: 0,
        until: u64::MAX,
    };

    /// How long it is.
    pub fn length(self) -> Duration {
        Duration::from_nanos(self.until.saturating_sub(self.from))
    }

    fn both(self, other: Self) -> Self {
        let from = self.from.max(other.from);
        Self {
            from,
            until: self.until.min(other.until).max(from),
        }
    }
}

/// Hashes that nobody could act for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first of the hashes.
    pub hash: u128,
    /// When.
    pub span: Span,
}

/// Everything written down about a run, in the order in which it is read.
#[derive(Clone, Debug, Default)]
pub struct Run {
    tenures: Tenures,
    /// What each store took, in its own order.
    entries: BTreeMap<String, Vec<Entry>>,
    /// Guards may overlap here.
    edited: Vec<u64>,
    /// Nobody could take over here: what, since when, until when.
    outages: Vec<(String, u64, u64)>,
    /// How often a workload was told by a store that its write was taken.
    told: BTreeMap<String, usize>,
    /// Writes whose writer does not know what became of them: store, token, key and value.
    unknown: BTreeSet<(String, String, String, u64)>,
    refused: usize,
    held: usize,
    newest: u64,
}

impl Run {
    /// Further lines of histories, in the order of time.
    pub fn lines(&mut self, lines: &[Line]) -> Result<()> {
        for line in lines {
            self.newest = self.newest.max(line.t);
            self.tenures.take(line)?;
            self.held += usize::from(line.remaining.is_some());
            match (line.event, line.fault) {
                (Event::Write, _) => *self.told.entry(line.store.clone()).or_default() += 1,
                (Event::Unavailable, _) => self.unknown.extend(unknown(line)),
                (Event::Refused, _) => self.refused += 1,
                (Event::Fault, Some(Fault::Edit)) => self.edited.push(line.t),
                (Event::Fault, Some(Fault::Outage)) => {
                    self.outages.push((line.reason.clone(), line.t, u64::MAX));
                }
                (Event::FaultEnded, Some(Fault::Outage)) => {
                    let mut begun = self.outages.iter_mut();
                    if let Some(outage) = begun.find(|(reason, ..)| *reason == line.reason) {
                        outage.2 = line.t;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Further entries of a store, in its own order.
    pub fn entries(&mut self, store: &str, entries: Vec<Entry>) {
        let known = self.entries.entry(store.to_owned()).or_default();
        known.extend(entries);
    }

    /// Who acted when.
    pub fn tenures(&self) -> &Tenures {
        &self.tenures
    }

    /// Every time that a hash was without an owner between its first owner and
    /// now, as far as it lies in `within`; one for each range and time.
    pub fn gaps(&self, within: Span) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for (hash, tenures) in self.by_hash() {
            let Some(first) = tenures.first() else {
                continue;
            };
            let mut owned_until = first.from;
            let mut note = |from: u64, until: u64| {
                let span = Span { from, until }.both(within);
                if from < until && span.from < span.until {
                    gaps.push(Gap { hash, span });
                }
            };
            for tenure in tenures {
                note(owned_until, tenure.from);
                owned_until = owned_until.max(tenure.until());
            }
            note(owned_until, self.newest);
        }
        gaps
    }

    /// The longest of them.
    pub fn unowned_max(&self, within: Span) -> Duration {
        let gaps = self.gaps(within).into_iter();
        gaps.map(|gap| gap.span.length()).max().unwrap_or_default()
    }

    /// The judgement.
    pub fn judge(&self, tables: &[Table], demands: &Demands) -> Result<Judgement> {
        let mut violations = Vec::new();
        self.two_owners(demands, &mut violations);
        let mut taken = BTreeMap::new();
        for (store, entries) in &self.entries {
            taken.insert(
                store.clone(),
                self.of_store(store, entries, &mut violations)?,
            );
        }
        self.too_long(demands, &mut violations);
        tables_out_of_order(tables, &mut violations);
        let mut nothing = |happened: bool, what: &str| {
            if !happened {
                violations.push(Violation::Nothing(what.to_owned()));
            }
        };
        nothing(self.held > 0, "no guard was ever asked and answered yes");
        nothing(!taken.is_empty(), "no store said what it took");
        for (store, taken) in &taken {
            let what = format!("no guarded write was taken by {store}");
            nothing(taken.accepted > 0, &what);
        }
        for store in self.told.keys().filter(|store| !taken.contains_key(*store)) {
            nothing(
                false,
                &format!("{store} took writes, but did not say which"),
            );
        }
        nothing(
            tables.len() >= demands.tables_min,
            &format!(
                "{} tables were published, at least {} were to be",
                tables.len(),
                demands.tables_min
            ),
        );
        Ok(Judgement {
            tenures: self.tenures.all().len(),
            held: self.held,
            stores: taken,
            refused: self.refused,
            tables: tables.len(),
            unowned_max: self.unowned_max(Span::ALWAYS),
            violations,
        })
    }

    /// The tenures of each range of hashes that no layout cuts, in the order of
    /// their beginnings.
    fn by_hash(&self) -> BTreeMap<u128, Vec<&Tenure>> {
        let all = self.tenures.all();
        let mut ranges: BTreeMap<u128, Vec<&Tenure>> = BTreeMap::new();
        for slot in all.iter().map(|tenure| tenure.slot) {
            for partition in 0..slot.count {
                let (from, _) = Slot { partition, ..slot }.range();
                ranges.entry(from).or_default();
            }
        }
        for tenure in all {
            let (from, until) = tenure.slot.range();
            for (_, tenures) in ranges.range_mut(from..until) {
                tenures.push(tenure);
            }
        }
        for tenures in ranges.values_mut() {
            tenures.sort_by_key(|tenure| tenure.from);
        }
        ranges
    }

    /// At most one owner at a time, and `tokens-only-grow`, for every hash.
    fn two_owners(&self, demands: &Demands, violations: &mut Vec<Violation>) {
        let trusted = u64::try_from(demands.trusted.as_nanos()).unwrap_or(u64::MAX);
        let is_edited = |t: u64| {
            let mut edits = self.edited.iter();
            edits.any(|edit| (*edit..edit.saturating_add(trusted)).contains(&t))
        };
        for tenures in self.by_hash().values() {
            let mut last: Option<&Tenure> = None;
            for tenure in tenures {
                if let Some(before) = last {
                    if tenure.from < before.until() && !is_edited(tenure.from) {
                        violations.push(Violation::two_owners(before, tenure));
                    }
                    if tenure.token < before.token {
                        violations.push(Violation::token_shrank(before, tenure));
                    }
                }
                if last.is_none_or(|before| before.until() < tenure.until()) {
                    last = Some(tenure);
                }
            }
        }
        violations.sort();
        violations.dedup();
    }

    /// What one store took, in its own order.
    fn of_store(
        &self,
        store: &str,
        entries: &[Entry],
        violations: &mut Vec<Violation>,
    ) -> Result<Taken> {
        let is_unknown = |token: &str, key: &str, value: u64| {
            let write = (store.to_owned(), token.to_owned(), key.to_owned(), value);
            self.unknown.contains(&write)
        };
        let mut writes = Writes::of(store, is_unknown);
        for entry in entries {
            writes.take(entry, violations)?;
        }
        let accepted = entries.iter().filter(|entry| entry.set.is_some()).count();
        let told = self.told.get(store).copied().unwrap_or_default();
        if told > accepted {
            violations.push(Violation::WriteLost {
                store: store.to_owned(),
                told,
                accepted,
            });
        }
        Ok(Taken {
            accepted,
            raised: entries.len() - accepted,
        })
    }

    fn too_long(&self, demands: &Demands, violations: &mut Vec<Violation>) {
        let recovery = u64::try_from(demands.recovery_max.as_nanos()).unwrap_or(u64::MAX);
        let excused = |span: Span| {
            let outages = self.outages.iter().map(|(_, from, until)| Span {
                from: *from,
                until: until.saturating_add(recovery),
            });
            let mut outages = outages;
            outages.any(|outage| span.both(outage).length() > Duration::ZERO)
        };
        let mut longest: BTreeMap<(u64, u64), u128> = BTreeMap::new();
        for gap in self.gaps(Span::ALWAYS) {
            if gap.span.length() > demands.unowned_max && !excused(gap.span) {
                longest
                    .entry((gap.span.from, gap.span.until))
                    .or_insert(gap.hash);
            }
        }
        let unowned = |((from, until), hash): ((u64, u64), u128)| Violation::Unowned {
            hash,
            from,
            millis: Span { from, until }.length().as_millis(),
        };
        violations.extend(longest.into_iter().map(unowned));
    }
}

/// What a line says whose writer got no answer.
fn unknown(line: &Line) -> Option<(String, String, String, u64)> {
    let key = line.key.clone()?;
    Some((line.store.clone(), line.token.clone()?, key, line.value?))
}

/// H2: every table is based on a later revision than the one before.
fn tables_out_of_order(tables: &[Table], violations: &mut Vec<Violation>) {
    for pair in tables.windows(2) {
        if pair[1].epoch <= pair[0].epoch {
            violations.push(Violation::EpochRepeats {
                before: pair[0].epoch,
                after: pair[1].epoch,
            });
        }
    }
}

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// Two could act for one hash at once.
    TwoOwners {
        /// Who came first, and who came while it could still act.
        owners: [String; 2],
        /// For which partitions.
        slots: [Slot; 2],
        /// Since when, and for how many milliseconds.
        at: (u64, u64),
    },
    /// A later owner of a hash had a lower token (`tokens-only-grow`).
    TokenShrank {
        /// Both owners with their tokens.
        owners: [String; 2],
    },
    /// A store took a write after it had seen a higher token (`token-travels`).
    WriteOutOfOrder {
        /// The store.
        store: String,
        /// The key.
        key: String,
        /// Whose write.
        writer: String,
        /// Its token.
        token: String,
        /// The token before it.
        after: String,
    },
    /// Two processes used one token for one partition.
    OneTokenTwoWriters {
        /// The store.
        store: String,
        /// The token.
        token: String,
        /// Both.
        writers: [String; 2],
    },
    /// A counter did not go up by one: somebody wrote over what it had not read.
    UpdateLost {
        /// The store.
        store: String,
        /// The key.
        key: String,
        /// Its value before.
        before: u64,
        /// The value written.
        value: u64,
    },
    /// A store does not hold what workloads were told that it took.
    WriteLost {
        /// The store.
        store: String,
        /// How many they were told.
        told: usize,
        /// How many it holds.
        accepted: usize,
    },
    /// A hash was without an owner for too long.
    Unowned {
        /// The first hash of the range.
        hash: u128,
        /// Since when.
        from: u64,
        /// For how long.
        millis: u128,
    },
    /// A table was based on no later revision than the one before (H2).
    EpochRepeats {
        /// The epoch of the table before.
        before: u64,
        /// The epoch of the table.
        after: u64,
    },
    /// The run proves nothing.
    Nothing(String),
}

impl Violation {
    /// The store that it is about, if it is about one.
    pub fn store(&self) -> Option<&str> {
        match self {
            Self::WriteOutOfOrder { store, .. }
            | Self::OneTokenTwoWriters { store, .. }
            | Self::UpdateLost { store, .. }
            | Self::WriteLost { store, .. } => Some(store),
            Self::TwoOwners { .. }
            | Self::TokenShrank { .. }
            | Self::Unowned { .. }
            | Self::EpochRepeats { .. }
            | Self::Nothing(_) => None,
        }
    }

    fn two_owners(before: &Tenure, after: &Tenure) -> Self {
        let until = before.until().min(after.until());
        Self::TwoOwners {
            owners: [owner(before), owner(after)],
            slots: [before.slot, after.slot],
            at: (after.from, until.saturating_sub(after.from) / 1_000_000),
        }
    }

    fn token_shrank(before: &Tenure, after: &Tenure) -> Self {
        Self::TokenShrank {
            owners: [owner(before), owner(after)],
        }
    }
}

fn owner(tenure: &Tenure) -> String {
    format!("{} with {}", tenure.identity, tenure.token)
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoOwners { owners, slots, at } => write!(
                f,
                "two owners for {} ms since {}: {} for {}, and {} for {}",
                at.1, at.0, owners[0], slots[0], owners[1], slots[1]
            ),
            Self::TokenShrank { owners } => {
                write!(f, "{} came after {}", owners[1], owners[0])
            }
            Self::WriteOutOfOrder {
                store,
                key,
                writer,
                token,
                after,
            } => write!(
                f,
                "{store}, {key}: a write of {writer} under {token} was taken after {after} was shown"
            ),
            Self::OneTokenTwoWriters {
                store,
                token,
                writers: [one, other],
            } => write!(f, "{store}: {token} was used by {one} and {other}"),
            Self::UpdateLost {
                store,
                key,
                before,
                value,
            } => write!(f, "{store}, {key}: {value} was written over {before}"),
            Self::WriteLost {
                store,
                told,
                accepted,
            } => write!(
                f,
                "workloads were told that {told} writes were taken by {store}, which holds {accepted}"
            ),
            Self::Unowned { hash, from, millis } => {
                write!(
                    f,
                    "nobody owned hash {hash:#x} for {millis} ms since {from}"
                )
            }
            Self::EpochRepeats { before, after } => {
                write!(f, "a table of epoch {after} came after one of {before}")
            }
            Self::Nothing(what) => f.write_str(what),
        }
    }
}

/// What a store took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Guarded writes.
    pub accepted: usize,
    /// Raises of a fence.
    pub raised: usize,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Ownerships of a partition by a process.
    pub tenures: usize,
    /// How often a guard answered yes.
    pub held: usize,
    /// What each store took.
    pub stores: BTreeMap<String, Taken>,
    /// What they refused by the token.
    pub refused: usize,
    /// Published tables.
    pub tables: usize,
    /// Longest time that a hash was without an owner, outages included.
    pub unowned_max: Duration,
    /// What must never be.
    pub violations: Vec<Violation>,
}

impl Judgement {
    /// Whether the run proves what it was to prove.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        let row = |f: &mut fmt::Formatter<'_>, what: &str, value: String| {
            writeln!(f, "  {what:<42} {value:>10}")
        };
        row(f, "ownerships of a partition", self.tenures.to_string())?;
        row(f, "published tables", self.tables.to_string())?;
        row(f, "guards that answered yes", self.held.to_string())?;
        for (store, taken) in &self.stores {
            let raised = format!("fences raised in {store}");
            row(f, &raised, taken.raised.to_string())?;
            let accepted = format!("guarded writes taken by {store}");
            row(f, &accepted, taken.accepted.to_string())?;
            let broken = self
                .violations
                .iter()
                .filter(|one| one.store() == Some(store));
            row(
                f,
                &format!("violations in {store}"),
                broken.count().to_string(),
            )?;
        }
        row(
            f,
            "requests refused by their token",
            self.refused.to_string(),
        )?;
        let longest = format!("{:.3} s", self.unowned_max.as_secs_f64());
        row(f, "longest time without an owner", longest)?;
        row(f, "violations", self.violations.len().to_string())?;
        for violation in self.violations.iter().take(SHOWN) {
            writeln!(f, "  VIOLATION {violation}")?;
        }
        if self.violations.len() > SHOWN {
            writeln!(f, "  … and {} more", self.violations.len() - SHOWN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
