//! What a store must do for members and assignments, beside what it does for leaders.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::id::{Revision, Term};
use leasehold_core::lease::{Contents, LeaseRecord, Versioned};
use leasehold_core::partition::{
    HashId, Layout, Listing, Member, MemberRecord, Part, Partition, Rebalance, Table,
};

use super::{LIMIT, Suite, claim, exactly, next_state, record};
use crate::driver::{MemberFeed, MemberNews};
use crate::key::LeaseKey;
use leasehold_core::election::Target;

/// What member `n` says of itself.
fn of_member(n: u16) -> Contents {
    Contents::Member(Arc::new(MemberRecord {
        layout: Some(layout()),
        acked: Revision::new(41).ok(),
        owned: [Partition::new(n)].into_iter().collect(),
        zone: Some("zone-1".into()),
        ..MemberRecord::default()
    }))
}

fn layout() -> Layout {
    Layout::new(3, HashId::CsHash1, 4).expect("a sound layout")
}

fn table(epoch: Revision) -> Contents {
    let part = |owner| Part {
        owner,
        epoch,
        prev: vec![1],
    };
    Contents::Table(Arc::new(Table {
        layout: layout(),
        epoch,
        members: vec![
            Member::new("a", Term::new(1)),
            Member::new("b", Term::new(7)),
        ],
        parts: [Some(0), Some(0), None, Some(1)].map(part).to_vec(),
        prev_all: vec![0],
        rebalance: Rebalance::default(),
        queued: Some(8),
    }))
}

fn carrying(contents: Contents, number: u64) -> LeaseRecord {
    LeaseRecord {
        contents,
        ..record("a__00000001", 1, number)
    }
}

fn member(id: &LeaseKey, name: &str) -> LeaseKey {
    id.member(name).expect("a sound name")
}

impl Suite {
    pub(super) async fn partitions(&self) {
        self.the_leases_of_a_cluster_id_are_apart().await;
        self.contents_read_back_and_stay_where_a_write_has_none()
            .await;
        self.a_list_shows_the_assignment_and_the_members_of_its_id()
            .await;
        self.lost_labels_never_read_as_absence().await;
        self.a_member_is_watched_by_its_name().await;
        self.an_assignment_is_watched_like_a_leader().await;
        self.all_members_are_watched_at_once().await;
        self.a_watch_of_all_members_shows_lost_and_restored_labels()
            .await;
        self.whoever_watches_later_is_told_the_state_as_well().await;
    }

    async fn create_with(&self, key: &LeaseKey, contents: Contents) -> Versioned {
        let write = claim(Target::Absent, carrying(contents, 1));
        self.write(key, &write)
            .await
            .expect("creating an absent record")
    }

    async fn renew(&self, key: &LeaseKey, state: &Versioned, number: u64) -> Versioned {
        let record = carrying(Contents::Nothing, number);
        self.replace(key, state, record).await
    }

    async fn list(&self, key: &LeaseKey) -> Listing {
        self.store.list(key, LIMIT).await.expect("listing")
    }

    async fn the_leases_of_a_cluster_id_are_apart(&self) {
        let id = self.key("apart");
        let leader = self.create(&id).await;
        assert_eq!(self.read(&id.assignment()).await, None);
        assert_eq!(self.read(&member(&id, "leader")).await, None);
        let of_member = self.create_with(&member(&id, "leader"), of_member(1)).await;
        let assignment = self
            .create_with(&id.assignment(), table(leader.revision))
            .await;
        assert_eq!(self.read(&id).await, Some(leader));
        assert_eq!(self.read(&id.assignment()).await, Some(assignment));
        assert_eq!(self.read(&member(&id, "leader")).await, Some(of_member));
    }

    async fn contents_read_back_and_stay_where_a_write_has_none(&self) {
        let id = self.key("contents");
        let unreadable = Contents::Unreadable {
            newer: true,
            reason: "version: found 2".into(),
        };
        let epoch = Revision::new(77).expect("sound");
        for (key, contents) in [
            (member(&id, "a"), of_member(2)),
            (id.assignment(), table(epoch)),
        ] {
            let mut state = self.create_with(&key, contents.clone()).await;
            assert_eq!(state.record.contents, contents, "the answer has them");
            for (number, none) in [(2, Contents::Nothing), (3, unreadable.clone())] {
                let write = claim(exactly(&state), carrying(none, number));
                state = self.write(&key, &write).await.expect("replacing");
                assert_eq!(
                    state.record.contents, contents,
                    "a write without contents leaves them"
                );
            }
            assert_eq!(self.read(&key).await, Some(state));
        }
    }

