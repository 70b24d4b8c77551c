//! Late writes of one's own and edits from outside: what the simulation found.

use super::*;
use crate::election::{Purpose, WriteOutcome};
use crate::lease::{AttemptStamp, LeaseRecord};

const ME: &str = "orders-0_11_0000000b";

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn candidate(may_reclaim: bool) -> Election {
    Election::new(Config {
        identity: Identity::new(ME).unwrap(),
        token_era: 0,
        timing: LeaseTiming::DEFAULT,
        may_reclaim,
        first_attempt: 1,
        rules: Rules::ALL,
    })
}

fn held(uid: &str, revision: u64, holder: &str, term: u32, attempt: u64) -> Versioned {
    signed(uid, revision, holder, &format!("{holder}#{term}#{attempt}"))
}

fn signed(uid: &str, revision: u64, holder: &str, stamp: &str) -> Versioned {
    let attempt = AttemptStamp::parse(stamp).unwrap();
    Versioned {
        uid: LeaseUid::new(uid),
        revision: Revision::new(revision).unwrap(),
        record: LeaseRecord {
            holder: Some(holder.to_owned()),
            duration: Some(Duration::from_secs(15)),
            term: attempt.term,
            attempt: Some(attempt),
            ..LeaseRecord::default()
        },
    }
}

fn listed(election: &mut Election, state: Option<Versioned>, now: Instant) -> Vec<Effect> {
    election.step(Input::Listed { asked: now, state }, now)
}

fn unknown(election: &mut Election, attempt: u64, now: Instant) {
    let outcome = WriteOutcome::Unknown;
    election.step(Input::WriteDone { attempt, outcome }, now);
}

fn claims(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::Write(write) if write.purpose == Purpose::Claim))
}

fn has(effects: &[Effect], wanted: impl Fn(&Effect) -> bool) -> bool {
    effects.iter().any(wanted)
}

fn ends(effects: &[Effect]) -> bool {
    has(effects, |effect| matches!(effect, Effect::End { .. }))
}

/// A candidate whose claim over r7 is on its way, and which reads again after a timeout.
fn claimed_and_reading() -> Election {
    let mut election = candidate(false);
    listed(&mut election, Some(held("u", 7, "b", 4, 9)), at(0));
    election.step(Input::ReadFailed { retry_after: None }, at(1));
    assert!(claims(&election.step(Input::Timer, at(16))));
    unknown(&mut election, 1, at(18));
    let effects = election.step(Input::Timer, at(23));
    assert_eq!(effects, [Effect::Read]);
    election
}

#[test]
fn a_read_from_before_a_late_claim_was_stored_does_not_end_its_term() {
    let mut election = claimed_and_reading();
    let shown = election.step(Input::Watched(held("u", 8, ME, 5, 1)), at(24));
    assert!(has(&shown, |effect| matches!(effect, Effect::Begin { .. })));
    let before = Input::Read(Some(held("u", 7, "b", 4, 9)));
    assert!(!ends(&election.step(before, at(24))), "old news (E4)");
}

#[test]
fn a_read_that_found_nothing_before_a_late_claim_was_stored_is_asked_again() {
    let mut election = claimed_and_reading();
    election.step(Input::Watched(held("u", 8, ME, 5, 1)), at(24));
    let effects = election.step(Input::Read(None), at(25));
    assert_eq!(
        effects,
        [Effect::Read],
        "old news, or a deletion since (E4)"
    );
    assert!(ends(&election.step(Input::Read(None), at(26))));
}

#[test]
fn a_read_that_the_watch_has_overtaken_takes_nothing_back() {
    let mut election = claimed_and_reading();
    election.step(Input::Watched(held("u", 9, "c", 5, 3)), at(24));
    election.step(Input::Read(Some(held("u", 8, "b", 4, 10))), at(25));
    assert_eq!(election.view().holder.as_deref(), Some("c"));
}

