//! One suite for every lease store (`drivers-are-equal`). Each rule is a function that panics with
//! the name of what was violated; [`all`] runs them on keys of their own.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used)] // a suite reports by panicking

use std::sync::Arc;

use leasehold_core::election::{Purpose, Target, Write};
use leasehold_core::id::{Identity, LeaseUid, Term};
use leasehold_core::lease::{AttemptStamp, LeaseRecord, ReleaseStamp, Versioned};
use leasehold_core::time::Duration;

use super::{Answer, Feed, LeaseStore, Marks, News, WriteFailed};
use crate::key::LeaseKey;

mod partitions;

const LIMIT: Duration = Duration::from_secs(10);

/// Somebody who changes records without taking part in the election.
pub trait Outsider: Send + Sync {
    /// Sets an annotation that is not ours.
    fn annotate<'a>(&'a self, key: &'a LeaseKey, name: &'a str, value: &'a str) -> Answer<'a, ()>;
    /// The value of an annotation.
    fn annotation<'a>(&'a self, key: &'a LeaseKey, name: &'a str) -> Answer<'a, Option<String>>;
    /// Deletes the record.
    fn delete<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()>;
    /// Empties the holder and leaves everything else.
    fn empty<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()>;
    /// Takes off the labels by which lists and watches find the record.
    fn unlabel<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()>;
    /// Puts records under the labels of this cluster id's members whose names are not ours; where
    /// a store cannot hold any, it does nothing.
    fn foreign<'a>(&'a self, id: &'a LeaseKey) -> Answer<'a, ()>;
}

/// Runs every rule. `prefix` keeps the keys apart from those of other runs.
pub async fn all(store: Arc<dyn LeaseStore>, outsider: Arc<dyn Outsider>, prefix: &str) {
    let suite = Suite {
        store,
        outsider,
        prefix: prefix.to_owned(),
    };
    suite.creating_twice_conflicts().await;
    suite.what_was_written_reads_back().await;
    suite.a_write_on_an_old_revision_conflicts().await;
    suite
        .a_write_on_a_deleted_life_conflicts_and_creates_nothing()
        .await;
    suite.a_write_on_an_older_life_conflicts().await;
    suite.revisions_grow_across_a_deletion().await;
    suite.what_others_wrote_is_preserved().await;
    suite.marks_are_written_and_removed().await;
    suite.an_absent_record_reads_as_absent().await;
    suite.a_watch_begins_with_the_present_state().await;
    suite.a_watch_shows_every_revision_in_order().await;
    suite.a_watch_shows_a_deletion_and_a_new_life().await;
    suite.a_watch_shows_what_an_outsider_did().await;
    suite
        .of_many_claims_on_one_revision_exactly_one_wins()
        .await;
    suite.partitions().await;
}

struct Suite {
    store: Arc<dyn LeaseStore>,
    outsider: Arc<dyn Outsider>,
    prefix: String,
}

fn record(holder: &str, term: u32, number: u64) -> LeaseRecord {
    let identity = Identity::new(holder).expect("a sound identity");
    LeaseRecord {
        holder: Some(holder.to_owned()),
        duration: Some(Duration::from_secs(15)),
        term: Term::new(term),
        attempt: Some(AttemptStamp {
            identity,
            term: Term::new(term),
            number,
        }),
        ..LeaseRecord::default()
    }
}

fn claim(target: Target, record: LeaseRecord) -> Write {
    Write {
        attempt: 1,
        target,
        purpose: Purpose::Claim,
        record,
    }
}

fn exactly(state: &Versioned) -> Target {
    Target::Exactly {
        uid: state.uid.clone(),
        revision: state.revision,
    }
}

impl Suite {
    fn key(&self, rule: &str) -> LeaseKey {
        LeaseKey::new(format!("{}-{rule}", self.prefix)).expect("a prefix that is a DNS label")
    }

    async fn write(&self, key: &LeaseKey, write: &Write) -> Result<Versioned, WriteFailed> {
        self.store.write(key, write, &Marks::default(), LIMIT).await
    }

    async fn create(&self, key: &LeaseKey) -> Versioned {
        let write = claim(Target::Absent, record("a__00000001", 1, 1));
        self.write(key, &write)
            .await
            .expect("creating an absent record")
    }

    async fn replace(&self, key: &LeaseKey, state: &Versioned, record: LeaseRecord) -> Versioned {
        self.write(key, &claim(exactly(state), record))
            .await
            .expect("replacing what is there")
    }

    async fn read(&self, key: &LeaseKey) -> Option<Versioned> {
        self.store.read(key, LIMIT).await.expect("reading")
    }

