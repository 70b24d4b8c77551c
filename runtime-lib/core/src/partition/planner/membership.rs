//! Who lives: what the member Leases show, and when by the leader's own clock.
//!
//! | A member Lease | The member |
//! | --- | --- |
//! | held at its incarnation, renewed | lives |
//! | held at its incarnation, unchanged for max(published, own D) since receipt | is silent: fenced first (H5) |
//! | empty at its incarnation, or of a later one | is over |
//! | missing, or of an earlier incarnation | may live for max(published, own D) more (H6), then is over |

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lease::{Contents, Versioned};
use crate::partition::{Member, MemberRecord, MemberState};
use crate::rules::{Rule, Rules};
use crate::time::{Duration, Instant};

use super::interface::Sighting;

/// Everything seen of the member Leases of a cluster id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Membership {
    rules: Rules,
    /// D.
    own: Duration,
    /// What this process followed before it led; each counts for the revision that it names.
    before: BTreeMap<Arc<str>, Sighting>,
    /// When the first list came: nothing is known of absent Leases before it.
    began: Option<Instant>,
    leases: BTreeMap<Arc<str>, Followed>,
    /// Since when the table is known to name each life: a table can be faster than the watch that
    /// shows the Lease, if a former leader published it.
    named: BTreeMap<Member, Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Followed {
    /// The newest revision; `None` if it is missing.
    lease: Option<Versioned>,
    /// Receipt of that revision, or of its absence.
    since: Instant,
    /// Since when it is this life and this incarnation, or missing.
    life: Instant,
    /// The duration in its newest held revision.
    published: Duration,
    /// When it first said that it leaves.
    draining: Option<Instant>,
}

/// How it stands with one life of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Standing {
    /// It renews.
    Lives,
    /// It fell silent and must be fenced.
    Silent,
    /// Its Lease is missing, not long enough yet.
    Missing,
    /// It is over; everybody can see it.
    Over,
    /// It is over; only who watched its absence knows.
    Lapsed,
}

/// A held member Lease that is not silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Living<'a> {
    pub(super) member: Member,
    /// What it says; an error says why that cannot be read.
    pub(super) record: Result<&'a Arc<MemberRecord>, Arc<str>>,
    /// Since when this life is known.
    pub(super) since: Instant,
    /// When it first said that it leaves.
    pub(super) draining: Option<Instant>,
}

/// What a list leaves open.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// Nothing.
    All,
    /// It was asked for before newer news came, and differs: ask again (E4).
    Overtaken,
}

impl Membership {
    pub(super) fn new(before: BTreeMap<Arc<str>, Sighting>, own: Duration, rules: Rules) -> Self {
        Self {
            rules,
            own,
            before,
            began: None,
            leases: BTreeMap::new(),
            named: BTreeMap::new(),
        }
    }

    pub(super) fn retime(&mut self, own: Duration) {
        self.own = own;
    }

    /// The table names these lives.
    pub(super) fn name(&mut self, members: &[Member], now: Instant) {
        let before = std::mem::take(&mut self.named);
        let since = |member: &Member| before.get(member).copied().unwrap_or(now);
        self.named = members
            .iter()
            .map(|member| (member.clone(), since(member)))
            .collect();
    }

    /// When the first list came.
    pub(super) fn began(&self) -> Option<Instant> {
        self.began
    }

    /// A watch event: it is ignored unless it is newer (E4). True if a member was lost by it.
    pub(super) fn seen(&mut self, name: &Arc<str>, lease: &Versioned, now: Instant) -> bool {
        let known = self.lease(name);
        let old = known.is_some_and(|known| lease.revision <= known.revision);
        !old && self.note(name, Some(lease), now)
    }

