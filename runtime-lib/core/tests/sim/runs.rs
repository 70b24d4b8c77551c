//! Runs of many seeds: which ones, two at a time, and where their summary goes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::clock::{Nanos, SEC};

pub const HOUR: Nanos = 3600 * SEC;

/// Which seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    pub first: u64,
    pub count: u64,
}

impl Seeds {
    /// Seeds for so many hours of runs of this length. `SIM_SEED` is the first seed, `SIM_SEEDS`
    /// how many, `SIM_HOURS` how long in all.
    pub fn from_env(hours: u64, length: Nanos) -> Self {
        let number = |name: &str| {
            let text = env::var(name).ok().filter(|text| !text.is_empty())?;
            let number = text.parse::<u64>();
            Some(number.unwrap_or_else(|_| panic!("{name}: found {text:?}, allowed is a number")))
        };
        let hours = number("SIM_HOURS").unwrap_or(hours);
        let seeds = hours.saturating_mul(HOUR / SEC).div_ceil(length / SEC);
        Self {
            first: number("SIM_SEED").unwrap_or(1),
            count: number("SIM_SEEDS").unwrap_or(seeds).max(1),
        }
    }

    pub fn last(self) -> u64 {
        self.first.wrapping_add(self.count - 1)
    }
}

/// Runs `job` for each seed, two at a time; results come in the order of the seeds.
pub fn for_each<T: Send>(seeds: Seeds, job: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let (next, job) = (&next, &job);
    let mut done: Vec<(u64, T)> = thread::scope(|scope| {
        let turn = move || {
            let mut mine = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= seeds.count {
                    return mine;
                }
                mine.push((number, job(seeds.first.wrapping_add(number))));
            }
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(turn)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a run does not panic"))
            .collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Prints a part of the summary and writes it down; returns where.
pub fn publish(name: &str, text: &str) -> PathBuf {
    println!("{text}");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = target.parent().unwrap_or(target).join("sim");
    let path = folder.join(name);
    fs::create_dir_all(&folder).expect("the target folder can be written");
    fs::write(&path, text).expect("the target folder can be written");
    path
}