#[test]
fn a_late_claim_stored_after_a_deletion_waits_for_the_holder_before_it() {
    let mut election = candidate(false);
    assert!(!claims(&listed(&mut election, None, at(0))));
    assert!(claims(&election.step(Input::Timer, at(1))));
    unknown(&mut election, 1, at(3));
    // Another one led meanwhile, and somebody deleted its record.
    election.step(Input::Watched(held("u", 8, "b", 1, 5)), at(4));
    election.step(Input::WatchedGone, at(5));
    election.step(Input::Timer, at(10));
    let late = Input::Read(Some(held("v", 10, ME, 1, 1)));
    let effects = election.step(late, at(11));
    assert!(!claims(&effects) && !has(&effects, |e| matches!(e, Effect::Begin { .. })));
    assert!(
        !claims(&election.step(Input::Timer, at(18))),
        "b may act until 19 s (E5)"
    );
    assert!(claims(&election.step(Input::Timer, at(20))));
}

#[test]
fn a_holder_that_somebody_else_wrote_into_the_record_is_not_reclaimed() {
    let former = "orders-0_11_0000000a";
    let mut election = candidate(true);
    let forged = signed("u", 7, former, "b#4#9");
    assert!(!claims(&listed(&mut election, Some(forged), at(0))), "E8");
    let mut election = candidate(true);
    assert!(claims(&listed(
        &mut election,
        Some(held("u", 7, former, 4, 9)),
        at(0)
    )));
}

#[test]
fn a_stranger_in_the_same_pod_is_not_reclaimed() {
    let stranger = Identity::new("orders-0_11_0000000a").unwrap().as_stranger();
    let mut election = candidate(true);
    let led = held("u", 7, stranger.as_str(), 4, 9);
    assert!(!claims(&listed(&mut election, Some(led), at(0))), "E8");
}

fn leader() -> Election {
    let mut election = candidate(false);
    listed(&mut election, None, at(0));
    assert!(claims(&election.step(Input::Timer, at(1))));
    done(&mut election, held("u", 8, ME, 1, 1), at(1));
    election
}

fn done(election: &mut Election, state: Versioned, now: Instant) -> Vec<Effect> {
    let attempt = state.record.attempt.as_ref().unwrap().number;
    let outcome = WriteOutcome::Done(state);
    election.step(Input::WriteDone { attempt, outcome }, now)
}

fn carried(at_once: bool) -> Input {
    Input::Contents {
        contents: Contents::Member(std::sync::Arc::default()),
        at_once,
    }
}

fn renews_with(effects: &[Effect], contents: &Contents) -> bool {
    has(effects, |effect| {
        matches!(effect, Effect::Write(write)
            if write.purpose == Purpose::Renew && write.record.contents == *contents)
    })
}

#[test]
fn contents_that_others_wait_for_are_published_out_of_turn_and_others_with_the_next_renewal() {
    let contents = Contents::Member(std::sync::Arc::default());
    let mut election = leader();
    assert!(!renews_with(
        &election.step(carried(false), at(2)),
        &contents
    ));
    assert!(renews_with(&election.step(Input::Timer, at(6)), &contents));
    let mut election = leader();
    assert!(renews_with(&election.step(carried(true), at(2)), &contents));
}

#[test]
fn contents_that_changed_while_a_renewal_was_under_way_follow_it_at_once() {
    let contents = Contents::Member(std::sync::Arc::default());
    let mut election = leader();
    election.step(Input::Timer, at(6));
    assert!(!renews_with(
        &election.step(carried(true), at(7)),
        &contents
    ));
    let effects = done(&mut election, held("u", 9, ME, 1, 2), at(7));
    assert!(renews_with(&effects, &contents));
}

#[test]
fn a_created_record_begins_above_the_floor() {
    let mut election = candidate(false);
    election.step(Input::TermFloor(Term::new(7)), at(0));
    listed(&mut election, None, at(0));
    let effects = election.step(Input::Timer, at(1));
    let terms = effects.iter().filter_map(|effect| match effect {
        Effect::Write(write) => Some(write.record.term.number()),
        _ => None,
    });
    assert_eq!(terms.collect::<Vec<_>>(), [8], "H1");
}
