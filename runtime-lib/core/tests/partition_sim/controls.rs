//! Positive controls: with one protection switched off, the named check finds its absence; with
//! all of them in force, the same seeds find nothing.

use leasehold_core::lease::LeaseTiming;
use leasehold_core::rules::Rule;

use crate::LENGTH;
use crate::clock::{MS, SEC};
use crate::control::{finds, without};
use crate::judge::Check;
use crate::scenario::{Fault, Knobs, Mix, Spoil};
use crate::world::World;

/// A restarted pod runs under the dead one's epoch.
#[test]
fn h1_a_member_without_incarnation_is_found() {
    let mix = Mix {
        stateful: true,
        ..Mix::focused(&[Fault::CrashInPlace, Fault::CrashPod], 60 * SEC)
    };
    finds(Check::TokenOrder, without(Rule::H1Incarnation), &mix);
}

/// A counter repeats an epoch after the table was lost.
#[test]
fn h2_an_epoch_that_is_no_revision_is_found() {
    let mix = Mix::focused(&[Fault::TableUnseen, Fault::CrashPod], 120 * SEC);
    finds(Check::TokenOrder, without(Rule::H2EpochIsRevision), &mix);
}

/// The bit of an owner that has not started yet reads as clear.
#[test]
fn h3_a_clear_bit_that_is_taken_for_a_release_is_found() {
    let mix = Mix {
        watch_delay: (MS, 800 * MS),
        ..Mix::focused(&[Fault::ScaleUp, Fault::ScaleDown], 30 * SEC)
    };
    finds(Check::OneOwner, without(Rule::H3Acknowledged), &mix);
}

/// A→B→C before A acknowledged: C starts while A runs.
#[test]
fn h4_a_predecessor_that_is_forgotten_is_found() {
    let mix = Mix {
        drain_max: 40 * SEC,
        ..Mix::focused(&[Fault::ScaleUp, Fault::ScaleDown], 30 * SEC)
    };
    finds(Check::OneOwner, without(Rule::H4PrevCarries), &mix);
}

/// The leader saw nothing of a member for a while, but the member renewed.
#[test]
fn h5_a_silent_member_that_is_not_fenced_is_found() {
    let mix = Mix {
        timing: LeaseTiming::FAST,
        at_leader: 900,
        ..Mix::focused(&[Fault::WatchHalfOpen, Fault::WatchLags], 60 * SEC)
    };
    finds(Check::OneOwner, without(Rule::H5FenceFirst), &mix);
}

#[test]
fn h6_a_missing_lease_that_is_taken_for_a_release_is_found() {
    let mix = Mix::focused(&[Fault::MemberDeleted, Fault::Pause], 60 * SEC);
    finds(Check::OneOwner, without(Rule::H6MissingIsNoRelease), &mix);
}

/// A bitmap older than the last acknowledgement gives a partition back to its former owner.
#[test]
fn h7_a_rebuilt_table_without_predecessors_is_found() {
    let mix = Mix {
        drain_max: 40 * SEC,
        ..Mix::focused(
            &[Fault::TableDeleted, Fault::ScaleUp, Fault::ScaleDown],
            60 * SEC,
        )
    };
    finds(Check::OneOwner, without(Rule::H7PrevAll), &mix);
}

#[test]
fn h8_a_child_that_does_not_wait_for_its_parents_is_found() {
    let mix = Mix {
        counts: vec![16, 24, 12],
        ..Mix::focused(&[Fault::Resize], 120 * SEC)
    };
    finds(Check::OneOwner, without(Rule::H8ParentsReleased), &mix);
}

/// The last write of the former owner arrives after the new one read.
#[test]
fn h9_an_owner_that_reads_before_it_raises_is_found() {
    let knobs = Knobs {
        raises: false,
        ..Knobs::ALL
    };
    let mix = Mix::focused(
        &[Fault::CrashPod, Fault::ScaleUp, Fault::ScaleDown],
        60 * SEC,
    );
    finds(Check::StaleWrite, knobs, &mix);
}

/// The last write of a parent's owner arrives after a child's one read.
#[test]
fn h9_fences_of_numbers_instead_of_ranges_are_found() {
    let knobs = Knobs {
        fences_ranges: false,
        ..Knobs::ALL
    };
    let mix = Mix {
        counts: vec![16, 24, 12],
        ..Mix::focused(&[Fault::Resize], 60 * SEC)
    };
    finds(Check::StaleWrite, knobs, &mix);
}

#[test]
fn work_that_is_said_to_have_ended_and_runs_on_is_found() {
    let knobs = Knobs {
        honest_ends: false,
        ..Knobs::ALL
    };
    let mix = Mix::focused(&[Fault::ScaleUp, Fault::ScaleDown], 60 * SEC);
    finds(Check::ReleasedWhileRunning, knobs, &mix);
}

#[test]
fn a_member_lease_that_is_given_back_before_the_drain_is_found() {
    let mix = Mix::focused(&[Fault::ScaleUp, Fault::ScaleDown], 60 * SEC);
    finds(
        Check::ReleasedWhileRunning,
        without(Rule::ReleaseAfterDrain),
        &mix,
    );
}

#[test]
fn work_under_trust_without_margin_is_found() {
    let mix = Mix::focused(&[Fault::LinkDropped], 60 * SEC);
    finds(Check::StopBudget, without(Rule::TrustMargin), &mix);
}

#[test]
fn a_table_that_moves_more_than_it_must_is_found() {
    let knobs = Knobs {
        spoil: Some(Spoil::MoreMoves),
        ..Knobs::ALL
    };
    let mix = Mix::focused(&[Fault::CrashPod], 120 * SEC);
    finds(Check::TooManyMoves, knobs, &mix);
}

#[test]
fn a_lopsided_table_is_found() {
    let knobs = Knobs {
        spoil: Some(Spoil::Lopsided),
        ..Knobs::ALL
    };
    let mix = Mix {
        calm: Mix::CALM,
        ..Mix::focused(&[Fault::CrashPod], 120 * SEC)
    };
    finds(Check::Unbalanced, knobs, &mix);
}

#[test]
fn machines_that_never_wake_up_are_found() {
    let knobs = Knobs {
        timers: false,
        ..Knobs::ALL
    };
    let mix = Mix {
        calm: Mix::CALM,
        ..Mix::focused(&[Fault::CrashPod], 120 * SEC)
    };
    finds(Check::NotSettled, knobs, &mix);
}

#[test]
fn a_write_after_everything_has_settled_is_found() {
    let mix = Mix {
        calm: Mix::CALM,
        ..Mix::focused(&[Fault::CrashPod], 120 * SEC)
    };
    let mut world = World::new(1, mix, Knobs::ALL, LENGTH);
    world.run_until(None);
    assert!(world.judge.found.is_empty(), "{:?}", world.judge.found);
    world.judge.renewals += 1000;
    world.check_settled();
    assert!(world.judge.has(Check::Restless));
}
