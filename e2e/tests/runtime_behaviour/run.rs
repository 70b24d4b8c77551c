//! All scenarios at once on one control plane: most of them wait for a lease to
//! lapse or to be renewed, and waiting together takes no longer than alone.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use leasehold_e2e::Result;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::ground::Ground;
use crate::{AT_ONCE, SCENARIOS};

pub(crate) type Running = Pin<Box<dyn Future<Output = Result<()>> + Send>>;
pub(crate) type Scenario = fn(Arc<Ground>) -> Running;

#[derive(Default)]
struct Board {
    ended: Mutex<BTreeMap<&'static str, Result<(), String>>>,
    changed: Condvar,
}

/// Nothing more will come: no scenario has this name.
const THE_END: &str = "";

/// Waits for one scenario; the first who asks starts all that were selected.
pub(crate) fn outcome(scenario: &str) {
    let board = board();
    let ended = board.ended.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = board
        .changed
        .wait_while(ended, |ended| {
            !ended.contains_key(scenario) && !ended.contains_key(THE_END)
        })
        .unwrap_or_else(PoisonError::into_inner);
    let outcome = match (ended.get(scenario), ended.get(THE_END)) {
        (Some(outcome), _) | (None, Some(outcome @ Err(_))) => Some(outcome.clone()),
        (None, _) => None,
    };
    // A panic under the lock would end the waiting of all others.
    drop(ended);
    match outcome {
        Some(Ok(())) => {}
        Some(Err(error)) => panic!("{error}"),
        None => panic!("{scenario} was not selected by the arguments of this run"),
    }
}

fn board() -> &'static Board {
    static BOARD: OnceLock<&'static Board> = OnceLock::new();
    BOARD.get_or_init(|| {
        let board: &'static Board = Box::leak(Box::default());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build();
            let played = match runtime {
                Ok(runtime) => runtime.block_on(play(board)),
                Err(error) => Err(error.into()),
            };
            board.post(THE_END, played);
        });
        board
    })
}

async fn play(board: &'static Board) -> Result<()> {
    let ground = Arc::new(Ground::prepare().await?);
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    let selection = Selection::of(std::env::args().skip(1));
    for &(name, scenario) in SCENARIOS.iter().filter(|(name, _)| selection.admits(name)) {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let scenario = scenario(Arc::clone(&ground));
        running.spawn(async move {
            // In a task of its own, so that a panic is its outcome and not ours.
            let outcome = match tokio::spawn(scenario).await {
                Ok(outcome) => outcome,
                Err(panic) => Err(panic.into()),
            };
            let is_good = outcome.is_ok();
            board.post(name, outcome);
            drop(permit);
            is_good
        });
    }
    let all_good = running.join_all().await.into_iter().all(|is_good| is_good);
    if all_good && let Some(ground) = Arc::into_inner(ground) {
        ground.clear().await?;
    }
    Ok(())
}

impl Board {
    fn post(&self, name: &'static str, outcome: Result<()>) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.insert(name, outcome.map_err(|error| error.to_string()));
        self.changed.notify_all();
    }
}

/// Which scenarios the arguments of the test runner select, as it understands
/// them itself: whoever asks for one test shall not wait for all.
#[derive(Default)]
struct Selection {
    wanted: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
}

impl Selection {
    fn of(mut arguments: impl Iterator<Item = String>) -> Self {
        const WITH_VALUE: [&str; 6] = [
            "--test-threads",
            "--format",
            "--color",
            "--logfile",
            "--shuffle-seed",
            "-Z",
        ];
        let mut selection = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--exact" => selection.exact = true,
                "--skip" => selection.skipped.extend(arguments.next()),
                option if WITH_VALUE.contains(&option) => drop(arguments.next()),
                option if option.starts_with('-') => {}
                _ => selection.wanted.push(argument),
            }
        }
        selection
    }

    fn admits(&self, name: &str) -> bool {
        let matches = |pattern: &String| {
            if self.exact {
                name == pattern
            } else {
                name.contains(pattern.as_str())
            }
        };
        let is_wanted = self.wanted.is_empty() || self.wanted.iter().any(matches);
        is_wanted && !self.skipped.iter().any(matches)
    }
}
