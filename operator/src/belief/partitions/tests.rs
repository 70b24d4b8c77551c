//! The story of one cluster id's table and members, reading by reading.

use leasehold_core::{
    id::LeaseUid,
    lease::{LeaseRecord, Versioned},
    partition::{HashId, Layout, MemberRecord, Part, Partition, Rebalance, Table},
};
use leasehold_crds::keys;

use super::{
    super::{Beliefs, purpose::Purpose},
    *,
};

struct Story {
    belief: PartitionsBelief,
    now: Instant,
    revision: u64,
}

/// A reading with these contents.
fn reading(revision: u64, holder: Option<&str>, term: u32, contents: Contents) -> LeaseReading {
    let record = LeaseRecord {
        holder: holder.map(str::to_owned),
        duration: Some(Duration::from_secs(15)),
        term: Term::new(term),
        contents,
        ..LeaseRecord::default()
    };
    LeaseReading {
        uid: "u".into(),
        revision: revision.to_string(),
        labels: BTreeMap::new(),
        state: Some(Versioned {
            uid: LeaseUid::new("u"),
            revision: Revision::new(revision).unwrap(),
            record,
        }),
        problem: None,
        since: None,
        settings_generation: None,
        fixed: None,
        settings: None,
        owners: BTreeSet::new(),
    }
}

fn layout() -> Layout {
    Layout::new(1, HashId::CsHash1, 2).unwrap()
}

fn table(epoch: u64, owner: u16, prev: &[u16]) -> Contents {
    let epoch = Revision::new(epoch).unwrap();
    let part = |prev: &[u16]| Part {
        owner: Some(owner),
        epoch,
        prev: prev.to_vec(),
    };
    Contents::Table(Arc::new(Table {
        layout: layout(),
        epoch,
        members: vec![
            Member::new("a", Term::new(1)),
            Member::new("b", Term::new(1)),
        ],
        parts: vec![part(prev), part(&[])],
        prev_all: Vec::new(),
        rebalance: Rebalance::default(),
        queued: None,
    }))
}

fn says(acked: u64, owned: &[u16]) -> Contents {
    Contents::Member(Arc::new(MemberRecord {
        layout: Some(layout()),
        acked: Some(Revision::new(acked).unwrap()),
        owned: owned.iter().copied().map(Partition::new).collect(),
        ..MemberRecord::default()
    }))
}

