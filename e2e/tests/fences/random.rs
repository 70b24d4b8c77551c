//! Random stories, told to a store and to the core: both decide alike.

use std::collections::BTreeSet;

use leasehold::fence::FenceError;
use leasehold::{Claim, KeyRange};
use leasehold_core::fence::{RangeFences, Refused};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::store::Store;

/// Hashes that layouts might cut at: few, so that stories meet.
fn claims() -> impl Strategy<Value = Claim> {
    let edges = (0_u8..12, 0_u8..12);
    (edges, 0_u32..2, 1_u64..7).prop_map(|((one, other), era, revision)| {
        let (first, last) = (u64::from(one.min(other)), u64::from(one.max(other)));
        let edge = |number: u64| (u128::from(number) << 64).div_ceil(12);
        let from = u64::try_from(edge(first)).unwrap();
        let range = KeyRange::new(from, edge(last + 1)).unwrap();
        Claim::new(range, format!("{era}.{revision}").parse().unwrap())
    })
}

#[derive(Clone, Debug)]
enum Step {
    Raise(Claim),
    Write(Claim),
    /// Under the claim of an earlier raise, counted backwards.
    WriteAgain(usize),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => claims().prop_map(Step::Raise),
        1 => claims().prop_map(Step::Write),
        2 => (0..4_usize).prop_map(Step::WriteAgain),
    ]
}

/// Each step raises or writes. A failure prints its seed, and `FENCES_SEED` replays it.
pub(crate) async fn stories_end_as_in_the_core<S: Store>(store: impl Fn(&str) -> S) {
    let seed = std::env::var("FENCES_SEED")
        .map_or_else(|_| rand::random::<u64>(), |seed| seed.parse().unwrap());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let random = TestRng::from_seed(RngAlgorithm::default(), &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let stories = prop::collection::vec(steps(), 1..40);
    let mut verdicts = [0; 4];
    for number in 0..40 {
        let story = stories.new_tree(&mut runner).unwrap().current();
        let told = tell(&story, &store(&format!("story-{number}")), &mut verdicts).await;
        assert!(
            told.is_ok(),
            "FENCES_SEED={seed}, story {number}: {told:?} of {story:?}"
        );
    }
    assert!(
        verdicts.iter().all(|count| *count > 9),
        "too little happened: {verdicts:?}"
    );
}

async fn tell(story: &[Step], store: &impl Store, verdicts: &mut [usize; 4]) -> Result<(), String> {
    let mut model = RangeFences::default();
    let mut raised = BTreeSet::new();
    let mut value = 0;
    let mut shown = Vec::new();
    for (step, told) in story.iter().enumerate() {
        let is_raise = matches!(told, Step::Raise(_));
        let claim = match told {
            Step::Raise(claim) | Step::Write(claim) => *claim,
            Step::WriteAgain(back) => match shown.iter().rev().nth(*back) {
                Some(claim) => *claim,
                None => continue,
            },
        };
        let (found, expected) = if is_raise {
            shown.push(claim);
            let expected = model.raise(claim).map_err(Refused::from);
            (store.raise(claim).await, expected)
        } else {
            value += 1;
            let before = store.value().await;
            let found = store.write(claim, value).await;
            let after = if found.is_ok() { value } else { before };
            if store.value().await != after {
                return Err(format!(
                    "step {step}: {found:?}, but the value is not {after}"
                ));
            }
            (found, model.check(claim))
        };
        if is_raise && expected.is_ok() {
            raised.insert((claim.range, claim.token));
        }
        let own = raised.contains(&(claim.range, claim.token));
        let is_same = match (&found, &expected) {
            (Ok(()), Ok(())) | (Err(FenceError::NotRaised { .. }), Err(Refused::NotRaised(_))) => {
                true
            }
            (Err(FenceError::Stale { highest, .. }), Err(Refused::Stale(stale))) => {
                *highest == stale.highest
            }
            // A store may want to see this very range raised, where a wider one was.
            (Err(FenceError::NotRaised { .. }), Ok(())) => !is_raise && !own,
            _ => false,
        };
        if !is_same {
            return Err(format!("step {step}: {found:?}, expected {expected:?}"));
        }
        let verdict = match (is_raise, &found) {
            (true, Ok(())) => 0,
            (true, Err(_)) => 1,
            (false, Ok(())) => 2,
            (false, Err(_)) => 3,
        };
        verdicts[verdict] += 1;
    }
    Ok(())
}
