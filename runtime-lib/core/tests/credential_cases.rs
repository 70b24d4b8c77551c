//! One case a test: what is decided about a Secret and a server that somebody has changed.

use leasehold_core::credential::{
    Conflict, Deletion, Entry, Keep, LoginState, Policy, ServerState, SharedState, Slot, Step,
    Stored, Tried, Waiting, Which, Why, end, step,
};
use leasehold_core::time::{Duration, WallTime};

const NOW: u64 = 1_000_000;
const DAY: u64 = 86_400;

/// A service in the middle of its life: generation 5 is current, and was tried.
struct Case {
    stored: Stored,
    server: ServerState,
    policy: Policy,
    tried: Tried,
    now: u64,
}

fn at(seconds: u64) -> WallTime {
    WallTime::from_seconds(seconds)
}

fn entry(generation: u64) -> Entry {
    Entry {
        slot: Slot::of_generation(generation),
        generation: Some(generation),
        fingerprint: Some(format!("f{generation}")),
        is_consistent: true,
    }
}

fn login(generation: u64) -> LoginState {
    LoginState::Ours {
        generation,
        fingerprint: format!("f{generation}"),
        is_in_shape: true,
        sessions: 0,
    }
}

fn busy(generation: u64) -> LoginState {
    LoginState::Ours {
        generation,
        fingerprint: format!("f{generation}"),
        is_in_shape: true,
        sessions: 3,
    }
}

fn settled() -> Case {
    let mut tried = Tried::default();
    tried.logged_in(Slot::A, "f5", true);
    Case {
        stored: Stored {
            exists: true,
            current: Some(entry(5)),
            rotated_at: Some(at(NOW - 10)),
            ..Stored::default()
        },
        server: ServerState {
            shared: SharedState::InShape,
            logins: [login(5), LoginState::Absent],
        },
        policy: Policy {
            interval: None,
            grace: Duration::from_mins(5),
            max_grace: Duration::from_hours(24),
            counts: true,
            pooled: false,
            trigger: None,
            deletion: None,
        },
        tried,
        now: NOW,
    }
}

/// The same, ten seconds after a turn from generation 4.
fn in_grace() -> Case {
    let mut case = settled();
    case.stored.previous = Some(entry(4));
    case.stored.previous_since = Some(at(NOW - 10));
    case.server.logins[1] = login(4);
    case
}