    async fn expect_conflict(&self, key: &LeaseKey, write: &Write, rule: &str) {
        match self.write(key, write).await {
            Err(WriteFailed::Conflict) => {}
            other => panic!("{rule}: {other:?}"),
        }
    }

    async fn creating_twice_conflicts(&self) {
        let key = self.key("twice");
        let first = self.create(&key).await;
        let again = claim(Target::Absent, record("b__00000002", 2, 2));
        self.expect_conflict(&key, &again, "creating what exists")
            .await;
        assert_eq!(
            self.read(&key).await,
            Some(first),
            "the first record stands"
        );
    }

    async fn what_was_written_reads_back(&self) {
        let key = self.key("back");
        let created = self.create(&key).await;
        assert_eq!(
            created.record,
            record("a__00000001", 1, 1),
            "the answer is what was written"
        );
        let released = LeaseRecord {
            holder: None,
            duration: Some(Duration::from_secs(1)),
            released: Some(ReleaseStamp {
                identity: Identity::new("a__00000001").expect("sound"),
                term: Term::new(1),
            }),
            ..record("a__00000001", 1, 2)
        };
        let state = self.replace(&key, &created, released.clone()).await;
        assert_eq!(state.record, released);
        assert_eq!(self.read(&key).await, Some(state));
    }

    async fn a_write_on_an_old_revision_conflicts(&self) {
        let key = self.key("old");
        let first = self.create(&key).await;
        let second = self
            .replace(&key, &first, record("a__00000001", 1, 2))
            .await;
        assert!(second.revision > first.revision, "revisions grow");
        assert_eq!(second.uid, first.uid, "the life stays");
        let stale = claim(exactly(&first), record("b__00000002", 2, 1));
        self.expect_conflict(&key, &stale, "replacing an old revision")
            .await;
        assert_eq!(self.read(&key).await, Some(second));
    }

    async fn a_write_on_a_deleted_life_conflicts_and_creates_nothing(&self) {
        let key = self.key("deleted");
        let state = self.create(&key).await;
        self.outsider.delete(&key).await;
        let late = claim(exactly(&state), record("a__00000001", 1, 2));
        self.expect_conflict(&key, &late, "replacing a deleted record (E1)")
            .await;
        assert_eq!(
            self.read(&key).await,
            None,
            "a late write brings nothing back (E1)"
        );
    }

    async fn a_write_on_an_older_life_conflicts(&self) {
        let key = self.key("lives");
        let first = self.create(&key).await;
        self.outsider.delete(&key).await;
        let second = self.create(&key).await;
        assert_ne!(first.uid, second.uid, "a new life has another uid");
        let mixed = Target::Exactly {
            uid: first.uid,
            revision: second.revision,
        };
        let write = claim(mixed, record("a__00000001", 2, 2));
        self.expect_conflict(
            &key,
            &write,
            "the revision of one life with the uid of another",
        )
        .await;
        let unknown = Target::Exactly {
            uid: LeaseUid::new("no-such-uid"),
            revision: second.revision,
        };
        let write = claim(unknown, record("a__00000001", 2, 3));
        self.expect_conflict(&key, &write, "an unknown uid").await;
        assert_eq!(self.read(&key).await, Some(second));
    }

    async fn revisions_grow_across_a_deletion(&self) {
        let key = self.key("grow");
        let first = self.create(&key).await;
        self.outsider.delete(&key).await;
        let second = self.create(&key).await;
        assert!(
            second.revision > first.revision,
            "`tokens-only-grow` across a deletion (E7)"
        );
    }

    async fn what_others_wrote_is_preserved(&self) {
        let key = self.key("foreign");
        let first = self.create(&key).await;
        self.outsider
            .annotate(&key, "example.com/note", "keep me")
            .await;
        let stale = claim(exactly(&first), record("a__00000001", 1, 2));
        self.expect_conflict(&key, &stale, "an outsider's edit is a new revision")
            .await;
        let edited = self.read(&key).await.expect("the edited record");
        assert_eq!(
            edited.record, first.record,
            "an annotation changes no record"
        );
        self.replace(&key, &edited, record("a__00000001", 1, 3))
            .await;
        let note = self.outsider.annotation(&key, "example.com/note").await;
        assert_eq!(
            note.as_deref(),
            Some("keep me"),
            "foreign annotations survive our writes"
        );
    }