    /// A quorum list: it replaces what was believed, unless news came after it was asked for (E4).
    pub(super) fn listed(
        &mut self,
        asked: Instant,
        members: &BTreeMap<Arc<str>, Versioned>,
        now: Instant,
        lost: &mut Vec<Arc<str>>,
    ) -> Noted {
        let mut noted = Noted::All;
        for (name, lease) in members {
            let known = self.lease(name);
            let newer = known.is_none_or(|known| lease.revision > known.revision);
            if (newer || self.is_after(name, asked)) && self.note(name, Some(lease), now) {
                lost.push(Arc::clone(name));
            }
        }
        let known: Vec<Arc<str>> = self.leases.keys().cloned().collect();
        for name in known.iter().filter(|name| !members.contains_key(*name)) {
            if self.lease(name).is_none() {
                continue;
            }
            if !self.is_after(name, asked) {
                noted = Noted::Overtaken;
            } else if self.note(name, None, now) {
                lost.push(Arc::clone(name));
            }
        }
        self.began = self.began.or(Some(now));
        self.before.clear();
        noted
    }

    fn is_after(&self, name: &str, asked: Instant) -> bool {
        let followed = self.leases.get(name);
        followed.is_none_or(|followed| asked >= followed.since)
    }

    /// Notes the newest state. True if a life ended by it that had not said that it leaves.
    fn note(&mut self, name: &Arc<str>, lease: Option<&Versioned>, now: Instant) -> bool {
        let before = self.leases.get(name);
        let old = before.and_then(|followed| followed.lease.as_ref());
        let same = |a: &Versioned, b: &Versioned| a.uid == b.uid && a.revision == b.revision;
        if lease.is_some_and(|new| old.is_some_and(|old| same(old, new))) {
            return false;
        }
        // H10: this process may have followed this very revision before it led.
        let earlier = self.before.get(name).filter(|sighting| {
            lease.is_some_and(|new| {
                new.uid == sighting.uid && new.revision == sighting.revision && old.is_none()
            })
        });
        let since = earlier.map_or(now, |sighting| sighting.since.min(now));
        let life = |lease: &Versioned| (lease.uid.clone(), lease.record.term);
        let same_life = before.is_some() && old.map(life) == lease.map(life);
        let held = lease.filter(|lease| lease.record.holder.is_some());
        let drains = held.is_some_and(|lease| match &lease.record.contents {
            Contents::Member(record) => record.draining,
            _ => false,
        });
        let was_held = old.is_some_and(|old| old.record.holder.is_some());
        let was_draining = before.and_then(|followed| followed.draining);
        let ended = was_held && !(same_life && held.is_some());
        let published = before.map_or(Duration::ZERO, |followed| followed.published);
        let followed = Followed {
            lease: lease.cloned(),
            since,
            life: before
                .filter(|_| same_life)
                .map_or(since, |before| before.life),
            published: held.map_or(published, |lease| lease.record.duration.unwrap_or_default()),
            draining: drains.then(|| was_draining.filter(|_| same_life).unwrap_or(now)),
        };
        self.leases.insert(Arc::clone(name), followed);
        ended && was_draining.is_none()
    }

    /// A compare-and-set on its newest revision failed: it has been renewed since (E3).
    pub(super) fn renewed(&mut self, name: &str, now: Instant) {
        if let Some(followed) = self.leases.get_mut(name) {
            followed.since = now;
        }
    }

    /// The newest revision of that member's Lease.
    pub(super) fn lease(&self, name: &str) -> Option<&Versioned> {
        self.leases.get(name)?.lease.as_ref()
    }

    /// What that Lease shows.
    pub(super) fn state(&self, name: &str) -> Option<MemberState> {
        self.lease(name).map(MemberState::of)
    }

