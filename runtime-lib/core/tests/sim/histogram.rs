//! Quantiles and histograms of durations.

use std::fmt::Write as _;

use crate::clock::{MS, Nanos, SEC};

/// The value below which this share of the sorted values lies.
pub fn quantile(sorted: &[Nanos], per_mille: usize) -> Nanos {
    let index = (sorted.len() * per_mille).div_ceil(1000).max(1) - 1;
    sorted.get(index).copied().unwrap_or_default()
}

pub fn sorted(values: &[Nanos]) -> Vec<Nanos> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted
}

pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SEC as f64
}

/// One line of a table, and a histogram in powers of two below it.
pub fn table(text: &mut String, name: &str, values: &[Nanos], bars: bool) {
    let values = sorted(values);
    let [p50, p99, max] = [500, 990, 1000].map(|share| seconds(quantile(&values, share)));
    let count = values.len();
    let _ = writeln!(
        text,
        "  {name:<34} {count:>7}  p50 {p50:>8.3} s  p99 {p99:>8.3} s  max {max:>8.3} s"
    );
    if !bars || values.is_empty() {
        return;
    }
    let mut low = 0;
    let mut high = 16 * MS;
    while low <= values[count - 1] {
        let first = values.partition_point(|value| *value < low);
        let last = values.partition_point(|value| *value < high);
        if last > first {
            let bar = "#".repeat(((last - first) * 50).div_ceil(count));
            let (low, high) = (seconds(low), seconds(high));
            let _ = writeln!(
                text,
                "    {low:>7.3} – {high:>7.3} s {:>6} {bar}",
                last - first
            );
        }
        low = high;
        high *= 2;
    }
}
