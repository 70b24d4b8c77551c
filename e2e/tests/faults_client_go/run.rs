//! All scenarios at once, on separate Leases of one control plane: most of them
//! wait for a lease to lapse, and waiting together takes no longer than alone.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use leasehold_e2e::Result;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::ground::Ground;
use crate::table::{self, Cell};
use crate::{
    black_hole, half_open, interop, late_release, malformed, outage, pause, refusals, release,
    unseen_term,
};

/// More at once would starve the processes of two cores, and so their leases.
const AT_ONCE: usize = 14;

/// What a scenario found, for the table.
pub(crate) type Found = Result<Vec<Cell>>;
type Running = Pin<Box<dyn Future<Output = Found> + Send>>;

macro_rules! scenarios {
    ($ground:expr; $($path:path),* $(,)?) => {
        vec![$((stringify!($path).replace(' ', ""), {
            let ground = Arc::clone(&$ground);
            Box::pin(async move { $path(&ground).await }) as Running
        })),*]
    };
}

/// The longest come first.
fn scenarios(ground: &Arc<Ground>) -> Vec<(String, Running)> {
    scenarios![ground;
        interop::handed_over_in_both_directions,
        outage::by_ours,
        outage::to_ours,
        half_open::follower_long_before_the_crash,
        half_open::follower_at_the_crash,
        half_open::leader,
        pause::by_ours,
        pause::late_write_is_refused,
        pause::late_write_without_a_fence,
        pause::to_ours,
        late_release::by_ours,
        late_release::to_ours,
        black_hole::by_ours,
        black_hole::to_ours,
        unseen_term::by_ours,
        unseen_term::to_ours,
        release::by_ours,
        release::to_ours,
        refusals::a_leader_survives_refusals,
        refusals::a_leader_survives_lost_answers,
        malformed::candidates_survive_malformed_leases,
    ]
}

#[derive(Default)]
struct Board {
    ended: Mutex<BTreeMap<String, std::result::Result<Vec<Cell>, String>>>,
    changed: Condvar,
}

/// Waits for one scenario; the first who asks starts them all.
///
/// `None`: the cluster is not ours to play with, which was printed.
pub(crate) fn outcome(scenario: &str) -> Option<Vec<Cell>> {
    let board = board();
    let ended = board.ended.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = board
        .changed
        .wait_while(ended, |ended| {
            !ended.contains_key(scenario) && !ended.contains_key("")
        })
        .unwrap_or_else(PoisonError::into_inner);
    let is_own = ended.contains_key(scenario);
    let outcome = ended.get(scenario).or_else(|| ended.get("")).cloned();
    // A panic under the lock would end the waiting of all others, and pass them.
    drop(ended);
    match outcome {
        Some(Ok(cells)) if is_own => Some(cells),
        Some(Err(error)) => panic!("{error}"),
        _ => None,
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
            // The empty name ends all waiting: nothing more will come.
            board.post("", played.map(|()| Vec::new()));
        });
        board
    })
}

async fn play(board: &'static Board) -> Result<()> {
    let Some(ground) = Ground::prepare().await? else {
        return Ok(());
    };
    let ground = Arc::new(ground);
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (name, scenario) in scenarios(&ground) {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        running.spawn(async move {
            let found = scenario.await;
            drop(permit);
            (name, found)
        });
    }
    let mut ground = Some(ground);
    let mut cells = Vec::new();
    let mut broken = false;
    while let Some(ended) = running.join_next().await {
        let (name, found) = ended?;
        broken |= found.is_err();
        cells.extend(found.as_deref().unwrap_or_default().iter().cloned());
        if running.is_empty() {
            // Before the last test is told, since the process ends with it. Past the capture of
            // the test runner: the table is a result, not a log.
            let _ = std::io::stdout().write_all(table::render(&cells).as_bytes());
            if let Some(ground) = ground.take().and_then(Arc::into_inner)
                && !broken
            {
                ground.clear().await?;
            }
        }
        board.post(&name, found);
    }
    Ok(())
}

impl Board {
    fn post(&self, name: &str, found: Found) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.insert(name.to_owned(), found.map_err(|error| error.to_string()));
        self.changed.notify_all();
    }
}