    async fn a_list_shows_the_assignment_and_the_members_of_its_id(&self) {
        let (id, other) = (self.key("list"), self.key("list-2"));
        self.create(&id).await;
        let nothing = self.list(&id).await;
        assert_eq!((nothing.assignment, nothing.members.len()), (None, 0));
        self.create_with(&member(&other, "a"), of_member(1)).await;
        self.create_with(&other.assignment(), table(nothing.revision))
            .await;
        self.outsider.foreign(&id).await;
        let a = self.create_with(&member(&id, "a"), of_member(1)).await;
        let b = self.create_with(&member(&id, "b.c"), of_member(2)).await;
        let assignment = self
            .create_with(&id.assignment(), table(nothing.revision))
            .await;
        assert!(
            assignment.revision > nothing.revision,
            "the epoch of a first table is below the next one (H2)"
        );
        let a = self.renew(&member(&id, "a"), &a, 2).await;
        let listed = self.list(&id).await;
        assert!(listed.revision >= a.revision, "a quorum list");
        assert_eq!(listed.assignment, Some(assignment));
        let members: BTreeMap<Arc<str>, Versioned> = [("a".into(), a), ("b.c".into(), b)].into();
        assert_eq!(listed.members, members);
        self.outsider.delete(&id.assignment()).await;
        self.outsider.delete(&member(&id, "a")).await;
        let after = self.list(&member(&id, "a")).await;
        assert!(after.revision > listed.revision, "lists grow");
        assert_eq!(after.assignment, None, "a deletion");
        let left: Vec<_> = after.members.keys().map(AsRef::as_ref).collect();
        assert_eq!(left, ["b.c"]);
    }

    async fn lost_labels_never_read_as_absence(&self) {
        let id = self.key("unlabelled");
        let epoch = Revision::new(5).expect("sound");
        self.create_with(&id.assignment(), table(epoch)).await;
        let own = member(&id, "own");
        self.create_with(&own, of_member(1)).await;
        self.create_with(&member(&id, "b"), of_member(2)).await;
        for key in [id.assignment(), own.clone(), member(&id, "b")] {
            self.outsider.unlabel(&key).await;
        }
        let listed = self.list(&own).await;
        assert_eq!(listed.assignment, self.read(&id.assignment()).await);
        assert!(listed.assignment.is_some(), "it is looked for by name (E4)");
        let found: Vec<_> = listed.members.keys().map(AsRef::as_ref).collect();
        assert_eq!(found, ["own"], "the key's own member, by name; no other");
        let state = self.read(&own).await.expect("the unlabelled record");
        self.renew(&own, &state, 2).await;
        let listed = self.list(&id).await;
        let found: Vec<_> = listed.members.keys().map(AsRef::as_ref).collect();
        assert_eq!(found, ["own"], "every own write restores the labels (E4)");
    }

    async fn a_member_is_watched_by_its_name(&self) {
        let id = self.key("by-name");
        let key = member(&id, "a");
        let mut feed = self.store.watch(&key);
        assert_eq!(next_state(&mut feed).await, None, "nothing there");
        let first = self.create_with(&key, of_member(1)).await;
        assert_eq!(next_state(&mut feed).await, Some(first.clone()));
        self.create_with(&member(&id, "b"), of_member(2)).await;
        let second = self.renew(&key, &first, 2).await;
        assert_eq!(next_state(&mut feed).await, Some(second));
        self.outsider.unlabel(&key).await;
        let unlabelled = self.read(&key).await;
        assert_eq!(
            next_state(&mut feed).await,
            unlabelled,
            "labels are no matter"
        );
        self.outsider.delete(&key).await;
        assert_eq!(next_state(&mut feed).await, None, "the deletion");
        let again = self.create_with(&key, of_member(1)).await;
        assert_eq!(next_state(&mut feed).await, Some(again), "the new life");
    }

    async fn an_assignment_is_watched_like_a_leader(&self) {
        let id = self.key("table");
        let key = id.assignment();
        let (mut of_leader, mut feed) = (self.store.watch(&id), self.store.watch(&key));
        assert_eq!(next_state(&mut of_leader).await, None);
        let epoch = Revision::new(5).expect("sound");
        let leader = self.create(&id).await;
        let first = self.create_with(&key, table(epoch)).await;
        // A list may say once more that there is nothing.
        assert_eq!(some_state(&mut of_leader).await, leader);
        assert_eq!(some_state(&mut feed).await, first);
        let contents = table(first.revision);
        let second = self.replace(&key, &first, carrying(contents, 2)).await;
        while some_state(&mut feed).await != second {}
        self.outsider.delete(&key).await;
        assert_eq!(next_state(&mut feed).await, None, "the deletion");
    }

