#!/usr/bin/env bash
# Handoffs, crashes and settled requests of partitions on a real control plane, in release; writes
# target/bench/partitions-cluster.json. Arguments go to leasehold-bench-partitions (--help lists them).
set -euo pipefail
cd "$(dirname "$0")/.."

e2e/control-plane/build.sh >/dev/null
e2e/process-node/build.sh >/dev/null
# As it ships: without the features that only tests need.
cargo build --release -p leasehold-e2e -p leasehold-operator --bins
exec "${CARGO_TARGET_DIR:-target}/release/leasehold-bench-partitions" "$@"
