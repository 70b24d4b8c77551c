#!/usr/bin/env bash
# Long simulation of the election. SEED: the first seed, random if empty; HOURS: simulated, in all.
set -euo pipefail
cd "$(dirname "$0")/.."

seed=${SEED:-$RANDOM$RANDOM}
hours=${HOURS:-10000}
echo "make sim SEED=$seed HOURS=$hours"
SIM_SEED=$seed SIM_HOURS=$hours exec cargo test --workspace --all-features --test sim -- --nocapture a_thousand_hours