    async fn all_members_are_watched_at_once(&self) {
        let id = self.key("all");
        let (a, b) = (member(&id, "a"), member(&id, "b"));
        self.create(&id).await;
        let first = self.create_with(&a, of_member(1)).await;
        let mut feed = self.store.watch_members(&id);
        let members = listed(&mut feed).await;
        assert_eq!(members, BTreeMap::from([("a".into(), first.clone())]));
        let second = self.create_with(&b, of_member(2)).await;
        assert_eq!(change(&mut feed).await, ("b".into(), Some(second.clone())));
        self.create_with(&member(&self.key("all-2"), "a"), of_member(1))
            .await;
        self.outsider.foreign(&id).await;
        for number in 2..=4 {
            let before = self.read(&a).await.expect("the member");
            let next = self.renew(&a, &before, number).await;
            assert_eq!(next.record.contents, of_member(1));
            assert_eq!(change(&mut feed).await, ("a".into(), Some(next)));
        }
        self.outsider.empty(&b).await;
        let (name, emptied) = change(&mut feed).await;
        let emptied = emptied.expect("an emptied record is still there");
        assert_eq!((&*name, emptied.record.holder), ("b", None));
        self.outsider.delete(&b).await;
        assert_eq!(change(&mut feed).await, ("b".into(), None), "the deletion");
        let again = self.create_with(&b, of_member(2)).await;
        assert_eq!(change(&mut feed).await, ("b".into(), Some(again)));
    }

    async fn a_watch_of_all_members_shows_lost_and_restored_labels(&self) {
        let id = self.key("lost");
        let key = member(&id, "a");
        self.create_with(&key, of_member(1)).await;
        let mut feed = self.store.watch_members(&id);
        listed(&mut feed).await;
        self.outsider.unlabel(&key).await;
        assert_eq!(change(&mut feed).await, ("a".into(), None));
        let state = self.read(&key).await.expect("it is still there");
        let restored = self.renew(&key, &state, 2).await;
        assert_eq!(change(&mut feed).await, ("a".into(), Some(restored)));
    }

    async fn whoever_watches_later_is_told_the_state_as_well(&self) {
        let id = self.key("later");
        let key = member(&id, "a");
        let state = self.create_with(&key, of_member(1)).await;
        let mut first = self.store.watch_members(&id);
        assert_eq!(listed(&mut first).await.get("a"), Some(&state));
        let mut second = self.store.watch_members(&id);
        assert_eq!(listed(&mut second).await.get("a"), Some(&state));
        // Beside a watch of all members, one of a single member.
        let mut by_name = self.store.watch(&key);
        assert_eq!(some_state(&mut by_name).await, state);
        let next = self.renew(&key, &state, 2).await;
        assert_eq!(next_state(&mut by_name).await, Some(next.clone()));
        // And it goes on alone.
        drop((first, second));
        let last = self.renew(&key, &next, 3).await;
        while some_state(&mut by_name).await != last {}
    }
}

/// The next record that the feed tells.
async fn some_state(feed: &mut crate::driver::Feed) -> Versioned {
    loop {
        if let Some(state) = next_state(feed).await {
            return state;
        }
    }
}

/// The next list; changes that were under way before it are skipped.
async fn listed(feed: &mut MemberFeed) -> BTreeMap<Arc<str>, Versioned> {
    loop {
        if let MemberNews::Listed { members, .. } = news(feed).await {
            return members;
        }
    }
}

/// The next change of one member; lists that repeat what is known are skipped.
async fn change(feed: &mut MemberFeed) -> (Arc<str>, Option<Versioned>) {
    loop {
        match news(feed).await {
            MemberNews::Seen(name, state) => return (name, Some(state)),
            MemberNews::Gone(name) => return (name, None),
            MemberNews::Listed { .. } | MemberNews::Up | MemberNews::Down(_) => {}
        }
    }
}

async fn news(feed: &mut MemberFeed) -> MemberNews {
    tokio::time::timeout(LIMIT, feed.next())
        .await
        .expect("news within the limit")
        .expect("a feed that goes on")
}
