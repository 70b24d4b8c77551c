//! Positive controls: with one protection switched off, the named check finds its absence; with
//! all of them in force, the same seeds find nothing.

use leasehold_core::lease::LeaseTiming;
use leasehold_core::rules::Rule;
use leasehold_core::time::Duration;

use crate::clock::{MS, SEC};
use crate::control::{finds, without};
use crate::judge::Check;
use crate::scenario::{Fault, Knobs, Mix};
use crate::world::World;
use crate::{CONTROL_SEEDS, LENGTH};

#[test]
fn e1_a_write_without_precondition_is_found() {
    let mix = Mix {
        late: 100,
        request_lost: 50,
        ..Mix::focused(
            &[Fault::LinkHeld, Fault::CrashPod, Fault::EditDelete],
            120 * SEC,
        )
    };
    let knobs = Knobs {
        preconditions: false,
        ..Knobs::ALL
    };
    finds(Check::ReplacedUnseen, knobs, &mix);
}

#[test]
fn e2_trust_counted_from_the_answer_is_found() {
    // A small stop budget and long attempts, so that late answers outweigh the margin.
    let seconds = Duration::from_secs;
    let timing = LeaseTiming::new(
        seconds(15),
        seconds(1),
        seconds(5),
        Duration::from_millis(100),
    );
    let mix = Mix {
        timings: vec![timing.unwrap()],
        slow: 300,
        ..Mix::focused(&[Fault::LinkDropped], 120 * SEC)
    };
    finds(Check::TwoGuards, without(Rule::E2TrustFromSend), &mix);
}

#[test]
fn e2_trust_in_an_unknown_outcome_is_found() {
    let mix = Mix::focused(&[Fault::LinkDropped], 120 * SEC);
    finds(Check::TwoGuards, without(Rule::E2UnknownIsNoTrust), &mix);
}

#[test]
fn a_missing_margin_of_trust_is_found() {
    let mix = Mix::focused(&[Fault::LinkDropped, Fault::Stall], 120 * SEC);
    finds(Check::TwoGuards, without(Rule::TrustMargin), &mix);
}

#[test]
fn e3_a_wait_that_does_not_restart_is_found() {
    let mix = Mix::focused(&[Fault::CrashPod], 120 * SEC);
    finds(Check::TwoGuards, without(Rule::E3WaitRestarts), &mix);
}

#[test]
fn e3_an_ignored_published_duration_is_found() {
    let mix = Mix {
        timings: vec![LeaseTiming::CALM, LeaseTiming::FAST],
        timings_mixed: true,
        ..Mix::focused(&[Fault::LinkDropped, Fault::Pause], 240 * SEC)
    };
    finds(Check::TwoGuards, without(Rule::E3PublishedDuration), &mix);
}

#[test]
fn e4_old_news_that_is_believed_is_found() {
    let faults = [Fault::WatchLags, Fault::StepDown, Fault::CrashPod];
    let mix = Mix {
        watch_delay: (MS, 800 * MS),
        ..Mix::focused(&faults, 120 * SEC)
    };
    finds(Check::EndedByOldNews, without(Rule::E4OldNewsIgnored), &mix);
}

#[test]
fn e5_a_holder_emptied_by_others_and_claimed_at_once_is_found() {
    let faults = [Fault::EditEmpty, Fault::Pause, Fault::WatchLags];
    let mix = Mix::focused(&faults, 120 * SEC);
    finds(Check::TwoGuards, without(Rule::E5EmptiedByOthers), &mix);
}

#[test]
fn e6_a_leader_that_leads_on_after_its_end_is_found() {
    let mix = Mix::focused(&[Fault::EditEmpty, Fault::EditForge], 120 * SEC);
    finds(Check::LedOn, without(Rule::E6EndsAtOnce), &mix);
}

#[test]
fn e6_a_term_that_is_lost_and_regained_is_found() {
    let mix = Mix::focused(&[Fault::Pause, Fault::LinkDropped], 120 * SEC);
    finds(Check::RegainedWithinTerm, without(Rule::E6TwoTerms), &mix);
}

#[test]
fn e6_a_release_of_another_holders_record_is_found() {
    let mix = Mix::focused(&[Fault::EditForge, Fault::Pause], 120 * SEC);
    finds(
        Check::WipedAnother,
        without(Rule::E6ReleaseOwnRevision),
        &mix,
    );
}

#[test]
fn e7_a_token_made_of_the_term_is_found() {
    let faults = [Fault::EditDelete, Fault::CrashPod, Fault::Leave];
    let mix = Mix::focused(&faults, 120 * SEC);
    finds(Check::TokenShrank, without(Rule::E7RevisionIsToken), &mix);
}

