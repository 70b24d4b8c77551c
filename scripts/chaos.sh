#!/usr/bin/env bash
# Chaos on a real control plane; without arguments six minutes with leases of 15 s. Arguments go to
# leasehold-chaos, e.g. scripts/chaos.sh --minutes 30 --seed 7 --timing fast.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
exec "${CARGO_TARGET_DIR:-target}/debug/leasehold-chaos" "$@"
