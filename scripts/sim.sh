#!/usr/bin/env bash
# Long simulation of the election, and of partitions for a tenth of the hours. SEED: the first seed, random if empty; HOURS: simulated, in all.
set -euo pipefail
cd "$(dirname "$0")/.."

seed=${SEED:-$RANDOM$RANDOM}
hours=${HOURS:-10000}
echo "make sim SEED=$seed HOURS=$hours"
SIM_SEED=$seed SIM_HOURS=$hours cargo test --workspace --all-features --test sim -- --nocapture a_thousand_hours
SIM_SEED=$seed SIM_HOURS=$(((hours + 9) / 10)) exec cargo test --workspace --all-features --test partition_sim -- --nocapture hours_of_faults