#[test]
fn e8_a_reclaim_beside_the_living_former_process_is_found() {
    let mix = Mix::focused(&[Fault::RestartBesideFormer], 120 * SEC);
    let knobs = Knobs {
        socket: false,
        ..Knobs::ALL
    };
    finds(Check::ReclaimedBesideFormer, knobs, &mix);
}

#[test]
fn e8_a_duplicate_identity_that_nobody_mentions_is_found() {
    let mix = Mix::focused(&[Fault::Duplicate], 240 * SEC);
    let knobs = Knobs {
        notices: false,
        ..Knobs::ALL
    };
    finds(Check::DuplicateUnnoticed, knobs, &mix);
}

#[test]
fn e9_a_clock_that_stops_in_a_suspend_is_found() {
    let mix = Mix::focused(&[Fault::Suspend], 120 * SEC);
    let knobs = Knobs {
        boot_time: false,
        ..Knobs::ALL
    };
    finds(Check::TwoGuards, knobs, &mix);
}

#[test]
fn e9_work_that_is_polled_after_waking_is_found() {
    let mix = Mix::focused(&[Fault::Pause], 120 * SEC);
    let knobs = Knobs {
        checked_polls: false,
        ..Knobs::ALL
    };
    finds(Check::PolledAfterGuard, knobs, &mix);
}

#[test]
fn e10_a_leader_that_stops_renewing_while_it_drains_is_found() {
    let mix = Mix::focused(&[Fault::Rollout, Fault::StepDown], 120 * SEC);
    let knobs = without(Rule::E10RenewWhileDraining);
    finds(Check::HolderChangedWhileDraining, knobs, &mix);
}

#[test]
fn a_release_before_the_drain_is_found() {
    let mix = Mix::focused(&[Fault::Rollout, Fault::StepDown], 120 * SEC);
    finds(
        Check::ReleasedBeforeDrain,
        without(Rule::ReleaseAfterDrain),
        &mix,
    );
}

#[test]
fn a_guarded_store_that_compares_no_tokens_is_found() {
    let mix = Mix::focused(&[Fault::Pause], 60 * SEC);
    let knobs = Knobs {
        fence: false,
        ..Knobs::ALL
    };
    finds(Check::WriteOutOfOrder, knobs, &mix);
}

#[test]
fn work_that_outlives_its_stop_budget_is_found() {
    let mix = Mix::focused(&[Fault::LinkDropped], 120 * SEC);
    let knobs = Knobs {
        stops_in_time: false,
        ..Knobs::ALL
    };
    finds(Check::StopBudget, knobs, &mix);
}

#[test]
fn candidates_that_never_wake_up_are_found() {
    let mix = Mix::focused(&[Fault::CrashPod], 120 * SEC);
    let knobs = Knobs {
        timers: false,
        ..Knobs::ALL
    };
    finds(Check::NoLeader, knobs, &mix);
}

#[test]
fn requests_without_a_pause_are_found() {
    let mut world = World::new(1, Mix::quiet(), Knobs::ALL, LENGTH);
    world.run_until(None);
    assert!(world.judge.found.is_empty());
    for _ in 0..200 {
        world.count_request(0);
    }
    let found = world.judge.found.iter().map(|found| found.check);
    assert!(found.into_iter().any(|check| check == Check::BusyLoop));
}

#[test]
fn a_change_of_leader_in_the_calm_is_found() {
    let mut world = World::new(
        1,
        Mix::focused(&[Fault::CrashPod], 120 * SEC),
        Knobs::ALL,
        LENGTH,
    );
    world.run_until(None);
    assert!(world.judge.found.is_empty());
    world.judge.calm_from = Some(SEC);
    world.check_calm();
    let found = world.judge.found.iter().map(|found| found.check);
    assert!(found.into_iter().any(|check| check == Check::RestlessCalm));
}

#[test]
fn clocks_that_are_further_off_than_promised_are_found() {
    let mix = Mix::focused(&[Fault::LinkDropped, Fault::Stall], 120 * SEC);
    let beyond = Mix {
        rate_ppm_max: 150_000,
        ..mix.clone()
    };
    let mut found = Vec::new();
    for seed in 1..=CONTROL_SEEDS {
        let mut world = World::new(seed, beyond.clone(), Knobs::ALL, LENGTH);
        world.run_until(Some(Check::TwoGuards));
        found.extend(world.judge.found.iter().map(|found| found.check));
        let mut sound = World::new(seed, mix.clone(), Knobs::ALL, LENGTH);
        sound.run_until(None);
        assert!(
            sound.judge.found.is_empty(),
            "seed {seed} with clocks within 1 %"
        );
        if found.contains(&Check::TwoGuards) {
            return;
        }
    }
    panic!("{CONTROL_SEEDS} seeds found only {found:?}");
}