    async fn marks_are_written_and_removed(&self) {
        let key = self.key("marks");
        let marks = Marks {
            settings_generation: Some(7),
            fixed: Some("{}".to_owned()),
        };
        let write = claim(Target::Absent, record("a__00000001", 1, 1));
        let state = self
            .store
            .write(&key, &write, &marks, LIMIT)
            .await
            .expect("creating");
        let generation = self
            .outsider
            .annotation(&key, "leasehold.dev/settings-generation")
            .await;
        assert_eq!(generation.as_deref(), Some("7"));
        let fixed = self.outsider.annotation(&key, "leasehold.dev/fixed").await;
        assert_eq!(fixed.as_deref(), Some("{}"));
        let fence = Write {
            purpose: Purpose::Fence,
            ..claim(exactly(&state), record("a__00000001", 1, 2))
        };
        let state = self.write(&key, &fence).await.expect("fencing");
        let fixed = self.outsider.annotation(&key, "leasehold.dev/fixed").await;
        assert_eq!(fixed.as_deref(), Some("{}"), "a fence leaves them");
        self.replace(&key, &state, record("a__00000001", 1, 3))
            .await;
        assert_eq!(
            self.outsider.annotation(&key, "leasehold.dev/fixed").await,
            None
        );
    }

    async fn an_absent_record_reads_as_absent(&self) {
        assert_eq!(self.read(&self.key("absent")).await, None);
    }

    async fn a_watch_begins_with_the_present_state(&self) {
        let key = self.key("begin");
        let state = self.create(&key).await;
        let mut feed = self.store.watch(&key);
        let seen = next_state(&mut feed).await;
        assert_eq!(seen, Some(state));
        let mut feed = self.store.watch(&self.key("nothing-here"));
        assert_eq!(
            next_state(&mut feed).await,
            None,
            "nothing there is said as well"
        );
    }

    async fn a_watch_shows_every_revision_in_order(&self) {
        let key = self.key("order");
        let mut state = self.create(&key).await;
        let mut feed = self.store.watch(&key);
        assert_eq!(next_state(&mut feed).await, Some(state.clone()));
        for number in 2..=6 {
            let next = self
                .replace(&key, &state, record("a__00000001", 1, number))
                .await;
            assert_eq!(
                next_state(&mut feed).await,
                Some(next.clone()),
                "revision {number}"
            );
            state = next;
        }
    }

    async fn a_watch_shows_a_deletion_and_a_new_life(&self) {
        let key = self.key("life");
        let first = self.create(&key).await;
        let mut feed = self.store.watch(&key);
        assert_eq!(next_state(&mut feed).await, Some(first));
        self.outsider.delete(&key).await;
        assert_eq!(next_state(&mut feed).await, None, "the deletion");
        let second = self.create(&key).await;
        assert_eq!(next_state(&mut feed).await, Some(second), "the new life");
    }

    async fn a_watch_shows_what_an_outsider_did(&self) {
        let key = self.key("edit");
        let first = self.create(&key).await;
        let mut feed = self.store.watch(&key);
        assert_eq!(next_state(&mut feed).await, Some(first.clone()));
        self.outsider.empty(&key).await;
        let emptied = next_state(&mut feed).await.expect("the emptied record");
        assert_eq!(emptied.record.holder, None);
        assert_eq!(
            emptied.record.attempt, first.record.attempt,
            "the stamp stays"
        );
        assert!(
            !emptied.record.is_released(),
            "an outsider's emptying is no release (E5)"
        );
    }

    async fn of_many_claims_on_one_revision_exactly_one_wins(&self) {
        let key = self.key("race");
        let state = self.create(&key).await;
        let mut claims = tokio::task::JoinSet::new();
        for n in 0..8_u32 {
            let (store, key) = (Arc::clone(&self.store), key.clone());
            let write = claim(exactly(&state), record(&format!("c{n}__0000000{n}"), 2, 1));
            claims.spawn(async move { store.write(&key, &write, &Marks::default(), LIMIT).await });
        }
        let answers = claims.join_all().await;
        let won: Vec<&Versioned> = answers.iter().flatten().collect();
        assert_eq!(won.len(), 1, "exactly one claim wins");
        let lost = answers
            .iter()
            .filter(|a| matches!(a, Err(WriteFailed::Conflict)))
            .count();
        assert_eq!(
            lost,
            answers.len() - 1,
            "all others learn that they lost: {answers:?}"
        );
        assert_eq!(self.read(&key).await.as_ref(), Some(won[0]));
    }
}

/// The next state that the feed tells; a repeated one is skipped by the caller's expectation.
async fn next_state(feed: &mut Feed) -> Option<Versioned> {
    let next = async {
        loop {
            match feed.next().await {
                Some(News::Watched(state)) => return Some(state),
                Some(News::Listed { state, .. }) => return state,
                Some(News::Gone) => return None,
                Some(News::Settings(_) | News::Up | News::Down(_)) => {}
                None => panic!("the feed has ended"),
            }
        }
    };
    tokio::time::timeout(LIMIT, next)
        .await
        .expect("news within the limit")
}
