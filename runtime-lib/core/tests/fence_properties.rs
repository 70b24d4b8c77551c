//! Fences of ranges against a model that keeps one token for each hash, and the story that they
//! exist for: owners from former layouts that wake up late (H9).

#![allow(clippy::unwrap_used)] // a test reports by panicking

use leasehold_core::fence::{Claim, KeyRange, RangeFences, Refused};
use leasehold_core::id::{FencingToken, Revision};
use leasehold_core::partition::{HashId, Layout, Partition};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// The model's hashes: each stands for a sixteenth of all.
const HASHES: u64 = 16;

fn token(revision: u64) -> FencingToken {
    FencingToken::new(0, Revision::new(revision).unwrap())
}

fn claims() -> impl Strategy<Value = Claim> {
    (0..HASHES, 0..HASHES, 1..8_u64).prop_map(|(one, other, revision)| {
        let (first, last) = (one.min(other), one.max(other));
        let range = KeyRange::new(first << 60, u128::from(last + 1) << 60).unwrap();
        Claim::new(range, token(revision))
    })
}

/// The hashes of the model that a claim is about.
fn hashes(claim: Claim) -> impl Iterator<Item = usize> + Clone {
    (0..16).filter(move |hash| claim.range.contains(*hash as u64 * (1 << 60) + 12_345))
}

proptest! {
    #![proptest_config(Config {
        cases: 4 * Config::default().cases,
        failure_persistence: None, // a failing case is printed in full
        ..Config::default()
    })]

    #[test]
    fn fences_of_ranges_decide_as_one_fence_for_each_hash(
        story in prop::collection::vec((any::<bool>(), claims()), 1..40)
    ) {
        let mut fences = RangeFences::default();
        let mut model: [Option<FencingToken>; 16] = [None; 16];
        for (is_raise, claim) in story {
            let highest = hashes(claim).filter_map(|hash| model[hash]).max();
            let stale = highest.filter(|highest| *highest > claim.token);
            if is_raise {
                let found = fences.raise(claim).map_err(|stale| stale.highest).err();
                prop_assert_eq!(found, stale, "{}", claim);
                if stale.is_none() {
                    hashes(claim).for_each(|hash| model[hash] = Some(claim.token));
                }
                continue;
            }
            let lowest = hashes(claim).map(|hash| model[hash]).min().flatten();
            match fences.check(claim) {
                Ok(()) => prop_assert!(stale.is_none() && lowest == Some(claim.token), "{}", claim),
                Err(Refused::Stale(found)) => prop_assert_eq!(Some(found.highest), stale),
                Err(Refused::NotRaised(found)) => {
                    prop_assert!(stale.is_none() && found.raised < Some(claim.token), "{}", claim);
                    prop_assert_eq!(found.raised, lowest);
                }
            }
            for hash in hashes(claim) {
                let admitted = fences.admit(hash as u64 * (1 << 60) + 12_345, claim.token);
                prop_assert_eq!(admitted.is_ok(), model[hash] <= Some(claim.token), "{}", hash);
            }
        }
    }
}

/// All claims of a layout, each partition with a token of its own, from `first` on.
fn owners(count: u16, first: u64) -> Vec<Claim> {
    let layout = Layout::new(1, HashId::CsHash1, count).unwrap();
    let claim = |partition: Partition| {
        let revision = first + u64::from(partition.number());
        Claim::new(layout.range(partition), token(revision))
    };
    layout.partitions().map(claim).collect()
}

/// Whoever owned a part of `child` writes and raises once more.
fn are_shut_out(fences: &RangeFences, child: Claim, former: &[Claim]) -> usize {
    let late = former
        .iter()
        .filter(|late| late.range.overlaps(child.range));
    let mut count = 0;
    for late in late {
        let written = fences.check(*late);
        assert!(
            matches!(written, Err(Refused::Stale(_))),
            "{late} beside {child}"
        );
        assert!(
            fences.clone().raise(*late).is_err(),
            "{late} beside {child}"
        );
        count += 1;
    }
    count
}

#[test]
fn late_owners_of_any_former_layout_are_shut_out_by_the_first_child_that_overlaps_them() {
    let layouts = [owners(64, 100), owners(96, 300), owners(48, 500)];
    // The middle layout may have run, in whole or nowhere: its owners may wake up all the same.
    for middle_ran in [true, false] {
        let mut fences = RangeFences::default();
        for claim in &layouts[0] {
            fences.raise(*claim).unwrap();
        }
        if middle_ran {
            for claim in &layouts[1] {
                fences.raise(*claim).unwrap();
            }
        }
        for child in &layouts[2] {
            fences.raise(*child).unwrap();
            let shut_out = are_shut_out(&fences, *child, &layouts[0]);
            assert!(
                (2..=3).contains(&shut_out),
                "{shut_out} of 64 overlap {child}"
            );
            assert_eq!(are_shut_out(&fences, *child, &layouts[1]), 2);
            assert_eq!(fences.check(*child), Ok(()));
        }
    }
}

#[test]
fn a_sibling_with_a_lower_token_raises_and_writes_as_it_likes() {
    // From the last to the first: every sibling finds higher tokens beside it, and its parents
    // shut out by them already.
    let (parents, children) = (owners(64, 100), owners(96, 300));
    let mut fences = RangeFences::default();
    for claim in &parents {
        fences.raise(*claim).unwrap();
    }
    for _ in 0..2 {
        for child in children.iter().rev() {
            fences.raise(*child).unwrap();
        }
    }
    for child in &children {
        assert_eq!(fences.check(*child), Ok(()), "{child}");
    }
}

/// The positive control: fences of numbers know nothing of other layouts.
#[test]
fn a_fence_of_a_number_admits_a_late_owner_of_a_former_layout() {
    use leasehold_core::fence::Fence;
    use std::collections::BTreeMap;

    let mut fences: BTreeMap<(u16, usize), Fence> = BTreeMap::new();
    let mut raise = |count, number, claim: Claim| {
        let fence = fences.entry((count, number)).or_default();
        fence.admit(claim.token).is_ok()
    };
    let (parents, children) = (owners(64, 100), owners(96, 300));
    assert!(raise(64, 0, parents[0]));
    assert!(raise(96, 0, children[0]) && children[0].range.overlaps(parents[0].range));
    assert!(raise(64, 0, parents[0]), "the gap is closed by itself");
}