    /// How it stands with that life of a member.
    pub(super) fn standing(&self, member: &Member, now: Instant) -> Standing {
        let named = self.named.get(member).copied().unwrap_or_default();
        let Some(followed) = self.leases.get(&member.name) else {
            let since = self.began.unwrap_or(now);
            return self.missing(since.max(named), self.own, now);
        };
        let wait = followed.published.max(self.own);
        let missing = || self.missing(followed.life.max(named), wait, now);
        let Some(lease) = &followed.lease else {
            return missing();
        };
        let shown = lease.record.term;
        if shown != member.incarnation && self.rules.has(Rule::H1Incarnation) {
            // A later life proves the end of this one; an earlier one was made anew and proves nothing.
            return if shown > member.incarnation {
                Standing::Over
            } else {
                missing()
            };
        }
        if lease.record.holder.is_none() {
            return Standing::Over;
        }
        match now >= followed.since.after(wait) {
            false => Standing::Lives,
            true if self.rules.has(Rule::H5FenceFirst) => Standing::Silent,
            true => Standing::Lapsed,
        }
    }

    /// H6: nothing is concluded from a missing Lease before its member's trust has run out.
    fn missing(&self, since: Instant, wait: Duration, now: Instant) -> Standing {
        let waits = self.rules.has(Rule::H6MissingIsNoRelease);
        if waits && now < since.after(wait) {
            Standing::Missing
        } else {
            Standing::Lapsed
        }
    }

    /// Everyone who holds a Lease and renews it, by name.
    pub(super) fn living(&self, now: Instant) -> impl Iterator<Item = Living<'_>> {
        self.leases.iter().filter_map(move |(name, followed)| {
            let lease = followed.lease.as_ref()?;
            let silent = now >= followed.since.after(followed.published.max(self.own));
            lease.record.holder.as_ref().filter(|_| !silent)?;
            let record = match &lease.record.contents {
                Contents::Member(record) => Ok(record),
                Contents::Unreadable { reason, .. } => Err(Arc::clone(reason)),
                _ => Err("it says nothing of itself".into()),
            };
            Some(Living {
                member: Member::new(Arc::clone(name), lease.record.term),
                record,
                since: followed.life,
                draining: followed.draining,
            })
        })
    }

    /// Everyone who holds a Lease, silent or not, with what it says if that can be read (H7).
    pub(super) fn held(&self) -> impl Iterator<Item = (Member, Option<&Arc<MemberRecord>>)> {
        self.leases.iter().filter_map(|(name, followed)| {
            let lease = followed.lease.as_ref()?;
            lease.record.holder.as_ref()?;
            let record = match &lease.record.contents {
                Contents::Member(record) => Some(record),
                _ => None,
            };
            Some((Member::new(Arc::clone(name), lease.record.term), record))
        })
    }

    /// What every Lease says that can be read, empty ones included.
    pub(super) fn records(&self) -> impl Iterator<Item = Option<&Arc<MemberRecord>>> {
        let leases = self.leases.values();
        leases
            .filter_map(|followed| followed.lease.as_ref())
            .map(|lease| match &lease.record.contents {
                Contents::Member(record) => Some(record),
                _ => None,
            })
    }

    /// When the last of the Leases that are missing now will have been missing long enough.
    pub(super) fn all_lapsed_at(&self) -> Option<Instant> {
        let missing = self.leases.values().filter(|f| f.lease.is_none());
        missing
            .map(|followed| followed.life.after(followed.published.max(self.own)))
            .max()
    }

    /// When each Lease falls silent, and when what it stands for will have been missing long enough.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> + '_ {
        let unseen = self.began.map(|began| began.after(self.own));
        let named = self.named.iter().map(|(member, since)| {
            let followed = self.leases.get(&member.name);
            let published = followed.map_or(Duration::ZERO, |followed| followed.published);
            since.after(published.max(self.own))
        });
        let each = self.leases.values().flat_map(|followed| {
            let wait = followed.published.max(self.own);
            [followed.since.after(wait), followed.life.after(wait)]
        });
        each.chain(unseen).chain(named)
    }

    /// Forgets missing Leases of members that nobody names any more.
    pub(super) fn forget(&mut self, named: impl Fn(&str) -> bool, now: Instant) {
        let own = self.own;
        self.leases.retain(|name, followed| {
            let lapsed = now >= followed.life.after(followed.published.max(own));
            followed.lease.is_some() || !lapsed || named(name)
        });
    }
}
