#!/usr/bin/env bash
# Keys to partitions, partitions to members and the moves of both, beside a ring, rendezvous hashing, sticky
# quotas and modulo. One JSON object a line, also in target/bench/partitions.json. PARTITION_BENCH=smoke is short.
set -euo pipefail
cd "$(dirname "$0")/.."

# As it ships: without the features that only tests need.
cargo bench --quiet -p leasehold-core --bench partition --no-run
out=target/bench/partitions.json
mkdir -p "$(dirname "$out")"
cargo bench --quiet -p leasehold-core --bench partition | tee "$out"
