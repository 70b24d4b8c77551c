//! Tables for what plan and status say of partitions.

use std::sync::Arc;

use leasehold_core::{
    id::{Revision, Term},
    partition::{HashId, Layout, Member, MemberRecord, MemberState, Rebalance},
};
use leasehold_crds::{LastRebalance, MembersStatus, PartitionsStatus, PerPod};

use super::*;
use crate::belief::partitions::{
    AssignmentFacts, Blocker, BlockerFacts, Life, MemberFacts, TableFacts,
};

pub(super) fn partitioned() -> Value {
    json!({
        "clusterScope": "cluster", "leaderStrategy": "partitioned", "partitions": 64,
        "clusterId": "billing", "lease": {"durationSeconds": 15},
    })
}

fn epoch(number: u64) -> Revision {
    Revision::new(number).unwrap()
}

pub(super) fn member(pod: &str, owns: usize, revision: &str) -> MemberFacts {
    let record = MemberRecord {
        revision: Some(revision.into()),
        ..MemberRecord::default()
    };
    MemberFacts {
        pod: pod.into(),
        uid: format!("uid-{pod}"),
        revision: "7".into(),
        life: Life::Renewed,
        state: MemberState {
            incarnation: Term::new(1),
            held: true,
            record: Some(Arc::new(record)),
        },
        problem: None,
        fixed: None,
        owns,
        is_named: true,
        unchanged_for: Duration::from_secs(1),
        duration: Duration::from_secs(15),
    }
}

pub(super) fn table(owned: usize, moving: usize) -> TableFacts {
    TableFacts {
        uid: UID.into(),
        epoch: epoch(4711),
        layout: Layout::new(1, HashId::CsHash1, 64).unwrap(),
        queued: None,
        rebalance: Rebalance {
            reason: "b joined".into(),
            moves: 32,
            least: 32,
        },
        owned,
        moving,
        unowned: 64 - owned - moving,
        blockers: Vec::new(),
        heard: Heard::ByWatch,
        published: Instant::now() + Duration::from_mins(1),
        known_for: Duration::from_hours(1),
        settled: None,
    }
}

pub(super) fn blocker(pod: &str, waited: u64, life: Option<Life>) -> BlockerFacts {
    BlockerFacts {
        blocker: Blocker {
            member: Member::new(pod, Term::new(3)),
            epoch: epoch(4700),
            partitions: vec![4, 5, 6, 9],
        },
        since: jiff::Timestamp::UNIX_EPOCH,
        waited: Duration::from_secs(waited),
        life,
    }
}

/// A led, partitioned service with this table and two pods.
pub(super) fn world(table: TableFacts) -> Facts {
    let mut facts = held("a_1_00000001", 7, &json!({}));
    facts.service = service("billing", 1, &partitioned());
    facts.partitions.assignment = AssignmentFacts::Table(Box::new(table));
    facts.partitions.members = vec![member("a", 32, "r1"), member("b", 32, "r1")];
    facts
}

