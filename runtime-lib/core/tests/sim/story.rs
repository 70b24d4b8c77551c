//! The story of a run: always hashed, written down only for a replay.

use std::env;

use crate::clock::{Nanos, SEC};

pub struct Log {
    pub lines: Option<Vec<String>>,
    pub hash: u64,
}

impl Log {
    /// Nothing happened yet; runs of different seeds differ from the start.
    pub fn new(seed: u64) -> Self {
        Self {
            lines: None,
            hash: seed,
        }
    }

    /// Notes one line.
    pub fn say(&mut self, now: Nanos, kind: u64, detail: u64, line: impl FnOnce() -> String) {
        for part in [now, kind, detail] {
            self.hash = (self.hash ^ part).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(lines) = &mut self.lines {
            let (seconds, micros) = (now / SEC, now % SEC / 1000);
            lines.push(format!("{seconds:>6}.{micros:06} {}", line()));
        }
    }

    /// The last lines up to `at`: 80, or as many as `SIM_LINES` says.
    pub fn until(self, at: Nanos) -> Vec<String> {
        let lines = self.lines.unwrap_or_default();
        let until = lines.iter().position(|line| {
            let time = line.trim_start().split(' ').next().unwrap_or_default();
            time.parse::<f64>()
                .is_ok_and(|time| time > at as f64 / SEC as f64 + 0.001)
        });
        let until = until.unwrap_or(lines.len());
        let shown = env::var("SIM_LINES").ok().and_then(|n| n.parse().ok());
        lines[until.saturating_sub(shown.unwrap_or(80))..until].to_vec()
    }
}