impl Story {
    fn new() -> Self {
        Self {
            belief: PartitionsBelief::default(),
            now: Instant::now(),
            revision: 0,
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn member(&mut self, pod: &str, contents: Contents) -> bool {
        self.revision += 1;
        let reading = reading(self.revision, Some(pod), 1, contents);
        self.belief.note_member(pod, Some(reading), self.now)
    }

    fn assignment(&mut self, contents: Contents) -> bool {
        self.revision += 1;
        let reading = reading(self.revision, Some("a"), 1, contents);
        let news = self
            .belief
            .note_assignment(Some(reading), Heard::ByWatch, self.now);
        self.review();
        news
    }

    fn review(&mut self) {
        self.belief.review(self.now, jiff::Timestamp::UNIX_EPOCH);
    }

    fn table(&self) -> TableFacts {
        match self.belief.facts(self.now).assignment {
            AssignmentFacts::Table(table) => *table,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn renewals_of_members_concern_nobody() {
    let mut story = Story::new();
    assert!(story.member("a", says(5, &[0])));
    for _ in 0..100 {
        story.pass(5);
        assert!(!story.member("a", says(5, &[0])));
        assert!(!story.belief.suspect(story.now));
    }
    assert!(story.member("a", says(6, &[0])), "an acknowledgement does");
    assert!(story.member("a", says(6, &[])), "a released partition does");
}

#[test]
fn a_rewritten_lease_with_the_same_table_concerns_nobody() {
    let mut story = Story::new();
    assert!(story.assignment(table(5, 1, &[0])));
    story.pass(3);
    assert!(!story.assignment(table(5, 1, &[0])));
    assert_eq!(story.now - story.table().published, Duration::from_secs(3));
    assert!(story.assignment(table(6, 1, &[0])));
    assert_eq!(story.table().published, story.now);
    assert_eq!(story.table().known_for, Duration::from_secs(3));
}

#[test]
fn a_silent_member_is_suspected_once_and_silent_only_when_a_read_confirms_it() {
    let mut story = Story::new();
    story.assignment(table(5, 1, &[]));
    story.member("b", says(5, &[0, 1]));
    story.pass(14);
    assert!(!story.belief.suspect(story.now));
    story.pass(2);
    assert!(story.belief.suspect(story.now));
    assert!(!story.belief.suspect(story.now));
    assert_eq!(story.table().unowned, 0);
    assert!(story.belief.is_suspected());
    story.belief.confirm_lapses();
    assert_eq!(story.table().unowned, 2);
    assert_eq!(story.belief.facts(story.now).members[0].life, Life::Silent);
    assert!(story.member("b", says(5, &[0, 1])), "it comes back");
    assert_eq!(story.table().owned, 2);
}

#[test]
fn how_long_a_handoff_waits_counts_from_its_publish_and_ends_with_the_release() {
    let mut story = Story::new();
    story.member("a", says(4, &[0]));
    story.member("b", says(4, &[1]));
    story.assignment(table(5, 1, &[0]));
    story.pass(20);
    // Another acknowledgement, and a renewal, do not start it anew.
    story.member("b", says(5, &[1]));
    story.review();
    story.pass(20);
    let found = story.table();
    assert_eq!((found.owned, found.moving), (1, 1));
    assert_eq!(found.blockers[0].waited, Duration::from_secs(40));
    assert_eq!(found.settled, None);
    story.member("a", says(5, &[]));
    story.review();
    let found = story.table();
    assert!(found.blockers.is_empty());
    assert_eq!(found.settled, Some(Duration::from_secs(40)));
    // A later look does not change it.
    story.pass(100);
    story.review();
    assert_eq!(story.table().settled, Some(Duration::from_secs(40)));
}

#[test]
fn a_table_found_by_a_list_says_nothing_about_how_long_it_took() {
    let mut story = Story::new();
    story.member("b", says(5, &[0, 1]));
    let found = reading(9, Some("a"), 1, table(5, 1, &[]));
    story
        .belief
        .note_assignment(Some(found), Heard::ByList, story.now);
    story.review();
    assert_eq!((story.table().owned, story.table().settled), (2, None));
}

#[test]
fn a_pass_that_comes_before_the_sweep_sees_what_the_sweep_will_say() {
    let (beliefs, now) = (Beliefs::default(), Instant::now());
    let member = reading(1, Some("b"), 1, says(5, &[0, 1]));
    let assignment = reading(2, Some("a"), 1, table(5, 1, &[]));
    for (purpose, mut reading) in [
        (Purpose::Member("billing", "b"), member),
        (Purpose::Assignment("billing"), assignment),
    ] {
        let label = (keys::LABEL_CLUSTER_ID.to_owned(), "billing".to_owned());
        reading.labels.extend([label]);
        let mut inner = beliefs.inner();
        inner.note_partitions("demo", purpose, Some(reading), Heard::ByWatch, now);
    }
    let settled = || match beliefs.partitions("demo", "billing", now).assignment {
        AssignmentFacts::Table(table) => table.settled,
        other => panic!("{other:?}"),
    };
    assert_eq!(settled(), Some(Duration::ZERO));
    beliefs.sweep(now);
    assert_eq!(settled(), Some(Duration::ZERO));
}

#[test]
fn what_cannot_be_read_is_a_sentence_and_never_a_panic() {
    let garbage = |newer| Contents::Unreadable {
        newer,
        reason: "version: found 2, allowed is 1".into(),
    };
    for (contents, said) in [
        (garbage(false), "version: found 2"),
        (garbage(true), "a later version wrote it"),
        (Contents::Nothing, "it holds no table"),
        (says(1, &[]), "it holds no table"),
    ] {
        let mut story = Story::new();
        story.assignment(contents);
        match story.belief.facts(story.now).assignment {
            AssignmentFacts::Unreadable(problem) => assert!(problem.contains(said), "{problem}"),
            other => panic!("{other:?}"),
        }
    }
    let mut story = Story::new();
    story.assignment(table(5, 1, &[0]));
    story.member("b", garbage(true));
    let members = story.belief.facts(story.now).members;
    assert!(
        members[0]
            .problem
            .as_deref()
            .unwrap()
            .contains("later version")
    );
    // A held Lease whose spec is nonsense still keeps its place.
    let mut broken = reading(50, Some("b"), 1, Contents::Nothing);
    broken.state = None;
    broken.problem = Some("spec.leaseTransitions is -1".into());
    story.belief.note_member("b", Some(broken), story.now);
    let members = story.belief.facts(story.now).members;
    assert_eq!(members[0].life, Life::Renewed);
}

#[test]
fn an_older_table_that_somebody_put_back_is_none_until_a_later_one_comes() {
    let mut story = Story::new();
    assert!(story.assignment(table(5, 0, &[])));
    assert!(story.assignment(table(8, 1, &[])));
    let said = |story: &Story| match story.belief.facts(story.now).assignment {
        AssignmentFacts::Unreadable(problem) => problem,
        other => panic!("{other:?}"),
    };
    for older in [table(5, 0, &[]), table(7, 0, &[])] {
        story.assignment(older);
        let problem = said(&story);
        assert!(problem.contains("an older table was put back"), "{problem}");
        assert!(problem.contains("8 was seen"), "{problem}");
    }
    assert!(story.assignment(table(9, 1, &[])));
    assert_eq!(story.table().epoch, Revision::new(9).unwrap());
}

#[test]
fn an_answer_that_the_watch_overtook_changes_nothing() {
    let mut story = Story::new();
    story.member("b", says(5, &[0]));
    let late = reading(story.revision, Some("b"), 1, says(4, &[0, 1]));
    story.member("b", says(6, &[]));
    assert!(!story.belief.note_member("b", Some(late), story.now));
    let members = story.belief.facts(story.now).members;
    let record = members[0].state.record.clone().unwrap();
    assert_eq!(record.acked.map(Revision::number), Some(6));
    // Another life of the Lease may count lower.
    let mut again = reading(1, Some("b"), 2, says(1, &[]));
    again.uid = "another".into();
    assert!(story.belief.note_member("b", Some(again), story.now));
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut story = Story::new();
    story.assignment(table(5, 1, &[]));
    story.member("a", says(5, &[]));
    assert_eq!(story.belief.count(), 2);
    assert_eq!(story.belief.unlisted(|pod| pod == "b"), ["a"]);
    assert!(story.belief.note_member("a", None, story.now));
    assert!(!story.belief.note_member("a", None, story.now));
    assert!(
        story
            .belief
            .note_assignment(None, Heard::ByWatch, story.now)
    );
    assert_eq!(story.belief.count(), 0);
}