pub(super) fn change(facts: &mut Facts, change: impl FnOnce(&mut TableFacts)) {
    match &mut facts.partitions.assignment {
        AssignmentFacts::Table(table) => change(table),
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_carry_the_number_of_partitions_and_the_hash() {
    let written = |spec: &Value| match plan(&facts(service("billing", 1, spec))).settings {
        SettingsStep::Write { settings, .. } => settings,
        other => panic!("{other:?}"),
    };
    let settings = written(&partitioned());
    assert_eq!(settings.strategy, "partitioned");
    assert_eq!(
        (settings.partitions, settings.hash.as_deref()),
        (Some(64), Some("cs-hash/1"))
    );
    let mut spec = partitioned();
    spec["hash"] = json!("k8s-range/1");
    assert_eq!(written(&spec).hash.as_deref(), Some("k8s-range/1"));
    let settings = written(&elected());
    assert_eq!((settings.partitions, settings.hash), (None, None));
}

#[test]
fn services_of_one_id_must_agree_on_partitions_and_hash() {
    let older = service("older", 9, &partitioned());
    for (field, value, said) in [
        (
            "partitions",
            json!(96),
            "partitions is 96 here and 64 there",
        ),
        (
            "hash",
            json!("k8s-range/1"),
            "hash is k8s-range/1 here and cs-hash/1 there",
        ),
    ] {
        let mut spec = partitioned();
        spec[field] = value;
        let mut facts = facts(service("younger", 1, &spec));
        facts.peers = vec![older.clone()];
        let (stalled, reason, message) = cond(&said_of(&facts), condition::STALLED);
        assert_eq!(
            (stalled.as_str(), reason.as_str()),
            ("True", "ClusterIdConflict")
        );
        assert!(message.contains(said), "{message}");
    }
    // Spelling the default out is no difference.
    let mut spec = partitioned();
    spec["hash"] = json!("cs-hash/1");
    let mut facts = facts(service("younger", 1, &spec));
    facts.peers = vec![older];
    assert_eq!(plan(&facts).conflict, None);
}

fn said_of(facts: &Facts) -> ClusterServiceStatus {
    said(facts, None)
}

#[test]
fn counts_come_from_the_table_and_the_living_members() {
    let mut facts = world(table(62, 2));
    facts.partitions.members[1].owns = 30;
    let mut gone = member("c", 2, "r1");
    gone.life = Life::Silent;
    let mut left = member("d", 0, "r1");
    (left.life, left.state.held) = (Life::Empty, false);
    facts.partitions.members.extend([gone, left]);
    let status = said_of(&facts);
    assert_eq!(
        status.partitions,
        Some(PartitionsStatus {
            total: 64,
            owned: 62,
            moving: 2,
            unowned: 0,
            per_pod: Some(PerPod { min: 30, max: 32 }),
            epoch: 4711,
            last_rebalance: LastRebalance {
                reason: "b joined".into(),
                moves: 32,
                least: 32,
                seconds: None,
            },
        })
    );
    assert_eq!(status.members, Some(MembersStatus { ready: 2, total: 3 }));
}

#[test]
fn all_owned_is_ready_and_a_rebalance_does_not_change_that() {
    let status = said_of(&world(table(64, 0)));
    let (value, reason, message) = cond(&status, condition::PARTITIONS_OWNED);
    assert_eq!((value.as_str(), reason.as_str()), ("True", "AllOwned"));
    assert_eq!(message, "All 64 partitions are owned, by 2 pods.");
    assert_eq!(cond(&status, condition::READY).1, "Settled");
    let status = said_of(&world(table(60, 4)));
    let (value, reason, message) = cond(&status, condition::PARTITIONS_OWNED);
    assert_eq!((value.as_str(), reason.as_str()), ("False", "Rebalancing"));
    assert!(
        message.starts_with("4 of 64 partitions are moving"),
        "{message}"
    );
    let (ready, reason, _) = cond(&status, condition::READY);
    assert_eq!((ready.as_str(), reason.as_str()), ("True", "Rebalancing"));
}

#[test]
fn unowned_partitions_are_not_ready_and_say_since_when() {
    let mut facts = world(table(60, 1));
    facts.service.status = Some(said_of(&facts));
    change(&mut facts, |table| table.moving = 0);
    let later = jiff::Timestamp::from_second(1_000_000).unwrap();
    let status = status(&facts, &plan(&facts), Vec::new(), None, later);
    let (value, reason, message) = cond(&status, condition::PARTITIONS_OWNED);
    assert_eq!((value.as_str(), reason.as_str()), ("False", "Unowned"));
    assert!(
        message.starts_with("3 of 64 partitions have no living owner"),
        "{message}"
    );
    assert!(message.contains("since 1970-01-01T00:00:00Z"), "{message}");
    assert_eq!(cond(&status, condition::READY).1, "Unowned");
}

#[test]
fn without_a_table_or_with_garbage_it_says_what_to_do_and_keeps_what_was_known() {
    let mut facts = world(table(64, 0));
    facts.service.status = Some(said_of(&facts));
    facts.partitions.assignment = AssignmentFacts::Unreadable("version: found 2".into());
    let status = said_of(&facts);
    let (value, reason, message) = cond(&status, condition::PARTITIONS_OWNED);
    assert_eq!(
        (value.as_str(), reason.as_str()),
        ("False", "TableUnreadable")
    );
    assert!(
        message.contains("version: found 2") && message.contains("Owners go on"),
        "{message}"
    );
    assert_eq!(status.partitions.unwrap().owned, 64);
    assert_eq!(cond(&said_of(&facts), condition::READY).0, "False");
    facts.partitions.assignment = AssignmentFacts::Absent;
    let status = said_of(&facts);
    assert_eq!(cond(&status, condition::PARTITIONS_OWNED).1, "NoTable");
    assert_eq!(status.partitions, None);
}

#[test]
fn a_member_that_cannot_be_read_is_named() {
    let mut facts = world(table(64, 0));
    facts.partitions.members[1].problem = Some("member: found garbage".into());
    let (value, reason, message) = cond(&said_of(&facts), condition::PARTITIONS_OWNED);
    assert_eq!(
        (value.as_str(), reason.as_str()),
        ("False", "MembersUnreadable")
    );
    assert!(message.contains("b: member: found garbage"), "{message}");
}

#[test]
fn a_count_that_is_not_in_force_yet_and_pods_of_another_hash_are_said() {
    let mut facts = world(table(64, 0));
    facts.service.spec.partitions = Some(96);
    let other = MemberRecord {
        hash: HashId::K8sRange1,
        ..MemberRecord::default()
    };
    facts.partitions.members[1].state.record = Some(Arc::new(other));
    let message = |facts: &Facts| cond(&said_of(facts), condition::PARTITIONS_OWNED).2;
    let text = message(&facts);
    assert!(text.contains("The spec asks for 96"), "{text}");
    assert!(
        text.contains("get no partitions: b (k8s-range/1)"),
        "{text}"
    );
    change(&mut facts, |table| table.queued = Some(96));
    let text = message(&facts);
    assert!(text.contains("A change to 96 partitions waits"), "{text}");
    // Nobody gives it anything, so it counts for nothing.
    let members = said_of(&facts).members.unwrap();
    assert_eq!((members.ready, members.total), (1, 2));
}

#[test]
fn a_spec_of_another_hash_than_the_tables_is_said() {
    let mut facts = world(table(64, 0));
    let message = |facts: &Facts| cond(&said_of(facts), condition::PARTITIONS_OWNED).2;
    assert!(!message(&facts).contains("hash"), "{}", message(&facts));
    change(&mut facts, |table| {
        table.layout = Layout::new(1, HashId::K8sRange1, 64).unwrap();
    });
    let text = message(&facts);
    assert!(
        text.contains("asks for the hash cs-hash/1; the table's k8s-range/1 stays"),
        "{text}"
    );
    assert!(text.contains("use another clusterId"), "{text}");
}

#[test]
fn a_handoff_is_stuck_after_its_time_and_names_pod_partitions_and_advice() {
    for (life, advice) in [
        (Some(Life::Renewed), "delete the pod a"),
        (Some(Life::Silent), "the leader fences it"),
        (None, "Its Lease is gone"),
    ] {
        let mut facts = world(table(60, 4));
        change(&mut facts, |table| {
            table.blockers = vec![blocker("a", 59, life)];
        });
        assert_eq!(cond(&said_of(&facts), condition::HANDOFF_STUCK).0, "False");
        assert_eq!(plan(&facts).stuck, None);
        change(&mut facts, |table| {
            table.blockers = vec![blocker("a", 60, life)];
        });
        let status = said_of(&facts);
        let (value, reason, message) = cond(&status, condition::HANDOFF_STUCK);
        assert_eq!(
            (value.as_str(), reason.as_str()),
            ("True", "NotAcknowledged")
        );
        for part in [
            "Pod a (incarnation 3)",
            "partitions 4-6, 9 since 1970",
            advice,
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let (ready, reason, _) = cond(&status, condition::READY);
        assert_eq!(
            (ready.as_str(), reason.as_str()),
            ("False", "NotAcknowledged")
        );
        // One Warning when it begins.
        assert_eq!(plan(&facts).stuck.as_ref().map(|it| it.epoch), Some(4700));
        facts.service.status = Some(status);
        assert_eq!(plan(&facts).stuck, None);
    }
}

#[test]
fn a_new_operator_does_not_take_a_stuck_handoff_back_before_it_can_know() {
    let mut facts = world(table(60, 4));
    change(&mut facts, |table| {
        table.blockers = vec![blocker("a", 90, None)];
    });
    facts.service.status = Some(said_of(&facts));
    change(&mut facts, |table| {
        (table.blockers, table.known_for) = (vec![blocker("a", 1, None)], Duration::from_secs(1));
    });
    let before = facts.service.status.clone().unwrap();
    assert_eq!(
        cond(&said_of(&facts), condition::HANDOFF_STUCK),
        cond(&before, condition::HANDOFF_STUCK)
    );
    change(&mut facts, |table| table.blockers.clear());
    assert_eq!(cond(&said_of(&facts), condition::HANDOFF_STUCK).0, "False");
}

#[test]
fn newcomers_that_stand_by_are_a_hold() {
    let held = |members: Vec<MemberFacts>| {
        let mut facts = world(table(64, 0));
        facts.partitions.members = members;
        cond(&said_of(&facts), condition::ROLLOUT_HOLD)
    };
    let (value, reason, message) = held(vec![
        member("a", 64, "r1"),
        member("b", 0, "r2"),
        member("c", 0, "r2"),
    ]);
    assert_eq!(
        (value.as_str(), reason.as_str()),
        ("True", "RevisionsCoexist")
    );
    assert!(
        message.contains("r2 has 2, 2 of them without partitions"),
        "{message}"
    );
    let spread = held(vec![member("a", 32, "r1"), member("b", 32, "r2")]);
    assert_eq!(spread.0, "False");
    let one_revision = held(vec![member("a", 64, "r1"), member("b", 0, "r1")]);
    assert_eq!(one_revision.0, "False");
}

#[test]
fn an_operator_that_cannot_see_keeps_the_counts_and_says_unknown() {
    let mut facts = world(table(64, 0));
    facts.service.status = Some(said_of(&facts));
    facts.blind = Some(Blind {
        reason: "PermissionDenied",
        message: "list leases is forbidden".into(),
    });
    facts.partitions = PartitionFacts::default();
    let status = said_of(&facts);
    for type_ in [
        condition::PARTITIONS_OWNED,
        condition::HANDOFF_STUCK,
        condition::ROLLOUT_HOLD,
    ] {
        assert_eq!(cond(&status, type_).0, "Unknown", "{type_}");
    }
    let before = facts.service.status.unwrap();
    assert_eq!(
        (status.partitions, status.members),
        (before.partitions, before.members)
    );
    assert_eq!(plan(&world(table(64, 0))).stale, []);
}

#[test]
fn a_publish_is_announced_once_and_only_if_it_moved_something() {
    let mut facts = world(table(64, 0));
    let told = plan(&facts).rebalanced.unwrap();
    assert_eq!(
        (told.epoch, told.moves, told.least, told.members),
        (4711, 32, 32, 2)
    );
    // A repeat after a crash between Event and status wants the same.
    assert_eq!(plan(&facts).rebalanced, Some(told));
    facts.service.status = Some(said_of(&facts));
    assert_eq!(plan(&facts).rebalanced, None, "status knows the epoch");
    change(&mut facts, |table| table.epoch = epoch(4800));
    assert_eq!(plan(&facts).rebalanced.map(|it| it.epoch), Some(4800));
    change(&mut facts, |table| table.rebalance.moves = 0);
    assert_eq!(plan(&facts).rebalanced, None);
}

#[test]
fn a_table_from_before_we_looked_is_taken_over_silently() {
    let mut facts = world(table(64, 0));
    change(&mut facts, |table| table.heard = Heard::ByList);
    assert_eq!(plan(&facts).rebalanced, None);
    let mut early = world(table(64, 0));
    let before = early.first_seen - Duration::from_secs(1);
    change(&mut early, |table| table.published = before);
    assert_eq!(plan(&early).rebalanced, None);
}

#[test]
fn how_long_a_rebalance_took_is_rounded_and_survives_a_new_operator() {
    let mut facts = world(table(64, 0));
    change(&mut facts, |table| {
        table.settled = Some(Duration::from_millis(1600));
    });
    let seconds = |facts: &Facts| said_of(facts).partitions.unwrap().last_rebalance.seconds;
    assert_eq!(seconds(&facts), Some(2));
    facts.service.status = Some(said_of(&facts));
    change(&mut facts, |table| table.settled = None);
    assert_eq!(seconds(&facts), Some(2));
    change(&mut facts, |table| table.epoch = epoch(4800));
    assert_eq!(seconds(&facts), None);
}

#[test]
fn what_a_members_code_fixes_is_compared_too() {
    let mut facts = world(table(64, 0));
    for member in &mut facts.partitions.members {
        member.fixed = Some(r#"{"partitions":32,"hash":"cs-hash/1"}"#.into());
    }
    let (value, reason, message) = cond(&said_of(&facts), condition::SETTINGS_MISMATCH);
    assert_eq!((value.as_str(), reason.as_str()), ("True", "FixedInCode"));
    assert_eq!(
        message,
        "The code fixes values that differ from the spec: partitions is 32 in code and 64 in the spec \
         (pod a). Change the code or the spec."
    );
    facts.partitions.members[0].fixed = Some("six".into());
    facts.partitions.members[1].fixed = None;
    assert_eq!(
        cond(&said_of(&facts), condition::SETTINGS_MISMATCH).0,
        "Unknown"
    );
}

#[test]
fn a_status_of_4096_partitions_on_300_pods_stays_on_one_page() {
    let mut facts = world(table(64, 0));
    facts.partitions.members = (0..300)
        .map(|index| {
            let mut member = member(&format!("{}-{index}", "x".repeat(60)), 13, "r1");
            member.problem = Some("y".repeat(160));
            member
        })
        .collect();
    change(&mut facts, |table| {
        table.layout = Layout::new(1, HashId::CsHash1, 4096).unwrap();
        table.blockers = (0..300)
            .map(|index| {
                let mut found = blocker(&format!("{}-{index}", "x".repeat(60)), 600, None);
                found.blocker.partitions = (0..4096).step_by(2).collect();
                found
            })
            .collect();
    });
    let mut status = said_of(&facts);
    for condition in &status.conditions {
        assert!(condition.message.len() < 1500, "{}", condition.message);
    }
    status.history = None;
    assert!(json!(status).to_string().len() < 8192);
}

#[test]
fn another_strategy_has_none_of_it() {
    let mut facts = world(table(0, 0));
    facts.service.spec.leader_strategy = Some(leasehold_crds::LeaderStrategy::LeaderElected);
    let status = said_of(&facts);
    assert_eq!((&status.partitions, &status.members), (&None, &None));
    assert_eq!(status.conditions.len(), 5);
    assert_eq!(cond(&status, condition::READY).1, "Settled");
}
