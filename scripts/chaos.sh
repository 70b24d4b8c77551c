#!/usr/bin/env bash
# Chaos on a real control plane. Arguments go to leasehold-chaos, e.g.
# scripts/chaos.sh --minutes 30 --seed 7 --timing fast.
set -euo pipefail
cd "$(dirname "$0")/.."

# Built once into the user's cache; the harness asks the same script for the path.
e2e/control-plane/build.sh >/dev/null

cargo build --quiet -p leasehold-e2e --bins
exec target/debug/leasehold-chaos "$@"
