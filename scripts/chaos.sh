#!/usr/bin/env bash
# Chaos on a real control plane. Without arguments six minutes of it for an election and ten for a
# partitioned service, with leases of 15 s. Arguments go to leasehold-chaos, e.g.
# scripts/chaos.sh --minutes 30 --seed 7 --timing fast, or scripts/chaos.sh --partitions --minutes 30.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
chaos=${CARGO_TARGET_DIR:-target}/debug/leasehold-chaos
[ $# -eq 0 ] || exec "$chaos" "$@"
"$chaos"
exec "$chaos" --partitions --minutes 10