impl Case {
    fn step(&self) -> Step {
        step(
            &self.stored,
            &self.server,
            &self.policy,
            &self.tried,
            at(self.now),
        )
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn edit(&mut self, change: impl FnOnce(&mut Entry)) {
        if let Some(current) = &mut self.stored.current {
            change(current);
        }
    }
}

fn write_next(generation: u64, previous: Keep, why: Why) -> Step {
    Step::WriteNext {
        generation,
        previous,
        why,
    }
}

const BARE_5: Keep = Keep::Bare { generation: 5 };

#[test]
fn a_settled_service_needs_nothing_until_its_interval_has_passed() {
    assert_eq!(settled().step(), Step::Settled { look_again: None });
    let case = settled().with(|case| case.policy.interval = Some(Duration::from_hours(24)));
    let look_again = Some(at(NOW - 10 + DAY));
    assert_eq!(case.step(), Step::Settled { look_again });
    let later = case.with(|case| case.now = NOW - 10 + DAY);
    assert_eq!(later.step(), write_next(6, Keep::Nothing, Why::Interval));
}

#[test]
fn another_trigger_rotates_and_a_removed_one_does_not() {
    let case = settled().with(|case| case.policy.trigger = Some("x".into()));
    assert_eq!(case.step(), write_next(6, Keep::Nothing, Why::Trigger));
    let handled = case.with(|case| case.stored.trigger = Some("x".into()));
    assert_eq!(handled.step(), Step::Settled { look_again: None });
    let removed = handled.with(|case| case.policy.trigger = None);
    assert_eq!(removed.step(), Step::Settled { look_again: None });
}

#[test]
fn a_new_service_begins_with_its_secret() {
    let case = settled().with(|case| {
        case.stored = Stored::default();
        case.server = ServerState::default();
    });
    assert_eq!(case.step(), write_next(1, Keep::Nothing, Why::Created));
}

#[test]
fn a_lost_secret_spares_the_login_that_is_alive() {
    let case = settled().with(|case| case.stored = Stored::default());
    assert_eq!(case.step(), write_next(6, BARE_5, Why::Lost));
    let emptied = case.with(|case| case.stored.exists = true);
    assert_eq!(emptied.step(), write_next(6, BARE_5, Why::Lost));
}

#[test]
fn a_secret_lost_during_a_grace_spares_the_later_login() {
    let case = in_grace().with(|case| case.stored = Stored::default());
    assert_eq!(case.step(), write_next(6, BARE_5, Why::Lost));
    // Redis does not know which is later; the one with clients stays.
    let redis = case.with(|case| {
        case.policy.counts = false;
        case.server.logins = [login(1), busy(2)];
    });
    let keep = Keep::Bare { generation: 2 };
    assert_eq!(redis.step(), write_next(3, keep, Why::Lost));
}

#[test]
fn an_edited_password_is_replaced_at_once() {
    let edits: [fn(&mut Entry); 3] = [
        |entry| entry.is_consistent = false,
        |entry| entry.fingerprint = Some("own".into()),
        |entry| entry.fingerprint = None,
    ];
    for edit in edits {
        let case = settled().with(|case| case.edit(edit));
        assert_eq!(case.step(), write_next(6, Keep::Nothing, Why::Overwritten));
        // Also during a grace, which the older login then loses.
        let case = in_grace().with(|case| case.edit(edit));
        assert_eq!(case.step(), write_next(6, Keep::Nothing, Why::Overwritten));
    }
}

#[test]
fn the_real_password_of_an_edited_secret_lives_on_through_the_grace() {
    let case = settled().with(|case| {
        case.edit(|entry| entry.is_consistent = false);
        case.stored.next = Some(entry(6));
        case.server.logins[1] = login(6);
        case.tried.logged_in(Slot::B, "f6", true);
    });
    let (generation, previous) = (6, BARE_5);
    assert_eq!(
        case.step(),
        Step::Turn {
            generation,
            previous
        }
    );
}

#[test]
fn a_secret_from_long_ago_is_replaced_and_the_latest_login_spared() {
    let case = settled().with(|case| {
        case.stored.current = Some(entry(1));
        case.server.logins = [login(5), login(6)];
    });
    assert_eq!(case.step(), write_next(7, Keep::Nothing, Why::Overwritten));
    let case = settled().with(|case| {
        case.stored.next = Some(entry(6));
        case.server.logins[1] = login(8);
    });
    assert_eq!(case.step(), Step::KeepStray { generation: 8 });
}

#[test]
fn a_dropped_or_deformed_or_older_login_is_set_again() {
    let deformed = LoginState::Ours {
        generation: 5,
        fingerprint: "f5".into(),
        is_in_shape: false,
        sessions: 0,
    };
    for state in [LoginState::Absent, deformed, login(3)] {
        let case = settled().with(|case| case.server.logins[0] = state);
        let (which, generation) = (Which::Current, 5);
        assert_eq!(case.step(), Step::SetLogin { which, generation });
    }
}

#[test]
fn a_login_that_is_not_let_in_is_set_again() {
    let case = settled().with(|case| case.tried.logged_in(Slot::A, "f5", false));
    let (which, generation) = (Which::Current, 5);
    assert_eq!(case.step(), Step::SetLogin { which, generation });
}

#[test]
fn a_new_process_tries_the_current_login_once() {
    let case = settled().with(|case| case.tried = Tried::default());
    let (which, slot) = (Which::Current, Slot::A);
    assert_eq!(case.step(), Step::Verify { which, slot });
}

#[test]
fn another_password_in_redis_is_set_back() {
    let case = settled().with(|case| {
        case.policy.counts = false;
        case.server.logins[0] = LoginState::Ours {
            generation: 1,
            fingerprint: "of an older file".into(),
            is_in_shape: true,
            sessions: 0,
        };
    });
    let (which, generation) = (Which::Current, 5);
    assert_eq!(case.step(), Step::SetLogin { which, generation });
}

#[test]
fn lost_annotations_are_written_anew_and_rotate_nothing() {
    let case = settled().with(|case| {
        case.edit(|entry| entry.generation = None);
        case.stored.rotated_at = None;
        case.policy.trigger = Some("x".into());
    });
    let Step::Annotate(marks) = case.step() else {
        panic!("{:?}", case.step());
    };
    assert_eq!((marks.generation, marks.rotated_at), (5, at(NOW)));
    assert_eq!(marks.trigger.as_deref(), Some("x"));
}

#[test]
fn a_grace_counts_from_the_first_look_after_the_turn() {
    let case = in_grace().with(|case| case.stored.previous_since = None);
    let Step::Annotate(marks) = case.step() else {
        panic!("{:?}", case.step());
    };
    assert_eq!(marks.previous, Some((4, at(NOW))));
}

#[test]
fn a_time_ahead_of_every_clock_becomes_now() {
    let case = in_grace().with(|case| case.stored.previous_since = Some(at(NOW + 301)));
    assert!(matches!(case.step(), Step::Annotate(marks) if marks.previous == Some((4, at(NOW)))));
    let skewed = in_grace().with(|case| case.stored.previous_since = Some(at(NOW + 299)));
    assert!(matches!(skewed.step(), Step::Wait { .. }));
}

#[test]
fn a_former_login_lives_through_its_grace() {
    let until = at(NOW - 10 + 300);
    let waiting = Step::Wait {
        waiting: Waiting::Grace { until },
        look_again: until,
        queued: None,
    };
    assert_eq!(in_grace().step(), waiting);
    let over = in_grace().with(|case| case.now = NOW - 10 + 300);
    let (slot, generation) = (Slot::B, 4);
    assert_eq!(over.step(), Step::EndPrevious { slot, generation });
    let ended = over.with(|case| case.server.logins[1] = LoginState::Absent);
    assert_eq!(ended.step(), Step::ForgetPrevious);
}

#[test]
fn sessions_keep_a_former_login_until_the_longest_grace() {
    let case = in_grace().with(|case| {
        case.server.logins[1] = busy(4);
        case.now = NOW + 300;
    });
    let waiting = Waiting::Sessions {
        open: 3,
        until: at(NOW - 10 + DAY),
    };
    let look_again = at(NOW + 310);
    let queued = None;
    assert_eq!(
        case.step(),
        Step::Wait {
            waiting,
            look_again,
            queued
        }
    );
    let over = case.with(|case| case.now = NOW - 10 + DAY);
    assert!(matches!(over.step(), Step::EndPrevious { .. }));
}

#[test]
fn behind_a_pooler_a_former_login_stays_for_the_longest_grace() {
    let case = in_grace().with(|case| {
        case.policy.pooled = true;
        case.now = NOW + 300;
    });
    let until = at(NOW - 10 + DAY);
    assert!(matches!(
        case.step(),
        Step::Wait { waiting: Waiting::Pooled { until: at }, .. } if at == until
    ));
    let over = case.with(|case| case.now = NOW - 10 + DAY);
    assert!(matches!(over.step(), Step::EndPrevious { .. }));
}

#[test]
fn a_rotation_during_a_grace_waits_and_is_said() {
    let case = in_grace().with(|case| case.policy.trigger = Some("x".into()));
    assert!(matches!(
        case.step(),
        Step::Wait {
            queued: Some(Why::Trigger),
            ..
        }
    ));
}

#[test]
fn a_former_login_dropped_during_its_grace_is_set_again_if_its_password_is_known() {
    let case = in_grace().with(|case| case.server.logins[1] = LoginState::Absent);
    let (which, generation) = (Which::Previous, 4);
    assert_eq!(case.step(), Step::SetLogin { which, generation });
    let bare = case.with(|case| case.stored.previous.as_mut().unwrap().fingerprint = None);
    assert_eq!(bare.step(), Step::ForgetPrevious);
}

#[test]
fn a_login_that_the_secret_does_not_know_gets_a_grace() {
    let case = settled().with(|case| case.server.logins[1] = login(4));
    assert_eq!(case.step(), Step::KeepStray { generation: 4 });
    let later = in_grace().with(|case| case.server.logins[1] = login(6));
    assert_eq!(later.step(), Step::KeepStray { generation: 6 });
}

#[test]
fn what_is_not_ours_is_left_alone_and_what_works_goes_on() {
    let foreign = LoginState::Foreign("somebody".into());
    let conflict = |slot| {
        let owner = "somebody".into();
        Step::Conflict(Conflict::Login { slot, owner })
    };
    let resting = settled().with(|case| case.server.logins[1] = foreign.clone());
    assert_eq!(resting.step(), conflict(Slot::B));
    let mended = resting.with(|case| case.server.logins[0] = LoginState::Absent);
    assert!(matches!(mended.step(), Step::SetLogin { .. }));
    let current = settled().with(|case| case.server.logins[0] = foreign.clone());
    assert_eq!(current.step(), conflict(Slot::A));
    let new = settled().with(|case| {
        case.stored = Stored::default();
        case.server.logins = [foreign, LoginState::Absent];
    });
    assert_eq!(new.step(), conflict(Slot::A));
    let shared =
        settled().with(|case| case.server.shared = SharedState::Foreign("database".into()));
    assert!(matches!(
        shared.step(),
        Step::Conflict(Conflict::Shared { .. })
    ));
}

#[test]
fn a_staged_password_that_cannot_work_is_replaced() {
    let mut second = entry(6);
    second.fingerprint = Some("made by another".into());
    let case = settled().with(|case| {
        case.stored.next = Some(second);
        case.server.logins[1] = login(6);
    });
    assert_eq!(case.step(), write_next(8, Keep::Nothing, Why::Superseded));
    let colliding = settled().with(|case| case.stored.next = Some(entry(7)));
    assert_eq!(
        colliding.step(),
        write_next(8, Keep::Nothing, Why::Superseded)
    );
}

#[test]
fn deletion_takes_the_server_first_and_can_be_abandoned() {
    let stored = settled().stored;
    let mut tried = Tried::default();
    let delete = Deletion::Delete { with_shared: true };
    assert_eq!(end(&stored, Deletion::Retain, &tried), Step::Release);
    assert_eq!(end(&stored, Deletion::Abandon, &tried), Step::DeleteSecret);
    assert_eq!(
        end(&stored, delete, &tried),
        Step::Remove { with_shared: true }
    );
    tried.removed();
    assert_eq!(end(&stored, delete, &tried), Step::DeleteSecret);
    assert_eq!(end(&Stored::default(), delete, &tried), Step::Release);
    assert_eq!(
        end(&Stored::default(), delete, &Tried::default()),
        Step::Remove { with_shared: true }
    );
}
